"""Inputs: queues with selectors, subscriptions of topics, and views of queues, on every local provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import pytest

from connector.errors import ClientIdError, SubscriptionError
from connector.messaging.destination import Destination
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.status import ReturnCode
from connector.testing.deployment import InProcessAdapter
from tests.events.conftest import ORDER, Bench, EventDeployment

Deploy = Callable[..., EventDeployment]

PRICES = {"destination": "topic://prices", "subscription": "all"}


@pytest.fixture(params=["dropbox", "memory"])
def deploy(request: pytest.FixtureRequest, bench: Bench) -> Deploy:
    """Makes deployments whose messages live in a directory, or in memory."""

    def make(
        *inputs: str | Mapping[str, Any], redelivery_limit: int | str = "none", **connector: Any
    ) -> EventDeployment:
        provider = {"type": request.param, "redelivery_limit": redelivery_limit}
        return bench.deploy(provider=provider, InputDestination=list(inputs), **connector)

    return make


def drained(deployment: EventDeployment) -> dict[str, Any]:
    """The summary of a drain that succeeded."""
    return deployment.drain().summary.as_dict()


DEAR = {"destination": "topic://prices", "subscription": "dear", "selector": "price > 100"}


def subscribed(deployment: EventDeployment) -> None:
    """Starts the adapter once, so that its subscriptions are there."""
    with deployment.running():
        pass


def test_a_selector_leaves_the_other_messages_of_a_queue_to_others(deploy: Deploy, bench: Bench) -> None:
    deployment = deploy({"destination": "queue://orders", "selector": "region = 'EU' AND size > 10"})
    wanted = deployment.send("orders", ORDER, properties={"region": "EU", "size": 11})
    others = [
        deployment.send("orders", ORDER, properties={"region": "EU", "size": 10}),
        deployment.send("orders", ORDER, properties={"region": "US", "size": 11}),
        deployment.send("orders", ORDER),
    ]
    summary = drained(deployment)
    assert bench.called() == [wanted]
    assert deployment.ids("orders") == others
    assert all(message.delivery_count == 1 for message in deployment.messages("orders"))
    assert summary["destinations"] == {
        "queue://orders": {
            **dict.fromkeys(summary["destinations"]["queue://orders"], 0),
            "claimed": 1,
            "published": 1,
        }
    }


def test_two_inputs_of_one_queue_share_it_by_their_selectors(deploy: Deploy, bench: Bench) -> None:
    deployment = deploy(
        {"destination": "queue://orders", "selector": "size > 10"},
        {"destination": "queue://orders", "selector": "size <= 10"},
        PollQuantity=1,
    )
    ids = [deployment.send("orders", ORDER, properties={"size": n}) for n in (11, 12, 13, 1)]
    with deployment.running() as adapter:
        assert adapter.poll().claimed == 2
        assert bench.called() == [ids[0], ids[3]]
        adapter.drain()
    assert sorted(bench.called()) == sorted(ids)


def test_a_topic_is_polled_through_its_subscription(deploy: Deploy, bench: Bench) -> None:
    deployment = deploy("queue://orders", PRICES)
    deployment.send("topic://prices", ORDER)  # nobody has subscribed
    subscribed(deployment)
    sent = [deployment.send("topic://prices", ORDER) for _ in range(3)]
    bad = deployment.send("topic://prices", "{")
    queued = deployment.send("orders", ORDER)
    summary = drained(deployment)
    assert Counter((call["id"], call["from"]) for call in bench.calls()) == {
        **{(identity, "topic://prices"): 1 for identity in sent},
        (queued, "queue://orders"): 1,
    }
    counts = {name: (one["published"], one["failed"]) for name, one in summary["destinations"].items()}
    assert counts == {"queue://orders": (1, 0), "topic://prices": (3, 1)}
    origin = "connector_origin_destination"
    assert {deployment.properties("archive", one)[origin] for one in sent} == {"topic://prices"}
    assert deployment.properties("archive", queued)[origin] == "queue://orders"
    assert deployment.properties("error", bad)[origin] == "topic://prices"
    assert drained(deployment)["claimed"] == 0


def test_two_subscriptions_of_one_topic_are_two_events_of_one_message(deploy: Deploy, bench: Bench) -> None:
    """Also where duplicates are eliminated: they are no duplicates of one another."""
    deployment = deploy(PRICES, DEAR, DuplicateEventElimination=True)
    subscribed(deployment)
    cheap = deployment.send("topic://prices", ORDER, properties={"price": 1})
    dear = deployment.send("topic://prices", ORDER, properties={"price": 101})
    summary = drained(deployment)
    assert Counter(bench.called()) == {cheap: 1, dear: 2}
    assert (summary["published"], summary["duplicates"]) == (3, 0)
    assert len(deployment.messages("archive")) == 3


def test_a_rule_may_name_a_topic(deploy: Deploy, bench: Bench) -> None:
    deployment = deploy(
        {"destination": "topic://notes", "subscription": "s"}, ConfigurationMetaObject="MO_Topic"
    )
    deployment.write(
        "metaobjects/topic.yaml",
        "static_metaobject: MO_Topic\n"
        "rules:\n  Note_Create: {InputDestination: topic://notes, DataHandlerMimeType: text/plain}\n",
    )
    subscribed(deployment)
    deployment.send("topic://notes", "any text")
    drained(deployment)
    assert [(call["object"], call["values"]) for call in bench.calls()] == [("Note", {"Text": "any text"})]


def test_a_message_given_back_waits_in_the_subscription_it_came_from(deploy: Deploy, bench: Bench) -> None:
    other = {"destination": "topic://prices", "subscription": "other"}
    deployment = deploy(PRICES, other, order="none")
    subscribed(deployment)
    deployment.send(
        "topic://prices", '{"BusinessObject": "Customer", "CustomerId": "1", "Name": "a: inactive-once"}'
    )
    with deployment.running() as adapter:
        assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
        deployment.write("woken", "")
        assert adapter.drain().code is ReturnCode.SUCCEED
    assert len(deployment.messages("archive")) == 2


def test_what_a_dead_instance_had_taken_is_back_in_its_subscription(deploy: Deploy, bench: Bench) -> None:
    deployment = deploy(PRICES, {"destination": "topic://prices", "subscription": "other"})
    subscribed(deployment)
    identity = deployment.send("topic://prices", ORDER)
    victim = deployment.provider.connect("test", "victim", client_id="test")
    topic = Destination("topic", "prices")
    poller = victim.poller(TopicSubscription(topic, "all", client_id="test", durable=True))
    assert poller.take(1, 0) is not None
    assert poller.take(1, 1) is None
    victim.abandon()
    drained(deployment)
    assert bench.called() == [identity, identity]
    assert len(deployment.messages("archive")) == 2


def test_the_subscription_belongs_to_the_application(deploy: Deploy) -> None:
    deployment = deploy(PRICES, ApplicationName="billing")
    subscribed(deployment)
    with closing(deployment.provider.connect()) as connection:
        (found,) = connection.subscriptions()
    topic = Destination("topic", "prices")
    assert found.subscription == TopicSubscription(topic, "all", client_id="billing", durable=True)
    assert found.consumers == 0


def test_instances_of_one_application_share_the_work_of_a_subscription(deploy: Deploy, bench: Bench) -> None:
    deployment = deploy(PRICES, PollQuantity=1, instance=None)
    with deployment.running() as one, deployment.running() as two:
        ids = [deployment.send("topic://prices", ORDER) for _ in range(4)]
        reports = [adapter.poll() for adapter in (one, two, one, two)]
    assert [report.settled for report in reports] == [1, 1, 1, 1]
    assert bench.called() == ids


def test_an_input_without_local_messages_leaves_out_what_the_adapter_sends_itself(deploy: Deploy) -> None:
    deployment = deploy(
        {"destination": "topic://prices", "subscription": "s", "no_local": True},
        {"destination": "topic://prices", "subscription": "other", "no_local": True},
        subscriptions=[{"object": "*", "destination": "topic://prices"}],
    )
    subscribed(deployment)
    deployment.send("topic://prices", ORDER)
    assert drained(deployment)["claimed"] == 2
    assert drained(deployment)["claimed"] == 0


def test_what_is_published_to_a_topic_is_there_for_all_its_subscriptions(deploy: Deploy) -> None:
    deployment = deploy("queue://orders", subscriptions=[{"object": "*", "destination": "topic://done"}])
    topic = Destination("topic", "done")
    wanted = [TopicSubscription(topic, name, durable=True, shared=True) for name in ("x", "y")]
    with closing(deployment.provider.connect()) as connection:
        pollers = [connection.poller(one) for one in wanted]
        deployment.send("orders", ORDER)
        assert drained(deployment)["published"] == 1
        claims = [poller.take(1, n) for n, poller in enumerate(pollers)]
        assert all(claim is not None for claim in claims)
        connection.settle([Settlement(claim) for claim in claims if claim is not None])


def test_a_client_id_belongs_to_one_application_with_subscriptions(deploy: Deploy) -> None:
    deployment = deploy(PRICES, ApplicationName="billing")
    with closing(deployment.provider.connect(client_id="billing")):
        with pytest.raises(ClientIdError, match="billing"):
            subscribed(deployment)
        without = deploy("queue://orders", ApplicationName="billing")
        without._provider = deployment.provider
        subscribed(without)
    subscribed(deployment)


def test_another_selector_while_an_instance_runs_is_refused_at_start(deploy: Deploy) -> None:
    deployment = deploy(PRICES, instance=None)
    with deployment.running():
        changed = deploy({**PRICES, "selector": "price > 100"}, instance=None).configuration
        with (
            pytest.raises(SubscriptionError, match="selector"),
            InProcessAdapter(changed, deployment.provider),
        ):
            pass


@pytest.mark.parametrize("view", ["EXPIRED", "REJECT-ERROR"])
def test_what_a_queue_could_not_deliver_can_be_an_input(deploy: Deploy, bench: Bench, view: str) -> None:
    deployment = deploy(f"queue://orders~{view}", redelivery_limit=1)
    identity = deployment.send("orders", ORDER, expiration=1 if view == "EXPIRED" else 0)
    with closing(deployment.provider.connect()) as connection:
        poller = connection.poller(Destination("queue", "orders"))
        if view == "REJECT-ERROR":
            claim = poller.take(1, 0)
            assert claim is not None
            connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
        assert poller.take(2, 0) is None
    drained(deployment)
    assert bench.called() == [identity]
    assert len(deployment.messages("archive")) == 1
    assert drained(deployment)["claimed"] == 0


@pytest.mark.parametrize(
    ("inputs", "connector", "destination"),
    [
        ([PRICES], {}, "topic://prices"),
        (["queue://orders~EXPIRED"], {}, "queue://orders~EXPIRED"),
        (["queue://orders"], {"InProgressDestination": "queue://in-progress"}, "queue://orders"),
    ],
    ids=["topic", "view", "in progress"],
)
def test_the_destination_of_the_dynamic_meta_object_is_the_input(
    deploy: Deploy, bench: Bench, inputs: list[Any], connector: dict[str, str], destination: str
) -> None:
    deployment = deploy(*inputs, **connector)
    subscribed(deployment)
    expiration = 1 if "~" in destination else 0
    body = '{"BusinessObject": "Customer", "CustomerId": "7"}'
    deployment.send(destination.partition("~")[0], body, expiration=expiration)
    if expiration:  # its own queue finds it expired
        with closing(deployment.provider.connect()) as connection:
            assert connection.poller(Destination("queue", "orders")).take(1, 0) is None
    drained(deployment)
    (call,) = bench.calls()
    meta = call["values"]["Meta"]
    assert (meta["Destination"], meta["InputDestination"], call["from"]) == (destination,) * 3
