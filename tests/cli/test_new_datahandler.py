"""`connector new datahandler`: where the data handler is written, and what is to be done then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.in_process import call
from tests.cli.plugged import deploy


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return deploy(tmp_path)


def configure(directory: Path, plugins: str) -> None:
    file = directory / "adapter.yaml"
    file.write_text(file.read_text().replace("datahandlers: ./handlers\n", plugins))


def test_a_directory_of_the_configuration_need_not_exist(directory: Path) -> None:
    configure(directory, "datahandlers: ./mine\n")
    done = call(directory, "new", "datahandler", "ledger")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "wrote mine/ledger_handler.py and mine/test_ledger_handler.py\n"
        "Next:\n"
        "  python -m pytest mine/test_ledger_handler.py\n"
        "  connector datahandlers\n"
        "  use it: DataHandlerMimeType: text/x-ledger\n"
    )
    listed = [json.loads(line) for line in call(directory, "datahandlers", "--json").stdout.splitlines()]
    (found,) = [one for one in listed if one["mime_types"] == ["text/x-ledger"]]
    assert found["class"] == "mine/ledger_handler.py:LedgerHandler"
    assert [option["name"] for option in found["options"]] == ["separator", "charset"]


@pytest.mark.parametrize(
    ("plugins", "into", "line"),
    [
        ("", (), "  add to adapter.yaml: datahandlers: ./datahandlers\n"),
        ("", ("--into", "x/y"), "  add to adapter.yaml: datahandlers: ./x/y\n"),
        ("datahandlers: ./handlers\n", ("--into", "x"), "  change in adapter.yaml: datahandlers: ./x\n"),
    ],
)
def test_the_line_that_the_configuration_needs_is_said(
    directory: Path, plugins: str, into: tuple[str, ...], line: str
) -> None:
    configure(directory, plugins)
    assert line in call(directory, "new", "datahandler", "ledger", *into).stdout


def test_a_single_file_of_plug_ins_is_no_directory_for_more(directory: Path) -> None:
    configure(directory, "datahandlers: ./handlers/lines.py\n")
    done = call(directory, "new", "datahandler", "ledger")
    assert done.returncode == 2
    assert "handlers/lines.py is a file, so give a directory with --into" in done.stderr


def test_the_paths_are_those_of_the_user(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    done = call(directory.parent, "new", "datahandler", "ledger", "-c", f"{directory.name}/adapter.yaml")
    assert done.stdout.startswith(f"wrote {directory.name}/handlers/ledger_handler.py and ")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert call(elsewhere, "new", "datahandler", "ledger").returncode == 0
    assert (elsewhere / "datahandlers/ledger_handler.py").is_file()


def test_the_written_handler_converts_both_ways(directory: Path) -> None:
    call(directory, "new", "datahandler", "ledger")
    body = 'OrderId: "7"\nTotal: "1.5"\n'
    arguments = ("convert", "--object", "Order", "--from", "text/x-ledger")
    done = call(directory, *arguments, data=body)
    assert json.loads(done.stdout) == {
        "BusinessObject": "Order",
        "Verb": "Create",
        "OrderId": "7",
        "Total": 1.5,
    }
    assert call(directory, *arguments, "--to", "text/x-ledger", data=body).stdout == body
