"""A reload changes the whole configuration between two events, or nothing."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from connector.messaging.destination import parse_destination
from connector.messaging.state_store import InstanceNote, ReloadNote
from connector.messaging.subscription import TopicSubscription
from connector.operate import control
from connector.operate.control import Pausable, ReloadAnswer, TargetKind, ask_to_reload, reload_answers
from connector.service import loop, timer_thread, timers
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine import world
from tests.brokers.engine.provider import LentProvider
from tests.events.conftest import ORDER, PROCESSES, Bench, EventDeployment, customer, noted, serving
from tests.service.test_timers import MINUTE, NOON, FakeClock
from tests.tables import Table
from tests.waiting import wait_for

ORDERS = Pausable(TargetKind.INPUT, "queue://orders")
INPUTS = ["queue://others", "queue://orders"]


def deploy(bench: Bench, section: Mapping[str, str] | None = None, **keys: Any) -> EventDeployment:
    return bench.deploy(provider=section, **{"InputDestination": INPUTS, "PollFrequency": 3_600_000, **keys})


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services look for requests to reload more often than once a second."""
    monkeypatch.setattr(loop, "_CONTROL", 0.05)
    monkeypatch.setattr(control, "_LOOK_SECONDS", 0.05)


def change(deployment: Deployment, how: Callable[[dict[str, Any]], object]) -> None:
    """Changes adapter.yaml, and keeps the provider, whose messages may be in memory."""
    file = deployment.directory / "adapter.yaml"
    document = yaml.safe_load(file.read_text())
    how(document)
    file.write_text(yaml.safe_dump(document, sort_keys=False))


def reload(deployment: Deployment, application: str = "test") -> ReloadAnswer:
    state = deployment.provider.state(application)
    request = ask_to_reload(state.control(), by="ann")

    def answered() -> ReloadAnswer | None:
        answers, _ = reload_answers(state.instances(), request)
        return next(iter(answers.values()), None)

    return wait_for(answered, what="an answer")


def refuse(deployment: Deployment, words: str, application: str = "test") -> None:
    """Asks for a reload, which is refused with these words in its reason."""
    answer = reload(deployment, application)
    assert (answer.result, words in answer.reason) == ("refused", True), answer


def remove_orders(document: dict[str, Any]) -> None:
    document["connector"].update(InputDestination=["queue://others"])


def await_service(deployment: Deployment, application: str = "test") -> None:
    """Waits until a running service listens to requests to reload."""
    state = deployment.provider.state(application)
    wait_for(lambda: any("reload" in one.note for one in state.instances()), what="the service")


def test_a_reload_changes_inputs_and_subscriptions(bench: Bench, section: Mapping[str, str]) -> None:
    deployment = deploy(bench, section, InputDestination=["queue://orders"])
    with deployment.running() as adapter, serving(adapter):
        first = deployment.send("queue://orders", ORDER)
        wait_for(lambda: bench.called() == [first], what="an event")
        second = deployment.send("queue://others", ORDER)

        def add(document: dict[str, Any]) -> None:
            document["connector"] |= {"InputDestination": INPUTS, "PollQuantity": 7}
            document["subscriptions"].append({"object": "*", "process": "processes:b", "name": "b"})

        change(deployment, add)
        assert reload(deployment) == ReloadAnswer(1, "reloaded", "", [])
        wait_for(lambda: bench.called("b") == [second], what="the event of the new input, at once")
        third = deployment.send("queue://orders", ORDER)
        wait_for(lambda: bench.called("b") == [second, third], what="an event of the input before")
        assert bench.called() == [first, second, third]
        assert adapter.configuration.connector.poll_quantity == 7
        assert reload(deployment) == ReloadAnswer(2, "reloaded", "", []), "nothing has changed: fine"
    assert adapter.summary.as_dict()["published"] == 3


def test_a_reload_changes_timers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.setattr(timer_thread, "SystemClock", lambda: clock)
    monkeypatch.setattr(timers, "_TICK", 0.01)
    timer = {"name": "each", "every": "1m", "to": "queue://jobs", "body": "one"}
    deployment = deploy(bench)
    record = deployment.provider.state("test").control()

    def use(*entries: dict[str, Any]) -> None:
        change(deployment, lambda document: document.update(timers=list(entries)))

    def sent() -> list[tuple[bytes, object]]:
        due = "connector_timer_due"
        found = [(one.body, one.properties[due]) for one in deployment.messages("jobs")]
        return [(body, (int(str(when)) - NOON) // MINUTE) for body, when in found]

    use(timer)
    with deployment.running() as adapter:
        adapter.drain()
        assert record.read().timers == {}, "a drain is no service"
    use()
    with deployment.running() as adapter, serving(adapter):
        await_service(deployment)
        use({**timer, "object": "Order"})
        refuse(deployment, "timers[0].body: body with object")
        use(timer)
        assert reload(deployment).result == "reloaded"
        wait_for(lambda: "each" in record.read().timers, what="the timer")
        clock.go_on(59)
        wait_for(lambda: sent() == [(b"one", 1)], what="a message")
        use({**timer, "body": "two"})
        assert reload(deployment).result == "reloaded"
        clock.go_on(60)
        wait_for(lambda: sent() == [(b"one", 1), (b"two", 2)], what="another message")
        use()
        assert reload(deployment).result == "reloaded"
        wait_for(lambda: record.read().timers == {}, what="the end of the timer")
        clock.go_on(59)
    assert len(sent()) == 2


@pytest.mark.process
def test_processes_are_loaded_anew_or_refused_by_the_workers(bench: Bench) -> None:
    deployment = deploy(bench)
    with deployment.running(isolated=True) as adapter, serving(adapter):
        first = deployment.send("queue://orders", ORDER)
        wait_for(lambda: bench.called() == [first], what="an event")
        text = PROCESSES.replace('obey("a"', 'obey("new a"')
        deployment.write("processes.py", f"{text}\nraise RuntimeError('half written')\n")
        refuse(deployment, "half written")
        deployment.write("processes.py", f"{text}\n# whole again, and longer than before\n")
        assert reload(deployment) == ReloadAnswer(2, "reloaded", "", [])
        second = deployment.send("queue://orders", ORDER)
        wait_for(lambda: bench.called("new a") == [second], what="an event")


def test_what_the_driver_has_loaded_is_named(bench: Bench) -> None:
    deployment = deploy(bench)
    with deployment.running() as adapter, serving(adapter):  # the processes run in this process
        await_service(deployment)
        file = deployment.directory / "processes.py"
        os.utime(file, (time.time() + 5, time.time() + 5))
        assert reload(deployment) == ReloadAnswer(1, "reloaded", "", ["processes.py"])


def test_a_refused_configuration_changes_nothing(bench: Bench) -> None:
    restart = "a restart is needed, because this has changed: "
    sections = {"spark": {"master": "local[3]"}, "logging": {"format": "json"}}
    refused: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"ApplicationName": "other"}, {}, "connector.ApplicationName"),
        ({"order": "none"}, {}, f"{restart}connector.order"),
        ({"InProgressDestination": "queue://busy"}, {}, "connector.InProgressDestination"),
        ({"InputDestination": None}, {}, "connector.InputDestination"),
        ({"PollFrequency": "often"}, {}, "connector.PollFrequency"),
        ({}, sections, f"{restart}spark, logging.format"),
    ]
    deployment = deploy(bench)
    file = deployment.directory / "adapter.yaml"
    text = file.read_text()
    with deployment.running() as adapter, serving(adapter), Table() as table:
        await_service(deployment)
        before = adapter.configuration
        for keys, sections, reason in refused:

            def update(document: dict[str, Any]) -> None:
                document["connector"].update(keys)  # noqa: B023
                document.update(sections)  # noqa: B023

            with table.row(keys, sections):
                file.write_text(text)
                change(deployment, update)
                refuse(deployment, reason)
                assert adapter.configuration is before
        file.write_text(text)
        sent = deployment.send("queue://orders", ORDER)
        wait_for(lambda: bench.called() == [sent], what="an event")


def test_an_input_that_cannot_be_used_is_refused(bench: Bench) -> None:
    """The old connection is closed by then. The adapter connects with the configuration before."""
    deployment = deploy(bench)
    consumer = deployment.provider.connect("test", "two", client_id="test")
    shared = TopicSubscription(
        parse_destination("topic://prices"), "all", "test", durable=True, shared=True, selector="a = 1"
    )
    consumer.poller(shared)
    topic = {"destination": "topic://prices", "subscription": "all", "selector": "b = 2"}
    with deployment.running() as adapter, serving(adapter):
        await_service(deployment)
        change(deployment, lambda document: document["connector"]["InputDestination"].append(topic))
        refuse(deployment, "all")
        sent = deployment.send("queue://orders", ORDER)
        wait_for(lambda: bench.called() == [sent], what="an event")
        change(deployment, lambda document: document["connector"]["InputDestination"].pop())
        assert reload(deployment) == ReloadAnswer(2, "reloaded", "", [])
    consumer.close()


def test_a_table_that_does_not_fit_any_more_is_refused(bench: Bench) -> None:
    table = {"object": "Order", "table": "shop.orders", "columns": {"id": "Id"}, "operation": "insert"}
    more = {"databases": {"shop": {"url": "sqlite:///./shop.db"}}}
    deployment = deploy(bench, more=more, subscriptions=[table])
    with closing(sqlite3.connect(deployment.directory / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id TEXT)")
        with deployment.running() as adapter, serving(adapter):
            await_service(deployment)
            shop.execute("ALTER TABLE orders RENAME id TO number")
            refuse(deployment, "the table orders has no column 'id' for Order.Id; it has number")
            deployment.send("queue://orders", ORDER)
            wait_for(lambda: deployment.names("error"), what="the copy of an event that the table refused")
            shop.execute("ALTER TABLE orders RENAME number TO id")
            deployment.send("queue://orders", ORDER)
            wait_for(lambda: shop.execute("SELECT * FROM orders").fetchall(), what="a row")
            assert reload(deployment) == ReloadAnswer(2, "reloaded", "", [])


def test_nothing_is_claimed_and_nothing_is_cut_while_a_reload_waits(bench: Bench) -> None:
    deployment = deploy(bench, PollFrequency=100)
    with deployment.running(parallelism=2) as adapter, noted(adapter) as polls:
        first = deployment.send("queue://orders", customer("a: wait-for go"))
        wait_for(lambda: bench.called() == [first], what="an event at work")
        state = deployment.provider.state("test")
        request = ask_to_reload(state.control(), by="ann")
        wait_for(lambda: adapter._connection.inbound is not None and adapter._connection.inbound.pausing)
        second = deployment.send("queue://others", ORDER)
        number = len(polls)
        wait_for(lambda: len(polls) >= number + 2, what="a poll that could have taken it")
        found = bench.called(), deployment.names("others", "processing")
        waiting = reload_answers(state.instances(), request)[1]
        (deployment.directory / "go").touch()
        assert (found, waiting) == (([first], []), ["one"])
        wait_for(lambda: not reload_answers(state.instances(), request)[1], what="the answer")
        wait_for(lambda: bench.called() == [first, second], what="the event")


def test_only_a_running_service_answers() -> None:
    known = {"reload": {"number": 2, "result": "reloaded"}}
    notes = [("service", True, known), ("drain", True, {}), ("ended", False, known)]
    answers, waiting = reload_answers([InstanceNote(*one) for one in notes], ReloadNote(2, "ann", 0.0))
    assert (list(answers), waiting) == (["service"], [])


@pytest.mark.parametrize("paused", [False, True])
def test_an_input_with_later_messages_must_stay(
    bench: Bench, section: Mapping[str, str], *, paused: bool
) -> None:
    later = {"first": "100ms", "most": "100ms"}
    subscription = {"object": "*", "process": "processes:a", "name": "a", "retry_later": later}
    deployment = deploy(bench, section, subscriptions=[subscription])
    away = deployment.write("away", "")
    with deployment.running() as adapter, serving(adapter):
        sent = deployment.send("queue://orders", customer("a: temporary-with away"))
        wait_for(lambda: adapter.summary.as_dict()["later"] >= 1, what="the first try")
        record = deployment.provider.state("test").control()
        control.pause(record, [ORDERS] if paused else [], by="ann")
        change(deployment, remove_orders)
        refuse(deployment, "queue://orders must stay an input")
        away.unlink()
        control.resume(record, [ORDERS])
        wait_for(lambda: adapter.summary.as_dict()["published"] == 1, what="the last try")
        assert reload(deployment).result == "reloaded"
        left = deployment.send("queue://orders", ORDER)
        taken = deployment.send("queue://others", ORDER)
        wait_for(lambda: taken in bench.called(), what="an event")
        assert left not in bench.called()
    assert bench.called().count(sent) >= 2


def test_an_input_must_stay_whose_later_message_no_other_input_takes(
    bench: Bench, section: Mapping[str, str]
) -> None:
    later = {"first": "100ms", "most": "100ms"}
    subscription = {"object": "*", "process": "processes:a", "name": "a", "retry_later": later}
    both = [{"destination": "queue://orders", "selector": f"region = '{name}'"} for name in ("EU", "US")]
    deployment = deploy(bench, section, subscriptions=[subscription], InputDestination=both)
    away = deployment.write("away", "")

    def poll(*inputs: str | dict[str, str]) -> None:
        change(deployment, lambda document: document["connector"].update(InputDestination=[*inputs]))

    with deployment.running() as adapter, serving(adapter):
        body = customer("a: temporary-with away")
        sent = deployment.send("queue://orders", body, properties={"region": "EU"})
        wait_for(lambda: adapter.summary.as_dict()["later"] >= 1, what="the first try")
        for others in (
            [both[1]],
            [both[1], "queue://others"],
            [both[1], {**both[0], "selector": "size > 1"}],
        ):
            poll(*others)
            refuse(deployment, "queue://orders (selector \"region = 'EU'\") must stay an input")
        poll(both[0])
        assert reload(deployment).result == "reloaded", "the other input has no such message"
        poll(both[1], {**both[0], "selector": "region LIKE 'E%'"})
        assert reload(deployment).result == "reloaded", "another selector takes it, too"
        poll("queue://orders")
        assert reload(deployment).result == "reloaded", "an input without a selector takes all"
        away.unlink()
        wait_for(lambda: adapter.summary.as_dict()["published"] == 1, what="the last try")
    assert set(bench.called()) == {sent}


def test_an_input_with_messages_in_progress_must_stay(bench: Bench) -> None:
    deployment = deploy(bench, InProgressDestination="queue://busy", InDoubtEvents="LogError")
    with deployment.running() as adapter, serving(adapter):
        deployment.send("queue://orders", customer("a: inactive-once asleep"))
        wait_for(lambda: bench.called(), what="an event whose process is not active")
        change(deployment, remove_orders)
        refuse(deployment, "queue://orders must stay an input")


def test_all_services_are_asked(bench: Bench) -> None:
    deployment = deploy(bench, instance=None)
    with deployment.running() as first, deployment.running() as second, serving(first), serving(second):
        state = deployment.provider.state("test")
        wait_for(lambda: sum("reload" in one.note for one in state.instances()) == 2, what="both services")
        request = ask_to_reload(state.control(), by="ann")
        wait_for(lambda: len(reload_answers(state.instances(), request)[0]) == 2, what="both answers")
        answers, waiting = reload_answers(state.instances(), request)
        assert waiting == []
        assert {one.result for one in answers.values()} == {"reloaded"}


def test_a_reload_at_a_broker(tmp_path: Path) -> None:
    provider = LentProvider(tmp_path / "state")
    later = {"first": "1500ms", "most": "1500ms"}
    deployment = world.deploy(tmp_path, order="none", store={"retry_later": later}, PollFrequency=100)
    deployment._provider = provider
    deployment.write("away", "")
    made = InProcessAdapter(deployment.configuration, provider, parallelism=2)
    with made as adapter, serving(adapter):
        world.send(provider, "away")
        wait_for(lambda: len(world.ids(provider, "connector.lent.later")) == 1, what="later")

        def remove(document: dict[str, Any]) -> None:
            document["connector"].update(InputDestination=["queue://urgent"], PollQuantity=3)

        change(deployment, remove)
        refuse(deployment, "queue://customers must stay", "lent")
        (deployment.directory / "away").unlink()
        wait_for(lambda: world.stored(deployment) == ["0 1"], what="the event")
        assert reload(deployment, "lent").result == "reloaded"
        world.send(provider, "")
        world.send(provider, "", queue="urgent")
        wait_for(lambda: len(world.stored(deployment)) == 2, what="the event of the input that stays")
        assert len(world.ids(provider, "customers")) == 1
