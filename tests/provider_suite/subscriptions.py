"""Subscriptions: their duration, their consumers, and the messages that they keep (Qpid JMS)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import PRICES, SuiteBase, needs

UNSHARED = TopicSubscription(PRICES, "own", "billing", durable=True)
SHARED = TopicSubscription(PRICES, "own", "billing", durable=True, shared=True)
PASSING = TopicSubscription(PRICES, "own", "billing", shared=True)

Client = Callable[..., Connection]


@needs("topics")
@needs("administers")
class SubscriptionTests(SuiteBase):
    @pytest.mark.parametrize("wanted", [UNSHARED, SHARED], ids=["unshared", "shared"])
    def test_a_durable_subscription_keeps_messages_while_nobody_consumes(
        self, client: Client, wanted: TopicSubscription
    ) -> None:
        first, sender = client(), client()
        first.poller(wanted).close()
        self.send(sender, PRICES, "1", "2")
        first.close()
        self.send(sender, PRICES, "3")
        last = client()
        assert self.rest_soon(last, last.poller(wanted), 3) == ["1", "2", "3"]

    def test_a_non_durable_subscription_ends_with_its_consumer(self, client: Client) -> None:
        connection = client()
        poller = connection.poller(TopicSubscription(PRICES))
        self.send(connection, PRICES, "1")
        poller.close()
        poller.close()
        assert connection.subscriptions() == []
        again = connection.poller(TopicSubscription(PRICES))
        assert again.take(1, 0) is None

    def test_a_non_durable_subscription_ends_with_its_connection(self, client: Client) -> None:
        first, second = client(), client()
        first.poller(TopicSubscription(PRICES))
        first.close()
        assert second.subscriptions() == []

    def test_a_shared_non_durable_subscription_ends_with_its_last_consumer(self, client: Client) -> None:
        first, second = client(), client()
        one, other = first.poller(PASSING), second.poller(PASSING)
        one.close()
        self.send(first, PRICES, "1")
        assert self.rest_soon(second, other, 1) == ["1"]
        other.close()
        assert second.subscriptions() == []
        self.send(first, PRICES, "2")
        assert first.poller(PASSING).take(1, 0) is None

    @pytest.mark.parametrize("how", ["closed with a claim", "dead"])
    def test_a_non_durable_subscription_that_has_ended_keeps_nothing_for_the_next_of_its_name(
        self, client: Client, how: str
    ) -> None:
        first, second = client(), client()
        poller = first.poller(PASSING)
        self.send(second, PRICES, "1", "2")
        claim = self.take_soon(poller)
        if how == "dead":
            first.abandon()
        else:
            poller.close()
        again = second.poller(PASSING)
        assert again.take(1, 0) is None
        self.send(second, PRICES, "3")
        assert self.rest_soon(second, again, 1) == ["3"]
        if how != "dead":
            assert self.load(first, claim).body == b"1"
            first.settle([Settlement(claim)])

    @pytest.mark.parametrize("wanted", [SHARED, PASSING], ids=["durable", "non-durable"])
    def test_consumers_of_a_shared_subscription_share_its_messages(
        self, client: Client, wanted: TopicSubscription
    ) -> None:
        first, second = client(), client()
        one, other = first.poller(wanted), second.poller(wanted)
        self.send(first, PRICES, *"abcdef")
        found: list[str] = []
        for number in range(3):
            for connection, poller in ((first, one), (second, other)):
                claim = self.take_soon(poller, sequence=number)
                found.append(self.load(connection, claim).body.decode())
                connection.settle([Settlement(claim)])
        assert sorted(found) == list("abcdef")
        assert one.take(1, 9) is None
        assert other.take(1, 9) is None

    def test_what_one_consumer_gives_back_another_takes(self, client: Client) -> None:
        first, second = client(), client()
        one, other = first.poller(SHARED), second.poller(SHARED)
        self.send(first, PRICES, "1")
        claim = self.take_soon(one)
        assert other.take(1, 0) is None
        first.settle([Settlement(claim, give_back=True, delivery_count=1)])
        assert self.take_soon(other).delivery_count == 1

    def test_the_instances_of_one_application_share_even_an_unshared_subscription(
        self, connect: Client
    ) -> None:
        first, second = connect("shop", "a"), connect("shop", "b")
        one, other = first.poller(UNSHARED), second.poller(UNSHARED)
        self.send(first, PRICES, "1", "2")
        bodies = {self.load(c, self.take_soon(poller)).body for c, poller in ((first, one), (second, other))}
        assert bodies == {b"1", b"2"}

    def test_no_local_leaves_out_messages_of_its_own_connection(self, client: Client) -> None:
        own, other = client(), client()
        poller = own.poller(TopicSubscription(PRICES, no_local=True))
        self.send(own, PRICES, "own")
        self.send(other, PRICES, "other")
        assert self.rest_soon(own, poller, 1) == ["other"]

    def test_connections_of_one_origin_are_local_to_each_other(self, client: Client) -> None:
        receiver, sender, other = client(origin="o1"), client(origin="o1"), client(origin="o2")
        poller = receiver.poller(TopicSubscription(PRICES, no_local=True))
        self.send(sender, PRICES, "local")
        self.send(other, PRICES, "other")
        assert self.rest_soon(receiver, poller, 1) == ["other"]

    def test_no_local_of_a_durable_subscription_holds_while_nobody_consumes(self, client: Client) -> None:
        wanted = replace(UNSHARED, no_local=True)
        own = client(client_id="billing")
        own.poller(wanted).close()
        self.send(own, PRICES, "own")
        self.send(client(), PRICES, "other")
        assert self.rest_soon(own, own.poller(wanted), 1) == ["other"]

    def test_messages_of_the_client_id_of_a_subscription_are_local_whoever_made_it(
        self, client: Client
    ) -> None:
        maker, own, other = client(origin="maker"), client(client_id="billing"), client()
        poller = maker.poller(replace(SHARED, no_local=True))
        self.send(own, PRICES, "own")
        self.send(maker, PRICES, "made")
        self.send(other, PRICES, "other")
        assert self.rest_soon(maker, poller, 1) == ["other"]

    def test_messages_of_the_connection_that_has_taken_a_subscription_up_are_local(
        self, client: Client
    ) -> None:
        maker, own = client(origin="maker"), client(origin="own")
        wanted = replace(SHARED, no_local=True)
        maker.poller(wanted).close()
        self.send(maker, PRICES, "before")
        poller = own.poller(wanted)
        self.send(own, PRICES, "own")
        self.send(maker, PRICES, "after")
        assert self.rest_soon(own, poller, 1) == ["after"]

    def test_messages_prepared_and_committed_are_local_too(self, client: Client) -> None:
        own = client()
        poller = own.poller(TopicSubscription(PRICES, no_local=True))
        everything = own.poller(TopicSubscription(PRICES))
        access = self.access(own)
        prepared = access.prepare(PRICES, self.text("own"), "key")
        access.sync()
        own.settle([], sends=[prepared])
        assert self.rest_soon(own, everything, 1) == ["own"]
        assert poller.take(1, 9) is None

    @needs("takeover")
    def test_claims_of_a_dead_consumer_come_again_to_the_subscription(self, client: Client) -> None:
        first, second = client(), client()
        self.take_soon_from(first)
        first.abandon()
        (leftover,) = second.leftovers(None, at_start=True)
        (claim,) = leftover.claims
        second.settle([Settlement(claim, give_back=True, delivery_count=claim.delivery_count + 1)])
        leftover.forget()
        again = self.take_soon(second.poller(SHARED))
        assert again.delivery_count == 1
        assert again.destination == PRICES

    def test_a_dead_consumer_is_in_nobodys_way(self, client: Client) -> None:
        first, second = client(), client()
        first.poller(UNSHARED)
        first.abandon()
        self.end_all(second.leftovers(None, at_start=True), expected=1)
        poller = second.poller(UNSHARED)
        self.send(second, PRICES, "1")
        assert self.rest_soon(second, poller, 1) == ["1"]

    def test_the_non_durable_subscriptions_of_the_dead_end(self, client: Client) -> None:
        first, second = client(), client()
        first.poller(TopicSubscription(PRICES))
        first.poller(PASSING)
        first.abandon()
        self.end_all(second.leftovers(None, at_start=True), expected=1)
        assert second.subscriptions() == []

    def take_soon_from(self, connection: Connection) -> None:
        """Leaves one message of SHARED claimed by a connection."""
        poller = connection.poller(SHARED)
        self.send(connection, PRICES, "1")
        self.take_soon(poller)
