"""`connector convert` with data handlers of a deployment: several objects, prints, and bugs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.in_process import Commands
from tests.tables import rows

ROOT = Path(__file__).resolve().parents[2]
BROKEN = "connector: stdin: the data handler Broken raised"


@pytest.fixture
def run(plugged: Path) -> Commands:
    return Commands(plugged, "convert")


def test_each_object_of_a_body_that_is_split_is_a_line(run: Commands) -> None:
    assert run("--object", "Order", "--from", "text/lines", data="7\n8\n").documents == [
        {"BusinessObject": "Order", "Verb": "Create", "OrderId": number} for number in ("7", "8")
    ]


def test_objects_are_written_into_one_body_where_the_format_has_one(run: Commands) -> None:
    joint = run("--object", "Order", "--from", "text/lines", "--to", "text/lines", data="7\n8\n")
    assert (joint.returncode, joint.stdout) == (0, "7\n8\n")
    assert (
        "the body holds 2 objects, and a body of application/json holds one"
        in run(
            "--object", "Order", "--from", "text/lines", "--to", "application/json", data="7\n8\n"
        ).failure()
    )
    single = run("--object", "Order", "--from", "text/lines", "--to", "application/json", data="7\n")
    assert single.document == {"BusinessObject": "Order", "Verb": "Create", "OrderId": "7"}


def test_the_answer_is_not_mixed_with_the_prints_of_a_data_handler(run: Commands) -> None:
    done = run("--object", "Order", "--from", "text/lines", "--to", "text/lines", data="7\n")
    assert done.stdout == "7\n"
    assert done.stderr.splitlines() == ["read aloud", "written aloud"]


@pytest.mark.process
def test_a_body_of_any_bytes_leaves_as_the_data_handler_has_written_it(run: Commands) -> None:
    run.change("handlers/lines.py", "return None", 'return b"\\xff\\x00\\r\\n"')
    done = subprocess.run(
        [sys.executable, "-m", "connector.cli", "convert", "--object", "Order", "--to", "text/broken"],
        cwd=run.directory,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        input=b'{"OrderId": "7"}',
        capture_output=True,
        timeout=300,
        check=True,
    )
    assert done.stdout == b"\xff\x00\r\n"


@rows(
    "arguments, data, words",
    [
        (["--from", "text/lines"], "7\nx\n", "stdin: record 2: found 'x', expected digits"),
        (["--from", "text/lines"], "", "stdin: the body holds no record"),
        (["--to", "text/lines"], '{"OrderId": "13"}', "stdin: 13 brings bad luck"),
        (["--from", "text/broken"], "7", f"{BROKEN} KeyError: 'nothing' (handlers/lines.py:"),
        (["--to", "text/broken"], '{"OrderId": "7"}', BROKEN),
    ],
)
def test_what_a_data_handler_refuses_is_told_with_source_and_place(
    run: Commands, arguments: list[str], data: str, words: str
) -> None:
    assert words in run("--object", "Order", *arguments, data=data).failure().splitlines()[-1]


def test_the_answer_in_json_is_one_line(run: Commands) -> None:
    done = run("--object", "Order", "--json", data='{"OrderId": "Æ"}')
    assert done.stdout == '{"BusinessObject": "Order", "Verb": "Create", "OrderId": "Æ"}\n'
    both = run("--object", "Order", "--json", "--to", "text/lines", data='{"OrderId": "7"}')
    assert (both.returncode, both.stdout) == (2, "")


def test_what_convert_prints_is_a_body_again(run: Commands) -> None:
    body = '{"OrderId": "7", "Pin": "p", "Total": 1e+22, "Line": [{"Item": ""}, {}]}'
    once = run("--object", "Order", "--verb", "Cancel", data=body)
    assert once.document["Total"] == 1e22
    again = run(data=once.stdout)
    assert (again.returncode, again.stdout) == (0, once.stdout)
