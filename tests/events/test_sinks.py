"""Sinks of others: what the publisher makes of what they say, and when it opens and closes them."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.errors import ConnectorError, PipelineError
from connector.events.run.worker import check_worker
from tests.distribution import install
from tests.events.conftest import Bench, customer, logged, outcomes_of, placeless
from tests.tables import rows

MODULE = '''
import json, os
from dataclasses import dataclass
import connector
from connector.sinks.contract import ExternalSink, PreparedSink, write_body
from connector.declare.value_types import Text
from connector.sinks.subscription_model import ExternalEntry, PreparedEntry
from connector.errors import ConnectorError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message

def note(deployment, what):
    descriptor = os.open(os.path.join(deployment, "notes"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, (what + "\\n").encode())
    os.close(descriptor)

@dataclass(frozen=True)
class Spec:
    kind: type
    what: str

    def open(self, context):
        note(context.deployment, f"{context.subscription} opened")
        if self.what == "refuses":
            raise ConnectorError("the keep is locked: give it a key")
        return self.kind(self.what, context)

class Keep(ExternalSink):
    def __init__(self, what, context):
        self.what, self.context = what, context

    def deliver(self, bo, event):
        note(self.context.deployment, f"{event.subscription} {event.id} {event.delivery_count}")
        name = bo["Name"] or ""
        if name == "fail":
            raise KeyError("no such shelf")
        if name == "exit":
            return event.delivery_count > 1 or os._exit(3)
        if name:
            raise getattr(connector, name)("said so")
        return connector.Reply("VALDUPES", "known") if self.what == "answers" else None

    def close(self):
        note(self.context.deployment, f"{self.context.subscription} closed")
        if self.what == "sticks":
            raise OSError("the door sticks")

class Forward(PreparedSink):
    destination = parse_destination("queue://forwarded")

    def __init__(self, what, context):
        self.write, self.context = context.writer(None), context

    def prepare(self, bo, event):
        note(self.context.deployment, f"{self.context.subscription} prepares {event.id}")
        name = bo["Name"] or ""
        if name == "bug":
            raise KeyError("no such shelf")
        if name == "interpreter":
            raise SystemExit(3)
        if name == "refuse":
            raise ValueError("too long")
        return Message(write_body(self.write, bo)[1], "T")

class KeepEntry(ExternalEntry):
    """Keeps."""

    keep: Text

    def sink(self):
        return Spec(Keep, self.keep)

    def target(self):
        return self.keep

class ForwardEntry(PreparedEntry):
    """Forwards."""

    forward: Text

    def sink(self):
        return Spec(Forward, self.forward)

    def target(self):
        return self.forward

    @property
    def sends_to(self):
        return Forward.destination
'''

KEEP = {"object": "Customer", "keep": "it", "name": "keep"}
FORWARD = {"object": "Customer", "forward": "it", "name": "forward"}


@pytest.fixture(autouse=True)
def site(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the sinks are installed."""
    directory = tmp_path_factory.mktemp("site")
    sinks = {"keep": "their_keep:KeepEntry", "forward": "their_keep:ForwardEntry"}
    install(directory, monkeypatch, "their-keep", sinks, {"their_keep": MODULE})
    yield directory
    sys.modules.pop("their_keep", None)


def notes(bench: Bench) -> list[str]:
    return Path(bench.directory / "notes").read_text().splitlines()


@pytest.mark.process
@rows("isolated", [False, True])
def test_a_worker_opens_a_sink_calls_it_for_each_event_and_closes_it(bench: Bench, isolated: bool) -> None:
    """Where the sink ends its worker, another worker opens it again, and the sink is told so."""
    deployment = bench.deploy(subscriptions=[KEEP])
    deployment.drop_customers(x1="", x2="exit" if isolated else "")
    assert set(deployment.outcomes(isolated=isolated).values()) == {("published", "")}
    found = notes(bench)
    again = ["keep ID:x2 2"] if isolated else []
    assert [line for line in found if "ID:" in line] == ["keep ID:x1 1", "keep ID:x2 1", *again]
    assert (found[0], found[-1]) == ("keep opened", "keep closed")
    assert found.count("keep opened") - found.count("keep closed") == len(again)


def test_an_external_sink_says_what_a_process_may_say(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    deployment = bench.deploy(subscriptions=[{**KEEP, "retries": 1}])
    deployment.drop_customers(x1="Unsubscribed", x2="TemporaryFailure", x3="fail", x4="NotActive")
    with deployment.running() as adapter:
        assert adapter.poll().reason == "keep: NotActive: said so"
    assert deployment.ids("customers") == ["ID:x4"]
    found = {one: (outcome, placeless(why)) for one, (outcome, why) in outcomes_of(adapter).items()}
    assert found == {
        "ID:x1": ("unsubscribed", "keep: Unsubscribed: said so"),
        "ID:x2": ("failed", "keep: TemporaryFailure: said so (tried 2 times)"),
        "ID:x3": ("failed", "keep: KeyError: 'no such shelf'"),
    }
    lines = logged(caplog, "a sink has failed")
    assert [f"{line['subscription']} {line['message_id']}" for line in lines] == ["keep ID:x2", "keep ID:x3"]
    assert all(re.search(r"their_keep\.py:\d+$", line["place"]) for line in lines)


def test_what_an_external_sink_returns_is_the_reply(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=[{**KEEP, "keep": "answers", "reply": True}])
    deployment.send("queue://customers", customer(), reply_to="queue://answers")
    deployment.drain()
    (reply,) = deployment.messages("answers")
    assert (reply.properties["ResponseResult"], reply.body) == ("VALDUPES", b"known")


def test_a_sink_that_cannot_be_opened_ends_the_start_and_closes_the_others(bench: Bench) -> None:
    refusing = {"object": "Order", "keep": "refuses", "name": "refusing"}
    deployment = bench.deploy(subscriptions=[KEEP, refusing])
    with pytest.raises(ConnectorError, match="the keep is locked: give it a key"), deployment.running():
        pass
    assert notes(bench)[:3] == ["keep opened", "refusing opened", "keep closed"]


def test_a_worker_without_the_package_of_a_sink_says_what_to_install(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, site: Path
) -> None:
    (entry,) = bench.deploy(subscriptions=[KEEP]).configuration.subscriptions
    task_settings = pickle.dumps(entry.sink())
    monkeypatch.delitem(sys.modules, "their_keep")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(site)])
    with pytest.raises(PipelineError, match="No module named 'their_keep'; install the package of each sink"):
        check_worker(task_settings, str(bench.directory), b"")


def test_a_sink_that_cannot_be_closed_is_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    sticking = {"object": "Order", "keep": "sticks", "name": "sticking"}
    deployment = bench.deploy(subscriptions=[sticking, KEEP])
    deployment.drain()
    (line,) = logged(caplog, "a sink cannot be closed")
    assert (line["subscription"], line["reason"]) == ("sticking", "OSError: the door sticks")
    assert {"sticking closed", "keep closed"} <= set(notes(bench))


def test_prepared_sinks_come_before_external_ones_and_send_with_the_settlement(bench: Bench) -> None:
    first = {**KEEP, "name": "first"}
    deployment = bench.deploy(subscriptions=[first, KEEP, FORWARD])
    deployment.drop_customers(x="")
    assert deployment.outcomes() == {"ID:x": ("published", "")}
    called = [line for line in notes(bench) if "ID:x" in line]
    assert called == ["forward prepares ID:x", "first ID:x 1", "keep ID:x 1"]
    (message,) = deployment.messages("forwarded")
    assert json.loads(message.body)["CustomerId"] == "1"


def test_what_a_prepared_sink_raises_is_logged_where_it_is_a_bug(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = bench.deploy(subscriptions=[FORWARD])
    deployment.drop_customers(x1="refuse", x2="bug", x3="interpreter")
    found = {one: (outcome, placeless(why)) for one, (outcome, why) in deployment.outcomes().items()}
    assert found == {
        "ID:x1": ("failed", "forward: ValueError: too long"),
        "ID:x2": ("failed", "forward: KeyError: 'no such shelf'"),
        "ID:x3": ("failed", "forward: SystemExit: 3"),
    }
    assert [line["message_id"] for line in logged(caplog, "a sink has failed")] == ["ID:x2", "ID:x3"]
    assert deployment.messages("forwarded") == []
