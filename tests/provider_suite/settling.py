"""Settlement: all or none, copies, fences."""

from __future__ import annotations

from typing import Any

import pytest

from connector.errors import (
    SettlementError,
)
from connector.messaging.message import PropertyValue
from connector.messaging.provider import Connection
from connector.messaging.settlement import HISTORY, Settlement
from tests.provider_suite.base import (
    ARCHIVE,
    NOTES,
    ORDERS,
    SuiteBase,
    needs,
)


class SettlingTests(SuiteBase):
    def test_a_copy_has_everything_of_the_message_and_what_was_added(self, connection: Connection) -> None:
        message = self.text("body", correlation_id="c1", type="T1", priority=8)
        message.set_property("region", "EU")
        (identity,) = connection.send(ORDERS, [message])
        claim = self.take(connection.poller(ORDERS))
        added: dict[str, PropertyValue] = {"connector_outcome": "failed", "connector_attempts": 1}
        connection.settle([Settlement(claim, copy_to=ARCHIVE, properties=added)])
        (copy,) = connection.browse(ARCHIVE)
        assert (copy.message_id, copy.body, copy.correlation_id) == (identity, b"body", "c1")
        assert (copy.type, copy.priority) == ("T1", 8)
        assert copy.properties == {"region": "EU", **added}
        assert self.bodies(connection, ORDERS) == []

    def test_a_long_reason_is_kept_whole_with_the_copy(self, connection: Connection) -> None:
        message = self.text("body", type="T1")
        connection.send(ORDERS, [message])
        claim = self.take(connection.poller(ORDERS))
        reason = "é& " * 2700
        connection.settle([Settlement(claim, copy_to=ARCHIVE, properties={"connector_reason": reason})])
        (copy,) = connection.browse(ARCHIVE)
        assert copy.properties == {"connector_reason": reason}
        assert (copy.type, copy.body) == ("T1", b"body")

    def test_a_copy_inherits_every_property_but_those_of_an_earlier_settlement(
        self, connection: Connection
    ) -> None:
        message = self.text("body")
        for name in ("connector_event_id", "connector_outcomes", "connector_"):
            message.set_property(name, "kept")
        for name in HISTORY:
            message.set_property(name, "dropped")
        connection.send(ORDERS, [message])
        claim = self.take(connection.poller(ORDERS))
        connection.settle([Settlement(claim, copy_to=ARCHIVE, properties={"connector_attempts": 1})])
        (copy,) = connection.browse(ARCHIVE)
        assert copy.properties == {
            "connector_event_id": "kept",
            "connector_outcomes": "kept",
            "connector_": "kept",
            "connector_attempts": 1,
        }

    def test_a_copy_of_a_copy_has_the_newer_properties_only(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("body")])
        for number, (source, target) in enumerate(((ORDERS, NOTES), (NOTES, ARCHIVE))):
            claim = self.take_soon(connection.poller(source), sequence=number)
            added: dict[str, PropertyValue] = {"connector_attempts": number + 1}
            if number == 0:
                added["connector_reason"] = "r" * 400
            connection.settle([Settlement(claim, copy_to=target, properties=added)])
        (copy,) = connection.browse(ARCHIVE)
        assert copy.properties == {"connector_attempts": 2}

    def test_a_message_settled_without_a_copy_is_gone(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("body")])
        claim = self.take(connection.poller(ORDERS))
        connection.settle([Settlement(claim)])
        assert self.bodies(connection, ORDERS) == []
        assert self.drain(connection, ORDERS) == []

    def test_a_provider_that_is_there_says_so(self, connection: Connection) -> None:
        connection.check()
        assert connection.client_id

    def test_nothing_to_settle_is_nothing(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("body")])
        connection.settle([])
        assert self.bodies(connection, ORDERS) == ["body"]

    @needs("transactions", has=False)
    def test_one_settlement_does_all_kinds_at_once(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text(str(n)) for n in range(3)])
        poller = connection.poller(ORDERS)
        copied, discarded, returned = (self.take(poller, sequence=n) for n in range(3))
        access = self.access(connection)
        sent = access.prepare(NOTES, self.text("sent"), "key-1")
        dropped = access.prepare(NOTES, self.text("dropped"), "key-2")
        access.sync()
        connection.settle(
            [
                Settlement(copied, copy_to=ARCHIVE, sends=[sent], discards=[dropped]),
                Settlement(discarded),
                Settlement(returned, give_back=True, delivery_count=1),
            ]
        )
        assert self.bodies(connection, ARCHIVE) == ["0"]
        assert self.bodies(connection, NOTES) == ["sent"]
        assert self.bodies(connection, ORDERS) == ["2"]

    @needs("transactions", has=False)
    def test_what_is_prepared_may_be_sent_with_a_message_that_is_given_back(
        self, connection: Connection
    ) -> None:
        connection.send(ORDERS, [self.text("1")])
        poller = connection.poller(ORDERS)
        access = self.access(connection)
        for count in range(2):
            claim = self.take_soon(poller, sequence=count)
            reply = access.prepare(NOTES, self.text(f"reply {count}"), f"key-{count}")
            dropped = access.prepare(NOTES, self.text("dropped"), f"dropped-{count}")
            access.sync()
            assert len(self.visible(connection, NOTES)) == count
            back = Settlement(claim, give_back=True, delivery_count=count, sends=[reply], discards=[dropped])
            connection.settle([back])
            assert self.bodies(connection, ORDERS) == ["1"]
        assert self.bodies(connection, NOTES) == ["reply 0", "reply 1"]

    @needs("transactions", has=False)
    def test_what_cannot_be_settled_whole_is_not_settled_at_all(
        self, connection: Connection, unwritable: Any
    ) -> None:
        connection.send(ORDERS, [self.text(str(n)) for n in range(3)])
        poller = connection.poller(ORDERS)
        claims = [self.take(poller, sequence=n) for n in range(3)]
        access = self.access(connection)
        sent = access.prepare(NOTES, self.text("sent"), "key-1")
        access.sync()
        impossible = [
            Settlement(claims[0], copy_to=ARCHIVE, sends=[sent]),
            Settlement(claims[1], copy_to=unwritable),
            Settlement(claims[2], give_back=True, delivery_count=1),
        ]
        with pytest.raises(SettlementError, match=unwritable.name):
            connection.settle(impossible)
        assert self.in_queue(connection, ORDERS, claimed="012")
        assert self.visible(connection, ARCHIVE) == self.visible(connection, NOTES) == []
        connection.settle([impossible[0], Settlement(claims[1], copy_to=ARCHIVE), impossible[2]])
        assert self.bodies(connection, ARCHIVE) == ["0", "1"]
        assert self.bodies(connection, NOTES) == ["sent"]
        assert self.bodies(connection, ORDERS) == ["2"]

    def test_prepared_messages_without_a_claim_are_sent_and_dropped_too(self, connection: Connection) -> None:
        access = self.access(connection)
        sent = [access.prepare(NOTES, self.text(str(n)), f"key-{n}") for n in range(3)]
        dropped = access.prepare(NOTES, self.text("dropped"), "key-3")
        access.sync()
        connection.settle([], sends=sent, discards=[dropped])
        assert self.bodies(connection, NOTES) == ["0", "1", "2"]
