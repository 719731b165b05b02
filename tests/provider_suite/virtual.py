"""Virtual destinations: parts of a queue under names of their own, ``orders~EXPIRED`` and the like."""

from __future__ import annotations

import time

import pytest

from connector.errors import CapabilityError, ConnectorError
from connector.messaging.destination import VIEWS, parse_destination
from connector.messaging.provider import Capabilities, Connection
from connector.messaging.settlement import Settlement
from tests.provider_suite.base import NOTES, ORDERS, SuiteBase, look_again, needs

PROCESSING = parse_destination("queue://orders~PROCESSING")
EXPIRED = parse_destination("queue://orders~EXPIRED")


class VirtualRefusedTests(SuiteBase):
    """A provider without virtual destinations refuses them."""

    def test_virtual_destinations_are_refused_by_a_provider_without_them(
        self, capabilities: Capabilities, connection: Connection
    ) -> None:
        self.send(connection, ORDERS, "1")
        if capabilities.virtual_destinations:
            assert connection.poller(EXPIRED).take(1, 0) is None
            return
        for view in sorted(VIEWS):
            with pytest.raises(CapabilityError):
                connection.poller(parse_destination(f"orders~{view}"))


@needs("virtual_destinations")
class VirtualTests(SuiteBase):
    def test_nothing_is_sent_to_a_virtual_destination_and_one_that_holds_nothing_is_empty(
        self, connection: Connection
    ) -> None:
        self.send(connection, ORDERS, "1")
        for view in sorted(VIEWS):
            with pytest.raises(ConnectorError, match=view):
                self.send(connection, parse_destination(f"orders~{view}"), "2")
            assert self.bodies(connection, parse_destination(f"orders~{view}")) == []
        assert self.bodies(connection, ORDERS) == ["1"]

    def test_messages_in_processing_can_be_browsed_but_not_taken(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "1", "2")
        claim = self.take(connection.poller(ORDERS))
        assert self.bodies(connection, PROCESSING) == ["1"]
        with pytest.raises(ConnectorError, match="PROCESSING"):
            connection.poller(PROCESSING)
        connection.settle([Settlement(claim)])
        assert self.bodies(connection, PROCESSING) == []

    def test_expired_messages_can_be_browsed_taken_and_settled(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("old", expiration=1, type="T"), self.text("good")])
        assert self.drain(connection, ORDERS) == ["good"]
        (seen,) = connection.browse(EXPIRED)
        assert (seen.body, seen.type, seen.expiration) == (b"old", "T", 1)
        poller = connection.poller(EXPIRED)
        claim = self.take(poller)
        assert self.load(connection, claim).body == b"old"
        assert poller.expired == 0
        connection.settle([Settlement(claim)])
        assert self.bodies(connection, EXPIRED) == self.bodies(connection, ORDERS) == []

    def test_what_is_claimed_from_a_virtual_destination_is_in_progress_in_its_queue(
        self, connection: Connection
    ) -> None:
        connection.send(ORDERS, [self.text("1", expiration=1), self.text("2", expiration=1)])
        assert self.drain(connection, ORDERS) == []
        self.take(connection.poller(EXPIRED))
        assert self.bodies(connection, EXPIRED) == ["2"]
        assert self.bodies(connection, PROCESSING) == self.bodies(connection, ORDERS) == ["1"]
        (info,) = connection.destinations()
        assert (info.waiting, info.in_progress, info.expired) == (0, 1, 1)

    def test_what_is_given_back_to_a_virtual_destination_is_there_again(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("old", expiration=1)])
        assert self.drain(connection, ORDERS) == []
        poller = connection.poller(EXPIRED)
        claim = self.take(poller)
        connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
        assert self.take_soon(poller, sequence=1).delivery_count == 1
        assert self.drain(connection, ORDERS) == []

    def test_a_message_from_a_virtual_destination_is_no_duplicate_of_one_from_its_queue(
        self, connection: Connection
    ) -> None:
        soon = time.time_ns() // 1_000_000 + 1000
        connection.send(ORDERS, [self.text("old", expiration=soon)])
        poller = connection.poller(ORDERS)
        claim = self.take(poller)
        key = claim.duplicate_key
        connection.settle([Settlement(claim, give_back=True)])
        deadline = time.monotonic() + self.wait_timeout
        while not poller.expired and time.monotonic() < deadline:
            again = poller.take(2, round(time.monotonic() * 1000))
            if again is not None:
                connection.settle([Settlement(again, give_back=True)])
            look_again()
        assert self.take(connection.poller(EXPIRED), cycle=3).duplicate_key != key

    def test_an_expired_message_may_be_copied_elsewhere(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("old", expiration=1)])
        assert self.drain(connection, ORDERS) == []
        claim = self.take(connection.poller(EXPIRED))
        connection.settle([Settlement(claim, copy_to=NOTES)])
        assert self.bodies(connection, EXPIRED) == []
        (copy,) = connection.browse(NOTES)
        assert copy.body == b"old"
