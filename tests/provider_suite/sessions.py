"""The promises of sessions over the provider: acknowledgement, redelivery, stop, close, expiry."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import ClassVar

import pytest

from connector.core.connection import CoreConnection
from connector.errors import CapabilityError, ClientIdError, TransactionRolledBack
from connector.messaging.client import AcknowledgeMode, Consumer, ReceivedMessage
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.provider import Capabilities, Connection, Provider
from tests.provider_suite.base import NOTES, ORDERS, PRICES, Connect, SuiteBase, needs


class SessionTests(SuiteBase):
    accepts_persistent: ClassVar[bool] = False
    """Whether an unreliable provider was configured to take persistent messages all the same."""

    @pytest.fixture
    def messaging(self, provider: Provider) -> Iterator[CoreConnection]:
        with self.client_class(provider) as messaging:
            yield messaging

    def test_persistent_messages_are_refused_by_a_provider_that_could_lose_them(
        self, capabilities: Capabilities, connection: Connection, messaging: CoreConnection
    ) -> None:
        """Unless the provider was configured to take them."""
        producer = messaging.session().producer(ORDERS)
        producer.send("default")
        (seen,) = connection.browse(ORDERS)
        assert seen.delivery_mode == (PERSISTENT if capabilities.reliable else NON_PERSISTENT)
        if capabilities.reliable or self.accepts_persistent:
            producer.send("persistent", delivery_mode=PERSISTENT)
            assert "persistent" in self.bodies(connection, ORDERS)
            return
        with pytest.raises(CapabilityError):
            producer.send("persistent", delivery_mode=PERSISTENT)
        assert self.bodies(connection, ORDERS) == ["default"]

    def test_a_queue_that_is_missing_is_empty_for_a_consumer_and_a_browser(
        self, messaging: CoreConnection
    ) -> None:
        session = messaging.session()
        assert list(session.browser("queue://for-a-browser")) == []
        consumer = session.consumer("queue://for-a-consumer")
        assert consumer.receive(timeout=0) is None
        consumer.close()  # a client library may fetch for an open one, and a browser sees no such message
        for name in ("queue://for-a-browser", "queue://for-a-consumer"):
            session.producer(name).send("sent", delivery_mode=self.delivery_mode)
            assert [message.value for message in session.browser(name)] == ["sent"]

    @pytest.mark.parametrize("mode", list(AcknowledgeMode), ids=str)
    def test_what_is_acknowledged_is_gone_and_the_rest_comes_again_flagged(
        self, connection: Connection, messaging: CoreConnection, mode: AcknowledgeMode
    ) -> None:
        self.send(connection, ORDERS, *"1234")
        session = messaging.session(mode)
        consumer = session.consumer(ORDERS)
        received = []
        for _ in range(2):
            received.append(self.receive_one(consumer))
            if mode is AcknowledgeMode.INDIVIDUAL and self.fetches_ahead:
                received[-1].acknowledge()  # the consumer has the next message in the transaction of this one
        if mode is AcknowledgeMode.TRANSACTED:
            session.commit()
        for message in received:
            message.acknowledge()
        self.receive_one(consumer)
        session.close()
        acknowledged_at_once = mode in (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK)
        # what comes back comes at once, but where a client library fetches ahead
        counts = self.delivery_counts(messaging, 1 if acknowledged_at_once and not self.fetches_ahead else 2)
        self.check_counts(counts, [1] if acknowledged_at_once else [2, 1])

    def test_a_listener_that_raises_gets_its_message_again_flagged(
        self, connection: Connection, messaging: CoreConnection
    ) -> None:
        self.send(connection, ORDERS, "1")
        counts: list[int] = []
        told: list[Exception] = []
        done = threading.Event()

        def listen(message: ReceivedMessage) -> None:
            counts.append(message.delivery_count)
            if len(counts) < 3:
                raise ValueError("not yet")
            done.set()

        messaging.exception_listener = told.append
        session = messaging.session()
        session.consumer(ORDERS).listen(listen)
        assert done.wait(self.wait_timeout)
        session.close()
        assert counts == [1, 2, 3]
        assert len(told) == 2
        assert self.bodies(connection, ORDERS) == []

    def test_a_stopped_connection_delivers_nothing_and_continues_where_it_was(
        self, connection: Connection, messaging: CoreConnection
    ) -> None:
        consumer = messaging.session().consumer(ORDERS)
        self.send(connection, ORDERS, *"123")
        assert self.receive_one(consumer).body == b"1"
        messaging.stop()
        assert consumer.receive(0.1) is None
        if not self.fetches_ahead:
            assert self.bodies(connection, ORDERS) == ["2", "3"]
        messaging.start()
        assert [self.receive_one(consumer).body for _ in range(2)] == [b"2", b"3"]

    def test_a_receive_that_waits_ends_when_another_thread_closes(self, messaging: CoreConnection) -> None:
        consumer = messaging.session().consumer(ORDERS)
        found: list[Message | None] = []
        thread = threading.Thread(target=lambda: found.append(consumer.receive()))
        thread.start()
        time.sleep(0.05)  # nothing shows that the thread waits
        messaging.close()
        thread.join(self.wait_timeout)
        assert not thread.is_alive()
        assert found == [None]

    def test_a_transaction_with_a_message_that_has_expired_is_rolled_back_whole(
        self, connection: Connection, messaging: CoreConnection
    ) -> None:
        self.send(connection, ORDERS, "in")
        session = messaging.session(AcknowledgeMode.TRANSACTED)
        self.receive_one(session.consumer(ORDERS))
        session.send(NOTES, self.text("good"))
        soon = time.time_ns() // 1_000_000 + 30
        session.send(NOTES, self.text("late", expiration=soon))
        self.let_pass(soon)
        with pytest.raises(TransactionRolledBack):
            session.commit()
        session.close()
        assert self.visible(connection, NOTES) == []
        self.check_counts(self.delivery_counts(messaging, 1), [2])

    def test_a_client_id_is_held_by_one_connection_at_a_time(self, provider: Provider) -> None:
        with self.client_class(provider, client_id="billing"):
            with pytest.raises(ClientIdError, match="billing"):
                self.client_class(provider, client_id="billing")
            self.client_class(provider, client_id="another").close()
        self.client_class(provider, client_id="billing").close()

    @needs("shares_client_ids")
    def test_the_instances_of_an_adapter_share_a_client_id(self, connect: Connect) -> None:
        connect("billing", "a", client_id="billing")
        connect("billing", "b", client_id="billing")
        for stranger in ("", "another"):
            with pytest.raises(ClientIdError, match="the adapter 'billing'"):
                connect(stranger, client_id="billing")

    @needs("topics")
    @needs("administers")
    def test_a_durable_subscriber_gets_what_came_while_it_was_away(self, provider: Provider) -> None:
        for number in range(3):
            with self.client_class(provider, client_id="billing") as messaging:
                session = messaging.session()
                consumer = session.durable_consumer(PRICES, "own")
                if number:
                    assert self.receive_one(consumer).body == f"{number - 1}".encode()
                assert consumer.receive_nowait() is None
            with self.client_class(provider) as other:
                other.session().send(PRICES, self.text(str(number)))

    def receive_one(self, consumer: Consumer) -> ReceivedMessage:
        message = consumer.receive(self.wait_timeout)
        assert message is not None
        return message

    def check_counts(self, counts: list[int], expected: list[int]) -> None:
        """Checks delivery counts. With ``fetches_ahead`` a broker may count what nobody has received."""
        assert len(counts) == len(expected)
        for count, least in zip(counts, expected, strict=True):
            assert count >= least if self.fetches_ahead else count == least

    def delivery_counts(self, messaging: CoreConnection, count: int) -> list[int]:
        """Returns the delivery counts of the messages of ORDERS."""
        return [message.delivery_count for message in self.everything(messaging, count)]

    def everything(self, messaging: CoreConnection, count: int) -> list[ReceivedMessage]:
        """Returns the messages of ORDERS. Waits a moment for ``count`` messages to come back."""
        consumer = messaging.session().consumer(ORDERS)
        found: list[ReceivedMessage] = []
        deadline = time.monotonic() + self.wait_timeout / 10
        while len(found) < count and time.monotonic() < deadline:
            found += list(consumer.messages(timeout=0.05))
        return found
