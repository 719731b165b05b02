"""`connector new datahandler`: where the data handler is written, and what is to be done then."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.in_process import Commands, call
from tests.tables import rows


@pytest.fixture
def run(plugged: Path) -> Commands:
    return Commands(plugged)


def configure(run: Commands, plugins: str) -> None:
    run.change("adapter.yaml", "datahandlers: ./handlers\n", plugins)


def test_a_directory_of_the_configuration_need_not_exist(run: Commands) -> None:
    configure(run, "datahandlers: ./mine\n")
    done = run("new", "datahandler", "ledger")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "wrote mine/ledger_handler.py and mine/test_ledger_handler.py\n"
        "Next:\n"
        "  python -m pytest mine/test_ledger_handler.py\n"
        "  connector datahandlers\n"
        "  use it: DataHandlerMimeType: text/x-ledger\n"
    )
    listed = run("datahandlers", "--json").documents
    (found,) = [one for one in listed if one["mime_types"] == ["text/x-ledger"]]
    assert found["class"] == "mine/ledger_handler.py:LedgerHandler"
    assert [option["name"] for option in found["options"]] == ["separator", "charset"]


@rows(
    "plugins, into, line",
    [
        ("", (), "  add to adapter.yaml: datahandlers: ./datahandlers\n"),
        ("", ("--into", "x/y"), "  add to adapter.yaml: datahandlers: ./x/y\n"),
        ("datahandlers: ./handlers\n", ("--into", "x"), "  change in adapter.yaml: datahandlers: ./x\n"),
    ],
)
def test_the_line_that_the_configuration_needs_is_said(
    run: Commands, plugins: str, into: tuple[str, ...], line: str
) -> None:
    configure(run, plugins)
    assert line in run("new", "datahandler", "ledger", *into).stdout


def test_a_single_file_of_plug_ins_is_no_directory_for_more(run: Commands) -> None:
    configure(run, "datahandlers: ./handlers/lines.py\n")
    assert (
        "handlers/lines.py is a file, so give a directory with --into"
        in run("new", "datahandler", "ledger").refusal()
    )


def test_the_paths_are_those_of_the_user(run: Commands, tmp_path_factory: pytest.TempPathFactory) -> None:
    done = call(
        run.directory.parent, "new", "datahandler", "ledger", "-c", f"{run.directory.name}/adapter.yaml"
    )
    assert done.stdout.startswith(f"wrote {run.directory.name}/handlers/ledger_handler.py and ")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert call(elsewhere, "new", "datahandler", "ledger").returncode == 0
    assert (elsewhere / "datahandlers/ledger_handler.py").is_file()


def test_the_written_handler_converts_both_ways(run: Commands) -> None:
    run("new", "datahandler", "ledger")
    body = 'OrderId: "7"\nTotal: "1.5"\n'
    arguments = ("convert", "--object", "Order", "--from", "text/x-ledger")
    done = run(*arguments, data=body)
    assert done.document == {"BusinessObject": "Order", "Verb": "Create", "OrderId": "7", "Total": 1.5}
    assert run(*arguments, "--to", "text/x-ledger", data=body).stdout == body
