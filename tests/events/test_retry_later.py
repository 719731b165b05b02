"""``retry_later``: an event whose delivery failed for a while comes again, and holds up nothing else."""

from __future__ import annotations

import itertools
import logging
import pickle
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest

from connector.config.loading import load
from connector.errors import ConfigurationError, Failed, ObjectRefused, TemporaryFailure
from connector.events.settle.settling import untouched_settlement
from connector.events.summary import Summary
from connector.messaging.destination import Destination
from connector.messaging.settlement import Settlement
from connector.operate.control import resting_in, resume
from connector.service.assembly import make_targets
from connector.sinks.retry_later import RetryLater, join_retries, split_retries
from connector.sinks.subscription_model import ExternalEntry
from connector.testing.deployment import InProcessAdapter
from tests.events.conftest import Bench, EventDeployment, customer, serving
from tests.tables import Table, rows
from tests.waiting import now_ms, wait_for

SOON = {"first": "50ms", "most": "100ms"}
A = {"object": "*", "process": "processes:a", "name": "a"}
B = {"object": "*", "process": "processes:b", "name": "b"}


def deploy(
    bench: Bench, rules: Mapping[str, Any], *others: Mapping[str, Any], **connector: Any
) -> EventDeployment:
    """A deployment whose first subscription has these rules, and ``entry`` besides."""
    first = {**A, "retry_later": dict(rules), **connector.pop("entry", {})}
    provider = connector.pop("provider", None)
    settings = {"InputDestination": "queue://customers", "order": "none", **connector}
    return bench.deploy(subscriptions=[first, *others], provider=provider, **settings)


def send(
    deployment: EventDeployment, *names: str, to: str = "queue://customers", groups: str = ""
) -> list[str]:
    """Sends customers whose processes do what their names say. Returns the ids."""
    sent = []
    for name, group in itertools.zip_longest(names, groups):
        headers = {"properties": {"JMSXGroupID": group}} if group else {}
        sent.append(deployment.send(to, customer(name), **headers))
    return sent


def drain(deployment: EventDeployment) -> Summary:
    """Drains again and again, until no message is delayed."""
    with deployment.running() as adapter:
        return drain_with(adapter, deployment)


def drain_with(adapter: InProcessAdapter, deployment: EventDeployment) -> Summary:
    """Drains with a running adapter until no message is delayed."""

    def is_done() -> bool:
        adapter.drain()
        with closing(deployment.provider.existing()) as connection:
            found = [one for one in connection.destinations() if "customers" in one.destination.name]
        return not any(one.delayed or one.waiting for one in found)

    wait_for(is_done, what="the events that wait")
    return adapter.summary


def tries(bench: Bench, identity: str, who: str = "a") -> list[int]:
    return [call["retries"] for call in bench.calls() if (call["id"], call["who"]) == (identity, who)]


def times(bench: Bench) -> list[float]:
    return [call["time"] for call in bench.calls()]


def test_an_event_that_failed_for_a_while_is_published_later_and_others_fail_at_once(bench: Bench) -> None:
    deployment = deploy(bench, SOON)
    expected = {
        "a: temporary-until 3": [0, 1, 2, 3],
        "a: refused-until 3": [0, 1, 2, 3],
        "a: busy 1": [0, 1],
        "a: failed": [0],
        "a: fail": [0],
    }
    ids = dict(zip(expected, send(deployment, *expected), strict=True))
    counts = drain(deployment).as_dict()
    assert {what: tries(bench, identity) for what, identity in ids.items()} == expected
    assert {call["count"] for call in bench.calls()} == {1}, "its deliveries came to an end"
    moments = {what: [call["time"] for call in bench.calls() if call["id"] == ids[what]] for what in ids}
    assert moments["a: busy 1"][1] - moments["a: busy 1"][0] >= 1, "a failure may ask for a longer wait"
    assert moments["a: refused-until 3"][3] - moments["a: refused-until 3"][0] >= 0.05 + 0.1 + 0.1
    *later, failed, wrong = ids.values()
    assert sorted(deployment.ids("archive")) == sorted(later)
    assert not any("connector_retries" in deployment.properties("archive", one) for one in later)
    assert sorted(deployment.ids("error")) == sorted([failed, wrong])
    assert (counts["claimed"], counts["published"], counts["later"], counts["failed"]) == (12, 3, 7, 2)


def test_between_the_times_of_a_cron_only_what_comes_again_is_taken(
    bench: Bench, section: Mapping[str, str]
) -> None:
    deployment = deploy(bench, SOON, provider=section, PollFrequency="cron 0 0 29 2 *")
    with deployment.running() as adapter:
        (again,) = send(deployment, "a: temporary-until 2")
        adapter.poll()
        (new,) = send(deployment, "a: new")
        with serving(adapter):
            wait_for(lambda: deployment.ids("archive") == [again])
    assert tries(bench, again) == [0, 1, 2]
    assert deployment.ids("customers") == [new]


@rows("after, kept", [(2, 2), (-1, 0), (float("nan"), 0), (float("inf"), 31_536_000)])
def test_the_wait_that_a_failure_asks_for_has_limits(after: float, kept: float) -> None:
    failure = TemporaryFailure("away", after=after)
    assert (pickle.loads(pickle.dumps(failure)).after, str(failure)) == (kept, "away")


def test_the_waits_grow_up_to_the_longest() -> None:
    rules = RetryLater(first=0.2, factor=2.0, most=0.5)
    assert [rules.seconds(retries) for retries in (0, 1, 2, 100_000)] == [0.2, 0.4, 0.5, 0.5]


def test_an_event_that_has_used_its_tries_has_failed(bench: Bench) -> None:
    deployment = deploy(bench, {**SOON, "attempts": 2, "on": "any"})
    ids = send(deployment, "a: temporary away", "a: fail", "a: failed")
    summary = drain(deployment)
    assert [tries(bench, identity) for identity in ids] == [[0, 1, 2], [0, 1, 2], [0]]
    properties = deployment.properties("error", ids[0])
    assert properties["connector_reason"].startswith("a: TemporaryFailure: away (came again 2 times)")
    assert "connector_retries" not in properties
    assert (summary.as_dict()["later"], len(deployment.ids("error"))) == (4, 3)


@rows(
    "name, of_a, of_b, kind",
    [
        ("a: temporary-until 2", [0, 1, 2], [0], "archive"),  # who has confirmed is not called again
        ("a: temporary-until 2; b: temporary", [0], [0], "error"),  # who has failed for good fails the event
    ],
)
def test_each_subscription_has_its_tries(
    bench: Bench, name: str, of_a: list[int], of_b: list[int], kind: str
) -> None:
    deployment = deploy(bench, SOON, B)
    (identity,) = send(deployment, name)
    drain(deployment)
    assert (tries(bench, identity), tries(bench, identity, "b")) == (of_a, of_b)
    reason = deployment.properties(kind, identity).get("connector_reason", "")
    assert ("b: TemporaryFailure" in reason) is (kind == "error")


AWAY = "a: temporary-with away"


def deploy_resting(bench: Bench, first: str) -> EventDeployment:
    """A deployment whose process fails while there is a file, and rests after 5 failures."""
    deployment = deploy(bench, {"first": first, "most": first, "attempts": 1000}, entry={"rest_after": 5})
    deployment.write("away", "")
    return deployment


def test_a_subscription_that_fails_in_a_row_rests_and_others_keep_their_count(bench: Bench) -> None:
    deployment = deploy_resting(bench, "1h")
    send(deployment, *[AWAY] * 30)
    with deployment.running() as adapter:
        adapter.drain()
        (row,) = adapter.resting
    assert (row["subscription"], row["reason"]) == ("a", "TemporaryFailure: away")
    assert (len(bench.calls()), adapter.summary.as_dict()["later"]) == (5, 30)
    with closing(deployment.provider.existing()) as connection:
        delayed = list(connection.browse(Destination("queue", "customers"), delayed=True))
    retries = [str(one.properties["connector_retries"]) for one in delayed]
    assert Counter(retries) == {"a=1": 5, "a=0": 25}
    assert not any("connector_reason" in one.properties for one in delayed)


def test_a_subscription_that_rests_is_tried_by_one_event_at_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deploy_resting(bench, "100ms")
    sent = send(deployment, *[AWAY] * 30)
    with caplog.at_level(logging.INFO), deployment.running() as adapter:
        wait_for(lambda: adapter.drain() and len(bench.calls()) >= 9)
        tried = times(bench)[4:]
        assert all(later - before > 0.09 for before, later in itertools.pairwise(tried)), "one a rest"
        (deployment.directory / "away").unlink()
        counts = drain_with(adapter, deployment).as_dict()
        assert adapter.resting == []
    assert (counts["published"], counts["failed"]) == (30, 0)
    assert (sorted(deployment.ids("archive")), deployment.messages("error")) == (sorted(sent), [])
    found = [message for message in caplog.messages if "rests" in message]
    assert found == ["a subscription rests", "a subscription rests no more"]


def test_a_subscription_rests_by_time_and_an_operator_ends_the_rest(bench: Bench) -> None:
    later = {"first": "1h", "most": "1h"}
    deployment = deploy(bench, later, entry={"rest_after": {"failures": 1000, "seconds": 1}})
    deployment.write("away", "")
    send(deployment, AWAY)
    with deployment.running() as adapter, serving(adapter):
        wait_for(lambda: adapter.failing, what="the failure is seen")
        assert (adapter.failing[0]["subscription"], adapter.failing[0]["failures"]) == ("a", 1)
        wait_for(lambda: adapter.resting, what="the subscription rests")
        assert adapter.failing == []
        state = deployment.provider.state("test")
        wait_for(lambda: resting_in(state.instances()) == {"a"}, what="the rest is noted")
        targets = make_targets(deployment.configuration).find(["a"])
        assert resume(state.control(), targets).unchanged == ["a"]  # is not paused
        assert resume(state.control(), targets, resting_in(state.instances())).changed == ["a"]
        wait_for(lambda: not adapter.resting, what="the rest has ended")


def test_another_end_of_a_call_ends_the_row(bench: Bench) -> None:
    deployment = deploy_resting(bench, "1h")
    send(deployment, AWAY, AWAY, AWAY, "a: fail", *[AWAY] * 4, "", *[AWAY] * 4)
    with deployment.running() as adapter:
        adapter.drain()
        assert (len(bench.calls()), adapter.resting) == (13, [])


@pytest.mark.process
@rows("most, calls", [(3, [(0, 1), (1, 2)]), (1, [(0, 1)])])
def test_a_call_that_its_timeout_ends_is_a_try(bench: Bench, most: int, calls: list[tuple[int, int]]) -> None:
    deployment = deploy(bench, SOON, entry={"timeout": "1s"}, max_attempts=most)
    hangs, _ = send(deployment, "a: hang-until 1", "")
    with deployment.running(isolated=True) as adapter:
        counts = drain_with(adapter, deployment).as_dict()
    found = [(call["retries"], call["count"]) for call in bench.calls() if call["id"] == hangs]
    assert found == calls
    assert (counts["later"], counts["failed"]) == ((1, 0) if most == 3 else (0, 1))
    if most == 1:
        reason = deployment.properties("error", hangs)["connector_reason"]
        assert "did not return from a in time" in reason


@rows("copied", ["while it waits", "before a restart", "after it was published"])
def test_a_copy_of_a_message_that_waits_is_a_duplicate_of_it(bench: Bench, copied: str) -> None:
    deployment = deploy(bench, {"first": "1s"}, B, DuplicateEventElimination=True)
    deployment.drop_customers(o1="a: temporary-until 1")
    with deployment.running() as adapter:
        adapter.drain()
        if copied == "after it was published":
            drain_with(adapter, deployment)
        deployment.drop_customers(o1="a: temporary-until 1")
        if copied == "while it waits":
            adapter.drain()
            assert tries(bench, "ID:o1", "b") == [0], "the copy waits, too"
        if copied != "before a restart":
            counts = drain_with(adapter, deployment).as_dict()
    if copied == "before a restart":
        counts = drain(deployment).as_dict()
    assert (tries(bench, "ID:o1"), tries(bench, "ID:o1", "b")) == ([0, 1], [0])
    assert (counts["published"], counts["duplicates"], counts["failed"]) == (1, 1, 0)


def test_what_is_behind_a_copy_of_a_message_that_waits_waits_too(bench: Bench) -> None:
    """The copy is in another group, whose order it keeps, too."""
    deployment = deploy(bench, {"first": "200ms"}, order="group", DuplicateEventElimination=True)
    names = {"o1": "a: temporary-until 1", "o2": ""}
    with deployment.running() as adapter:
        for identity, group in (("o1", "g"), ("o1", "h"), ("o2", "h")):
            name = f"4.{identity}.T.....JMSXGroupIDS={group}"
            deployment.drop("customers", customer(names[identity]), name)
            adapter.drain()
        assert bench.called() == ["ID:o1"]
        drain_with(adapter, deployment)
    assert bench.called() == ["ID:o1", "ID:o1", "ID:o2"]


@rows("order", ["destination", "group"])
@rows("source", ["queue://customers", {"destination": "topic://customers", "subscription": "all"}])
@rows("first", ["1s", "1h"])
def test_the_order_holds_at_a_restart(
    bench: Bench, order: str, source: str | dict[str, str], first: str
) -> None:
    deployment = deploy(bench, {"first": first, "most": first}, order=order, InputDestination=[source])
    destination = source if isinstance(source, str) else source["destination"]
    with deployment.running() as adapter:
        asleep, behind = send(deployment, "a: temporary-until 1", "", to=destination, groups="xx")
        adapter.drain()
    with deployment.running() as adapter:
        adapter.drain()
        if first == "1s":
            wait_for(lambda: adapter.drain() and len(bench.calls()) >= 3, what="the events that wait")
    assert bench.called() == ([asleep, asleep, behind] if first == "1s" else [asleep])


@rows("name", ["a: temporary-until 1", "a: busy 1", "b: temporary-until 1"])
def test_rows_of_what_is_published_go_although_another_event_comes_again(bench: Bench, name: str) -> None:
    of_database = {**B, "transaction": "shop", "retry_later": {"first": "1s"}}
    url = f"sqlite:///{bench.directory}/shop.db"
    deployment = deploy(bench, {"first": "1s"}, of_database, more={"databases": {"shop": {"url": url}}})
    send(deployment, "", "", name, "")

    def has_rows(*, but: str) -> bool:
        with closing(sqlite3.connect(f"{bench.directory}/shop.db")) as shop:
            (found,) = shop.execute("SELECT count(*) FROM connector_outcome WHERE message_id <> ?", [but])
        return bool(found[0])

    with deployment.running() as adapter:
        adapter.drain()
        assert len(deployment.messages("archive")) == 3
        waiting = next(call["id"] for call in bench.calls() if call["values"]["Name"])
        wait_for(lambda: not has_rows(but=waiting), what="the rows to be removed")
        drain_with(adapter, deployment)
    assert len(deployment.messages("archive")) == 4
    assert sum(call["who"] == "b" for call in bench.calls()) == (5 if name.startswith("b") else 4)


@rows("order, calls", [("destination", [0, 1, 1, 1, 2, 3]), ("none", [0, 1, 2, 3, 1, 1])])
def test_events_of_a_destination_stay_in_their_order(bench: Bench, order: str, calls: list[int]) -> None:
    deployment = deploy(bench, {"first": "500ms"}, order=order)
    sent = send(deployment, "", "a: temporary-until 2", "", "")
    drain(deployment)
    assert [sent.index(identity) for identity in bench.called()] == calls


def test_events_of_a_group_stay_in_order_and_others_go_on(bench: Bench) -> None:
    deployment = deploy(bench, {"first": "300ms"}, order="group")
    sent = send(deployment, "a: temporary-until 2", "", "", "", "", groups="xxyxy")
    drain(deployment)
    called = [sent.index(identity) for identity in bench.called()]
    assert [one for one in called if one in (0, 1, 3)] == [0, 0, 0, 1, 3]
    assert [one for one in called if one in (2, 4)] == [2, 4]
    assert called.index(4) < called.index(1)


@rows("order", ["destination", "group"])
@rows("restarts", [False, True])
def test_what_was_put_aside_comes_before_what_came_after_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, order: str, *, restarts: bool
) -> None:
    monkeypatch.setattr("connector.events.claim.event_waits._AGAIN_MS", 1000)
    deployment = deploy(bench, {"first": "50ms"}, order=order, PollQuantity=1)
    sent = send(deployment, "a: temporary-until 1", "", "", groups="xxx")

    with deployment.running() as adapter:

        def is_done() -> bool:
            adapter.drain()
            return len(bench.called()) > 1

        wait_for(is_done, what="the second try")
        sent += send(deployment, "", groups="x")
        if not restarts:
            drain_with(adapter, deployment)
    if restarts:
        drain(deployment)
    assert [sent.index(identity) for identity in bench.called()] == [0, 0, 1, 2, 3]


def test_what_is_older_than_what_was_put_aside_comes_first_after_a_restart(
    bench: Bench, section: Mapping[str, str]
) -> None:
    for order in ("destination", "group"):
        deployment = deploy(bench, SOON, order=order, provider=section)
        before = len(bench.calls())
        sent = send(deployment, "", "", "", groups="xxx")
        put_aside(deployment, sent[1], "test")
        drain(deployment)
        assert [sent.index(identity) for identity in bench.called()[before:]] == [0, 1, 2], order


def test_what_another_application_has_put_aside_holds_nothing(bench: Bench) -> None:
    deployment = deploy(bench, SOON, order="destination")
    sent = send(deployment, "", "", "")
    put_aside(deployment, sent[1], "other")
    drain(deployment)
    assert [sent.index(identity) for identity in bench.called()] == [0, 2, 1]


def test_a_history_that_does_not_count_does_not_count_after_a_wait(
    bench: Bench, section: Mapping[str, str]
) -> None:
    deployment = deploy(bench, {"first": "200ms"}, order="group", provider=section)
    said = {"connector_outcome": "failed", "connector_delivered": "a"}
    counts = {**said, "connector_attempts": 3, "connector_retries": "a=1000"}
    histories: list[tuple[dict[str, Any], int]] = [
        (counts, 1),
        ({**counts, "connector_application": "other"}, 1),
        ({**counts, "connector_application": "other", "connector_outcome": "later"}, 1),
        ({**said, "connector_application": "test", "connector_outcome": "published"}, 1),
        ({"connector_application": "test", "connector_attempts": 3, "connector_outcome": "failed"}, 4),
    ]

    def send_copy(name: str, history: Mapping[str, Any], group: str) -> str:
        properties = {**history, "JMSXGroupID": group}
        return deployment.send("queue://customers", customer(name), properties=properties)

    sent = []
    for number, (history, _) in enumerate(histories):
        waits = send_copy("a: temporary-until 1", history, f"{number}")
        send_copy("a: temporary-until 1", {}, f"behind {number}")
        sent.append((waits, send_copy("", history, f"behind {number}")))
    drain(deployment)
    with Table() as table:
        for (waits, behind), (history, attempts) in zip(sent, histories, strict=True):
            with table.row(history):
                assert (tries(bench, waits), tries(bench, behind)) == ([0, 1], [0])
                for identity in (waits, behind):
                    assert deployment.properties("archive", identity)["connector_attempts"] == attempts


def put_aside(deployment: EventDeployment, identity: str, application: str) -> None:
    """Puts an event aside for a moment, as an adapter does with what is behind another event."""
    with closing(deployment.provider.connect()) as connection:
        poller = connection.poller(Destination("queue", "customers"))
        claims = poller.claim(1, range(3))
        history = {"connector_outcome": "later", "connector_application": application}
        connection.settle(
            [
                Settlement(claim, give_back=True, due=now_ms() + 300, properties=history)
                if claim.message_id == identity
                else untouched_settlement(claim)
                for claim in claims
            ]
        )


def test_mistakes_are_named(bench: Bench) -> None:
    managed = {"ContainerManagedEvents": "JMS"}
    mistakes: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"retry_later": SOON}, managed, "retry_later under ContainerManagedEvents"),
        ({"rest_after": 3}, {}, "rest_after without retry_later"),
        ({"retry_later": {"attempts": 0}}, {}, "from 1 up"),
        ({"retry_later": {"factor": "0.5"}}, {}, "a number from 1 up"),
        ({"retry_later": {"factor": "x"}}, {}, "a number from 1 up"),
        ({"retry_later": {"on": "no name"}}, {}, "the name of an exception"),
        ({"retry_later": {"first": "soon"}}, {}, "a duration"),
        ({"retry_later": {"tries": 3}}, {}, "attempts"),
    ]
    with Table() as table:
        for entry, connector, problem in mistakes:
            with table.row(entry, connector):
                deployment = bench.deploy(subscriptions=[{**A, **entry}], **connector)
                with pytest.raises(ConfigurationError, match=problem):
                    load(deployment.directory / "adapter.yaml")


class Invalidated(Exception):
    connection_invalidated = True


def refusal(cause: Exception) -> ObjectRefused:
    error = ObjectRefused("the database refuses the commit")
    error.__cause__ = cause
    return error


@rows(
    "on, error, named",
    [
        (("temporary",), TemporaryFailure(), True),
        (("temporary",), TimeoutError(), True),
        (("temporary",), ConnectionRefusedError(), True),
        (("temporary",), OSError(113, "no route to host"), True),
        (("temporary",), OSError(2, "no such file"), False),
        (("temporary",), Invalidated(), True),
        (("temporary",), Failed(), False),
        (("any",), ValueError(), True),
        (("any",), Failed(), False),
        (("KeyError", "any"), ValueError(), True),
        (("ConnectionError",), ConnectionResetError(), True),
        (("OSError",), ConnectionResetError(), True),
        (("ValueError",), KeyError(), False),
        (("connector.errors.TemporaryFailure",), TemporaryFailure(), True),
        (("temporary", "KeyError"), KeyError(), True),
        (("KeyError",), refusal(KeyError()), True),
        (("ValueError",), refusal(KeyError()), False),
    ],
)
def test_what_it_names(on: Sequence[str], error: BaseException, *, named: bool) -> None:
    assert RetryLater(on=tuple(on)).names(error) is named


def test_tries_survive_any_name() -> None:
    tried = {"a": 1, "b#3": 2, "x=;%y": 7}
    assert split_retries(join_retries(tried)) == tried
    assert split_retries("of another program;x;=;y=-1;z=99999999999") == {}


@rows("written, read", [("[KeyError, a.B]", ("KeyError", "a.B")), ("any", ("any",))])
def test_the_key_on_needs_no_quotation_marks(bench: Bench, written: str, read: tuple[str, ...]) -> None:
    """YAML 1.1 reads ``on`` as a boolean."""
    deployment = deploy(bench, SOON)
    text = (deployment.directory / "adapter.yaml").read_text()
    deployment.write("adapter.yaml", text.replace("    first: 50ms", f"    on: {written}\n    first: 50ms"))
    (entry,) = load(deployment.directory / "adapter.yaml").subscriptions
    assert isinstance(entry, ExternalEntry)
    assert entry.retry_later is not None
    assert entry.retry_later.on == read
