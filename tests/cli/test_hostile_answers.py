"""Answers of commands about messages of strangers: no line is forged, and no terminal is controlled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connector.cli.common import complain, note, show_output
from connector.messaging.message import Message
from connector.stores.dropbox.codec import encode_field
from tests.cli.in_process import Commands
from tests.events.conftest import Bench, bench
from tests.tables import Table, rows, texts

__all__ = ["bench"]

FORGED = "x\n2026-11-27T00:00:00Z [info] forged\r\x1b[2K\x9b1A\u2028\x85forged\u202e\x0b"
PROCESSES = "def a(order, event):\n    raise ValueError(order['Id'] + event.message.type)\n"
PLAIN = """
    browse error  browse orders  errors  errors orders  history --since 1d  status  queues
    replay  discard  move error orders  takeover  receive error --ack client
"""
ANSWERS = [
    ["history", f"ID:{FORGED}"],
    ["history", "--correlation-id", FORGED],
    ["explain", f"ID:{FORGED}"],
    ["explain", "nothing\x1b[2J\nforged"],
    *(words.split() for words in texts(PLAIN)),
]


def test_no_answer_forges_a_line_or_controls_a_terminal(bench: Bench) -> None:
    deployment = bench.deploy(processes=PROCESSES, InputDestination="queue://orders")
    body = json.dumps({"BusinessObject": "Order", "Id": FORGED, "ObjectEventId": FORGED})
    message = Message(body.encode(), "T", f"ID:{FORGED}")
    said: dict[str, Any] = {"type": FORGED, "correlation_id": FORGED, "properties": {"note": FORGED}}
    with deployment.running() as adapter:
        deployment.send("orders", message, **said)
        deployment.send("orders", f"no JSON {FORGED}", **said)
        deployment.drop("orders", body, f"4.{encode_field(FORGED)}.T")
        adapter.drain()
        deployment.send("orders", message, **said)
        deployment.drop("orders", body, f"4.{encode_field(FORGED)}2.T")
        call = Commands(deployment.directory)
        with Table() as table:
            for words in [*ANSWERS, *([*one, "--json"] for one in ANSWERS)]:
                with table.row(*words):
                    done = call(*words)
                    for line in (done.stdout + done.stderr).split("\n"):
                        assert not line.startswith(("2026-", "forged", "\u2028")), line
                        assert line.isprintable(), line
                    if "--json" in words:
                        for line in done.stdout.splitlines():
                            json.loads(line)


@rows("write", [note, complain, show_output])
def test_other_lines_for_people_are_as_harmless(write: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(write)
    write(FORGED)
    first, *others = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert first == "x"
    assert others == [
        r"  2026-11-27T00:00:00Z [info] forged\u000d\u001b[2K\u009b1A\u2028\u0085forged\u202e\u000b"
    ]
