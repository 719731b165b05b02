"""``retry_later``: an event whose delivery failed for a while comes again, and holds up nothing else."""

from __future__ import annotations

import itertools
import logging
import pickle
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from connector.config.loading import load
from connector.errors import ConfigurationError, Failed, TemporaryFailure
from connector.events.summary import Summary
from connector.messaging.destination import Destination
from connector.sinks.retry_later import RetryLater, join_retries, split_retries
from connector.testing.deployment import InProcessAdapter
from tests.events.conftest import Bench, EventDeployment
from tests.tables import rows
from tests.waiting import wait_for

PROCESSES = """\
import json, os, pathlib, time
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
        time.sleep(60)
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
    bench: Bench, rules: Mapping[str, Any], *others: Mapping[str, Any], **connector: Any
) -> EventDeployment:
    first = {"object": "*", "process": "processes:a", "name": "a", "retry_later": dict(rules)}
    return bench.deploy(
        subscriptions=[first, *others],
        objects=OBJECTS,
        processes=PROCESSES,
        **{"InputDestination": "queue://orders", "order": "none", **connector},
    )


def order(number: int, what: str = "") -> str:
    return f'{{"BusinessObject": "Order", "Id": "{number}", "What": "{what}"}}'


def drain(deployment: EventDeployment, seconds: float = 30.0) -> Summary:
    """Drains again and again, until no message is delayed."""
    with deployment.running() as adapter:
        return drain_with(adapter, deployment, seconds)


def drain_with(adapter: InProcessAdapter, deployment: EventDeployment, seconds: float = 30.0) -> Summary:
    """Drains with a running adapter until no message is delayed."""
    deadline = time.monotonic() + seconds
    while True:
        adapter.drain()
        connection = deployment.provider.existing()
        left = sum(
            one.delayed + one.waiting for one in connection.destinations() if "orders" in one.destination.name
        )
        connection.close()
        if not left:
            return adapter.summary
        assert time.monotonic() < deadline
        time.sleep(0.02)


def tries(bench: Bench, identity: str, who: str = "a") -> list[int]:
    return [call["retries"] for call in bench.calls() if (call["id"], call["who"]) == (identity, who)]


@rows("what", ["temporary", "connection"])
def test_an_event_that_failed_for_a_while_is_published_later(bench: Bench, what: str) -> None:
    deployment = deploy(bench, SOON)
    identity = deployment.send("queue://orders", order(1, f"{what} 3"))
    summary = drain(deployment)
    assert tries(bench, identity) == [0, 1, 2, 3]
    assert {call["count"] for call in bench.calls()} == {1}, "its deliveries came to an end"
    (copy,) = deployment.messages("queue://archive")
    assert copy.message_id == identity
    assert "connector_retries" not in copy.properties
    assert deployment.messages("queue://error") == []
    counts = summary.as_dict()
    assert (counts["claimed"], counts["published"], counts["later"], counts["failed"]) == (4, 1, 3, 0)


def test_a_failure_may_ask_for_a_longer_wait(bench: Bench) -> None:
    deployment = deploy(bench, SOON)
    deployment.send("queue://orders", order(1, "busy 1"))
    drain(deployment)
    first, second = (call["time"] for call in bench.calls())
    assert second - first >= 1


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
    deployment = deploy(bench, {**SOON, "attempts": 2})
    identity = deployment.send("queue://orders", order(1, "temporary 9"))
    summary = drain(deployment)
    assert tries(bench, identity) == [0, 1, 2]
    (copy,) = deployment.messages("queue://error")
    assert copy.message_id == identity
    assert str(copy.properties["connector_reason"]).startswith(
        "a: TemporaryFailure: away (came again 2 times)"
    )
    assert "connector_retries" not in copy.properties
    assert summary.as_dict()["later"] == 2


@rows("what", ["failed", "wrong"])
def test_other_failures_fail_at_once(bench: Bench, what: str) -> None:
    deployment = deploy(bench, SOON)
    identity = deployment.send("queue://orders", order(1, what))
    drain(deployment)
    assert tries(bench, identity) == [0]
    assert len(deployment.messages("queue://error")) == 1


def test_any_failure_but_failed_comes_again_where_the_configuration_says_so(bench: Bench) -> None:
    deployment = deploy(bench, {**SOON, "attempts": 1, "on": "any"})
    wrong = deployment.send("queue://orders", order(1, "wrong"))
    failed = deployment.send("queue://orders", order(2, "failed"))
    drain(deployment)
    assert (tries(bench, wrong), tries(bench, failed)) == ([0, 1], [0])
    assert len(deployment.messages("queue://error")) == 2


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
    (copy,) = deployment.messages("queue://error")
    assert "second: TemporaryFailure" in str(copy.properties["connector_reason"])


def test_events_without_an_order_do_not_wait_for_each_other(bench: Bench) -> None:
    deployment = deploy(bench, {"first": "1h"})
    deployment.send("queue://orders", order(1, "temporary 1"))
    for number in range(2, 5):
        deployment.send("queue://orders", order(number))
    deployment.drain()
    assert [one.value for one in deployment.messages("queue://archive")] == [order(n) for n in (2, 3, 4)]
    assert deployment.messages("queue://orders") == []


RESTS = {"retry_later": {"first": "100ms", "most": "100ms"}, "rest_after": 5}


def deploy_resting(bench: Bench, **connector: Any) -> EventDeployment:
    """A deployment whose process fails while there is a file, and rests after 5 failures."""
    deployment = bench.deploy(
        subscriptions=[{"object": "*", "process": "processes:a", "name": "a", **RESTS}],
        objects=OBJECTS,
        processes=PROCESSES,
        **{"InputDestination": "queue://orders", "order": "none", **connector},
    )
    deployment.write("away", "")
    return deployment


def test_a_subscription_that_fails_in_a_row_rests_and_one_event_is_tried(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deploy_resting(bench)
    sent = [deployment.send("queue://orders", order(number, "flag")) for number in range(30)]
    with caplog.at_level(logging.INFO), deployment.running() as adapter:
        adapter.drain()
        assert len(bench.calls()) == 5
        assert adapter.summary.as_dict()["later"] == 30
        (row,) = adapter.resting
        assert (row["subscription"], row["reason"]) == ("a", "TemporaryFailure: away")
        for tried in range(1, 5):
            time.sleep(0.12)
            adapter.drain()
            assert len(bench.calls()) == 5 + tried
        (deployment.directory / "away").unlink()
        time.sleep(0.12)
        drain_with(adapter, deployment)
        assert adapter.resting == []
        counts = adapter.summary.as_dict()
    assert (counts["published"], counts["failed"]) == (30, 0)
    assert sorted(one.message_id or "" for one in deployment.messages("queue://archive")) == sorted(sent)
    assert deployment.messages("queue://error") == []
    found = [one.getMessage() for one in caplog.records if "rests" in one.getMessage()]
    assert found == ["a subscription rests", "a subscription rests no more"]


def test_events_that_are_not_tried_keep_their_count(bench: Bench) -> None:
    deployment = deploy_resting(bench)
    for number in range(12):
        deployment.send("queue://orders", order(number, "flag"))
    with deployment.running() as adapter:
        adapter.drain()
        connection = deployment.provider.existing()
        delayed = list(connection.browse(Destination("queue", "orders"), delayed=True))
        connection.close()
    retries = [str(one.properties["connector_retries"]) for one in delayed]
    assert Counter(retries) == {"a=1": 5, "a=0": 7}
    reasons = {str(one.properties.get("connector_reason")) for one in delayed}
    assert reasons == {"None"}


def test_another_end_of_a_call_ends_the_row(bench: Bench) -> None:
    deployment = deploy_resting(bench)
    for number, what in enumerate(["flag", "flag", "flag", "wrong", *["flag"] * 4, "", *["flag"] * 4]):
        deployment.send("queue://orders", order(number, what))
    with deployment.running() as adapter:
        adapter.drain()
        assert (len(bench.calls()), adapter.resting) == (13, [])


@pytest.mark.process
@rows("most, published", [(5, True), (2, False)])
def test_a_call_that_its_timeout_ends_is_a_try_and_a_delivery(
    bench: Bench, most: int, *, published: bool
) -> None:
    deployment = bench.deploy(
        subscriptions=[
            {"object": "*", "process": "processes:a", "name": "a", "retry_later": SOON, "timeout": "300ms"}
        ],
        objects=OBJECTS,
        processes=PROCESSES,
        InputDestination="queue://orders",
        order="none",
        max_attempts=most,
    )
    hangs = deployment.send("queue://orders", order(1, "hang 2"))
    deployment.send("queue://orders", order(2))
    with deployment.running(isolated=True) as adapter:
        counts = drain_with(adapter, deployment).as_dict()
    assert tries(bench, hangs) == ([0, 1, 2] if published else [0, 1])
    assert [call["count"] for call in bench.calls() if call["id"] == hangs] == [1, 2, 3][
        : 3 if published else 2
    ]
    assert (counts["later"], counts["failed"]) == ((2, 0) if published else (1, 1))
    if not published:
        (copy,) = deployment.messages("queue://error")
        assert "did not return from a in time" in str(copy.properties["connector_reason"])


def test_a_copy_of_a_message_that_waits_is_a_duplicate_of_it(bench: Bench) -> None:
    other = {"object": "*", "process": "processes:b", "name": "b"}
    rules = {"first": "300ms", "most": "300ms"}
    deployment = deploy(bench, rules, other, DuplicateEventElimination=True)
    identity = "ID:o1"
    deployment.drop("orders", order(1, "temporary 1"), "4.o1.T")
    with deployment.running() as adapter:
        adapter.drain()
        deployment.drop("orders", order(1, "temporary 1"), "4.o1.T")
        adapter.drain()
        assert tries(bench, identity, "b") == [0], "the copy waits, too"
        counts = drain_with(adapter, deployment).as_dict()
    assert (tries(bench, identity), tries(bench, identity, "b")) == ([0, 1], [0])
    assert (counts["published"], counts["duplicates"], counts["failed"]) == (1, 1, 0)


def test_a_copy_of_a_message_that_waits_is_a_duplicate_after_a_restart(bench: Bench) -> None:
    other = {"object": "*", "process": "processes:b", "name": "b"}
    rules = {"first": "1s", "most": "1s"}
    deployment = deploy(bench, rules, other, DuplicateEventElimination=True)
    identity = "ID:o1"
    deployment.drop("orders", order(1, "temporary 1"), "4.o1.T")
    deployment.drain()
    deployment.drop("orders", order(1, "temporary 1"), "4.o1.T")
    with deployment.running() as adapter:
        counts = drain_with(adapter, deployment).as_dict()
    assert (tries(bench, identity), tries(bench, identity, "b")) == ([0, 1], [0])
    assert (counts["published"], counts["duplicates"], counts["failed"]) == (1, 1, 0)


@rows("order_", ["destination", "group"])
def test_the_order_of_a_topic_holds_after_a_restart(bench: Bench, order_: str) -> None:
    prices = {"destination": "topic://orders", "subscription": "all"}
    deployment = deploy(bench, {"first": "1s"}, order=order_, InputDestination=[prices])
    with deployment.running() as adapter:
        for number, what in enumerate(["temporary 1", ""]):
            deployment.send("topic://orders", order(number, what), properties={"JMSXGroupID": "x"})
        adapter.drain()
    assert ids(bench) == ["0"]
    with deployment.running() as adapter:
        adapter.drain()
        assert ids(bench) == ["0"]

        def is_done() -> bool:
            adapter.drain()
            return len(ids(bench)) == 3

        wait_for(is_done, 20, "the events that wait")
    assert ids(bench) == ["0", "0", "1"]


def test_rest_after_needs_retry_later(bench: Bench) -> None:
    deployment = bench.deploy(
        subscriptions=[{"object": "*", "process": "processes:a", "name": "a", "rest_after": 3}],
        objects=OBJECTS,
        processes=PROCESSES,
    )
    with pytest.raises(ConfigurationError, match="rest_after without retry_later"):
        load(deployment.directory / "adapter.yaml")


def ids(bench: Bench) -> list[str]:
    return [call["order"] for call in bench.calls()]


def test_events_of_a_destination_stay_in_order(bench: Bench) -> None:
    deployment = deploy(bench, SOON, order="destination")
    for number, what in enumerate(["", "temporary 2", "", ""]):
        deployment.send("queue://orders", order(number, what))
    drain(deployment)
    assert ids(bench) == ["0", "1", "1", "1", "2", "3"]


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


@rows("order_", ["destination", "group"])
def test_the_order_holds_after_a_restart(bench: Bench, order_: str) -> None:
    deployment = deploy(bench, {"first": "1s"}, order=order_)
    for number, what in enumerate(["temporary 1", ""]):
        deployment.send("queue://orders", order(number, what), properties={"JMSXGroupID": "x"})
    deployment.drain()
    assert ids(bench) == ["0"]
    drain(deployment)
    assert ids(bench) == ["0", "0", "1"]


def test_a_copy_of_a_waiting_event_is_published_once(bench: Bench) -> None:
    deployment = deploy(bench, SOON, DuplicateEventElimination="true")
    deployment.drop("orders", order(1, "temporary 1"), "4.1.T")
    drain(deployment)
    deployment.drop("orders", order(1, "temporary 1"), "4.1.T")
    summary = drain(deployment)
    assert summary.as_dict()["duplicates"] == 1


def test_it_is_refused_where_it_cannot_be(bench: Bench) -> None:
    deployment = deploy(bench, SOON, ContainerManagedEvents="JMS")
    with pytest.raises(ConfigurationError, match="retry_later under ContainerManagedEvents"):
        load(deployment.directory / "adapter.yaml")


@rows(
    "key, value, problem",
    [
        ("attempts", 0, "from 1 up"),
        ("factor", "0.5", "a number from 1 up"),
        ("factor", "x", "a number from 1 up"),
        ("on", "no name", "the name of an exception"),
        ("first", "soon", "a duration"),
        ("tries", 3, "attempts"),
    ],
)
def test_a_mistake_is_named(bench: Bench, key: str, value: object, problem: str) -> None:
    deployment = deploy(bench, {key: value})
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


def test_the_key_on_needs_no_quotation_marks(bench: Bench) -> None:
    """YAML 1.1 reads ``on`` as a boolean."""
    deployment = deploy(bench, SOON)
    text = (deployment.directory / "adapter.yaml").read_text()
    deployment.write(
        "adapter.yaml", text.replace("    first: 50ms", "    on: [KeyError, a.B]\n    first: 50ms")
    )
    (entry,) = load(deployment.directory / "adapter.yaml").subscriptions
    assert entry.retry_later.on == ("KeyError", "a.B")
    deployment.write("adapter.yaml", text.replace("    first: 50ms", "    on: any\n    first: 50ms"))
    (entry,) = load(deployment.directory / "adapter.yaml").subscriptions
    assert entry.retry_later.on == ("any",)
