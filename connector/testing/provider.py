"""The suite that every provider passes.

Subclass it in a test module of yours and give it the provider, and a destination that cannot be
written::

    class TestShelf(ProviderSuite):
        @pytest.fixture
        def provider(self, tmp_path):
            return ShelfProvider(tmp_path)

        @pytest.fixture
        def unwritable(self, provider):
            provider.refuse("blocked")
            return parse_destination("queue://blocked")

Every test stands for one sentence of :mod:`connector.messaging.provider` and begins with a provider that
holds nothing. What a provider is not able to do is read from its ``capabilities``: then the suite
expects the refusal instead. Needs the ``dev`` extra (pytest).
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from connector.core.session import TransactedSession
from connector.errors import (
    CapabilityError,
    MalformedData,
    ProviderError,
    SettlementError,
    UnknownDestination,
)
from connector.messaging.destination import parse_destination
from connector.messaging.message import MESSAGE_CLASSES, NON_PERSISTENT, Message, PropertyValue
from connector.messaging.provider import (
    Claim,
    Connection,
    Leftover,
    MessageAccess,
    Poller,
    Provider,
    Settlement,
)
from connector.state.duplicates import DuplicateWindow

ORDERS = parse_destination("queue://orders")
NOTES = parse_destination("queue://notes")
ARCHIVE = parse_destination("queue://archive")
IN_PROGRESS = parse_destination("queue://in-progress")
NO_LIMIT = 1 << 40

Connect = Callable[..., Connection]

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


def text(body: str, **headers: Any) -> Message:
    """A text message."""
    return Message(body.encode(), **headers)


class ProviderSuite:
    """Override the two fixtures; see the module."""

    patience: ClassVar[float] = 5.0
    """Seconds after which a message that somebody sent or gave back is seen by everybody."""

    @pytest.fixture
    def provider(self) -> Provider:
        """The provider under test, empty."""
        raise NotImplementedError("override the fixture 'provider'")

    @pytest.fixture
    def unwritable(self, provider: Provider) -> Any:
        """A destination to which nothing can be sent, though its name is right."""
        raise NotImplementedError("override the fixture 'unwritable'")

    @pytest.fixture
    def connect(self, provider: Provider) -> Iterator[Connect]:
        """Opens connections, which end with the test."""
        opened: list[Connection] = []

        def open_connection(application: str = "suite", instance: str = "") -> Connection:
            connection = provider.connect(application, instance or f"instance-{len(opened)}")
            opened.append(connection)
            return connection

        yield open_connection
        for connection in opened:
            connection.abandon()

    @pytest.fixture
    def connection(self, connect: Connect) -> Connection:
        """One connection."""
        return connect()

    # --- sending ------------------------------------------------------------------------------

    def test_headers_arrive_as_they_were_sent(self, connection: Connection) -> None:
        far = 4102444800000
        sent = text(
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
        for name in ("correlation_id", "reply_to", "type", "delivery_mode", "priority", "expiration"):
            assert getattr(got, name) == getattr(sent, name), name
        assert (got.delivery_count, got.redelivered) == (1, False)

    def test_headers_that_are_not_set_stay_so(self, connection: Connection) -> None:
        connection.send(ORDERS, [Message()])
        got = self.load(connection, self.take(connection.poller(ORDERS)))
        assert (got.correlation_id, got.reply_to, got.type, got.expiration) == (None, None, None, 0)
        assert got.priority == 4
        assert got.properties == {}

    @pytest.mark.parametrize("kind", _TYPED)
    def test_properties_keep_their_types_and_values(self, connection: Connection, kind: str) -> None:
        message = text("body")
        for number, value in enumerate(_TYPED[kind]):
            message.set_property(f"p.{number} é", value, kind)
        connection.send(ORDERS, [message])
        got = self.load(connection, self.take(connection.poller(ORDERS)))
        assert got.properties == message.properties
        assert got.property_types == message.property_types
        assert [type(value) for value in got.properties.values()] == [
            type(value) for value in message.properties.values()
        ]

    @pytest.mark.parametrize(
        "body",
        [b"", b"\0", bytes(range(256)), "Zoë 💶\r\n".encode(), b"\xff\xfe", b"x" * (1 << 20)],
        ids=["empty", "zero", "every byte", "text", "no unicode", "1 MiB"],
    )
    def test_bodies_arrive_byte_for_byte(self, connection: Connection, body: bytes) -> None:
        connection.send(ORDERS, [Message(body, "B")])
        got = self.load(connection, self.take(connection.poller(ORDERS)))
        assert got.body == body

    @pytest.mark.parametrize("letter", MESSAGE_CLASSES)
    def test_every_message_class_arrives_as_such(self, connection: Connection, letter: str) -> None:
        connection.send(ORDERS, [Message(b"1", letter)])
        assert self.load(connection, self.take(connection.poller(ORDERS))).message_class == letter

    def test_headers_of_any_length_arrive(self, connection: Connection) -> None:
        message = text("body", correlation_id="c" * 3000, type="t" * 3000)
        message.set_property("reason", "r" * 8192)
        (identity,) = connection.send(ORDERS, [message])
        claim = self.take(connection.poller(ORDERS))
        got = self.load(connection, claim)
        assert (got.correlation_id, got.type, got.properties) == ("c" * 3000, "t" * 3000, message.properties)
        assert got.message_id == claim.message_id == identity

    def test_ids_are_unique_among_all_clients(self, connect: Connect) -> None:
        connections = [connect() for _ in range(3)]
        ids = [
            identity for c in connections for identity in c.send(ORDERS, [text(str(n)) for n in range(50)])
        ]
        assert len(set(ids)) == 150

    def test_several_messages_become_visible_all_or_none(self, connection: Connection) -> None:
        def broken() -> Iterator[Message]:
            yield text("first")
            yield text("second")
            raise RuntimeError("the source of the messages broke")

        connection.send(ORDERS, [text("before")])
        with pytest.raises(RuntimeError):
            connection.send(ORDERS, broken())
        assert self.bodies(connection, ORDERS) == ["before"]
        connection.send(ORDERS, [text("first"), text("second")])
        assert self.bodies(connection, ORDERS) == ["before", "first", "second"]

    def test_what_cannot_be_sent_is_an_error_of_the_provider(
        self, connection: Connection, unwritable: Any
    ) -> None:
        for count in (1, 2):
            with pytest.raises(ProviderError) as refused:
                connection.send(unwritable, [text(str(n)) for n in range(count)])
            assert unwritable.name in str(refused.value)

    def test_topics_are_refused_by_a_provider_without_them(
        self, provider: Provider, connection: Connection
    ) -> None:
        prices = parse_destination("topic://prices")
        if provider.capabilities.topics:
            connection.send(prices, [text("nobody listens")])
            return
        with pytest.raises(CapabilityError):
            connection.send(prices, [text("1")])
        with pytest.raises(CapabilityError):
            connection.poller(prices)

    # --- taking -------------------------------------------------------------------------------

    def test_an_empty_destination_gives_nothing_and_does_not_wait(self, connection: Connection) -> None:
        poller = connection.poller(ORDERS)
        begun = time.monotonic()
        assert [poller.take(1, 0) for _ in range(10)] == [None] * 10
        assert time.monotonic() - begun < 1

    def test_messages_come_by_priority_then_by_age(self, connection: Connection) -> None:
        for number, priority in enumerate((4, 9, 0, 4, 9, 1)):
            connection.send(ORDERS, [text(str(number), priority=priority)])
        assert self.drain(connection, ORDERS) == ["1", "4", "0", "3", "5", "2"]

    def test_messages_of_one_send_come_in_its_order(self, connection: Connection) -> None:
        connection.send(ORDERS, [text(str(n)) for n in range(100)])
        assert self.drain(connection, ORDERS) == [str(n) for n in range(100)]

    def test_a_late_message_of_high_priority_overtakes_within_seconds(self, connection: Connection) -> None:
        connection.send(ORDERS, [text(str(n)) for n in range(2000)])
        poller = connection.poller(ORDERS)
        self.take(poller)
        connection.send(ORDERS, [text("urgent", priority=9)])
        deadline = time.monotonic() + self.patience
        sequence = 1
        while time.monotonic() < deadline:
            claim = poller.take(1, sequence)
            assert claim is not None, "it came after all the others"
            if self.load(connection, claim).body == b"urgent":
                return
            sequence += 1
            time.sleep(0.01)
        pytest.fail("it was not taken")

    def test_destinations_do_not_mix(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("order")])
        connection.send(NOTES, [text("note")])
        assert self.drain(connection, ORDERS) == ["order"]
        assert self.drain(connection, NOTES) == ["note"]

    def test_a_claim_knows_what_it_is_without_its_body(self, connection: Connection) -> None:
        message = text("body", type="T1")
        message.set_property("JMSXGroupID", "g.1")
        (identity,) = connection.send(ORDERS, [message])
        claim = self.take(connection.poller(ORDERS), cycle=3, sequence=5)
        assert (claim.cycle, claim.sequence, claim.destination) == (3, 5, ORDERS)
        assert (claim.message_id, claim.group_id, claim.delivery_count) == (identity, "g.1", 0)
        assert claim.headers().type == "T1"

    def test_a_message_is_taken_once_however_many_consumers_compete(self, connect: Connect) -> None:
        sender = connect()
        sent = [i for n in range(4) for i in sender.send(ORDERS, [text(str(m)) for m in range(100)])]
        taken: list[str] = []

        def consume(connection: Connection) -> None:
            poller = connection.poller(ORDERS)
            misses = sequence = 0
            while misses < 20:
                claim = poller.take(1, sequence)
                if claim is None:
                    misses += 1
                    time.sleep(0.005)
                    continue
                sequence += 1
                taken.append(claim.message_id)
                connection.settle([Settlement(claim)])

        threads = [threading.Thread(target=consume, args=(connect(),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(taken) == sorted(sent)

    def test_an_expired_message_is_counted_and_never_taken(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("old", expiration=1), text("good"), text("old too", expiration=1)])
        poller = connection.poller(ORDERS)
        assert self.load(connection, self.take(poller)).body == b"good"
        assert poller.take(1, 1) is None
        assert poller.expired == 2
        again = connection.poller(ORDERS)
        assert (again.take(1, 2), again.expired) == (None, 0)

    def test_a_message_expires_while_it_waits(self, connection: Connection) -> None:
        soon = time.time_ns() // 1_000_000 + 200
        connection.send(ORDERS, [text("1", expiration=soon), text("2", expiration=soon)])
        poller = connection.poller(ORDERS)
        self.take(poller)
        time.sleep(0.3)
        assert (poller.take(1, 1), poller.expired) == (None, 1)

    # --- looking ------------------------------------------------------------------------------

    def test_browsing_shows_what_waits_and_what_is_claimed_in_the_order_of_taking(
        self, connection: Connection
    ) -> None:
        for number, priority in enumerate((4, 9, 4, 0, 9)):
            connection.send(ORDERS, [text(str(number), priority=priority)])
        before = self.bodies(connection, ORDERS)
        poller = connection.poller(ORDERS)
        claims = [self.take(poller, sequence=n) for n in range(3)]
        assert self.bodies(connection, ORDERS) == before
        claims += [self.take(poller, sequence=n) for n in range(3, 5)]
        assert [self.load(connection, claim).body.decode() for claim in claims] == before

    def test_browsing_takes_nothing_and_shows_all_headers(self, connection: Connection) -> None:
        message = text("body", correlation_id="c1", type="T1")
        message.set_property("p", 1, "byte")
        (identity,) = connection.send(ORDERS, [message])
        for _ in range(2):
            (seen,) = connection.browse(ORDERS)
            assert (seen.message_id, seen.correlation_id, seen.type) == (identity, "c1", "T1")
            assert (seen.properties, seen.property_types) == ({"p": 1}, {"p": "byte"})
            assert (seen.body, seen.destination) == (b"body", str(ORDERS))
        assert self.drain(connection, ORDERS) == ["body"]

    def test_an_unknown_destination_cannot_be_browsed(self, connection: Connection) -> None:
        with pytest.raises(UnknownDestination, match="no-such-queue"):
            list(connection.browse(parse_destination("queue://no-such-queue")))

    # --- giving back --------------------------------------------------------------------------

    def test_an_untouched_message_comes_back_as_it_was(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("body", type="T1")])
        poller = connection.poller(ORDERS)
        claim = self.take(poller)
        before = self.load(connection, claim)
        connection.settle([Settlement(claim, give_back=True, delivery_count=claim.delivery_count)])
        again = self.take_soon(poller, sequence=1)
        assert again.delivery_count == 0
        assert self.load(connection, again) == before

    def test_deliveries_are_counted_over_any_number_of_returns(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("body")])
        poller = connection.poller(ORDERS)
        for count in range(12):
            claim = self.take_soon(poller, sequence=count)
            got = self.load(connection, claim)
            assert (claim.delivery_count, got.delivery_count, got.redelivered) == (
                count,
                count + 1,
                count > 0,
            )
            connection.settle([Settlement(claim, give_back=True, delivery_count=count + 1)])

    def test_a_returned_message_is_again_before_the_younger_ones(self, connection: Connection) -> None:
        connection.send(ORDERS, [text(str(n)) for n in range(3)])
        poller = connection.poller(ORDERS)
        claim = self.take(poller)
        connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
        assert self.load(connection, self.take_soon(poller, sequence=1)).body == b"0"

    def test_what_one_client_returns_another_takes(self, connect: Connect) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [text("body")])
        claim = self.take(first.poller(ORDERS))
        poller = second.poller(ORDERS)
        assert poller.take(1, 0) is None
        first.settle([Settlement(claim, give_back=True, delivery_count=1)])
        assert self.take_soon(poller).delivery_count == 1

    def test_a_returned_message_carries_the_properties_it_was_given(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("body")])
        poller = connection.poller(ORDERS)
        for number, value in enumerate(("a", "a;b")):
            claim = self.take_soon(poller, sequence=number)
            properties: dict[str, PropertyValue] = {"connector_delivered": value}
            connection.settle(
                [Settlement(claim, give_back=True, delivery_count=number, properties=properties)]
            )
        got = self.load(connection, self.take_soon(poller, sequence=2))
        assert got.properties == {"connector_delivered": "a;b"}

    # --- settling -----------------------------------------------------------------------------

    def test_a_copy_has_everything_of_the_message_and_what_was_added(self, connection: Connection) -> None:
        message = text("body", correlation_id="c1", type="T1", priority=8)
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
        message = text("body", type="T1")
        connection.send(ORDERS, [message])
        claim = self.take(connection.poller(ORDERS))
        reason = "é& " * 2700
        connection.settle([Settlement(claim, copy_to=ARCHIVE, properties={"connector_reason": reason})])
        (copy,) = connection.browse(ARCHIVE)
        assert copy.properties == {"connector_reason": reason}
        assert (copy.type, copy.body) == ("T1", b"body")

    def test_a_copy_of_a_copy_has_the_newer_properties_only(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("body")])
        for number, (source, target) in enumerate(((ORDERS, NOTES), (NOTES, ARCHIVE))):
            claim = self.take_soon(connection.poller(source), sequence=number)
            added: dict[str, PropertyValue] = {"connector_attempts": number + 1}
            if number == 0:
                added["connector_reason"] = "r" * 400
            connection.settle([Settlement(claim, copy_to=target, properties=added)])
        (copy,) = connection.browse(ARCHIVE)
        assert copy.properties == {"connector_attempts": 2}

    def test_a_message_settled_without_a_copy_is_gone(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("body")])
        claim = self.take(connection.poller(ORDERS))
        connection.settle([Settlement(claim)])
        assert self.bodies(connection, ORDERS) == []
        assert self.drain(connection, ORDERS) == []

    def test_a_provider_that_is_there_says_so(self, connection: Connection) -> None:
        connection.check()
        assert connection.client_id

    def test_nothing_to_settle_is_nothing(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("body")])
        connection.settle([])
        assert self.bodies(connection, ORDERS) == ["body"]

    def test_one_settlement_does_all_kinds_at_once(self, connection: Connection) -> None:
        connection.send(ORDERS, [text(str(n)) for n in range(3)])
        poller = connection.poller(ORDERS)
        copied, discarded, returned = (self.take(poller, sequence=n) for n in range(3))
        access = self.access(connection)
        sent = access.prepare(NOTES, text("sent"), "key-1")
        dropped = access.prepare(NOTES, text("dropped"), "key-2")
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

    def test_what_cannot_be_settled_whole_is_not_settled_at_all(
        self, connection: Connection, unwritable: Any
    ) -> None:
        connection.send(ORDERS, [text(str(n)) for n in range(3)])
        poller = connection.poller(ORDERS)
        claims = [self.take(poller, sequence=n) for n in range(3)]
        access = self.access(connection)
        sent = access.prepare(NOTES, text("sent"), "key-1")
        access.sync()
        impossible = [
            Settlement(claims[0], copy_to=ARCHIVE, sends=[sent]),
            Settlement(claims[1], copy_to=unwritable),
            Settlement(claims[2], give_back=True, delivery_count=1),
        ]
        with pytest.raises(SettlementError, match=unwritable.name):
            connection.settle(impossible)
        assert self.bodies(connection, ORDERS) == ["0", "1", "2"]
        assert self.visible(connection, ARCHIVE) == self.visible(connection, NOTES) == []
        connection.settle([impossible[0], Settlement(claims[1], copy_to=ARCHIVE), impossible[2]])
        assert self.bodies(connection, ARCHIVE) == ["0", "1"]
        assert self.bodies(connection, NOTES) == ["sent"]
        assert self.bodies(connection, ORDERS) == ["2"]

    def test_prepared_messages_without_a_claim_are_sent_and_dropped_too(self, connection: Connection) -> None:
        access = self.access(connection)
        sent = [access.prepare(NOTES, text(str(n)), f"key-{n}") for n in range(3)]
        dropped = access.prepare(NOTES, text("dropped"), "key-3")
        access.sync()
        connection.settle([], sends=sent, discards=[dropped])
        assert self.bodies(connection, NOTES) == ["0", "1", "2"]

    # --- transactions -------------------------------------------------------------------------

    def test_a_transaction_receives_and_sends_at_its_commit(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("1"), text("2")])
        with TransactedSession(connection) as session:
            for _ in range(2):
                got = session.receive(ORDERS)
                assert got is not None
                session.send(NOTES, text(f"got {got.body.decode()}"))
            assert session.receive(ORDERS) is None
            assert self.visible(connection, NOTES) == []
            assert self.bodies(connection, ORDERS) == ["1", "2"]
        assert self.bodies(connection, NOTES) == ["got 1", "got 2"]
        assert self.bodies(connection, ORDERS) == []

    def test_a_transaction_that_is_rolled_back_leaves_the_count_only(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("1")])
        session = TransactedSession(connection)
        for count in range(1, 4):
            deadline = time.monotonic() + self.patience
            while (got := session.receive(ORDERS)) is None:
                assert time.monotonic() < deadline, "it did not come back"
            assert (got.delivery_count, got.redelivered) == (count, count > 1)
            session.send(NOTES, text("never"))
            session.rollback()
        session.close()
        assert self.visible(connection, NOTES) == []
        assert self.bodies(connection, ORDERS) == ["1"]

    def test_a_transaction_that_cannot_be_committed_goes_on(
        self, connection: Connection, unwritable: Any
    ) -> None:
        connection.send(ORDERS, [text("1")])
        session = TransactedSession(connection)
        assert session.receive(ORDERS) is not None
        with pytest.raises(ProviderError):
            session.send(unwritable, text("refused"))
        session.send(NOTES, text("sent"))
        session.commit()
        session.close()
        assert self.bodies(connection, NOTES) == ["sent"]
        assert self.bodies(connection, ORDERS) == []

    # --- what a task does ---------------------------------------------------------------------

    def test_a_worker_reads_a_claim_by_its_reference(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("body")])
        claim = self.take(connection.poller(ORDERS))
        access = self.access(connection)
        access.check()
        reference = pickle.loads(pickle.dumps(claim.reference))  # a pickle of our own
        assert access.load(reference, NO_LIMIT).body == b"body"

    def test_a_body_larger_than_allowed_is_malformed_and_one_just_as_large_is_not(
        self, connection: Connection
    ) -> None:
        connection.send(ORDERS, [text("12345")])
        claim = self.take(connection.poller(ORDERS))
        access = self.access(connection)
        assert access.load(claim.reference, 5).body == b"12345"
        with pytest.raises(MalformedData, match="5 bytes"):
            access.load(claim.reference, 4)

    def test_a_settled_message_cannot_be_read_any_more(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("body")])
        claim = self.take(connection.poller(ORDERS))
        reference = claim.reference
        connection.settle([Settlement(claim)])
        with pytest.raises(LookupError):
            self.access(connection).load(reference, NO_LIMIT)

    def test_a_prepared_message_is_seen_by_nobody_until_it_is_committed(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("body")])
        claim = self.take(connection.poller(ORDERS))
        access = self.access(connection)
        message = text("prepared", correlation_id="c1")
        message.set_property("p", 1, "short")
        prepared = pickle.loads(pickle.dumps(access.prepare(NOTES, message, "key")))  # a pickle of our own
        access.sync()
        assert self.visible(connection, NOTES) == []
        assert connection.poller(NOTES).take(1, 1) is None
        connection.settle([Settlement(claim, sends=[prepared])])
        (seen,) = connection.browse(NOTES)
        assert (seen.body, seen.correlation_id) == (b"prepared", "c1")
        assert seen.property_types == {"p": "short"}
        assert (seen.message_id or "").startswith("ID:")

    def test_preparing_again_under_one_key_replaces(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("body")])
        claim = self.take(connection.poller(ORDERS))
        access = self.access(connection)
        access.prepare(NOTES, text("first"), "key")
        prepared = access.prepare(NOTES, text("second"), "key")
        access.sync()
        connection.settle([Settlement(claim, sends=[prepared])])
        assert self.bodies(connection, NOTES) == ["second"]

    def test_a_discarded_message_is_never_sent(self, connection: Connection) -> None:
        access = self.access(connection)
        access.discard(access.prepare(NOTES, text("discarded"), "key"))
        access.sync()
        assert self.visible(connection, NOTES) == []

    # --- duplicates ---------------------------------------------------------------------------

    def test_the_duplicate_key_stays_when_a_message_comes_again(self, connection: Connection) -> None:
        connection.send(ORDERS, [text("body")])
        poller = connection.poller(ORDERS)
        claim = self.take(poller)
        key = claim.duplicate_key
        connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
        assert self.take_soon(poller, sequence=1).duplicate_key == key

    def test_two_messages_never_share_a_duplicate_key(self, connection: Connection) -> None:
        for destination in (ORDERS, NOTES):
            connection.send(destination, [text("same") for _ in range(3)])
        keys = {
            self.take(poller, sequence=n).duplicate_key
            for poller in (connection.poller(ORDERS), connection.poller(NOTES))
            for n in range(3)
        }
        assert len(keys) == 6

    def test_published_keys_are_in_the_window_of_every_instance(
        self, provider: Provider, connect: Connect
    ) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [text(str(n)) for n in range(3)])
        poller = first.poller(ORDERS)
        claims = [self.take(poller, sequence=n) for n in range(3)]
        keys = [claim.duplicate_key for claim in claims]
        if not provider.capabilities.keeps_state:
            return
        first.settle(
            [
                Settlement(claims[0], copy_to=ARCHIVE, published=keys[0]),
                Settlement(claims[1], published=keys[1]),
                Settlement(claims[2], give_back=True, delivery_count=1),
            ]
        )
        window = DuplicateWindow(
            second.window_directory, second.state_directory, second.client_id, 100, second.published_keys
        )
        assert [key in window for key in keys] == [True, True, False]

    # --- the dead -----------------------------------------------------------------------------

    def test_claims_of_a_client_that_ended_are_found_with_who_it_was(self, connect: Connect) -> None:
        first, second = connect("suite", "a"), connect("suite", "b")
        first.send(ORDERS, [text(str(n)) for n in range(3)])
        poller = first.poller(ORDERS)
        for number in range(2):
            self.take(poller, cycle=1, sequence=number)
        first.abandon()
        (leftover,) = second.leftovers(None, at_start=True)
        assert (leftover.client_id, leftover.application, leftover.instance) == (
            first.client_id,
            "suite",
            "a",
        )
        assert [(claim.cycle, claim.sequence) for claim in leftover.claims] == [(1, 0), (1, 1)]
        second.settle([Settlement(c, give_back=True, delivery_count=1) for c in leftover.claims])
        leftover.forget()
        assert list(second.leftovers(None, at_start=True)) == []
        poller = second.poller(ORDERS)
        assert [self.take_soon(poller, sequence=n).delivery_count for n in range(3)] == [1, 1, 0]

    def test_claims_of_a_living_client_are_no_leftovers(self, connect: Connect) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [text("body")])
        self.take(first.poller(ORDERS))
        for at_start in (True, False):
            assert list(second.leftovers(None, at_start=at_start)) == []

    def test_a_client_that_was_closed_leaves_nothing(self, connect: Connect) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [text("body")])
        claim = self.take(first.poller(ORDERS))
        first.settle([Settlement(claim)])
        first.close()
        assert list(second.leftovers(None, at_start=True)) == []

    def test_nobody_else_takes_over_until_the_first_lets_go(self, connect: Connect) -> None:
        first, second, third = connect(), connect(), connect()
        first.send(ORDERS, [text("body")])
        self.take(first.poller(ORDERS))
        first.abandon()
        (leftover,) = second.leftovers(None, at_start=False)
        assert list(third.leftovers(None, at_start=False)) == []
        leftover.release()
        (later,) = third.leftovers(None, at_start=False)
        assert (later.client_id, len(later.claims)) == (first.client_id, 1)
        later.release()

    def test_an_adapter_is_left_to_the_instances_of_its_own_application(self, connect: Connect) -> None:
        first, stranger = connect("suite"), connect("another")
        first.send(ORDERS, [text("body")])
        self.take(first.poller(ORDERS))
        first.abandon()
        assert list(stranger.leftovers(None, at_start=True)) == []
        self.end_all(connect("suite").leftovers(None, at_start=True), expected=1)

    def test_prepared_messages_of_the_dead_are_never_sent(self, connect: Connect) -> None:
        first, second = connect(), connect()
        access = self.access(first)
        access.prepare(NOTES, text("prepared"), "key")
        access.sync()
        first.abandon()
        self.end_all(second.leftovers(None, at_start=True), expected=1)
        assert self.visible(second, NOTES) == []

    # --- in progress --------------------------------------------------------------------------

    def test_taking_into_an_in_progress_destination_is_the_move_there(self, connection: Connection) -> None:
        message = text("body", type="T1")
        message.set_property("p", "v")
        (identity,) = connection.send(ORDERS, [message])
        claim = self.take(connection.poller(ORDERS, IN_PROGRESS))
        assert claim.destination == ORDERS
        assert self.bodies(connection, ORDERS) == []
        (seen,) = connection.browse(IN_PROGRESS)
        assert seen.message_id == claim.message_id == identity
        got = self.load(connection, claim)
        assert (got.body, got.type, got.properties) == (b"body", "T1", {"p": "v"})

    def test_a_message_in_progress_settles_like_any_other(self, connection: Connection) -> None:
        connection.send(ORDERS, [text(str(n)) for n in range(3)])
        poller = connection.poller(ORDERS, IN_PROGRESS)
        claims = [self.take(poller, sequence=n) for n in range(3)]
        connection.settle(
            [
                Settlement(claims[0], copy_to=ARCHIVE, properties={"connector_outcome": "published"}),
                Settlement(claims[1]),
                Settlement(claims[2], give_back=True, delivery_count=1),
            ]
        )
        assert self.bodies(connection, IN_PROGRESS) == []
        (copy,) = connection.browse(ARCHIVE)
        assert (copy.body, copy.properties) == (b"0", {"connector_outcome": "published"})
        again = self.take_soon(poller, sequence=3)
        got = self.load(connection, again)
        assert (again.delivery_count, got.body, got.properties) == (1, b"2", {})

    def test_headers_of_any_length_survive_an_in_progress_destination(self, connection: Connection) -> None:
        message = text("body", type="t" * 500)
        message.set_property("p", "v" * 500)
        connection.send(ORDERS, [message])
        poller = connection.poller(ORDERS, IN_PROGRESS)
        for count in range(3):
            claim = self.take_soon(poller, sequence=count)
            got = self.load(connection, claim)
            assert (got.type, got.properties, got.delivery_count) == (
                message.type,
                message.properties,
                count + 1,
            )
            connection.settle([Settlement(claim, give_back=True, delivery_count=count + 1)])
        (seen,) = connection.browse(ORDERS)
        assert (seen.type, seen.properties) == (message.type, message.properties)

    def test_a_dead_clients_message_in_progress_is_adopted_as_one_more_delivery(
        self, connect: Connect
    ) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [text("body", type="T1")])
        self.take(first.poller(ORDERS, IN_PROGRESS), cycle=1, sequence=0)
        first.abandon()
        (leftover,) = second.leftovers(IN_PROGRESS, at_start=True)
        (claim,) = leftover.claims
        assert claim.destination == ORDERS
        adopted = second.adopt(claim, 7, 9)
        assert adopted is not None
        leftover.forget()
        assert (adopted.cycle, adopted.sequence, adopted.destination) == (7, 9, ORDERS)
        assert (adopted.delivery_count, adopted.message_id) == (1, claim.message_id)
        got = self.load(second, adopted)
        assert (got.body, got.type, got.delivery_count) == (b"body", "T1", 2)
        assert second.adopt(claim, 7, 10) is None
        second.settle([Settlement(adopted, copy_to=ARCHIVE)])
        assert self.bodies(second, ARCHIVE) == ["body"]
        assert self.bodies(second, IN_PROGRESS) == []

    def test_a_message_in_progress_that_nobody_took_has_no_owner(self, connect: Connect) -> None:
        first, second = connect(), connect()
        first.send(ORDERS, [text("owned")])
        self.take(first.poller(ORDERS, IN_PROGRESS))
        first.send(IN_PROGRESS, [text("from before")])
        (claim,) = second.unowned(IN_PROGRESS)
        assert self.load(second, claim).body == b"from before"

    # --- helpers ------------------------------------------------------------------------------

    @staticmethod
    def take(poller: Poller, cycle: int = 1, sequence: int = 0) -> Claim:
        """Takes a message that is there."""
        claim = poller.take(cycle, sequence)
        assert claim is not None
        return claim

    def take_soon(self, poller: Poller, cycle: int = 1, sequence: int = 0) -> Claim:
        """Takes a message that another has sent or given back, or that was given back."""
        deadline = time.monotonic() + self.patience
        while (claim := poller.take(cycle, sequence)) is None:
            assert time.monotonic() < deadline, f"nothing came to {poller.destination}"
            time.sleep(0.01)
        return claim

    @staticmethod
    def access(connection: Connection) -> MessageAccess:
        """What a task has of a connection: made from a recipe that was sent to it."""
        spec = pickle.loads(pickle.dumps(connection.access()))  # a pickle of our own
        access: MessageAccess = spec.open()
        return access

    def load(self, connection: Connection, claim: Claim) -> Message:
        return self.access(connection).load(claim.reference, NO_LIMIT)

    def drain(self, connection: Connection, destination: Any) -> list[str]:
        """The bodies of all that waits, taken and settled, in the order of taking."""
        poller = connection.poller(destination)
        found: list[str] = []
        while (claim := poller.take(1, len(found))) is not None:
            found.append(self.load(connection, claim).body.decode())
            connection.settle([Settlement(claim)])
        return found

    @staticmethod
    def bodies(connection: Connection, destination: Any) -> list[str]:
        return [message.body.decode() for message in connection.browse(destination)]

    def visible(self, connection: Connection, destination: Any) -> list[str]:
        """As :meth:`bodies`; nothing where there is no such destination yet."""
        with suppress(UnknownDestination):
            return self.bodies(connection, destination)
        return []

    @staticmethod
    def end_all(leftovers: Iterator[Leftover], *, expected: int) -> None:
        """Deals with dead clients: all back to their queues."""
        found: Sequence[Leftover] = list(leftovers)
        assert len(found) == expected
        for leftover in found:
            leftover.forget()
