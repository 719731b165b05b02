"""The account and the environment of the process: containers run with any user id and any variables."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector import user
from connector.brokers.jars.locked import cache_directory
from tests.cli.in_process import call
from tests.stores.conftest import new_root
from tests.tables import rows

_ANY_USER = 2_000_000_001
_REPOSITORY = Path(__file__).resolve().parents[2]


def as_user_without_account(directory: Path, *command: str) -> list[str]:
    """The command, run by a user without an account, if this user may change to that one.

    The directory then belongs to that user. Python may belong to root, so the process may read as root does.
    """
    if os.geteuid() != 0:
        return list(command)
    for path in (directory, *directory.rglob("*")):
        os.chown(path, _ANY_USER, _ANY_USER)
    rights = "+dac_read_search,+dac_override"
    ids = f"--reuid={_ANY_USER}", f"--regid={_ANY_USER}", "--clear-groups"
    return ["setpriv", *ids, f"--inh-caps={rights}", f"--ambient-caps={rights}", *command]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory that any user may look into."""
    with new_root(tmp_path) as found:
        yield found


@pytest.mark.process
def test_the_adapter_runs_for_a_user_without_an_account(directory: Path) -> None:
    call(directory, "init", "shop")
    assert call(directory / "shop", "send", "orders", "--body", "order.json").returncode == 0
    kept = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    environment = {**kept, "PYTHONPATH": str(_REPOSITORY), "HOME": "/"}
    command = as_user_without_account(
        directory / "shop", sys.executable, "-m", "connector.cli", "run", "--once", "--json"
    )
    done = subprocess.run(
        command, cwd=directory / "shop", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"published":1' in done.stdout


@pytest.mark.process
def test_the_adapter_runs_in_a_foreign_environment(directory: Path) -> None:
    """Of Python, of another Spark, and of a shell in which Java knows ASCII only."""
    shop = directory / "läden"
    call(directory, "init", "läden")
    text = (shop / "adapter.yaml").read_text()
    lake = "  - {object: Order, dataframe: {format: json, path: ./läke}}\n"
    (shop / "adapter.yaml").write_text(text.replace("  - object: Order\n", f"{lake}  - object: Order\n"))
    assert call(shop, "send", "orders", "--body", "order.json").returncode == 0
    (directory / "spark-defaults.conf").write_text("spark.driver.memory 1\nspark.master nonsense\n")
    foreign = {
        "LC_ALL": "POSIX",
        "PYTHONIOENCODING": "ascii",
        "PYTHONOPTIMIZE": "2",
        "PYTHONHASHSEED": "7",
        "PYTHONSTARTUP": "/nonexistent",
        "PYTHONSAFEPATH": "1",
        "SPARK_HOME": "/nonexistent",
        "SPARK_CONF_DIR": str(directory),
        "SPARK_LOCAL_DIRS": "/nonexistent",
        "PYSPARK_PYTHON": "/nonexistent",
        "PYSPARK_SUBMIT_ARGS": "--master nonsense pyspark-shell",
    }
    done = subprocess.run(
        [sys.executable, "-m", "connector.cli", "run", "--drain", "--json"],
        cwd=shop,
        env={**os.environ, "PYTHONPATH": str(_REPOSITORY), **foreign},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"published":1' in done.stdout
    (table,) = (shop / "läke").glob("**/*.json")
    assert table.read_text("utf-8").count("\n") == 1


@pytest.fixture
def no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SPARK_USER", "HADOOP_USER_NAME", "USER", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("connector.user.os.geteuid", lambda: _ANY_USER)


@rows("home", ["/nowhere", "relative", "", None])
def test_java_gets_a_home_that_can_be_written_and_a_name(
    tmp_path: Path, no_account: None, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    if home is None:
        monkeypatch.delenv("HOME", raising=False)
    else:
        monkeypatch.setenv("HOME", home)
    options = user.java_options(str(tmp_path))
    assert options == [f"-Duser.home={tmp_path}", f"-Duser.name={_ANY_USER}"]
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USER", "app")
    assert user.java_options("/other") == [f"-Duser.home={tmp_path}", "-Duser.name=app"]


def test_a_user_with_an_account_needs_no_options(tmp_path: Path) -> None:
    assert user.has_account()
    assert user.java_options(str(tmp_path)) == []


def test_a_user_without_a_home_keeps_its_cache_among_the_temporary_files(
    no_account: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(
        "connector.user.os.path.expanduser", lambda path: path
    )  # as Python does without an account
    expected = Path(tempfile.gettempdir()) / f"connector-cache-{_ANY_USER}"
    assert user.cache_directory() == expected
    assert cache_directory().parents[1] == expected
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user.cache_directory() == tmp_path
