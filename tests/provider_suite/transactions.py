"""Sending and receiving in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from connector.core.session import CoreSession
from connector.errors import ProviderError
from connector.messaging.client import AcknowledgeMode
from connector.messaging.provider import Connection, Provider
from tests.provider_suite.base import NOTES, ORDERS, SuiteBase, needs


class TransactionTests(SuiteBase):
    @pytest.fixture
    def session(self, provider: Provider) -> Iterator[CoreSession]:
        """A transacted session."""
        with self.client_class(provider) as messaging, messaging.session(AcknowledgeMode.TRANSACTED) as one:
            yield one
            one.rollback()

    def test_a_transaction_receives_and_sends_at_its_commit(
        self, connection: Connection, session: CoreSession
    ) -> None:
        connection.send(ORDERS, [self.text("1"), self.text("2")])
        consumer = session.consumer(ORDERS)
        for _ in range(2):
            got = consumer.receive(self.wait_timeout)
            assert got is not None
            session.send(NOTES, self.text(f"got {got.value}"))
        assert consumer.receive_nowait() is None
        assert self.visible(connection, NOTES) == []
        assert self.in_queue(connection, ORDERS, claimed="12")
        session.commit()
        assert self.bodies(connection, NOTES) == ["got 1", "got 2"]
        assert self.bodies(connection, ORDERS) == []

    def test_a_transaction_that_is_rolled_back_leaves_the_count_only(
        self, connection: Connection, session: CoreSession
    ) -> None:
        connection.send(ORDERS, [self.text("1")])
        consumer = session.consumer(ORDERS)
        for count in range(1, 4):
            got = consumer.receive(self.wait_timeout)
            assert got is not None, "it did not come back"
            assert (got.delivery_count, got.redelivered) == (count, count > 1)
            session.send(NOTES, self.text("never"))
            session.rollback()
        self.release_fetched(consumer)
        assert self.visible(connection, NOTES) == []
        assert self.bodies(connection, ORDERS) == ["1"]

    def test_a_transaction_after_one_that_was_rolled_back_sends_its_own_only(
        self, connection: Connection, session: CoreSession
    ) -> None:
        session.send(NOTES, self.text("never"))
        session.rollback()
        session.send(NOTES, self.text("sent"))
        session.commit()
        assert self.bodies(connection, NOTES) == ["sent"]

    @needs("by_value", has=False)
    def test_a_transaction_in_which_a_message_is_refused_goes_on(
        self, connection: Connection, session: CoreSession, unwritable: Any
    ) -> None:
        connection.send(ORDERS, [self.text("1")])
        assert session.consumer(ORDERS).receive(self.wait_timeout) is not None
        with pytest.raises(ProviderError):
            session.send(unwritable, self.text("refused"))
        session.send(NOTES, self.text("sent"))
        session.commit()
        assert self.bodies(connection, NOTES) == ["sent"]
        assert self.bodies(connection, ORDERS) == []
