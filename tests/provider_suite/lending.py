"""Brokers lend messages to a connection.

No client takes over such a message. The message comes back when the connection ends.
"""

from __future__ import annotations

import pytest

from connector.core.connection import CoreConnection
from connector.errors import ClaimLost, SettlementError
from connector.messaging.client import AcknowledgeMode
from connector.messaging.provider import Connection, Provider
from connector.messaging.settlement import Settlement
from tests.provider_suite.base import NO_LIMIT, NOTES, ORDERS, Connect, SuiteBase, needs


class LendingTests(SuiteBase):
    @needs("takeover", has=False)
    @pytest.mark.parametrize("end", ["close", "abandon"])
    def test_what_is_not_settled_comes_again_as_soon_as_its_connection_ends(
        self, connect: Connect, end: str
    ) -> None:
        first, second = connect(), connect()
        self.send(first, ORDERS, *"012")
        poller = first.poller(ORDERS)
        first.settle([Settlement(self.take(poller))])
        self.claim(poller, 2, range(2))
        getattr(first, end)()
        for at_start in (True, False):
            assert list(second.leftovers(None, at_start=at_start)) == []
        poller = second.poller(ORDERS)
        again = [self.take_soon(poller, 2, number) for number in range(2)]
        assert {self.load(second, claim).body: claim.delivery_count for claim in again} == dict.fromkeys(
            (b"1", b"2"), self.count_after_return(1)
        )

    @needs("takeover", has=False)
    def test_a_claim_is_settled_by_its_own_connection_only(self, connect: Connect) -> None:
        own, other = connect(), connect()
        self.send(own, ORDERS, "1")
        claim = self.take(own.poller(ORDERS))
        for settlement in (Settlement(claim), Settlement(claim, give_back=True, delivery_count=1)):
            with pytest.raises(ClaimLost):
                other.settle([settlement])
        own.settle([Settlement(claim, copy_to=NOTES)])
        assert self.bodies(other, NOTES) == ["1"]

    @needs("by_value")
    def test_a_message_by_value_is_read_whatever_has_become_of_it(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "1")
        claim = self.take(connection.poller(ORDERS))
        access = self.access(connection)
        connection.settle([Settlement(claim)])
        connection.abandon()
        assert access.load(claim.reference, NO_LIMIT).body == b"1"

    @needs("by_value")
    def test_a_message_by_value_that_is_refused_is_refused_at_the_commit(
        self, provider: Provider, connection: Connection, unwritable: object
    ) -> None:
        self.send(connection, ORDERS, "1")
        with (
            CoreConnection(provider) as messaging,
            messaging.session(AcknowledgeMode.TRANSACTED) as session,
        ):
            consumer = session.consumer(ORDERS)
            assert consumer.receive(self.wait_timeout) is not None
            session.send(NOTES, self.text("never"))
            session.send(str(unwritable), self.text("refused"))
            with pytest.raises(SettlementError):
                session.commit()
            session.rollback()
            again = consumer.receive(self.wait_timeout)
            assert again is not None
            assert again.delivery_count == 2
            session.commit()
        assert self.visible(connection, NOTES) == []
        assert self.bodies(connection, ORDERS) == []
