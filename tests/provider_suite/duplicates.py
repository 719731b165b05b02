"""Duplicate keys tell a message that came twice from two messages."""

from __future__ import annotations

from connector.messaging.provider import Connection, Provider
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import (
    ARCHIVE,
    NOTES,
    ORDERS,
    PRICES,
    Connect,
    SuiteBase,
    needs,
)


class DuplicateTests(SuiteBase):
    def test_the_duplicate_key_stays_when_a_message_comes_again(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("body")])
        poller = connection.poller(ORDERS)
        claim = self.take(poller)
        key = claim.duplicate_key
        connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
        assert self.take_soon(poller, sequence=1).duplicate_key == key

    def test_two_messages_never_share_a_duplicate_key(self, connection: Connection) -> None:
        for destination in (ORDERS, NOTES):
            connection.send(destination, [self.text("same") for _ in range(3)])
        keys = {
            self.take(poller, sequence=n).duplicate_key
            for poller in (connection.poller(ORDERS), connection.poller(NOTES))
            for n in range(3)
        }
        assert len(keys) == 6

    @needs("topics")
    @needs("administers")
    def test_two_subscriptions_never_share_a_duplicate_key(self, connection: Connection) -> None:
        names = ["a", "b", "a|b", "a\nb"]
        wanted = [TopicSubscription(PRICES, name, durable=True, shared=True) for name in names]
        pollers = [connection.poller(one) for one in wanted]
        self.send(connection, PRICES, "1")
        claims = [self.take_soon(one, sequence=number) for number, one in enumerate(pollers)]
        assert [claim.subscription for claim in claims] == [one.subscription for one in pollers]
        keys = {claim.duplicate_key for claim in claims}
        assert len(keys) == len({claim.subscription for claim in claims}) == len(names)
        assert not any("\n" in key for key in keys)

    def test_the_identity_of_a_message_stays_and_is_its_own(self, connection: Connection) -> None:
        """Two messages may say the same, and a message may come several times."""
        connection.send(ORDERS, [self.text("same") for _ in range(3)])
        poller, access = connection.poller(ORDERS), connection.access().open()

        def identities(cycle: int) -> list[str]:
            claims = [self.take_soon(poller, cycle=cycle, sequence=number) for number in range(3)]
            found = [access.identity(one.reference, access.load(one.reference, 100)) for one in claims]
            connection.settle([Settlement(one, give_back=True, delivery_count=1) for one in claims])
            return found

        first = identities(1)
        assert len(set(first)) == 3
        assert sorted(identities(2)) == sorted(first)

    def test_a_client_that_is_no_adapter_has_no_window(self, provider: Provider, connect: Connect) -> None:
        client = connect("")
        client.send(ORDERS, [self.text("1")])
        claim = self.take(client.poller(ORDERS))
        key = claim.duplicate_key
        client.settle([Settlement(claim, published=key)])
        for application in ("", "suite"):
            assert key not in provider.state(application).window(connect().client_id, 100)

    @needs("takeover", has=False)
    def test_what_a_client_that_has_ended_had_in_flight_keeps_nobody_off(
        self, provider: Provider, connect: Connect
    ) -> None:
        first, second = connect(), connect()
        windows = [provider.state("suite").window(one.client_id, 100) for one in (first, second)]
        assert [window.reserve(["key"]) for window in windows] == [set(), {"key"}]
        first.abandon()
        assert windows[1].reserve(["key"]) == set()

    def test_published_keys_are_in_the_window_of_every_instance(
        self, provider: Provider, connect: Connect
    ) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [self.text(str(n)) for n in range(3)])
        poller = first.poller(ORDERS)
        claims = [self.take(poller, sequence=n) for n in range(3)]
        keys = [claim.duplicate_key for claim in claims]
        others = ["queue://orders|of a value", "queue://orders|é %0A --published"]
        first.settle(
            [
                Settlement(claims[0], copy_to=ARCHIVE, published="\n".join([keys[0], *others])),
                Settlement(claims[1], published=keys[1]),
                Settlement(claims[2]),
            ]
        )
        window = provider.state("suite").window(second.client_id, 100)
        assert [key in window for key in (*keys, *others)] == [True, True, False, True, True]
