"""Pauses of inputs and subscriptions: nothing is claimed or called meanwhile, everything comes afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from connector.errors import ProviderError
from connector.operate import control
from connector.operate.control import ControlWatch, Pausable, TargetKind, Targets, UnknownTarget
from connector.state.directory import StateDirectory
from connector.testing.deployment import InProcessAdapter
from tests.brokers.engine import world
from tests.brokers.engine.provider import LentProvider
from tests.events.conftest import ORDER, Bench, EventDeployment, customer, serving
from tests.tables import rows
from tests.waiting import wait_for

CUSTOMERS = Pausable(TargetKind.INPUT, "queue://customers")
ORDERS = Pausable(TargetKind.INPUT, "queue://orders")
A = Pausable(TargetKind.SUBSCRIPTION, "a")
OF_A = {"object": "Order", "process": "processes:a", "name": "a"}
OF_B = {"object": "Order", "process": "processes:b", "name": "b"}


def deploy(bench: Bench, section: Mapping[str, str], **keys: Any) -> EventDeployment:
    inputs = ["queue://others", "queue://orders"]
    return bench.deploy(
        provider=section, **{"DuplicateEventElimination": True, "InputDestination": inputs, **keys}
    )


def pause(deployment: EventDeployment, *targets: Pausable) -> None:
    control.pause(deployment.provider.state("test").control(), targets, by="ann", reason="closed")


def resume(deployment: EventDeployment, *targets: Pausable) -> None:
    control.resume(deployment.provider.state("test").control(), targets)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each poll looks at the pauses. Events of paused subscriptions come again after 0.25 s."""
    monkeypatch.setattr(control, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(control, "_SHORTEST", 0.25)
    monkeypatch.setattr(control, "_LONGEST", 0.25)


def test_a_drain_leaves_a_paused_input_alone_and_ends(bench: Bench, section: Mapping[str, str]) -> None:
    deployment = deploy(bench, section)
    pause(deployment, ORDERS)
    sent = [deployment.send(f"queue://{name}", ORDER) for name in ("orders", "others", "orders")]
    with deployment.running() as adapter:
        adapter.drain()
        assert bench.called() == [sent[1]]
        resume(deployment, ORDERS)
        wait_for(lambda: adapter.drain() and len(bench.calls()) == 3, what="the orders")
    assert sorted(bench.called()) == sorted(sent)


def test_a_service_obeys_without_a_poll(
    bench: Bench, section: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deploy(bench, section, PollFrequency=3_600_000)
    with deployment.running() as adapter, serving(adapter):
        first = deployment.send("queue://orders", ORDER)
        wait_for(lambda: bench.called() == [first], what="an event")
        pause(deployment, ORDERS)
        wait_for(lambda: "paused by an operator" in caplog.messages)
        left = deployment.send("queue://orders", ORDER)
        others = []
        for _ in range(2):
            others.append(deployment.send("queue://others", ORDER))
            wait_for(lambda: others[-1] in bench.called(), what="an event of the other input")
        assert bench.called() == [first, *others]
        resume(deployment, ORDERS)
        wait_for(lambda: left in bench.called(), what="the event, long before a poll is due")
    assert bench.called() == [first, *others, left]


def test_events_of_a_paused_subscription_come_again(
    bench: Bench, section: Mapping[str, str], soon: None
) -> None:
    subscriptions = [OF_A, OF_B, {"object": "Order", "destination": "queue://erp", "name": "erp"}]
    erp = Pausable(TargetKind.SUBSCRIPTION, "erp")
    deployment = deploy(bench, section, subscriptions=subscriptions, max_attempts=2, order="none")
    pause(deployment, A, erp)
    sent = [deployment.send("queue://orders", ORDER) for _ in range(3)]
    with deployment.running() as adapter:
        wait_for(lambda: adapter.poll() and adapter.summary.as_dict()["later"] >= 6)
        assert (bench.called("a"), sorted(bench.called("b"))) == ([], sorted(sent)), "who has confirmed rests"
        assert deployment.messages("erp") == deployment.messages("error") == []
        counts = adapter.summary.as_dict()
        assert counts["claimed"] == counts["later"]
        resume(deployment, A, erp)
        wait_for(lambda: adapter.drain() and len(deployment.messages("archive")) == 3, what="the archive")
    calls = bench.calls()
    assert sorted(call["id"] for call in calls if call["who"] == "a") == sorted(sent)
    assert {call["count"] for call in calls if call["who"] == "a"} <= {1, 2}, "the call of b counts once"
    assert len(deployment.messages("erp")) == 3
    assert [one.properties.get("connector_retries") for one in deployment.messages("archive")] == [None] * 3


@rows("order", ["destination", "group"])
def test_what_is_behind_an_event_of_a_paused_subscription_waits(bench: Bench, order: str, soon: None) -> None:
    deployment = bench.deploy(subscriptions=[OF_A, {**OF_B, "object": "Customer"}], order=order)
    pause(deployment, A)
    group = {"JMSXGroupID": "g"}
    first, second = (
        deployment.send("queue://orders", body, properties=group) for body in (ORDER, customer())
    )
    with deployment.running() as adapter:
        adapter.poll()
        assert bench.calls() == []
        resume(deployment, A)
        wait_for(lambda: adapter.drain() and len(bench.calls()) == 2, what="both")
    assert [call["id"] for call in bench.calls()] == [first, second]


def test_what_waits_in_progress_is_of_its_input(bench: Bench, section: Mapping[str, str], soon: None) -> None:
    deployment = deploy(bench, section, InProgressDestination="queue://busy")
    sent = deployment.send("queue://orders", customer("a: inactive-once asleep"))
    with deployment.running() as adapter:
        adapter.poll()
        assert bench.called() == [sent]
        (deployment.directory / "woken").touch()
        pause(deployment, ORDERS)
        adapter.poll()
        adapter.poll()
        assert bench.called() == [sent]
        resume(deployment, ORDERS)
        wait_for(lambda: adapter.drain() and len(deployment.messages("archive")) == 1, what="the event")
    assert bench.called() == [sent, sent]


def test_no_subscription_pauses_under_container_managed_events() -> None:
    targets = Targets(["queue://orders"], ["a"], is_managed=True)
    with pytest.raises(UnknownTarget, match="ContainerManagedEvents"):
        targets.find(["a"])
    assert targets.find(["orders"]) == [ORDERS]
    assert targets.find(["a"], [A]) == [A], "what is paused can be resumed"


def test_names_and_misspelt_names() -> None:
    targets = Targets(["queue://orders", "topic://prices"], ["orders", "Order processes:book"])
    assert targets.find(["orders", "queue://orders", "orders", "topic://prices"]) == [
        Pausable(TargetKind.SUBSCRIPTION, "orders"),
        ORDERS,
        Pausable(TargetKind.INPUT, "topic://prices"),
    ]
    mistakes = {
        "queue://ordres": "did you mean 'queue://orders'?",
        "order processes:book": "did you mean 'Order processes:book'?",
        "topic://x y/z": "there are queue://orders, topic://prices, orders",
    }
    for name, text in mistakes.items():
        with pytest.raises(UnknownTarget) as refused:
            targets.find(["queue://orders", name])
        assert (text in str(refused.value), repr(name) in str(refused.value)) == (True, True)
    assert targets.all_inputs() == [ORDERS, Pausable(TargetKind.INPUT, "topic://prices")]


def test_the_longer_a_pause_lasts_the_longer_its_events_wait(tmp_path: Path) -> None:
    now = [100.0]
    record = StateDirectory(str(tmp_path)).control()
    control.pause(record, [ORDERS, A], by="ann")
    watch = ControlWatch(lambda: now[0])
    assert watch.look(record)
    assert watch.delays() == {"a": 5.0}
    assert watch.is_paused("queue://orders")
    now[0] += 30
    assert not watch.look(record), "nothing has changed"
    assert watch.delays() == {"a": 30.0}
    now[0] += 3600
    assert watch.delays() == {"a": 60.0}


def test_a_record_that_cannot_be_read_stops_the_adapter_and_resumes_nothing(bench: Bench) -> None:
    deployment = bench.deploy()
    pause(deployment, ORDERS)
    state = deployment.provider.state("test")
    assert isinstance(state, StateDirectory)
    path = Path(state.path) / "control.json"
    text = path.read_bytes()
    path.write_bytes(text[:20])
    deployment.send("queue://orders", ORDER)
    with pytest.raises(ProviderError, match=r"control\.json"), deployment.running() as adapter:
        adapter.drain()
    path.write_bytes(text)
    with deployment.running() as adapter:
        adapter.drain()
    assert bench.calls() == []


def test_a_broker_keeps_what_comes_during_a_pause(tmp_path: Path, soon: None) -> None:
    provider = LentProvider(tmp_path / "state")
    deployment = world.deploy(tmp_path, order="none")
    record = provider.state("lent").control()
    store = Pausable(TargetKind.SUBSCRIPTION, "store")
    control.pause(record, [CUSTOMERS, store], by="ann")
    with InProcessAdapter(deployment.configuration, provider, parallelism=2) as adapter:
        sent = world.send(provider, "", "")
        urgent = world.send(provider, "", queue="urgent")
        adapter.drain()
        (inbound,) = [adapter._connection.inbound]
        assert inbound is not None
        pollers = inbound._intake._open
        assert [str(one.destination) for one in pollers] == ["queue://urgent"], "no consumer is left"
        assert world.ids(provider, "customers") == sent
        assert world.ids(provider, "connector.lent.later") == urgent
        assert world.stored(deployment) == []
        control.resume(record, [CUSTOMERS])
        wait_for(lambda: adapter.drain() and len(world.ids(provider, "connector.lent.later")) == 3)
        assert world.ids(provider, "crm") == [], "all subscriptions or none are settled"
        control.resume(record, [store])
        wait_for(lambda: adapter.drain() and len(world.ids(provider, "archive")) == 3, what="the archive")
        assert sorted(world.stored(deployment)) == ["0 1", "0 1", "1 1"]
        control.pause(record, [CUSTOMERS], by="ann")
        wait_for(lambda: adapter.drain() and len(inbound._intake._open) == 1, what="a closed consumer")
        world.send(provider, "")
        adapter.drain()
        assert len(world.ids(provider, "customers")) == 1
    assert len(world.ids(provider, "crm")) == 3


def test_a_subscription_of_a_paused_topic_gets_messages(bench: Bench) -> None:
    prices = Pausable(TargetKind.INPUT, "topic://prices")
    deployment = bench.deploy(InputDestination=[{"destination": prices.what, "subscription": "all"}])
    pause(deployment, prices)
    with deployment.running() as adapter:
        adapter.poll()
        sent = deployment.send(prices.what, ORDER)
        adapter.poll()
        assert bench.calls() == []
        resume(deployment, prices)
        wait_for(lambda: adapter.drain() and bench.called() == [sent], what="the message")
