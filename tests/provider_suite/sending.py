"""A sent message arrives unchanged: headers, properties, body. A batch arrives completely or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from connector.errors import (
    ProviderError,
)
from connector.messaging.destination import Destination
from connector.messaging.message import MESSAGE_CLASSES, NON_PERSISTENT, Message, PropertyValue
from connector.messaging.polling import Poller
from connector.messaging.provider import Connection
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import (
    ORDERS,
    PRICES,
    Connect,
    SuiteBase,
    needs,
)

_TYPED: dict[str, tuple[PropertyValue, ...]] = {
    "boolean": (True, False),
    "byte": (-128, 127),
    "short": (-32768, 32767),
    "int": (-(1 << 31), (1 << 31) - 1),
    "long": (-(1 << 63), (1 << 63) - 1),
    "float": (0.5, -1.17549435e-38, float("inf")),
    "double": (0.1, -1e-300, float("-inf")),
    "string": ("", "a b", "Zoë 💶 \x01\n&=+%.;/~", "x" * 300),
}


class SendingTests(SuiteBase):
    def test_headers_arrive_as_they_were_sent(self, connection: Connection) -> None:
        far = 4102444800000
        sent = self.text(
            "body",
            correlation_id="c.1 é",
            reply_to="queue://replies",
            type="T.1/ü",
            delivery_mode=NON_PERSISTENT,
            priority=7,
            expiration=far,
        )
        before = time.time_ns() // 1_000_000
        (identity,) = connection.send(ORDERS, [sent])
        after = time.time_ns() // 1_000_000
        got = self.load(connection, self.take(connection.poller(ORDERS)))
        assert got.message_id == identity
        assert identity.startswith("ID:")
        assert before <= got.timestamp <= after
        counted = after - before if self.able.transactions else 0  # from the time to live, while it was sent
        assert far <= sent.expiration <= far + counted
        for name in ("correlation_id", "reply_to", "type", "delivery_mode", "priority", "expiration"):
            assert getattr(got, name) == getattr(sent, name), name
        assert (got.delivery_count, got.redelivered) == (1, False)

    @pytest.mark.parametrize("prepared", [False, True], ids=["sent", "prepared"])
    def test_what_is_sent_was_never_delivered_whatever_its_sender_says(
        self, connection: Connection, prepared: bool
    ) -> None:
        message = self.text("body", delivery_count=5)
        message.set_property("JMSXDeliveryCount", 7)
        message.set_property("kept", 1)
        if prepared:
            access = self.access(connection)
            one = access.prepare(ORDERS, message, "key")
            access.sync()
            connection.settle([], [one])
        else:
            connection.send(ORDERS, [message])
        claim = self.take(connection.poller(ORDERS))
        got = self.load(connection, claim)
        assert (claim.delivery_count, got.delivery_count, got.redelivered) == (0, 1, False)
        assert got.properties == {"kept": 1}
        assert got.message_id
        assert message.message_id == (None if prepared and self.by_value else got.message_id)

    def test_a_message_that_is_not_valid_is_not_sent(self, connection: Connection) -> None:
        wrong = {"class": self.text("body"), "priority": self.text("body"), "type": self.text("body")}
        wrong["class"].message_class = "Z"
        wrong["priority"].priority = 1 << 31
        wrong["type"].properties["p"] = 1
        wrong["value"] = self.text("body")
        wrong["value"].properties["p"] = 1 << 31
        wrong["value"].property_types["p"] = "int"
        access = self.access(connection)
        for what, message in wrong.items():
            reason = {"class": "Z", "type": "type"}.get(what, "2147483648")
            with pytest.raises(ValueError, match=reason):
                connection.send(ORDERS, [self.text("good"), message])
            with pytest.raises(ValueError, match=reason):
                access.prepare(ORDERS, message, "key")
        assert self.visible(connection, ORDERS) == []

    def test_headers_that_are_not_set_stay_so(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.message()])
        got = self.load(connection, self.take(connection.poller(ORDERS)))
        assert (got.correlation_id, got.reply_to, got.type, got.expiration) == (None, None, None, 0)
        assert got.priority == 4
        assert got.properties == {}

    def test_properties_keep_their_types_and_values(self, connection: Connection) -> None:
        sent = []
        for kind, values in _TYPED.items():
            sent.append(self.text(kind))
            for number, value in enumerate(values):
                sent[-1].set_property(f"p.{number} é", value, kind)
        for got, message in zip(self._pass_on(connection, sent), sent, strict=True):
            assert got.properties == message.properties
            assert got.property_types == message.property_types
            kinds = [[*map(type, one.properties.values())] for one in (got, message)]
            assert kinds[0] == kinds[1]

    def test_bodies_arrive_byte_for_byte(self, connection: Connection) -> None:
        bodies = [b"", b"\0", bytes(range(256)), "Zoë 💶\r\n".encode(), b"\xff\xfe", b"x" * (1 << 20)]
        got = self._pass_on(connection, [self.message(body, "B") for body in bodies])
        assert [message.body for message in got] == bodies

    def test_every_message_class_arrives_as_such(self, connection: Connection) -> None:
        bodies = {"P": b'{"a":1}', "S": b"[1]", "M": b""}
        sent = [(letter, bodies.get(letter, b"1")) for letter in sorted(set(MESSAGE_CLASSES) - {"O"})]
        got = self._pass_on(connection, [self.message(body, letter) for letter, body in sent])
        assert [(message.message_class, message.body) for message in got] == sent

    def _pass_on(self, connection: Connection, messages: list[Message]) -> list[Message]:
        """Sends messages in one call, and returns them as they are taken."""
        connection.send(ORDERS, messages)
        claims = self.claim(connection.poller(ORDERS), 1, range(len(messages)))
        return [self.load(connection, claim) for claim in claims]

    def test_an_object_message_arrives_as_such(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.message(b"1", "O")])
        assert self.load(connection, self.take(connection.poller(ORDERS))).message_class == "O"

    def test_headers_of_any_length_arrive(self, connection: Connection) -> None:
        message = self.text("body", correlation_id="c" * 3000, type="t" * 3000)
        message.set_property("reason", "r" * 8192)
        (identity,) = connection.send(ORDERS, [message])
        claim = self.take(connection.poller(ORDERS))
        got = self.load(connection, claim)
        assert (got.correlation_id, got.type, got.properties) == ("c" * 3000, "t" * 3000, message.properties)
        assert got.message_id == claim.message_id == identity

    def test_ids_are_unique_among_all_clients(self, connect: Connect) -> None:
        connections = [connect() for _ in range(3)]
        ids = [
            identity
            for c in connections
            for identity in c.send(ORDERS, [self.text(str(n)) for n in range(50)])
        ]
        assert len(set(ids)) == 150

    def test_one_message_that_is_sent_twice_in_one_call_is_two(self, connection: Connection) -> None:
        self.send_twice(connection, ORDERS, connection.poller(ORDERS))

    @needs("topics")
    def test_one_message_that_is_sent_twice_to_a_topic_is_two(self, connection: Connection) -> None:
        self.send_twice(connection, PRICES, connection.poller(TopicSubscription(PRICES)))

    def send_twice(self, connection: Connection, destination: Destination, poller: Poller) -> None:
        message = self.text("twice")
        sent = connection.send(destination, [message, self.text("other"), message])
        assert len(set(sent)) == 3
        claims = self.claim(poller, 1, range(3))
        assert poller.take(1, 3) is None
        assert [claim.message_id for claim in claims] == sent
        assert [self.load(connection, claim).body for claim in claims] == [b"twice", b"other", b"twice"]

    def test_several_messages_become_visible_all_or_none(self, connection: Connection) -> None:
        def broken() -> Iterator[Message]:
            yield self.text("first")
            yield self.text("second")
            raise RuntimeError("the source of the messages broke")

        connection.send(ORDERS, [self.text("before")])
        with pytest.raises(RuntimeError):
            connection.send(ORDERS, broken())
        assert self.bodies(connection, ORDERS) == ["before"]
        connection.send(ORDERS, [self.text("first"), self.text("second")])
        assert self.bodies(connection, ORDERS) == ["before", "first", "second"]

    def test_what_cannot_be_sent_is_an_error_of_the_provider(
        self, connection: Connection, unwritable: Any
    ) -> None:
        for count in (1, 2):
            with pytest.raises(ProviderError) as refused:
                connection.send(unwritable, [self.text(str(n)) for n in range(count)])
            assert unwritable.name in str(refused.value)
