"""A redelivery limit: a message that was delivered that often is put aside, and counted anew."""

from __future__ import annotations

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.polling import Poller
from connector.messaging.provider import Connection, Provider
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import ARCHIVE, IN_PROGRESS, ORDERS, PRICES, SuiteBase, needs

REPAIRED = parse_destination("queue://orders~RECOVER-ERROR")
REJECTED = parse_destination("queue://orders~REJECT-ERROR")


class LimitTests(SuiteBase):
    """The tests of a redelivery limit. Override the fixture ``limited`` to run them."""

    @pytest.fixture
    def limited(self, provider: Provider) -> Provider:
        """The empty provider under test, which delivers a message twice at most."""
        pytest.skip("the provider has no redelivery limit")

    @pytest.fixture
    def strict(self, limited: Provider) -> Connection:
        """A connection of the limited provider."""
        return limited.connect("suite", "strict")

    def give_back(self, connection: Connection, poller: Poller, *counts: int) -> None:
        """Takes a message and gives it back, once for each count."""
        for count in counts:
            claim = self.take_soon(poller, cycle=count)
            connection.settle([Settlement(claim, give_back=True, delivery_count=count)])

    def test_a_message_is_put_aside_when_it_was_delivered_as_often_as_the_limit_says(
        self, strict: Connection
    ) -> None:
        self.send(strict, ORDERS, "1")
        poller = strict.poller(ORDERS)
        self.give_back(strict, poller, 1, 2)
        assert (poller.take(3, 0), poller.expired) == (None, 0)
        (info,) = strict.destinations()
        assert (info.waiting, info.in_progress, info.expired, info.error) == (0, 0, 0, 1)
        strict.close()

    def test_what_is_given_back_uncounted_is_delivered_without_end(self, strict: Connection) -> None:
        self.send(strict, ORDERS, "1")
        poller = strict.poller(ORDERS)
        for cycle in range(5):
            strict.settle([Settlement(self.take_soon(poller, cycle), give_back=True)])
        assert self.take_soon(poller, 5).delivery_count == 0
        strict.abandon()

    @needs("topics")
    @needs("administers")
    def test_a_message_of_a_subscription_is_put_aside_there_alone(self, strict: Connection) -> None:
        pollers = [strict.poller(TopicSubscription(PRICES, name, durable=True, shared=True)) for name in "ab"]
        self.send(strict, PRICES, "1")
        self.give_back(strict, pollers[0], 1, 2)
        assert pollers[0].take(3, 0) is None
        found = [
            (info.waiting, info.in_progress, info.expired, info.error) for info in strict.subscriptions()
        ]
        assert found == [(0, 0, 0, 1), (1, 0, 0, 0)]
        assert [info.error for info in strict.destinations()] == [0]
        pollers[0].close()
        assert strict.unsubscribe("a").losses() == "1 in error"
        strict.close()

    @needs("selectors")
    def test_a_message_delivered_too_often_is_put_aside_whatever_the_selector(
        self, strict: Connection
    ) -> None:
        self.send(strict, ORDERS, "1")
        poller = strict.poller(ORDERS)
        self.give_back(strict, poller, 1, 2)
        poller.close()
        assert strict.poller(ORDERS, selector="region = 'EU'").take(3, 0) is None
        assert [info.error for info in strict.destinations()] == [1]
        strict.close()

    @needs("in_progress")
    def test_what_is_adopted_was_delivered_and_is_not_put_aside(self, strict: Connection) -> None:
        self.send(strict, ORDERS, "1")
        poller = strict.poller(ORDERS, IN_PROGRESS)
        self.give_back(strict, poller, 1)
        strict.leave_unowned(self.take_soon(poller, cycle=2))
        (left,) = strict.find_unowned(IN_PROGRESS)
        adopted = strict.adopt(left, 3, 0)
        assert adopted is not None
        assert adopted.delivery_count == 2
        strict.settle([Settlement(adopted, copy_to=ARCHIVE)])
        assert self.bodies(strict, ARCHIVE) == ["1"]
        strict.close()

    @needs("virtual_destinations")
    def test_what_was_put_aside_says_how_often_it_was_delivered_and_begins_anew(
        self, strict: Connection
    ) -> None:
        self.send(strict, ORDERS, "1")
        poller = strict.poller(ORDERS)
        for attempts in (2, 4):
            self.give_back(strict, poller, 1, 2)
            assert poller.take(3, 0) is None
            (seen,) = strict.browse(REPAIRED)
            assert (seen.delivery_count, seen.properties) == (1, {"connector_attempts": attempts})
            strict.settle([Settlement(self.take_soon(strict.poller(REPAIRED)))])
            assert self.bodies(strict, ORDERS) == ["1"]
        strict.close()

    @needs("virtual_destinations")
    def test_what_was_put_aside_and_rejected_is_gone(self, strict: Connection) -> None:
        self.send(strict, ORDERS, "1")
        poller = strict.poller(ORDERS)
        self.give_back(strict, poller, 1, 2)
        assert poller.take(3, 0) is None
        strict.settle([Settlement(self.take_soon(strict.poller(REJECTED)))])
        assert self.bodies(strict, REJECTED) == self.bodies(strict, ORDERS) == []
        strict.close()
