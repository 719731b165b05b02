"""Send and receive in one transaction."""

from __future__ import annotations

import time
from typing import Any

import pytest

from connector.core.session import TransactedSession
from connector.errors import (
    ProviderError,
)
from connector.messaging.provider import Connection
from connector.testing.provider_suite.base import (
    NOTES,
    ORDERS,
    SuiteBase,
)


class Transactions(SuiteBase):
    """See the module."""

    def test_a_transaction_receives_and_sends_at_its_commit(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("1"), self.text("2")])
        with TransactedSession(connection) as session:
            for _ in range(2):
                got = session.receive(ORDERS)
                assert got is not None
                session.send(NOTES, self.text(f"got {got.body.decode()}"))
            assert session.receive(ORDERS) is None
            assert self.visible(connection, NOTES) == []
            assert self.bodies(connection, ORDERS) == ["1", "2"]
        assert self.bodies(connection, NOTES) == ["got 1", "got 2"]
        assert self.bodies(connection, ORDERS) == []

    def test_a_transaction_that_is_rolled_back_leaves_the_count_only(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("1")])
        session = TransactedSession(connection)
        for count in range(1, 4):
            deadline = time.monotonic() + self.patience
            while (got := session.receive(ORDERS)) is None:
                assert time.monotonic() < deadline, "it did not come back"
            assert (got.delivery_count, got.redelivered) == (count, count > 1)
            session.send(NOTES, self.text("never"))
            session.rollback()
        session.close()
        assert self.visible(connection, NOTES) == []
        assert self.bodies(connection, ORDERS) == ["1"]

    def test_a_transaction_that_cannot_be_committed_goes_on(
        self, connection: Connection, unwritable: Any
    ) -> None:
        connection.send(ORDERS, [self.text("1")])
        session = TransactedSession(connection)
        assert session.receive(ORDERS) is not None
        with pytest.raises(ProviderError):
            session.send(unwritable, self.text("refused"))
        session.send(NOTES, self.text("sent"))
        session.commit()
        session.close()
        assert self.bodies(connection, NOTES) == ["sent"]
        assert self.bodies(connection, ORDERS) == []
