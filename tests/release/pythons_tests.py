"""The built wheel, installed from the index on each Python of this machine: the first messages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from connector.brokers.jars.locked import cache_directory
from tests.distribution import UNCOMPILED
from tests.docs.reader import Terminal

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PARTS: Final = ("pyproject.toml", "LICENSE", "PACKAGE.md", "connector", "datahandlers")
_MINORS: Final = range(11, 15)


def _pythons() -> dict[str, str]:
    """Returns a Python for each minor version, from PATH, from pyenv, and from the variable PYTHONS."""
    names = [f"python3.{minor}" for minor in _MINORS]
    candidates = [sys.executable, *os.environ.get("PYTHONS", "").split(os.pathsep)]
    candidates += filter(None, map(shutil.which, names))
    candidates += [f"/usr/bin/{name}" for name in names]
    candidates += map(str, sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python")))
    found: dict[str, str] = {}
    program = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    for candidate in filter(os.path.exists, candidates):
        told = subprocess.run([candidate, "-c", program], capture_output=True, text=True, check=False)
        version = told.stdout.strip()
        if version in {f"3.{minor}" for minor in _MINORS}:
            found.setdefault(version, candidate)
    return found


PYTHONS: Final = _pythons()


def _run(*command: object, **variables: str) -> None:
    done = subprocess.run(
        list(map(str, command)),
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the wheel, of the locked versions, and of Spark, which has no wheel in the index."""
    source, wheels = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    for part in PARTS:
        if (REPOSITORY / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPOSITORY / part, source / part, symlinks=True, ignore=ignored)
        else:
            shutil.copy(REPOSITORY / part, source)
    pip = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation")
    _run(*pip, "--no-index", "--wheel-dir", wheels, source)
    locked = re.findall(r"^([^ #]*==[^ ]*)", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE)
    (wheels / "constraints.txt").write_text("\n".join(locked))
    spark = next(one for one in locked if one.startswith("pyspark=="))
    kept = cache_directory().parent / "tests" / "wheels"
    if not any(kept.glob(spark.replace("==", "-") + "-*.whl")):
        _run(*pip, "--use-pep517", "--wheel-dir", kept, spark)
    for wheel in kept.glob(spark.replace("==", "-") + "-*.whl"):
        (wheels / wheel.name).symlink_to(wheel)
    return wheels


@pytest.mark.timeout(1200)  # an index may be slow
@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_a_first_message_is_processed_and_a_malformed_one_has_its_reason(
    version: str, wheels: Path, tmp_path: Path
) -> None:
    _run(PYTHONS[version], "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    (wheel,) = wheels.glob("event_connector-*.whl")
    install = (python, "-m", "pip", "install", "--find-links", wheels, "--constraint")
    _run(*install, wheels / "constraints.txt", wheel)
    _run(python, "-I", "-c", UNCOMPILED)  # -I: not the modules of the working directory
    hidden = ("PYTHON", "CONNECTOR")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    environment["PATH"] = f"{python.parent}:{environment['PATH']}"
    terminal = Terminal(tmp_path, environment)

    def typed(command: str) -> str:
        status, output = terminal.run(command)
        assert status == 0, f"{command}\n{output}"
        return output

    try:
        commands = re.findall(r"^  (.*)$", typed("connector init shop"), re.MULTILINE)
        verbs = [f"connector {verb}" for verb in ("check", "send", "run", "browse")]
        assert [" ".join(command.split()[:2]) for command in commands] == ["cd shop", *verbs]
        outputs = [typed(command) for command in commands]
        assert '{"OrderId": "O-1", "Total": 12.5}' in outputs[-1]
        assert typed("cat booked.txt") == "O-1 12.50\n"
        typed("echo '{bad' | connector send orders")
        assert "the body is no JSON" in typed("connector run --drain")
        assert "connector_reason (string): the body is no JSON" in typed("connector browse error")
    finally:
        terminal.kill()
