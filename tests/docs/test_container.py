"""The Dockerfile and the example of a container, as far as they can be tested without Docker."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath

import pytest
import yaml

from connector.declare.connector_section import Connector
from tests.cli.in_process import call
from tests.docs.reader import blocks

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs/how-to/run-in-a-container.md"
EXAMPLE = REPOSITORY / "examples/container/compose.yaml"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]


def _stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage of the Dockerfile, with their arguments."""
    text = (REPOSITORY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    stages: list[list[tuple[str, str]]] = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            instruction, _, arguments = line.partition(" ")
            if instruction == "FROM":
                stages.append([])
            stages[-1].append((instruction, arguments.strip()))
    return stages


def _arguments(stage: list[tuple[str, str]], instruction: str) -> list[str]:
    return [arguments for name, arguments in stage if name == instruction]


@pytest.mark.process
def test_the_first_stage_makes_the_wheel_and_the_versions_from_what_it_copies(tmp_path: Path) -> None:
    source, wheel, programs = tmp_path / "source", tmp_path / "wheel", tmp_path / "bin"
    source.mkdir()
    ignored = (REPOSITORY / ".dockerignore").read_text("utf-8").split()
    stage = _stages()[0]
    for arguments in _arguments(stage, "COPY"):
        *names, target = arguments.split()
        for name in names:
            assert ignored[0] == "*"
            assert f"!{name}" in ignored
            if (REPOSITORY / name).is_dir():
                shutil.copytree(REPOSITORY / name, source / target, symlinks=True)
            else:
                shutil.copy(REPOSITORY / name, source / target)
    programs.mkdir()
    (programs / "pip").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip "$@"\n')
    (programs / "pip").chmod(0o755)
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PATH": f"{programs}:{os.environ['PATH']}"}
    (command,) = _arguments(stage, "RUN")
    command = re.sub(r"(?<=\s)/wheel\b", shlex.quote(str(wheel)), command)
    subprocess.run(["sh", "-euc", command], cwd=source, env={**os.environ, **offline}, check=True)
    assert [path.suffix for path in sorted(wheel.iterdir())] == [".txt", ".whl"]
    locked = {line.partition("==")[0] for line in (wheel / "constraints.txt").read_text().splitlines()}
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["jms"], *extras["postgresql"], *extras["webhook"]]
    assert {re.split(r"[\[<>=]", requirement)[0].lower() for requirement in wanted} <= locked


def test_the_image_runs_the_command_of_the_package_as_an_ordinary_user() -> None:
    last = _stages()[-1]
    (made,) = re.findall(r"useradd .* (\w+) &&", " ".join(_arguments(last, "RUN")))
    assert _arguments(last, "USER") == [made] == ["connector"]
    assert yaml.safe_load(_arguments(last, "ENTRYPOINT")[0])[0] in PROJECT["scripts"]
    assert yaml.safe_load(_arguments(last, "CMD")[0]) == ["run"]


def test_the_example_mounts_a_deployment_and_the_root_of_its_messages(tmp_path: Path) -> None:
    service = yaml.safe_load(EXAMPLE.read_text("utf-8"))["services"]["adapter"]
    for arguments in (["init", "."], ["check"]):
        assert call(tmp_path, *arguments).returncode == 0
    shutil.copy(EXAMPLE, tmp_path)
    mounted = dict(reversed(volume.split(":")) for volume in service["volumes"])
    (directory,) = _arguments(_stages()[-1], "WORKDIR")
    assert mounted.pop(directory) == "."
    settings = yaml.safe_load((tmp_path / "adapter.yaml").read_text("utf-8"))
    root = PurePosixPath(settings["provider"]["root"])
    assert mounted == {str(PurePosixPath(directory) / root): f"./{root}"}
    grace = float(service["stop_grace_period"].removesuffix("s"))
    assert grace > Connector.model_fields["stop_timeout"].default
    commands = [command for block in blocks(PAGE) for command, _ in block.commands()]
    assert any(f"--tag {service['image']} " in command for command in commands)
