"""``connector init`` and ``connector --version``, and a first run of what is written."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

from tests import forked_command
from tests.cli.in_process import call

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_written_runs_by_the_commands_that_are_named(tmp_path: Path) -> None:
    """The run uses no Spark. The pages of the tutorial and of installation run the same with Spark."""
    written = call(tmp_path, "init", "a shop")
    assert written.returncode == 0, written.stderr
    first, *commands = re.findall(r"^  (.*)$", written.stdout, re.MULTILINE)
    assert first == "cd 'a shop'"
    shop = tmp_path / "a shop"
    done = []
    for command in commands:
        name, *arguments = command.split()
        assert name == "connector"
        done.append(forked_command.run(arguments, cwd=shop))
        assert done[-1].returncode == 0, (command, done[-1].stderr)
    check, send, run, browse = done
    assert check.stderr == "adapter.yaml: no mistakes, no warnings\n"
    assert send.stderr == ""
    assert "1 published" in run.stderr
    assert send.stdout.strip() in browse.stdout
    assert (shop / "booked.txt").read_text() == "O-1 12.50\n"
    assert {path.name for path in shop.iterdir()} - {"__pycache__", ".connector", "data", "booked.txt"} == {
        ".gitignore",
        "adapter.yaml",
        "metaobjects",
        "order.json",
        "processes.py",
    }
    ignored = (shop / ".gitignore").read_text().split()
    assert ignored == ["/data/", "/.connector/", "/booked.txt", "__pycache__/"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "metaobjects").mkdir()
    (tmp_path / "processes.py").write_text("mine")
    (tmp_path / "metaobjects/order.yaml").symlink_to("nowhere")
    before = sorted(tmp_path.rglob("*"))
    refused = call(tmp_path, "init", ".")
    assert refused.returncode == 2
    assert refused.stderr == (
        "connector: .: there is metaobjects/order.yaml, processes.py already; nothing was written\n"
    )
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "processes.py").read_text() == "mine"
    in_the_way = call(tmp_path, "init", "processes.py/shop")
    assert in_the_way.returncode == 2
    assert "Not a directory" in in_the_way.stderr


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert call(tmp_path, "--version").stdout == f"connector {version('event-connector')}\n"


def test_a_misspelt_command_is_answered_with_the_right_one(tmp_path: Path) -> None:
    wrong = call(tmp_path, "acept-root")
    assert wrong.returncode == 2
    assert "Did you mean 'accept-root'?" in wrong.stderr


def test_what_is_written_is_part_of_the_package() -> None:
    """Patterns of setuptools match no hidden file unless they begin with a dot themselves."""
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for path in (ROOT / "connector/template").rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            relative = str(path.relative_to(ROOT / "connector"))
            same_folder = [p for p in patterns["connector"] if Path(p).parent == Path(relative).parent]
            assert any(
                fnmatch.fnmatch(path.name, Path(p).name)
                and Path(p).name.startswith(".") == path.name.startswith(".")
                for p in same_folder
            ), relative
