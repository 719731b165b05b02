"""Traces: ``traceparent`` in and out, and the spans at a real collector that speaks OTLP over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from connector.events.hooks.spans import SPANS
from connector.events.run.task_answer import unpack_answer
from connector.messaging.message import Message
from connector.testing.deployment import Deployment
from tests.events.conftest import Bench, EventDeployment, with_rules
from tests.sinks.web_server import WebServer, answer, server, serving
from tests.tables import rows
from tests.waiting import wait_for

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"

PROCESSES = """\
import json, os
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))

def ask(bo, event):
    with open(os.path.join(HERE, "seen"), "a") as file:
        file.write(event.traceparent + "\\n")
    event.request("Order.Create", {"Id": "1"})
    event.request_async("Order.Create", {"Id": "2"}).result(60)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(event.request, "Order.Create", {"Id": "3"}).result(60)

def refuse(bo, event):
    raise ValueError("customer 4711 is not known")

def answer(bo, event):
    if bo["CustomerId"] == "2":
        raise ValueError("no")
"""


@dataclass
class Seen:
    """A span as the collector got it."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    seconds: float
    attributes: dict[str, Any]
    status: int
    text: str
    service: str


CLIENT, CONSUMER, INTERNAL, ERROR = 3, 5, 1, 2

__all__ = ["server"]


@pytest.fixture
def collector() -> Iterator[WebServer]:
    with serving() as made:
        yield made


def spans(collector: WebServer) -> list[Seen]:
    """The spans that a collector has got."""
    found = []
    for asked in collector.asked:
        assert (asked.method, asked.target) == ("POST", "/v1/traces")
        for resource in ExportTraceServiceRequest.FromString(asked.body).resource_spans:
            about = values_of(resource.resource.attributes)
            for span in (one for scope in resource.scope_spans for one in scope.spans):
                trace, own, parent = (one.hex() for one in (span.trace_id, span.span_id, span.parent_span_id))
                seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
                told = values_of(span.attributes), span.status.code, span.status.message
                seen = Seen(span.name, span.kind, trace, own, parent, seconds, *told, about["service.name"])
                found.append(seen)
    return found


def values_of(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in attributes}


def traced(collector: WebServer, **more: Any) -> Mapping[str, Any]:
    return {"tracing": {"endpoint": collector.url, **more}}


def customer(traceparent: str | None = None, number: str = "1") -> Message:
    body = json.dumps({"BusinessObject": "Customer", "CustomerId": number}).encode()
    message = Message(body=body, correlation_id="c-1")
    if traceparent is not None:
        message.set_property("traceparent", traceparent)
    return message


def sent(deployment: Deployment, queue: str) -> list[str | None]:
    """``traceparent`` of the messages of a queue."""
    found = [one.properties.get("traceparent") for one in deployment.messages(queue)]
    return [None if one is None else str(one) for one in found]


FORWARD = {"object": "Customer", "name": "forward", "destination": "queue://next"}


def hook(server: WebServer) -> dict[str, Any]:
    return {"object": "Customer", "name": "hook", "webhook": {"url": server.url}}


def everything(bench: Bench, server: WebServer, **more: Any) -> EventDeployment:
    """A deployment whose events send a message, a webhook and three requests."""
    asking = {"object": "Customer", "name": "asking", "process": "processes:ask"}
    return bench.deploy(
        subscriptions=[FORWARD, hook(server), asking],
        objects=with_rules("  Order_Create: {OutputDestination: queue://asked}\n"),
        processes=PROCESSES,
        more=more,
    )


@rows("is_traced", [False, True])
def test_a_reply_is_of_the_trace_of_its_request(bench: Bench, collector: WebServer, is_traced: bool) -> None:
    deployment = bench.deploy(
        subscriptions=[{"object": "Customer", "process": "processes:answer", "reply": True}],
        processes=PROCESSES,
        more=traced(collector) if is_traced else {},
    )
    requests = [customer(SAMPLED, number) for number in ("1", "2", "3")]
    requests[2].body = b"no customer"
    for one in requests:
        one.reply_to = "queue://answers"
        deployment.send("customers", one)
    deployment.drain()
    found = sent(deployment, "answers")
    if not is_traced:
        assert found == [SAMPLED] * 3
        return
    events = {f"00-{TRACE}-{one.span_id}-01" for one in spans(collector) if one.kind == CONSUMER}
    assert len(found) == len(events) == 3
    assert found.count(SAMPLED) == 1, "no process has seen it"
    assert set(map(str, found)) - {SAMPLED} < events


def test_without_tracing_a_traceparent_is_passed_on_unless_it_is_malformed(
    bench: Bench, server: WebServer
) -> None:
    malformed = [
        *(None, "", "nonsense", SAMPLED[:-1], f"{SAMPLED}-more", SAMPLED.upper(), f"ff{SAMPLED[2:]}"),
        *(f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", SAMPLED + "\n"),
    ]
    deployment = everything(bench, server)
    for one in (*malformed, SAMPLED):
        deployment.send("customers", customer(one))
    deployment.drain()
    nothing = [None] * len(malformed)
    assert sent(deployment, "next") == [*nothing, SAMPLED]
    assert sent(deployment, "asked") == [*nothing * 3, *[SAMPLED] * 3]
    assert [one.headers.get("traceparent") for one in server.asked] == [*nothing, SAMPLED]
    assert (bench.directory / "seen").read_text().split() == [SAMPLED]


def test_a_chain_of_two_adapters_is_one_trace(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory, collector: WebServer, server: WebServer
) -> None:
    first = bench.deploy(subscriptions=[FORWARD], more=traced(collector), ApplicationName="first")
    second = Bench(tmp_path_factory.mktemp("second"), bench.root).deploy(
        subscriptions=[hook(server)],
        more=traced(collector, service="billing"),
        ApplicationName="second",
        InputDestination="queue://next",
    )
    first.send("customers", customer())
    first.drain()
    second.drain()
    found = {(one.service, one.name): one for one in spans(collector)}
    names = {"first": ["process customers", "convert", "deliver forward"]}
    names["billing"] = ["process next", "convert", "deliver hook"]
    assert set(found) == {(service, name) for service in names for name in names[service]}
    assert len({one.trace_id for one in found.values()}) == 1
    whole, following = found["first", "process customers"], found["billing", "process next"]
    assert (whole.kind, whole.parent_id) == (CONSUMER, "")
    assert (following.kind, following.parent_id) == (CONSUMER, whole.span_id)
    for service, name, parent in (("first", "convert", whole), ("billing", "deliver hook", following)):
        part = found[service, name]
        assert (part.kind, part.parent_id, part.status) == (INTERNAL, parent.span_id, 0)
        assert 0 < part.seconds < parent.seconds
    carried = f"00-{following.trace_id}-{following.span_id}-01"
    assert [one.headers["traceparent"] for one in server.asked] == [carried]


@pytest.mark.parametrize("isolated", [False, pytest.param(True, marks=pytest.mark.process)])
def test_spans_tell_message_outcome_and_requests(
    bench: Bench, collector: WebServer, server: WebServer, isolated: bool
) -> None:
    deployment = everything(bench, server, **traced(collector))
    identity = deployment.send("customers", customer(SAMPLED))
    deployment.drain(isolated=isolated)
    found = spans(collector)
    assert {one.trace_id for one in found} == {TRACE}
    (whole,) = (one for one in found if one.kind == CONSUMER)
    assert whole.parent_id == PARENT
    assert whole.attributes == {
        "messaging.system": "dropbox",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "customers",
        "messaging.message.id": identity,
        "messaging.message.conversation_id": "c-1",
        "messaging.message.body.size": len(customer().body),
        "connector.outcome": "published",
        "connector.object": "Customer",
        "connector.verb": "Create",
    }
    asked = [one for one in found if one.kind == CLIENT]
    assert [(one.name, one.parent_id) for one in asked] == [("request Order.Create", whole.span_id)] * 3
    assert {one.attributes["connector.outcome"] for one in asked} == {"SUCCEED"}
    expected = [f"00-{TRACE}-{one.span_id}-01" for one in asked]
    assert sorted(sent(deployment, "asked"), key=str) == sorted(expected)
    own = f"00-{TRACE}-{whole.span_id}-01"
    assert sent(deployment, "next") == [own]
    assert [one.headers["traceparent"] for one in server.asked] == [own]
    assert (bench.directory / "seen").read_text() == f"{own}\n"
    parts = sorted(one.name for one in found if one.kind == INTERNAL)
    assert parts == ["convert", "deliver asking", "deliver forward", "deliver hook"]


def test_a_failure_has_its_kind_and_no_value_of_the_message(bench: Bench, collector: WebServer) -> None:
    deployment = bench.deploy(
        subscriptions=[{"object": "Customer", "name": "refusing", "process": "processes:refuse"}],
        processes=PROCESSES,
        more=traced(collector),
    )
    refused = deployment.send("customers", customer())
    malformed = deployment.send("customers", "no JSON")
    deployment.drain()
    wholes = {one.attributes["messaging.message.id"]: one for one in spans(collector) if one.kind == CONSUMER}
    parts = {
        identity: {one.name: one for one in spans(collector) if one.parent_id == whole.span_id}
        for identity, whole in wholes.items()
    }
    whole, part = wholes[refused], parts[refused]["deliver refusing"]
    assert (whole.status, part.status, parts[refused]["convert"].status) == (ERROR, ERROR, 0)
    told = {"outcome": "failed", "kind": "refused", "subscription": "refusing", "object": "Customer"}
    assert {key: whole.attributes[f"connector.{key}"] for key in told} == told
    assert whole.attributes["error.type"] == "refused"
    assert part.attributes == {
        "connector.subscription": "refusing",
        "connector.outcome": "failed",
        "error.type": "failed",
    }
    assert "ValueError" in whole.text
    assert "4711" not in whole.text
    assert sent(deployment, "error") == [None, None]  # the copy is the message as it came
    assert {name: one.attributes for name, one in parts[malformed].items()} == {
        "convert": {"error.type": "MalformedData"}
    }
    assert wholes[malformed].attributes["connector.kind"] == "malformed"


def test_a_trace_that_is_not_sampled_stays_one_trace_without_spans(
    bench: Bench, collector: WebServer, server: WebServer
) -> None:
    deployment = everything(bench, server, **traced(collector))
    deployment.send("customers", customer(UNSAMPLED))
    deployment.drain()
    assert collector.asked == []
    following = {str(one) for queue in ("next", "asked") for one in sent(deployment, queue)}
    assert {(one[:36], one[-3:]) for one in following} == {(f"00-{TRACE}-", "-00")}


def test_a_sample_of_0_begins_no_trace_that_is_exported(bench: Bench, collector: WebServer) -> None:
    deployment = bench.deploy(subscriptions=[FORWARD], more=traced(collector, sample=0))
    for came in (None, SAMPLED):
        deployment.send("customers", customer(came))
    deployment.drain()
    assert {one.trace_id for one in spans(collector)} == {TRACE}
    assert sorted(str(one)[-2:] for one in sent(deployment, "next")) == ["00", "01"]


def test_a_request_of_a_program_begins_a_trace(bench: Bench, collector: WebServer, server: WebServer) -> None:
    deployment = everything(bench, server, **traced(collector))
    with deployment.running() as adapter:
        assert adapter.request("Order.Create", {"Id": "1"}).good
        assert adapter.request_async("Order.Create", {"Id": "2"}).result(60).good
    found = spans(collector)
    asked = ("request Order.Create", CLIENT, "")
    assert [(one.name, one.kind, one.parent_id) for one in found] == [asked] * 2
    expected = [f"00-{one.trace_id}-{one.span_id}-01" for one in found]
    assert sorted(sent(deployment, "asked"), key=str) == sorted(expected)


def test_a_collector_that_does_not_answer_delays_neither_event_nor_stop(
    bench: Bench, collector: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")  # longer than this test may take
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")
    released = threading.Event()

    def late(handler: BaseHTTPRequestHandler) -> None:
        released.wait()
        answer(200)(handler)

    collector.answers += [late] * 9
    deployment = bench.deploy(more=traced(collector))
    for number in range(100):  # many more spans than wait for an export
        deployment.send("customers", customer(number=str(number)))
    with deployment.running() as adapter:
        adapter.drain()
        wait_for(lambda: collector.asked)
    assert len(bench.called()) == 100
    released.set()


def test_a_collector_that_fails_is_logged_and_gets_the_spans_of_later_events(
    bench: Bench, collector: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    collector.answers.append(answer(400))
    deployment = bench.deploy(more=traced(collector))
    for _ in range(2):
        deployment.send("customers", customer())
        deployment.drain()
    (line,) = (vars(one) for one in caplog.records if one.name == "connector.traces")
    assert "400" in line["reason"]
    assert (len(collector.asked), len(bench.called())) == (2, 2)


def test_without_tracing_a_task_measures_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []

    def look(data: bytes) -> Any:
        answers.append(unpack_answer(data))
        return answers[-1]

    monkeypatch.setattr("connector.events.run.job.unpack_answer", look)
    deployment = bench.deploy()
    deployment.send("customers", customer(SAMPLED))
    deployment.drain()
    assert [(len(one.outcomes), one.told.get(SPANS)) for one in answers] == [(1, None)]


def test_the_environment_names_collector_and_service(
    bench: Bench, collector: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-environment")
    deployment = bench.deploy(more={"tracing": {}})
    deployment.send("customers", customer())
    deployment.drain()
    assert {one.service for one in spans(collector)} == {"from-environment"}
