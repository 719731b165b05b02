"""What user code raises: logged once where it happens, and its place kept with the message."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from connector.log import LogSettings, set_up_logging
from connector.status import ReturnCode
from tests.events.conftest import ORDER, Bench, EventDeployment, outcomes_of
from tests.tables import rows

HELPERS = """\
def check(order):
    if order["Id"] == "1":
        raise ValueError("no such order")  # line 3
"""

PROCESSES = """\
import json
import connector
from lib.helpers import check

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("not even this")

def direct(order, event):
    raise ValueError("x")  # line 10

def deep(order, event):
    check(order)

def chained(order, event):
    try:
        check(order)
    except ValueError as error:
        raise KeyError("wrapped") from error  # line 19

def in_a_library(order, event):
    json.loads("{")  # line 22

def mute(order, event):
    raise Mute()  # line 25

def syntax(order, event):
    compile("def :", "given.txt", "exec")  # line 28

def grouped(order, event):
    raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])  # line 31

def bottomless(order, event):
    bottomless(order, event)  # line 34

def thousand(order, event):
    error = ValueError("first")
    for number in range(1000):
        try:
            raise KeyError(number) from error
        except KeyError as next_error:
            error = next_error
    raise error

def long_text(order, event):
    raise ValueError("x" * 100_000)  # line 46

wants_more = lambda order, event, more: 0  # line 48


def unsubscribed(order, event):
    raise connector.Unsubscribed("too small")

def inactive(order, event):
    raise connector.NotActive("asleep")

def busy(order, event):
    raise connector.TemporaryFailure("locked")  # line 58

def ends(order, event):
    raise SystemExit(3)  # line 61

def typed(order, event):
    order["Id"] = 7  # line 64
"""

HANDLER = """\
from connector.errors import MalformedData

class Odd:
    mime_types = ("text/odd",)
    options = ()

    def __init__(self, options, definitions):
        pass

    def to_business_object(self, body, hint):
        if body == b"malformed":
            raise MalformedData("line 1: no colon")
        return {}["missing"]  # line 13

    def to_body(self, bo):
        return {}["missing"]  # line 16
"""


class LogLines:
    """The lines of a log that is set up as a command does."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self._path = sys.path[:]
        self.again()

    def again(self, **settings: Any) -> LogLines:
        """Sets up the log anew, without its lines so far, and forgets the modules of other rows."""
        sys.path[:] = self._path
        for name in [name for name in sys.modules if name.partition(".")[0] == "lib"]:
            del sys.modules[name]
        self._stream.seek(0)
        self._stream.truncate()
        with contextlib.redirect_stderr(self._stream):
            set_up_logging(LogSettings(format="json", **settings))
        return self

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    def failures(self) -> list[dict[str, Any]]:
        return [line for line in self.all() if line["level"] == "error"]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[LogLines]:
    """Sets up the log as a command does."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    root = logging.getLogger("connector")
    before = root.handlers[:], root.propagate, root.level
    yield LogLines()
    root.handlers[:], root.propagate = before[0], before[1]
    root.setLevel(before[2])


def deploy(bench: Bench, process: str, **more: Any) -> EventDeployment:
    subscription = {"object": "Order", "process": f"processes:{process}", "name": "shop", **more}
    deployment = bench.deploy(subscriptions=[subscription], processes=PROCESSES)
    deployment.write("lib/helpers.py", HELPERS)
    deployment.drop("orders", ORDER, "4.1.T")
    return deployment


@rows(
    "process, reason, place",
    [
        ("direct", "ValueError: x", "processes.py:10"),
        ("deep", "ValueError: no such order", "lib/helpers.py:3"),
        ("chained", "KeyError: 'wrapped'", "processes.py:19"),
        ("in_a_library", "JSONDecodeError: ", "processes.py:22"),
        ("mute", "Mute", "processes.py:25"),
        ("syntax", "SyntaxError: ", "processes.py:28"),
        ("grouped", "ExceptionGroup: several (2 sub-exceptions)", "processes.py:31"),
        ("bottomless", "RecursionError: ", "processes.py:34"),
        ("thousand", "KeyError: 999", "processes.py:40"),
        ("long_text", "ValueError: xxx", "processes.py:46"),
        ("wants_more", "TypeError: ", "processes.py:48"),
        ("busy", "TemporaryFailure: locked", "processes.py:58"),
        ("ends", "SystemExit: 3", "processes.py:61"),
        ("typed", "MalformedData: ", "processes.py:64"),
    ],
)
def test_what_a_process_raises_is_logged_once_and_its_place_is_kept(
    bench: Bench, log: LogLines, process: str, reason: str, place: str
) -> None:
    deployment = deploy(bench, process)
    kind, found = deployment.outcomes()["ID:1"]
    assert kind == "failed"
    assert found.startswith(f"shop: {reason}")
    assert found.endswith(f" ({place})")
    assert len(found.encode()) <= 8192
    assert deployment.properties("error", "ID:1")["connector_reason"] == found
    (line,) = log.failures()
    expected = {
        "event": "a business process has failed",
        "logger": "connector.events",
        "message_id": "ID:1",
        "destination": "queue://orders",
        "object": "Order",
        "verb": "Create",
        "subscription": "shop",
        "attempts": 1,
        "place": place,
    }
    assert {key: line.get(key) for key in expected} == expected
    assert "connector/" not in line["exception"]
    assert len(line["exception"].encode()) <= 64 << 10
    (settled,) = [line for line in log.all() if line["level"] == "warning"]
    assert (settled["event"], settled["reason"]) == ("an event was not published", found)
    assert "exception" not in settled


@rows("debug, process", [(False, "chained"), (True, "in_a_library")])
def test_a_traceback_has_the_chain_and_with_debug_all_frames(
    bench: Bench, log: LogLines, debug: bool, process: str
) -> None:
    log.again(debug=debug)
    deploy(bench, process).drain()
    (line,) = log.failures()
    chain = [
        "helpers.py",
        "ValueError: no such order",
        "direct cause",
        'raise KeyError("wrapped")',
        "KeyError: '",
    ]
    frames = ["connector/sinks/process/sink.py", "processes.py", "json/decoder.py"]
    positions = [line["exception"].index(word) for word in (frames if debug else chain)]
    assert positions == sorted(positions)


@rows(
    "process, code, said",
    [
        ("unsubscribed", ReturnCode.SUCCEED, "shop: Unsubscribed: too small"),
        ("inactive", ReturnCode.APPRESPONSETIMEOUT, "shop: NotActive: asleep"),
    ],
)
def test_an_answer_is_no_failure(
    bench: Bench, log: LogLines, process: str, code: ReturnCode, said: str
) -> None:
    with deploy(bench, process).running() as adapter:
        report = adapter.poll()
    assert report.code is code
    assert said == (report.reason or outcomes_of(adapter)["ID:1"][1])
    assert [line for line in log.all() if "exception" in line] == []


def test_a_temporary_failure_is_logged_when_the_retries_are_used_up(bench: Bench, log: LogLines) -> None:
    reason = "shop: TemporaryFailure: locked (tried 3 times) (processes.py:58)"
    assert deploy(bench, "busy", retries=2).outcomes() == {"ID:1": ("failed", reason)}
    assert len(log.failures()) == 1


def test_a_process_that_replies_is_logged_too_and_the_reply_names_no_place(
    bench: Bench, log: LogLines
) -> None:
    deployment = deploy(bench, "direct", reply=True)
    identity = deployment.send("queue://orders", ORDER, reply_to="queue://replies")
    assert deployment.outcomes()[identity] == ("failed", "shop: ValueError: x (processes.py:10)")
    assert len(log.failures()) == 1  # the other message has failed alike
    (reply,) = deployment.messages("queue://replies")
    assert reply.body == b"ValueError: x"


def test_a_data_handler_that_raises_is_logged_with_its_place(bench: Bench, log: LogLines) -> None:
    deployment = bench.deploy(
        more={"datahandlers": "./my_handlers.py"},
        DataHandlerMimeType="text/odd",
    )
    deployment.write("my_handlers.py", HANDLER)
    deployment.drop("orders", "bug", "4.1.T")
    deployment.drop("orders", "malformed", "4.2.T")
    found = deployment.outcomes()
    assert found["ID:1"] == ("failed", "the data handler Odd raised KeyError: 'missing' (my_handlers.py:13)")
    assert found["ID:2"] == ("failed", "line 1: no colon")
    properties = deployment.properties("error", "ID:1")
    assert properties["connector_kind"] == "handler_failed"
    assert properties["connector_place"] == "my_handlers.py:13"
    (line,) = log.failures()
    expected = {
        "event": "a data handler has failed",
        "message_id": "ID:1",
        "destination": "queue://orders",
        "data_handler": "Odd",
        "reason": "KeyError: 'missing'",
        "place": "my_handlers.py:13",
    }
    assert {key: line.get(key) for key in expected} == expected
    assert "connector/" not in line["exception"]


def test_a_data_handler_that_cannot_write_is_logged_with_the_subscription(
    bench: Bench, log: LogLines
) -> None:
    deployment = bench.deploy(
        subscriptions=[
            {"object": "Order", "destination": "queue://crm", "mime_type": "text/odd", "name": "crm"}
        ],
        more={"datahandlers": "./my_handlers.py"},
    )
    deployment.write("my_handlers.py", HANDLER)
    deployment.drop("orders", ORDER, "4.1.T")
    kind, reason = deployment.outcomes()["ID:1"]
    assert kind == "failed"
    assert reason.endswith("the data handler Odd raised KeyError: 'missing' (my_handlers.py:16)")
    (line,) = log.failures()
    assert (line["subscription"], line["data_handler"], line["message_id"]) == ("crm", "Odd", "ID:1")


def test_the_console_shows_fields_and_escapes_what_a_terminal_would_act_upon(log: LogLines) -> None:
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream):
        set_up_logging(LogSettings())
    values = {"message_id": "ID:\x1b[2J", "reason": "two words\x1b[2J", "attempts": 2, "verb": None}
    logging.getLogger("connector.events").warning("an event was not published", extra=values)
    line = stream.getvalue()
    assert "\x1b" not in line
    for part in ("an event was not published", "ID:\\x1b[2J", "two words", "attempts=2", "warning"):
        assert part in line
    assert "verb" not in line
