"""``retry_later``: an event whose delivery failed for a while comes again, and holds up nothing else."""

from __future__ import annotations

import itertools
import logging
import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest

from connector.config.loading import load
from connector.errors import ConfigurationError, Failed, TemporaryFailure
from connector.events.summary import Summary
from connector.messaging.destination import Destination
from connector.sinks.retry_later import RetryLater, join_retries, split_retries
from connector.sinks.subscription_model import ExternalEntry
from connector.testing.deployment import InProcessAdapter
from tests.events.conftest import Bench, EventDeployment
from tests.tables import Table, rows
from tests.waiting import wait_for

PROCESSES = """\
import json, os, pathlib, threading, time
import connector

HERE = pathlib.Path(__file__).parent


class Away(ConnectionError):
    pass


def call(who, bo, event):
    with (HERE / "calls").open("a") as calls:
        line = {"who": who, "id": event.id, "retries": event.retries, "count": event.delivery_count}
        calls.write(json.dumps({**line, "time": time.time(), "order": bo["Id"]}) + "\\n")


def a(bo, event):
    call("a", bo, event)
    what, _, number = (bo["What"] or "").partition(" ")
    if what == "failed":
        raise connector.Failed("for good")
    if what == "wrong":
        raise ValueError("wrong")
    if what == "temporary" and event.retries < int(number):
        raise connector.TemporaryFailure("away")
    if what == "hang" and event.retries < int(number):
        threading.Event().wait()
    if what == "flag" and (HERE / "away").exists():
        raise connector.TemporaryFailure("away")
    if what == "busy" and event.retries < 1:
        raise connector.TemporaryFailure("busy", after=int(number))
    if what == "connection" and event.retries < int(number):
        raise Away("refused")


def b(bo, event):
    call("b", bo, event)
"""
OBJECTS = """\
business_object: Order
verbs: {Create: }
attributes:
  Id: {type: String, key: true}
  What: String
---
static_metaobject: MO_Config
Default: {}
"""
SOON = {"first": "50ms", "most": "100ms"}


def deploy(
    bench: Bench,
    rules: Mapping[str, Any],
    *others: Mapping[str, Any],
    timeout: str | None = None,
    **connector: Any,
) -> EventDeployment:
    first = {"object": "*", "process": "processes:a", "name": "a", "retry_later": dict(rules)}
    first |= {"timeout": timeout} if timeout else {}
    return bench.deploy(
        subscriptions=[first, *others],
        objects=OBJECTS,
        processes=PROCESSES,
        **{"InputDestination": "queue://orders", "order": "none", **connector},
    )


def order(number: int, what: str = "") -> str:
    return f'{{"BusinessObject": "Order", "Id": "{number}", "What": "{what}"}}'


def drain(deployment: EventDeployment) -> Summary:
    """Drains again and again, until no message is delayed."""
    with deployment.running() as adapter:
        return drain_with(adapter, deployment)


def drain_with(adapter: InProcessAdapter, deployment: EventDeployment) -> Summary:
    """Drains with a running adapter until no message is delayed."""

    def is_done() -> bool:
        adapter.drain()
        with closing(deployment.provider.existing()) as connection:
            found = [one for one in connection.destinations() if "orders" in one.destination.name]
        return not any(one.delayed or one.waiting for one in found)

    wait_for(is_done, what="the events that wait")
    return adapter.summary


def tries(bench: Bench, identity: str, who: str = "a") -> list[int]:
    return [call["retries"] for call in bench.calls() if (call["id"], call["who"]) == (identity, who)]


def test_an_event_that_failed_for_a_while_is_published_later_and_others_fail_at_once(bench: Bench) -> None:
    deployment = deploy(bench, SOON)
    expected = {
        "temporary 3": [0, 1, 2, 3],
        "connection 3": [0, 1, 2, 3],
        "busy 1": [0, 1],
        "failed": [0],
        "wrong": [0],
    }
    ids = {what: deployment.send("orders", order(n, what)) for n, what in enumerate(expected)}
    counts = drain(deployment).as_dict()
    assert {what: tries(bench, identity) for what, identity in ids.items()} == expected
    assert {call["count"] for call in bench.calls()} == {1}, "its deliveries came to an end"
    first, second = (call["time"] for call in bench.calls() if call["id"] == ids["busy 1"])
    assert second - first >= 1, "a failure may ask for a longer wait"
    later = [ids[what] for what in ("temporary 3", "connection 3", "busy 1")]
    assert sorted(deployment.ids("archive")) == sorted(later)
    assert not any("connector_retries" in deployment.properties("archive", one) for one in later)
    assert sorted(deployment.ids("error")) == sorted([ids["failed"], ids["wrong"]])
    assert (counts["claimed"], counts["published"], counts["later"], counts["failed"]) == (12, 3, 7, 2)


@rows("after, kept", [(2, 2), (-1, 0), (float("nan"), 0), (float("inf"), 31_536_000)])
def test_the_wait_that_a_failure_asks_for_has_limits(after: float, kept: float) -> None:
    failure = TemporaryFailure("away", after=after)
    assert pickle.loads(pickle.dumps(failure)).after == kept
    assert str(failure) == "away"


def test_the_waits_grow_up_to_the_longest(bench: Bench) -> None:
    deployment = deploy(bench, {"first": "200ms", "factor": 2, "most": "500ms"})
    deployment.send("queue://orders", order(1, "temporary 3"))
    drain(deployment)
    times = [call["time"] for call in bench.calls()]
    waits = [later - before for before, later in itertools.pairwise(times)]
    assert [wait >= least for wait, least in zip(waits, (0.2, 0.4, 0.5), strict=True)] == [True] * 3


def test_an_event_that_has_used_its_tries_has_failed(bench: Bench) -> None:
    deployment = deploy(bench, {**SOON, "attempts": 2, "on": "any"})
    ids = [deployment.send("orders", order(1, what)) for what in ("temporary 9", "wrong", "failed")]
    summary = drain(deployment)
    assert [tries(bench, identity) for identity in ids] == [[0, 1, 2], [0, 1, 2], [0]]
    properties = deployment.properties("error", ids[0])
    assert properties["connector_reason"].startswith("a: TemporaryFailure: away (came again 2 times)")
    assert "connector_retries" not in properties
    assert (summary.as_dict()["later"], len(deployment.ids("error"))) == (4, 3)


def test_a_subscription_that_has_confirmed_is_not_called_again(bench: Bench) -> None:
    other = {"object": "*", "process": "processes:b", "name": "b"}
    deployment = deploy(bench, SOON, other)
    identity = deployment.send("queue://orders", order(1, "temporary 2"))
    drain(deployment)
    assert tries(bench, identity) == [0, 1, 2]
    assert tries(bench, identity, "b") == [0]


def test_one_subscription_that_has_failed_for_good_fails_the_event(bench: Bench) -> None:
    other = {"object": "*", "process": "processes:a", "name": "second"}
    deployment = deploy(bench, SOON, other)
    identity = deployment.send("queue://orders", order(1, "temporary 2"))
    drain(deployment)
    assert tries(bench, identity) == [0, 0]
    assert "second: TemporaryFailure" in deployment.properties("error", identity)["connector_reason"]


def deploy_resting(bench: Bench, first: str) -> EventDeployment:
    """A deployment whose process fails while there is a file, and rests after 5 failures."""
    rests = {"retry_later": {"first": first, "most": first}, "rest_after": 5}
    deployment = bench.deploy(
        subscriptions=[{"object": "*", "process": "processes:a", "name": "a", **rests}],
        objects=OBJECTS,
        processes=PROCESSES,
        InputDestination="queue://orders",
        order="none",
    )
    deployment.write("away", "")
    return deployment


def test_a_subscription_that_fails_in_a_row_rests_and_events_that_are_not_tried_keep_their_count(
    bench: Bench,
) -> None:
    deployment = deploy_resting(bench, "1h")
    for number in range(30):
        deployment.send("queue://orders", order(number, "flag"))
    with deployment.running() as adapter:
        adapter.drain()
        (row,) = adapter.resting
    assert (row["subscription"], row["reason"]) == ("a", "TemporaryFailure: away")
    assert (len(bench.calls()), adapter.summary.as_dict()["later"]) == (5, 30)
    with closing(deployment.provider.existing()) as connection:
        delayed = list(connection.browse(Destination("queue", "orders"), delayed=True))
    retries = [str(one.properties["connector_retries"]) for one in delayed]
    assert Counter(retries) == {"a=1": 5, "a=0": 25}
    assert not any("connector_reason" in one.properties for one in delayed)


def test_a_subscription_that_rests_is_tried_by_one_event_at_a_time_until_it_returns(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deploy_resting(bench, "100ms")
    sent = [deployment.send("queue://orders", order(number, "flag")) for number in range(30)]
    with caplog.at_level(logging.INFO), deployment.running() as adapter:
        wait_for(lambda: adapter.drain() and len(bench.calls()) >= 9)
        tried = [call["time"] for call in bench.calls()[4:]]
        assert all(later - before > 0.09 for before, later in itertools.pairwise(tried)), "one a rest"
        (deployment.directory / "away").unlink()
        drain_with(adapter, deployment)
        assert adapter.resting == []
        counts = adapter.summary.as_dict()
    assert (counts["published"], counts["failed"]) == (30, 0)
    assert sorted(deployment.ids("archive")) == sorted(sent)
    assert deployment.messages("error") == []
    found = [message for message in caplog.messages if "rests" in message]
    assert found == ["a subscription rests", "a subscription rests no more"]


def test_another_end_of_a_call_ends_the_row(bench: Bench) -> None:
    deployment = deploy_resting(bench, "1h")
    for number, what in enumerate(["flag", "flag", "flag", "wrong", *["flag"] * 4, "", *["flag"] * 4]):
        deployment.send("queue://orders", order(number, what))
    with deployment.running() as adapter:
        adapter.drain()
        assert (len(bench.calls()), adapter.resting) == (13, [])


@pytest.mark.process
@rows("most, published", [(5, True), (2, False)])
def test_a_call_that_its_timeout_ends_is_a_try_and_a_delivery(
    bench: Bench, most: int, published: bool
) -> None:
    deployment = deploy(bench, SOON, timeout="1s", max_attempts=most)
    hangs = deployment.send("queue://orders", order(1, "hang 2"))
    deployment.send("queue://orders", order(2))
    with deployment.running(isolated=True) as adapter:
        counts = drain_with(adapter, deployment).as_dict()
    found = [(call["retries"], call["count"]) for call in bench.calls() if call["id"] == hangs]
    assert found == [(0, 1), (1, 2), (2, 3)][: 3 if published else 2]
    assert (counts["later"], counts["failed"]) == ((2, 0) if published else (1, 1))
    if not published:
        reason = deployment.properties("error", hangs)["connector_reason"]
        assert "did not return from a in time" in reason


@rows("copied", ["while it waits", "before a restart", "after it was published"])
def test_a_copy_of_a_message_that_waits_is_a_duplicate_of_it(bench: Bench, copied: str) -> None:
    other = {"object": "*", "process": "processes:b", "name": "b"}
    deployment = deploy(bench, {"first": "1s"}, other, DuplicateEventElimination=True)
    deployment.drop("orders", order(1, "temporary 1"), "4.o1.T")
    with deployment.running() as adapter:
        adapter.drain()
        if copied == "after it was published":
            drain_with(adapter, deployment)
        deployment.drop("orders", order(1, "temporary 1"), "4.o1.T")
        if copied == "while it waits":
            adapter.drain()
            assert tries(bench, "ID:o1", "b") == [0], "the copy waits, too"
        if copied != "before a restart":
            counts = drain_with(adapter, deployment).as_dict()
    if copied == "before a restart":
        counts = drain(deployment).as_dict()
    assert (tries(bench, "ID:o1"), tries(bench, "ID:o1", "b")) == ([0, 1], [0])
    assert (counts["published"], counts["duplicates"], counts["failed"]) == (1, 1, 0)


@rows("order_", ["destination", "group"])
@rows("source", ["queue://orders", {"destination": "topic://orders", "subscription": "all"}])
@rows("first", ["1s", "1h"])
def test_the_order_holds_after_a_restart(
    bench: Bench, order_: str, source: str | dict[str, str], first: str
) -> None:
    deployment = deploy(bench, {"first": first, "most": first}, order=order_, InputDestination=[source])
    destination = source if isinstance(source, str) else source["destination"]
    with deployment.running() as adapter:
        for number, what in enumerate(["temporary 1", ""]):
            deployment.send(destination, order(number, what), properties={"JMSXGroupID": "x"})
        adapter.drain()
    with deployment.running() as adapter:
        adapter.drain()
        if first == "1s":
            wait_for(lambda: adapter.drain() and len(ids(bench)) >= 3, what="the events that wait")
    assert ids(bench) == (["0", "0", "1"] if first == "1s" else ["0"])


def ids(bench: Bench) -> list[str]:
    return [call["order"] for call in bench.calls()]


@rows(
    "order_, calls",
    [("destination", ["0", "1", "1", "1", "2", "3"]), ("none", ["0", "1", "2", "3", "1", "1"])],
)
def test_events_of_a_destination_stay_in_order_where_they_have_one(
    bench: Bench, order_: str, calls: list[str]
) -> None:
    deployment = deploy(bench, {"first": "500ms"}, order=order_)
    for number, what in enumerate(["", "temporary 2", "", ""]):
        deployment.send("queue://orders", order(number, what))
    drain(deployment)
    assert ids(bench) == calls


def test_events_of_a_group_stay_in_order_and_others_go_on(bench: Bench) -> None:
    deployment = deploy(bench, {"first": "300ms"}, order="group")
    sent = [("x", "temporary 2"), ("x", ""), ("y", ""), ("x", ""), ("y", "")]
    for number, (group, what) in enumerate(sent):
        deployment.send("queue://orders", order(number, what), properties={"JMSXGroupID": group})
    drain(deployment)
    called = ids(bench)
    assert [one for one in called if one in "013"] == ["0", "0", "0", "1", "3"]
    assert [one for one in called if one in "24"] == ["2", "4"]
    assert called.index("4") < called.index("1")


def test_mistakes_are_named(bench: Bench) -> None:
    mistakes: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        (
            {"retry_later": SOON},
            {"ContainerManagedEvents": "JMS"},
            "retry_later under ContainerManagedEvents",
        ),
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
                one = {"object": "*", "process": "processes:a", "name": "a", **entry}
                deployment = bench.deploy(subscriptions=[one], objects=OBJECTS, **connector)
                with pytest.raises(ConfigurationError, match=problem):
                    load(deployment.directory / "adapter.yaml")


class Invalidated(Exception):
    connection_invalidated = True


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
    ],
)
def test_what_it_names(on: Sequence[str], error: BaseException, *, named: bool) -> None:
    assert RetryLater(on=tuple(on)).names(error) is named


def test_tries_survive_any_name() -> None:
    tried = {"a": 1, "b#3": 2, "x=;%y": 7}
    assert split_retries(join_retries(tried)) == tried
    assert split_retries("of another program;x;=;y=-1;z=99999999999") == {}


def test_a_wait_never_overflows() -> None:
    assert RetryLater(factor=10.0, most=5.0).seconds(100_000) == 5.0


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
