"""What the tests of the commands share: deployments, and an interpreter that has loaded nothing yet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.in_process import Commands
from tests.cli.plugged import deploy

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    """The directory of a deployment that has not run yet."""
    directory = shutil.copytree(ROOT / "tests/config/deployment", tmp_path / "deployment")
    file = directory / "adapter.yaml"
    file.write_text(file.read_text("utf-8").replace("root: ./data", "root: ./data\n  create: true"), "utf-8")
    return directory


@pytest.fixture
def call(deployment: Path) -> Commands:
    """Commands in that deployment."""
    return Commands(deployment)


@pytest.fixture
def plugged(tmp_path: Path) -> Path:
    """The directory of a deployment with data handlers of its own."""
    return deploy(tmp_path)


@pytest.fixture
def interpret(deployment: Path) -> Callable[[str], list[str]]:
    """Runs a program in an interpreter of its own, in the deployment; returns the lines that it prints."""

    def run(program: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=deployment,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        return done.stdout.splitlines()

    return run
