"""Inputs: queues with selectors, subscriptions of topics, and views of queues, on every local provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import pytest

from connector.config.resolved import as_document
from connector.errors import ClientIdError, SubscriptionError
from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.service.status_document import StatusReader
from connector.status import ReturnCode
from connector.testing.deployment import InProcessAdapter
from tests.events.conftest import ORDER, Bench, EventDeployment, customer

Deploy = Callable[..., EventDeployment]

PRICES = {"destination": "topic://prices", "subscription": "all"}
OTHER = {**PRICES, "subscription": "other"}
REGIONS = [{"destination": "queue://orders", "selector": f"region = '{name}'"} for name in ("EU", "US")]
DEAR = {**PRICES, "subscription": "dear", "selector": "price > 100"}


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


def subscribed(deployment: EventDeployment) -> None:
    """Starts the adapter once, so that its subscriptions are there."""
    with deployment.running():
        pass


def test_inputs_of_one_queue_share_it_by_their_selectors_and_leave_the_rest(
    deploy: Deploy, bench: Bench
) -> None:
    selectors = ("region = 'EU' AND size > 10", "size <= 10")
    inputs = [{"destination": "queue://orders", "selector": selector} for selector in selectors]
    deployment = deploy(*inputs, PollQuantity=1)
    sizes: list[dict[str, Any]] = [{"region": "EU", "size": size} for size in (11, 12, 13, 1)]
    rest: list[dict[str, Any]] = [{"region": "US", "size": 11}, {}]
    ids = [deployment.send("orders", ORDER, properties=properties) for properties in (*sizes, *rest)]
    with deployment.running() as adapter:
        assert adapter.poll().claimed == 2
        assert bench.called() == [ids[0], ids[3]]
        adapter.drain()
    assert sorted(bench.called()) == sorted(ids[:4])
    assert deployment.deliveries("orders") == [(identity, 1) for identity in ids[4:]]
    destinations = adapter.summary.as_dict()["destinations"]
    counts = {name: number for name, number in destinations["queue://orders"].items() if number}
    assert counts == {"claimed": 4, "published": 4}


def test_an_input_gives_a_poll_as_many_messages_as_its_entry_says(deploy: Deploy) -> None:
    few, many = "queue://few", {"destination": "queue://many", "PollQuantity": 5}
    deployment = deploy(few, many, PollQuantity=2)
    assert deployment.configuration.paths.poll_quantity == 5, "what a provider may fetch ahead"
    for _ in range(7):
        deployment.send("few", ORDER)
        deployment.send("many", ORDER)
    with deployment.running() as adapter:
        adapter.poll()
        taken = adapter.summary.as_dict()["destinations"]
        assert {name: one["claimed"] for name, one in taken.items()} == {"queue://few": 2, "queue://many": 5}
        adapter.drain()
    shown = as_document(deployment.configuration)["connector"]
    quantities = {one["destination"]: one["PollQuantity"] for one in shown["InputDestination"]}
    assert (shown["PollQuantity"], quantities) == (2, {"queue://few": 2, "queue://many": 5})


def test_a_claim_that_no_poll_of_this_instance_has_taken_names_its_input(deploy: Deploy) -> None:
    """Such a claim comes from a dead instance, or from the in-progress destination."""
    deployment = deploy("queue://notes", *REGIONS, PRICES, DEAR)
    orders = Destination("queue", "orders")
    with deployment.running() as adapter:
        for queue in ("queue://notes", "topic://prices"):
            deployment.send(queue, ORDER, properties={"price": 101})
        for region in ("US", "EU", "JP"):
            deployment.send("queue://orders", ORDER, properties={"region": region})
        inbound, inputs = adapter._connection.inbound, adapter._connection.working.inputs
        assert inbound is not None
        pollers = [one.poller for one in inputs] + [inbound.connection.poller(orders)]
        claims = [claim for one in pollers for claim in one.claim(9, range(1))]
        assert {claim.input for claim in claims} == {None}
        for claim in claims:
            inputs.name(claim)
        assert [claim.input for claim in claims] == [*(one.input for one in inputs), Input(orders)]
        assert [str(claim.input) for claim in claims] == [
            "queue://notes",
            "queue://orders (selector \"region = 'EU'\")",
            "queue://orders (selector \"region = 'US'\")",
            "topic://prices (subscription 'all')",
            "topic://prices (subscription 'dear')",
            "queue://orders",
        ]
        inbound.connection.settle([Settlement(claim, give_back=True) for claim in claims])


def test_status_tells_two_inputs_of_a_queue_apart_and_counts_its_messages_once(bench: Bench) -> None:
    deployment = bench.deploy(InputDestination=REGIONS)
    subscribed(deployment)
    deployment.send("queue://orders", ORDER, delivery_time=2**41)
    status = StatusReader(deployment.configuration, deployment.provider).read()
    assert [row["input"] for row in status["inputs"]] == [
        f"queue://orders (selector {one['selector']!r})" for one in REGIONS
    ]
    assert ({row["destination"] for row in status["inputs"]}, status["delayed"]) == ({"queue://orders"}, 1)


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


def test_a_message_given_back_waits_in_the_subscription_it_came_from(deploy: Deploy, bench: Bench) -> None:
    deployment = deploy(PRICES, OTHER, order="none")
    subscribed(deployment)
    deployment.send("topic://prices", customer("a: inactive-once"))
    with deployment.running() as adapter:
        assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
        deployment.write("woken", "")
        assert adapter.drain().code is ReturnCode.SUCCEED
    assert len(deployment.messages("archive")) == 2
    assert bench.inputs() == {"topic://prices"}


def test_an_input_without_local_messages_leaves_out_what_the_adapter_sends_itself(deploy: Deploy) -> None:
    inputs = [{**one, "no_local": True} for one in (PRICES, OTHER)]
    deployment = deploy(*inputs, subscriptions=[{"object": "*", "destination": "topic://prices"}])
    subscribed(deployment)
    deployment.send("topic://prices", ORDER)
    assert drained(deployment)["claimed"] == 2
    assert drained(deployment)["claimed"] == 0


def test_client_id_and_subscription_belong_to_one_application(deploy: Deploy) -> None:
    deployment = deploy(PRICES, ApplicationName="billing")
    with closing(deployment.provider.connect(client_id="billing")):
        with pytest.raises(ClientIdError, match="billing"):
            subscribed(deployment)
        without = deploy("queue://orders", ApplicationName="billing")
        without._provider = deployment.provider
        subscribed(without)
    again = deploy(PRICES, ApplicationName="billing")
    again._provider = deployment.provider
    subscribed(again)
    with closing(deployment.provider.connect()) as connection:
        (found,) = connection.subscriptions()
    topic = Destination("topic", "prices")
    assert found.subscription == TopicSubscription(topic, "all", client_id="billing", durable=True)
    assert found.consumers == 0


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
    identity = deployment.send("orders", customer(), expiration=1 if view == "EXPIRED" else 0)
    with closing(deployment.provider.connect()) as connection:
        poller = connection.poller(Destination("queue", "orders"))
        if view == "REJECT-ERROR":
            claim = poller.take(1, 0)
            assert claim is not None
            connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
        assert poller.take(2, 0) is None
    drained(deployment)
    assert (bench.called(), deployment.ids("archive")) == ([identity], [identity])
    assert bench.inputs() == {f"queue://orders~{view}"}
    assert drained(deployment)["claimed"] == 0
