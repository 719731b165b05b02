"""The claims of one poller and cycle are one transaction of a broker, settled or given back as a whole."""

from __future__ import annotations

from typing import Any, Final

import pytest

from connector.errors import CapabilityError, ClaimLost, SettlementError
from connector.messaging.message import PropertyValue
from connector.messaging.provider import Connection
from connector.messaging.settlement import GroupSettlement, Settlement
from tests.provider_suite.base import ARCHIVE, NOTES, ORDERS, SuiteBase, needs

_MORE_THAN_FETCHED: Final = 300
"""Messages. A client library fetches fewer for a consumer."""


@needs("transactions")
class BrokerTransactionTests(SuiteBase):
    def test_a_part_of_a_transaction_cannot_be_settled(self, connection: Connection) -> None:
        self.send(connection, ORDERS, *"012")
        claims = self.claim(connection.poller(ORDERS), 1, range(3))
        mixed = [*map(Settlement, claims[:2]), Settlement(claims[2], give_back=True)]
        for part in ([Settlement(claims[0])], [GroupSettlement(claims[1:], ARCHIVE)], mixed):
            with pytest.raises(SettlementError, match="3 messages"):
                connection.settle(part)
        assert self.visible(connection, ARCHIVE) == []
        connection.settle([GroupSettlement(claims[:2], ARCHIVE), Settlement(claims[2], copy_to=NOTES)])
        assert self.bodies(connection, ARCHIVE) == ["0", "1"]
        assert self.bodies(connection, NOTES) == ["2"]
        assert self.bodies(connection, ORDERS) == []

    def test_a_transaction_that_is_given_back_sends_and_copies_nothing(self, connection: Connection) -> None:
        message = self.text("0")
        message.set_property("kept", 1)
        connection.send(ORDERS, [message])
        poller = connection.poller(ORDERS)
        added: dict[str, PropertyValue] = {"connector_delivered": "a"}
        for cycle in range(3):
            claim = self.take_soon(poller, cycle)
            access = self.access(connection)
            sent = access.prepare(NOTES, self.text("never"), f"key-{cycle}")
            connection.settle(
                [Settlement(claim, ARCHIVE, added, give_back=True, delivery_count=2, sends=[sent])]
            )
        claim = self.take_soon(poller, 3)
        assert (claim.delivery_count, self.load(connection, claim).properties) == (0, {"kept": 1})
        assert self.visible(connection, ARCHIVE) == self.visible(connection, NOTES) == []

    def test_a_refused_message_rolls_the_transaction_back(
        self, connection: Connection, unwritable: Any
    ) -> None:
        self.send(connection, ORDERS, *"012")
        poller = connection.poller(ORDERS)
        claims = self.claim(poller, 1, range(3))
        sent = self.access(connection).prepare(NOTES, self.text("sent"), "key")
        impossible = [Settlement(claims[0], ARCHIVE, sends=[sent]), Settlement(claims[1], unwritable)]
        with pytest.raises(SettlementError, match=unwritable.name):
            connection.settle([*impossible, Settlement(claims[2])])
        assert self.visible(connection, ARCHIVE) == self.visible(connection, NOTES) == []
        with pytest.raises(ClaimLost):
            connection.settle([Settlement(claims[0])])
        assert self.rest_soon(connection, poller, 3) == ["0", "1", "2"]

    def test_a_cycle_of_each_poller_is_settled_apart(self, connection: Connection) -> None:
        waiting = self.send(connection, ORDERS, *map(str, range(_MORE_THAN_FETCHED)))
        self.send(connection, NOTES, "n")
        poller = connection.poller(ORDERS)
        first, second = self.claim(poller, 1, range(2)), self.claim(poller, 2, range(2))
        bodies = [self.load(connection, claim).body.decode() for claim in second]
        other = self.take(connection.poller(NOTES))
        connection.settle([Settlement(claim, give_back=True) for claim in first])
        connection.settle([GroupSettlement(second, ARCHIVE)])
        connection.settle([Settlement(other, copy_to=ARCHIVE)])
        assert self.bodies(connection, ARCHIVE) == [*bodies, "n"]
        poller.close()
        settled = {claim.message_id for claim in second}
        assert len(settled) == 2
        left = {message.message_id for message in connection.browse(ORDERS)}
        assert left == set(waiting) - settled

    def test_a_lost_transaction_does_not_stop_the_others_unless_fenced(self, connection: Connection) -> None:
        waiting = self.send(connection, ORDERS, *map(str, range(_MORE_THAN_FETCHED)))
        poller = connection.poller(ORDERS)
        lost, kept = self.take(poller, 1), self.take_soon(poller, 2)
        connection.settle([Settlement(lost, give_back=True)])
        both = [Settlement(lost, copy_to=ARCHIVE), Settlement(kept, copy_to=ARCHIVE)]
        with pytest.raises(ClaimLost):
            connection.settle(both, fenced=True)
        connection.settle(both)
        assert [message.message_id for message in connection.browse(ARCHIVE)] == [kept.message_id]
        poller.close()
        left = {message.message_id for message in connection.browse(ORDERS)}
        assert left == set(waiting) - {kept.message_id}

    def test_the_ids_of_a_client_have_no_pattern(self, connection: Connection) -> None:
        with pytest.raises(CapabilityError):
            _ = connection.sent_ids
