"""Messages that other programs have spoiled: such a message fails, and holds up no other message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from connector.errors import MalformedData
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from tests.provider_suite.base import (
    IN_PROGRESS,
    NO_LIMIT,
    NOTES,
    ORDERS,
    Connect,
    SuiteBase,
    needs,
)

ERROR = parse_destination("queue://error")

Spoil = Callable[[Destination, str], None]
"""Spoils a waiting message, named by its JMSMessageID."""


class BadMessageTests(SuiteBase):
    """Each test has a spoiled message, of high priority, before sound ones."""

    @pytest.fixture
    def bad(self, connection: Connection, spoil: Spoil) -> str:
        """The id of a spoiled message in ``ORDERS``, before ``1`` and ``2``."""
        (identity,) = self.send(connection, ORDERS, "bad", priority=9)
        spoil(ORDERS, identity)
        self.send(connection, ORDERS, *"12")
        return identity

    def readable(self, connection: Connection, claims: list[Claim]) -> list[str]:
        """The bodies of claims that can be read. Others are malformed."""
        access, found = self.access(connection), []
        for claim in claims:
            try:
                found.append(access.load(claim.reference, NO_LIMIT).body.decode())
            except MalformedData:
                continue
        return found

    def test_a_spoiled_message_is_claimed_and_cannot_be_read(self, connection: Connection, bad: str) -> None:
        claims = self.claim_soon(connection.poller(ORDERS), 1, range(3))
        assert self.readable(connection, claims) == ["1", "2"]
        assert bad in [claim.message_id for claim in claims]
        assert all(claim.headers() for claim in claims)

    def test_a_spoiled_message_holds_up_no_other_destination(self, connection: Connection, bad: str) -> None:
        self.send(connection, NOTES, "note")
        pollers = [connection.poller(ORDERS), connection.poller(NOTES)]
        claims = [claim for poller in pollers for claim in poller.claim(1, range(9))]
        assert self.readable(connection, claims) == ["1", "2", "note"]

    def test_browsing_names_a_spoiled_message_and_shows_the_others(
        self, connection: Connection, bad: str
    ) -> None:
        named: dict[str | None, str] = {}
        found = connection.browse(ORDERS, lambda message, reason: named.update({message.message_id: reason}))
        assert [message.body for message in found if message.message_id != bad] == [b"1", b"2"]
        assert named.keys() == {bad}
        assert named[bad]

    def test_a_spoiled_message_is_copied_and_given_back(self, connection: Connection, bad: str) -> None:
        poller = connection.poller(ORDERS)
        claims = self.claim_soon(poller, 1, range(3))
        connection.settle([Settlement(claim, give_back=True, delivery_count=1) for claim in claims])
        claims = self.claim_soon(poller, 2, range(3))
        reasons = {"connector_reason": "it cannot be read", "connector_outcome": "failed"}
        connection.settle([Settlement(claim, copy_to=ERROR, properties=reasons) for claim in claims])
        assert poller.claim(3, range(9)) == []
        copies = {message.message_id: message for message in connection.browse(ERROR)}
        assert copies[bad].properties["connector_reason"] == "it cannot be read"
        assert len(copies) == 3
        again = self.claim_soon(connection.poller(ERROR), 4, range(3))
        connection.settle([Settlement(claim) for claim in again])

    @needs("selectors")
    def test_a_selector_passes_over_what_it_cannot_read(self, connection: Connection, bad: str) -> None:
        claims = self.claim_soon(connection.poller(ORDERS, selector="JMSPriority < 9"), 1, range(2))
        assert self.readable(connection, claims) == ["1", "2"]

    @needs("takeover")
    def test_a_spoiled_message_is_taken_over(
        self, connect: Connect, connection: Connection, bad: str
    ) -> None:
        other = connect()
        assert len(self.claim_soon(connection.poller(ORDERS), 1, range(3))) == 3
        connection.abandon()
        (leftover,) = other.leftovers(None, at_start=True)
        assert bad in [claim.message_id for claim in leftover.claims]
        leftover.forget()
        assert self.readable(other, self.claim_soon(other.poller(ORDERS), 2, range(3))) == ["1", "2"]

    @needs("takeover")
    def test_a_spoiled_message_is_taken_over_in_progress(
        self, connect: Connect, connection: Connection, bad: str
    ) -> None:
        other = connect()
        assert len(self.claim_soon(connection.poller(ORDERS, IN_PROGRESS), 1, range(3))) == 3
        connection.abandon()
        (leftover,) = other.leftovers(IN_PROGRESS, at_start=True)
        adopted = [other.adopt(claim, 2, number) for number, claim in enumerate(leftover.claims)]
        leftover.forget()
        claims = [claim for claim in adopted if claim is not None]
        assert self.readable(other, claims) == ["1", "2"]
        other.settle([Settlement(claim) for claim in claims])
        assert list(other.browse(IN_PROGRESS)) == []
