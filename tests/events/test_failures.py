"""What the log tells: each failure of user code once, with its place, and the trace of business objects."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.dump import dump
from connector.businessobjects.instance import BusinessObject
from connector.log import LogSettings, set_up_logging
from connector.service.adapter import Adapter
from tests.events.conftest import ORDER, Bench, EventDeployment, handler, with_rules
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

def direct(order, event): raise ValueError("x")
def deep(order, event): check(order)
def in_a_library(order, event): json.loads("{")
def mute(order, event): raise Mute()
def syntax(order, event): compile("def :", "given.txt", "exec")
def grouped(order, event): raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])
def bottomless(order, event): bottomless(order, event)
def long_text(order, event): raise ValueError("x" * 100_000)
wants_more = lambda order, event, more: 0
def busy(order, event): raise connector.TemporaryFailure("locked")
def ends(order, event): raise SystemExit(3)
def typed(order, event): order["Id"] = 7

def chained(order, event):
    try:
        check(order)
    except ValueError as error:
        raise KeyError("wrapped") from error

def thousand(order, event):
    error = ValueError("first")
    for number in range(1000):
        try:
            raise KeyError(number) from error
        except KeyError as next_error:
            error = next_error
    raise error
"""

HANDLER = handler(
    "text/odd",
    head="from connector.errors import MalformedData",
    reads="""\
if body == b"malformed":
    raise MalformedData("line 1: no colon")
return {}["missing"]  # line 14""",
    writes='return {}["missing"]  # line 17',
)
RAISES = "the data handler Own raised KeyError: 'missing' "


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
        self._settings = settings
        with contextlib.redirect_stderr(self._stream):
            set_up_logging(LogSettings(format="json", **settings))
        return self

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    def failure(self, event: str) -> dict[str, Any]:
        """The one error, whose event is of the message ``ID:1`` of the orders."""
        (line,) = [line for line in self.all() if line["level"] == "error"]
        found = {key: line[key] for key in ("event", "logger", "message_id", "destination")}
        of_message = {"logger": "connector.events", "message_id": "ID:1", "destination": "queue://orders"}
        assert found == {"event": event, **of_message}
        assert "debug" in self._settings or "connector/" not in line["exception"]
        return line


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[LogLines]:
    """Sets up the log as a command does."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr("connector.log._json", False)  # as it was, afterwards
    root = logging.getLogger("connector")
    before = root.handlers[:], root.propagate, root.level
    yield LogLines()
    root.handlers[:], root.propagate = before[0], before[1]
    root.setLevel(before[2])


def deploy(bench: Bench, process: str) -> EventDeployment:
    subscription = {"object": "Order", "process": f"processes:{process}", "name": "shop"}
    deployment = bench.deploy(subscriptions=[subscription], processes=PROCESSES)
    deployment.write("lib/helpers.py", HELPERS)
    deployment.drop("orders", ORDER, "4.1.T")
    return deployment


@rows(
    "process, reason, place",
    [
        ("direct", "ValueError: x", "processes.py:9"),
        ("deep", "ValueError: no such order", "lib/helpers.py:3"),
        ("chained", "KeyError: 'wrapped'", "processes.py:26"),
        ("in_a_library", "JSONDecodeError: ", "processes.py:11"),
        ("mute", "Mute", "processes.py:12"),
        ("syntax", "SyntaxError: ", "processes.py:13"),
        ("grouped", "ExceptionGroup: several (2 sub-exceptions)", "processes.py:14"),
        ("bottomless", "RecursionError: ", "processes.py:15"),
        ("thousand", "KeyError: 999", "processes.py:32"),
        ("long_text", "ValueError: xxx", "processes.py:16"),
        ("wants_more", "TypeError: ", "processes.py:17"),
        ("busy", "TemporaryFailure: locked", "processes.py:18"),
        ("ends", "SystemExit: 3", "processes.py:19"),
        ("typed", "MalformedData: ", "processes.py:20"),
    ],
)
def test_what_a_process_raises_is_logged_once_and_its_place_is_kept(
    bench: Bench, log: LogLines, process: str, reason: str, place: str
) -> None:
    deployment = deploy(bench, process)
    kind, found = deployment.outcomes()["ID:1"]
    assert (kind, found.startswith(f"shop: {reason}")) == ("failed", True)
    assert found.endswith(f" ({place})")
    assert len(found.encode()) <= 8192
    assert deployment.properties("error", "ID:1")["connector_reason"] == found
    line = log.failure("a business process has failed")
    expected = {"object": "Order", "verb": "Create", "subscription": "shop", "attempts": 1, "place": place}
    assert {key: line.get(key) for key in expected} == expected
    assert len(line["exception"].encode()) <= 64 << 10
    (settled,) = [line for line in log.all() if line["level"] == "warning"]
    assert (settled["event"], settled["reason"]) == ("an event was not published", found)
    assert "exception" not in settled


@rows("debug, process", [(False, "chained"), (True, "in_a_library")])
def test_a_traceback_has_the_chain_or_all_frames(
    bench: Bench, log: LogLines, debug: bool, process: str
) -> None:
    log.again(**{"debug": True} if debug else {})
    deploy(bench, process).drain()
    line = log.failure("a business process has failed")
    error = ["helpers.py", "ValueError: no such order", "direct cause"]
    chain = [*error, 'raise KeyError("wrapped")', "KeyError: '"]
    frames = ["connector/sinks/process/sink.py", "processes.py", "json/decoder.py"]
    positions = [line["exception"].index(word) for word in (frames if debug else chain)]
    assert positions == sorted(positions)


def test_a_data_handler_that_raises_is_logged_with_its_place(bench: Bench, log: LogLines) -> None:
    more = {"datahandlers": "./my_handlers.py"}
    deployment = bench.deploy(more=more, DataHandlerMimeType="text/odd")
    deployment.write("my_handlers.py", HANDLER)
    deployment.drop("orders", "bug", "4.1.T")
    deployment.drop("orders", "malformed", "4.2.T")
    found = deployment.outcomes()
    assert found["ID:1"] == ("failed", f"{RAISES}(my_handlers.py:14)")
    assert found["ID:2"] == ("failed", "line 1: no colon")
    properties = deployment.properties("error", "ID:1")
    told = (properties["connector_kind"], properties["connector_place"])
    assert told == ("handler_failed", "my_handlers.py:14")
    line = log.failure("a data handler has failed")
    expected = {"data_handler": "Own", "reason": "KeyError: 'missing'", "place": "my_handlers.py:14"}
    assert {key: line.get(key) for key in expected} == expected


def test_a_data_handler_that_cannot_write_is_logged_with_its_subscription(
    bench: Bench, log: LogLines
) -> None:
    crm = {"object": "Order", "destination": "queue://crm", "mime_type": "text/odd", "name": "crm"}
    deployment = bench.deploy(subscriptions=[crm], more={"datahandlers": "./my_handlers.py"})
    deployment.write("my_handlers.py", HANDLER)
    deployment.drop("orders", ORDER, "4.1.T")
    assert deployment.outcomes() == {"ID:1": ("failed", f"crm: HandlerFailed: {RAISES}(my_handlers.py:17)")}
    line = log.failure("a data handler has failed")
    assert (line["subscription"], line["data_handler"]) == ("crm", "Own")


# -- the trace: how much of what happens to a business object is told, by AgentTraceLevel ----------------

EACH: dict[int, set[str]] = {
    1: {"message detected", "event settled"},
    2: {"business object passed to a sink"},
    3: {"message converted", "message sent"},
    4: {"step begins", "step ends"},
    5: {"message taken", "message put", "business object", "properties"},
}


def traced(caplog: pytest.LogCaptureFixture) -> dict[int, list[dict[str, Any]]]:
    """The lines of the trace by the level from which on they are written."""
    found = defaultdict(list)
    for record in caplog.records:
        if record.name == "connector.trace":
            assert record.levelno == logging.INFO
            fields = vars(record)
            found[fields["trace_level"]].append({**fields, "event": record.getMessage()})
    return found


@rows("level", range(6))
def test_a_level_has_its_lines_and_all_below(
    bench: Bench, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    crm = {"object": "Order", "destination": "queue://crm", "name": "crm"}
    process = {"object": "Order", "process": "processes:a", "name": "a"}
    deployment = bench.deploy(subscriptions=[process, crm], AgentTraceLevel=level)
    deployment.drop("orders", ORDER, "4.1.T")
    caplog.clear()
    caplog.set_level(logging.INFO)
    assert deployment.outcomes()["ID:1"] == ("published", "")
    lines = traced(caplog)
    assert {number: {line["event"] for line in found} for number, found in lines.items()} == {
        number: texts for number, texts in EACH.items() if number <= level
    }
    for line in lines[1] + lines[2] + lines[3]:
        assert line["message_id"] == "ID:1"
    if level >= 1:
        (settled,) = [line for line in lines[1] if line["event"] == "event settled"]
        known = {"destination": "queue://orders", "object": "Order", "verb": "Create", "outcome": "published"}
        assert {key: settled[key] for key in known} == known
    if level >= 2:
        assert [line["subscription"] for line in lines[2]] == ["crm", "a"]
    if level >= 3:
        converted, sent = lines[3]
        assert (converted["data_handler"], converted["bytes"], converted["rule"]) == ("JsonHandler", 38, None)
        assert sent["destination"] == "queue://crm"
    if level >= 4:
        ended = {line["step"] for line in lines[4] if line["event"] == "step ends" and line["seconds"] >= 0}
        assert ended == {"claim", "convert", "publish", "settle", "recover"}


def test_the_properties_at_the_start_have_no_secrets(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    secret = {"spark": {"conf": {"spark.ssl.keyPassword": "hunter2"}}}
    deployment = bench.deploy(AgentTraceLevel=5, more=secret)
    caplog.set_level(logging.INFO)
    deployment.outcomes()
    sections = {
        line["section"]: line["values"] for line in traced(caplog)[5] if line["event"] == "properties"
    }
    assert sections["connector"]["AgentTraceLevel"] == 5
    assert "hunter2" not in str(sections)
    assert "keyPassword" in str(sections["spark"])


def test_requests_are_traced(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    objects = with_rules("  Customer_Create: {OutputDestination: queue://crm}\n")
    deployment = bench.deploy(objects=objects, AgentTraceLevel=5)
    caplog.set_level(logging.INFO)
    with Adapter(deployment.configuration) as adapter:
        assert adapter.request("Customer.Create", {"CustomerId": "7"}).good
    lines = traced(caplog)
    assert [line["event"] for line in lines[2]] == ["request sent", "request answered"]
    assert [line["event"] for line in lines[3]] == ["object converted"]
    assert {line["event"] for line in lines[5]} >= {"message put", "business object"}


def test_a_dump_is_bounded_and_shows_no_ciphertext() -> None:
    many = [
        Attribute("Child", "Child", cardinality="n"),
        Attribute("Tag", "String", cardinality="n"),
        Attribute("Code", "Ciphertext", cardinality="n"),
    ]
    child = Definition("Child", attributes={"Pin": Attribute("Pin", "String")})
    attributes = [Attribute("Card", "String"), Attribute("Name", "String"), *many]
    definition = Definition("Order", attributes={one.name: one for one in attributes})
    definitions = Definitions({"Order": definition, "Child": child})
    values = {"Card": "4711", "Name": "x", "Child": [{"Pin": "0815"}], "Tag": ["a", "b"], "Code": ["1234"]}
    bo = BusinessObject(definitions, "Order", "Create", values)
    for one, name in ((definition, "Card"), (child, "Pin")):  # whichever types there are
        one.attributes[name] = Attribute(name, "Ciphertext")
    hidden = {"Card": "********", "Child": [{"Pin": "********"}], "Code": "********"}
    assert json.loads(dump(bo)) == {**values, **hidden}
    bo["Name"] = "x" * 100_000
    assert len(dump(bo)) < 17_000
