"""The wheel, and a reader who follows the page of installation with it in an environment of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path

import pytest

from connector.status import VERSION
from tests.distribution import UNCOMPILED
from tests.docs.reader import Terminal, blocks

pytestmark = pytest.mark.process
REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs/how-to/install.md"
REASON = "needs-packages"
OTHER_PROGRAMS = ("needs-uv", "needs-pipx")
PROGRAMS = {
    "python3": f'[ "$2" != venv ] || set -- "$@" --without-pip\nexec "{sys.executable}" "$@"',
    "pip": 'exec python -m pip "$@"',
}
"""Environments have the pip among the linked packages: an own copy takes longer than the wheel."""
HANDLER = '''
from connector.datahandlers.json_handler import JsonHandler
from datahandlers.units import CENTS


class Euros(JsonHandler):
    """JSON objects whose totals become cents."""

    mime_types = ("application/x-euros",)

    def to_business_object(self, body, hint):
        order = super().to_business_object(body, hint)
        order["Total"] *= CENTS
        return order
'''


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clone = tmp_path_factory.mktemp("installation") / "clone"
    clone.mkdir()
    for part in ("pyproject.toml", "requirements.lock", "LICENSE", "PACKAGE.md"):
        shutil.copy(REPOSITORY / part, clone)
    for part in ("connector", "datahandlers", "tests", "benchmarks", "docs"):
        shutil.copytree(
            REPOSITORY / part, clone / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    return clone


@pytest.fixture(scope="module")
def environment(clone: Path) -> dict[str, str]:
    """The environment of a reader.

    The packages that the connector needs are those of this environment, through links. So pip asks no
    index. The connector itself is not among them.
    """
    packages, programs = clone.parent / "packages", clone.parent / "bin"
    packages.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "event_connector" not in entry.name:
            (packages / entry.name).symlink_to(entry)
    programs.mkdir()
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CONNECTOR"))},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(packages),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(clone / "dist"),
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's name for yes
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


@pytest.fixture(scope="module")
def reader(clone: Path, environment: dict[str, str]) -> Iterator[Terminal]:
    """A terminal in the clone, as the page leaves it. The deployment gets a folder ``datahandlers/``."""
    terminal = Terminal(clone, environment)
    try:
        for block in blocks(PAGE):
            if block.not_run in OTHER_PROGRAMS:
                continue
            assert block.not_run == REASON or not block.commands()
            for command, _ in block.commands():
                status, output = terminal.run(command)
                assert status == 0, f"{command}\n{output}"
                if command.startswith("connector init"):
                    _add_datahandlers(clone / "shop")
        yield terminal
    finally:
        terminal.kill()


def _add_datahandlers(shop: Path) -> None:
    """Gives a deployment a data handler of its own, in a folder of the name that the shipped ones have."""
    (shop / "datahandlers").mkdir()
    (shop / "datahandlers/units.py").write_text("CENTS = 100\n")
    (shop / "datahandlers/euros.py").write_text(HANDLER)
    processes = (shop / "processes.py").read_text()
    (shop / "processes.py").write_text(f"from datahandlers.units import CENTS\n{processes}")
    settings = (shop / "adapter.yaml").read_text()
    settings = settings.replace(
        "DataHandlerMimeType: application/json", "DataHandlerMimeType: application/x-euros"
    )
    (shop / "adapter.yaml").write_text(f"{settings}\ndatahandlers: ./datahandlers\n")


def test_the_wheel_has_the_files_of_the_package_and_nothing_else(reader: Terminal, clone: Path) -> None:
    (wheel,) = (clone / "dist").iterdir()
    assert wheel.name.endswith("-py311-none-any.whl"), (
        "the pip of an older Python refuses it before it loads others"
    )
    information = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    with zipfile.ZipFile(wheel) as opened:
        found = {name for name in opened.namelist() if not name.startswith(f"{information}/")}
        metadata = message_from_string(opened.read(f"{information}/METADATA").decode())
    assert found == {
        f"{above}{path.relative_to(REPOSITORY)}"
        for above, folder in (("", "connector"), ("connector/", "datahandlers"))
        for path in (REPOSITORY / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name in ("py.typed", "datahandlers/xml_handler.py", "template/adapter.yaml", "http/static/docs.html"):
        assert f"connector/{name}" in found
    assert (metadata["Name"], metadata["Version"]) == ("event-connector", VERSION)
    extras = "delta dev jms json-schema metrics otel postgresql spark-tables webhook"
    assert set(metadata.get_all("Provides-Extra", ())) == set(extras.split())


def test_the_page_of_an_index_begins_as_the_page_that_is_followed() -> None:
    """It activates the environment, where the page names its programs with their paths."""
    followed = _steps(PAGE)
    made, activated, installed, *others = _steps(REPOSITORY / "PACKAGE.md")
    assert (activated, installed) == (". .venv/bin/activate", "pip install event-connector")
    assert {made, f".venv/bin/python -m {installed}", *others} - set(followed) == set()


def test_a_reader_of_the_front_page_has_the_command_after_its_two_steps(
    clone: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    own = tmp_path / "clone"
    for part in ("connector", "datahandlers"):
        shutil.copytree(clone / part, own / part, symlinks=True)
    for part in ("pyproject.toml", "LICENSE", "PACKAGE.md"):
        shutil.copy(clone / part, own)
    terminal = Terminal(own, environment | {"PIP_NO_COMPILE": "1"})  # the other page compiles
    try:
        for block in blocks(REPOSITORY / "README.md"):
            for command, _ in block.commands() if block.not_run == REASON else []:
                status, output = terminal.run(command)
                assert status == 0, f"{command}\n{output}"
        assert terminal.run("command -v connector") == (0, f"{own}/shop/.venv/bin/connector\n")
        assert terminal.run("connector init shop")[0] == 0
    finally:
        terminal.kill()


def _steps(page: Path) -> list[str]:
    """The commands of a page that need packages, each without its comment."""
    lines = [line for block in blocks(page) if block.not_run == REASON for line in block.text.splitlines()]
    return [step.strip() for line in lines for step in line.partition("  #")[0].split("&&")]


def test_the_package_is_installed_and_a_folder_of_the_deployment_hides_nothing(
    reader: Terminal, clone: Path
) -> None:
    status, output = reader.run("python -c 'import connector; print(connector.__file__)'; cat booked.txt")
    assert status == 0, output
    found, booked = output.splitlines()
    assert Path(found).is_relative_to(clone / ".venv/lib")
    assert booked == "O-1 1250.00"
    status, output = reader.run(f"python -c {shlex.quote(UNCOMPILED)}")
    assert status == 0, f"also modules that no command has imported are compiled: {output}"
