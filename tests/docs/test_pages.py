"""The documentation is true: its links, its configurations, its commands, and what they print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from connector.cli.app import VERBS

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: ``language``, the file that it is, whether only a part of it, the text."""

    language: str
    file: str
    part: bool
    text: str


def blocks(page: Path) -> list[Block]:
    found = []
    for language, rest, text in _FENCE.findall(page.read_text("utf-8")):
        words = rest.split()
        file = next((word.removeprefix("file=") for word in words if word.startswith("file=")), "")
        found.append(Block(language, file, "part" in words, text))
    return found


def name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


EXECUTED = [page for page in PAGES if any(block.language == "console" for block in blocks(page))]


@pytest.fixture
def workplace() -> Iterator[Path]:
    """An empty directory, as a reader has it who follows a page."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="reader-") as directory:
        yield Path(directory)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The reader's environment: ``connector`` and ``python`` are those under test."""
    for command, arguments in (("connector", "-m connector.cli.app "), ("python", "")):
        path = tmp_path / command
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n', "utf-8")
        path.chmod(0o755)
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CONNECTOR"))
    }
    return {**inherited, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{name(page)}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text("utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert anchor in anchors, f"{name(page)}: {target}: there are {anchors}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_part_of_a_shipped_file_stands_there_word_for_word(page: Path) -> None:
    for block in blocks(page):
        if block.part:
            assert block.text in (REPOSITORY / block.file).read_text("utf-8"), f"{name(page)}: {block.file}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_in_a_shell_block_is_a_verb_with_options_that_it_has(
    page: Path, environment: dict[str, str]
) -> None:
    text = "".join(block.text for block in blocks(page) if block.language in ("sh", "console"))
    for verb, rest in re.findall(r"(?:^|[ /])connector ([a-z-]+)([^\n|#>&]*)", text, re.MULTILINE):
        assert verb in VERBS, f"{name(page)}: connector {verb}"
        options = set(re.findall(r"(?<= )--?[a-z][a-z-]*", rest))
        assert options <= _options(verb), f"{name(page)}: connector {verb}{rest}"
    for script in re.findall(r"(?:^|\s)(script/\w+)", text):
        assert os.access(REPOSITORY / script, os.X_OK), f"{name(page)}: {script}"


def _options(verb: str) -> set[str]:
    from typer.main import get_command

    from connector.cli.app import _application

    command = get_command(_application([verb])).commands[verb]  # type: ignore[attr-defined]
    return {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("page", EXECUTED, ids=name)
def test_a_page_followed_step_by_step_shows_what_it_says(
    page: Path, workplace: Path, environment: dict[str, str]
) -> None:
    for block in blocks(page):
        if block.file and not block.part:
            path = workplace / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
        if block.language == "console":
            for command, expected in _commands(block.text):
                found = _run(command, workplace, environment)
                assert _as_pattern(expected).fullmatch(found), f"{name(page)}: {command}\n{found}"


def _commands(text: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not parts[0].strip(), "a console block begins with a command"
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts[1:])]


def _run(command: str, workplace: Path, environment: dict[str, str]) -> str:
    return subprocess.run(
        ["sh", "-c", command],
        cwd=workplace,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    ).stdout


def _as_pattern(expected: str) -> re.Pattern[str]:
    """A line ``...`` stands for any lines, ``...`` within a line for anything in it."""
    lines = []
    for line in expected.splitlines():
        if line == "...":
            lines.append(r"(?:[^\n]*\n)*?")
        else:
            lines.append(r"[^\n]*".join(re.escape(part) for part in line.split("...")) + r"\n")
    return re.compile("".join(lines))


def test_the_shipped_deployment_has_no_mistake(environment: dict[str, str]) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    assert _run("connector check", REPOSITORY, environment) == "adapter.yaml: no mistakes, no warnings\n"
