"""The earlier owner of a claim cannot settle the claim after another client has taken it over."""

from __future__ import annotations

import pytest

from connector.errors import ClaimLost
from connector.messaging.claim import Claim
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from tests.provider_suite.base import ARCHIVE, NOTES, ORDERS, Connect, SuiteBase, needs


class FencingTests(SuiteBase):
    def test_a_claim_that_was_taken_over_cannot_be_settled_by_its_late_owner(self, connect: Connect) -> None:
        late, connection, lost = self._lose(connect, 1)
        for settlement in (
            Settlement(lost[0]),
            Settlement(lost[0], copy_to=ARCHIVE),
            Settlement(lost[0], give_back=True, delivery_count=1),
        ):
            with pytest.raises(ClaimLost):
                late.settle([settlement])
        assert self.visible(connection, ARCHIVE) == []
        again = self.take_soon(connection.poller(ORDERS), sequence=5)
        assert again.delivery_count == self.count_after_return(1)

    def test_a_fenced_settlement_touches_nothing_where_one_claim_is_lost(self, connect: Connect) -> None:
        late, connection, lost = self._lose(connect, 1)
        self.send(connection, ORDERS, "own")
        poller = late.poller(ORDERS)
        kept = [self.take_soon(poller, cycle=2, sequence=number) for number in range(2)]
        access = self.access(late)
        sent = access.prepare(NOTES, self.text("sent"), "key")
        access.sync()
        with pytest.raises(ClaimLost):
            late.settle([Settlement(claim) for claim in (*kept, *lost)], sends=[sent], fenced=True)
        assert self.visible(connection, NOTES) == []
        assert sorted(self.bodies(connection, ORDERS)) == (["0", "own"] if self.able.shows_all else [])
        late.settle([Settlement(claim) for claim in kept], sends=[sent], fenced=True)
        assert self.bodies(connection, NOTES) == ["sent"]
        assert self.bodies(connection, ORDERS) == []

    def test_a_claim_that_is_settled_cannot_be_settled_again(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "1")
        claim = self.take(connection.poller(ORDERS))
        connection.settle([Settlement(claim)])
        for settlement in (Settlement(claim), Settlement(claim, give_back=True, delivery_count=1)):
            with pytest.raises(ClaimLost):
                connection.settle([settlement], fenced=True)
        assert self.bodies(connection, ORDERS) == []

    @needs("transactions", has=False)
    def test_a_fenced_settlement_of_claims_that_are_all_there_is_like_any_other(
        self, connection: Connection
    ) -> None:
        self.send(connection, ORDERS, *"012")
        poller = connection.poller(ORDERS)
        claims = [self.take(poller, sequence=number) for number in range(3)]
        connection.settle(
            [
                Settlement(claims[0], copy_to=ARCHIVE),
                Settlement(claims[1]),
                Settlement(claims[2], give_back=True, delivery_count=1),
            ],
            fenced=True,
        )
        assert self.bodies(connection, ARCHIVE) == ["0"]
        assert self.bodies(connection, ORDERS) == ["2"]

    def _lose(self, connect: Connect, count: int) -> tuple[Connection, Connection, list[Claim]]:
        """Returns a connection that was taken for dead, another connection, and the lost claims.

        The other connection has given back the claims. Without takeover the first connection has given them
        back itself.
        """
        late, connection = connect(), connect()
        self.send(late, ORDERS, *map(str, range(count)))
        poller = late.poller(ORDERS)
        claims = [self.take(poller, sequence=number) for number in range(count)]
        thief = connection if self.able.takeover else late
        thief.settle([Settlement(claim, give_back=True, delivery_count=1) for claim in claims])
        self.release_fetched(poller)
        return late, connection, claims
