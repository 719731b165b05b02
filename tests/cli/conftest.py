"""What the tests of the commands share: deployments."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.conversion_deployments import PLAIN, PLUGGED
from tests.cli.in_process import REPOSITORY, Commands


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    """The directory of a deployment that has not run yet."""
    directory = shutil.copytree(REPOSITORY / "tests/config/deployment", tmp_path / "deployment")
    file = directory / "adapter.yaml"
    file.write_text(file.read_text("utf-8").replace("root: ./data", "root: ./data\n  create: true"), "utf-8")
    return directory


@pytest.fixture
def call(deployment: Path) -> Commands:
    """Commands in that deployment."""
    return Commands(deployment)


def written(directory: Path, files: Mapping[str, str]) -> Commands:
    """Commands in a directory with these files."""
    commands = Commands(directory)
    for file, text in files.items():
        commands.write(file, text)
    return commands


@pytest.fixture
def plain(tmp_path: Path) -> Commands:
    """Commands in a deployment that converts with the shipped data handlers."""
    return written(tmp_path, PLAIN)


@pytest.fixture
def plugged(tmp_path: Path) -> Commands:
    """Commands in a deployment with data handlers of its own."""
    return written(tmp_path, PLUGGED)
