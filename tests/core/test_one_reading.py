"""Every edge takes the same numbers, texts and names, and every provider reads what an edge has taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.dynamic import properties_of, sendable_text
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.metadata import read_priority, read_timeout
from connector.businessobjects.types import text_of
from connector.cli.common import BadArgument
from connector.cli.send import add_property
from connector.core.connection import CoreConnection
from connector.errors import SubscriptionError
from connector.messaging.message import (
    PROPERTY_TYPES,
    Message,
    PropertyValue,
    expiration_after,
    parse_property,
)
from connector.messaging.numbers import MAX_LONG, read_whole
from connector.messaging.provider import Provider
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.memory.provider import MemoryProvider
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.tables import Table, rows

WHOLE = ["byte", "short", "int", "long"]
NUMBERS = [kind for kind in PROPERTY_TYPES if kind not in ("string", "boolean")]
LIMITS = [
    str(sign * (1 << bits) + more)
    for bits in (0, 7, 8, 15, 16, 31, 32, 63, 64)
    for sign in (1, -1)
    for more in (-1, 0, 1)
]
STRANGE = [
    *("", " ", "+", "-", "+5", "-0", " 5 ", "\t5\n", "5 5", "007", "0x10", "0b1", "0o7", "1e3", "1E3", "1."),
    *(".5", "1.5", "-1.5e-3", "1_000", "1__0", "٣", "１", "²", "½", "1,5", "1.5f", "1L", "5\xa0", "\u20035"),
    *("5\0", "--5", "nan", "NaN", "+NaN", "NAN", "inf", "Inf", "Infinity", "-Infinity", "+Infinity"),
    *("infinity", "INF", "1e400", "-1e400", "1e39", "1e38", "3.5e38", "1e-400", "9" * 30, "9" * 5000),
    *("0" * 5000 + "7", "1e99999999", "true", "TRUE", " false ", "yes", "1", "0", "on"),
]


def by_command(kind: str, text: str, name: str = "p") -> PropertyValue:
    message = Message()
    add_property(message, f"{name}:{kind}={text}")
    return message.properties[name]


def by_meta_object(kind: str, text: str, name: str = "p") -> PropertyValue:
    part = Attribute("p", "String", app_specific_info=f"name={name};type={kind.capitalize()}")
    bo = BusinessObject(Definitions({"P": Definition("P", "1.0.0", "", {"p": part}, {})}), "P")
    bo["p"] = text
    ((_, _, value),) = properties_of(bo, "P")
    return value


def comparable(value: PropertyValue) -> PropertyValue:
    """NaN becomes a text, because it equals nothing."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def taken(edge: Callable[[str, str], PropertyValue], kind: str, text: str) -> PropertyValue | None:
    """Returns the value that an edge reads. None = refused."""
    try:
        return comparable(edge(kind, text))
    except (BadArgument, ValueError):
        return None


@pytest.fixture(scope="module")
def providers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, CoreConnection]]:
    place: Path = tmp_path_factory.mktemp("providers")
    made: dict[str, Provider] = {
        "memory": MemoryProvider(accept_persistent=True),
        "dropbox": DropboxProvider(place / "root", create=True, durable=False),
        "sql": SqlProvider(Settings(f"sqlite:///{place}/messages.db").at(place)),
    }
    connections = {name: CoreConnection(provider) for name, provider in made.items()}
    yield connections
    for connection in connections.values():
        connection.close()


def shown(message: Message) -> object:
    sent = [(name, value) for name, value in message.properties.items() if name != "JMSXDeliveryCount"]
    properties = {name: comparable(value) for name, value in sent}
    types = {name: message.property_types[name] for name in properties}
    return (
        *(message.type, message.correlation_id, message.reply_to, message.priority, message.expiration),
        *(message.delivery_mode, properties, types),
    )


def is_read_alike(providers: dict[str, CoreConnection], message: Message) -> None:
    """Checks that every provider takes and reads the message alike, or that every provider refuses it."""
    answers: dict[str, object] = {}
    for name, connection in providers.items():
        session = connection.session()
        try:
            session.producer("q").send(message.copy(b"x"))
        except ValueError as error:
            answers[name] = str(error)
            continue
        (browsed,) = session.browser("q")
        received = session.consumer("q").receive(0)
        assert received is not None
        answers[name] = shown(received)
        assert shown(browsed) == shown(received)
        session.close()
    assert len({repr(answer) for answer in answers.values()}) == 1, answers


def accepts(reading: Callable[[], object]) -> bool:
    """Whether a value is taken. Else a ValueError says why not."""
    try:
        reading()
    except ValueError as error:
        return not str(error)
    return True


def is_refused(reading: Callable[..., object], *arguments: object, **options: object) -> None:
    assert not accepts(partial(reading, *arguments, **options))


@rows("text", [*LIMITS, *STRANGE])
def test_every_edge_reads_the_same_value_or_none_does(text: str) -> None:
    for kind in [*NUMBERS, "boolean"]:
        found = taken(by_command, kind, text)
        # a blank attribute of a meta-object is undefined
        assert found == (taken(by_meta_object, kind, text) if text.strip() else None), kind


@given(
    st.sampled_from(NUMBERS),
    st.text("0123456789+-._eExX٣１ NaInfity\t", min_size=1, max_size=12).filter(str.strip),
)
def test_any_text_is_read_alike_at_every_edge(kind: str, text: str) -> None:
    assert taken(by_command, kind, text) == taken(by_meta_object, kind, text)


@rows(
    "text, kinds",
    [
        *((text, WHOLE) for text in ("٣", "1_000", "0x10", "1e3", "５", "", " ", "1 0", "9" * 5000, "--5")),
        *((text, NUMBERS) for text in ("٣", "1_0.5", "inf", "nan", "infinity", "1e400", "0x1p3", "1.5f")),
    ],
)
def test_a_number_is_decimal_and_a_whole_number_is_digits_only(text: str, kinds: list[str]) -> None:
    assert [taken(by_command, kind, text) for kind in kinds] == [None] * len(kinds)
    for read in (read_whole, read_priority, read_timeout):
        is_refused(read, text)


@given(
    st.sampled_from(PROPERTY_TYPES),
    st.one_of(st.sampled_from([*LIMITS, *STRANGE]), st.text(max_size=20), st.floats().map(repr)),
)
@settings(max_examples=60, deadline=None)
@example("double", "-Infinity")
@example("double", "NaN")
@example("float", "1e-60")
@example("string", "x" * 3000)
@example("string", "a&b=c%2E.+\n\x07~")
def test_a_value_that_an_edge_takes_is_read_by_every_provider(
    providers: dict[str, CoreConnection], kind: str, text: str
) -> None:
    message = Message()
    with suppress(BadArgument):
        add_property(message, f"p:{kind}={text}")
        is_read_alike(providers, message)


TEXTS = st.one_of(
    st.text(st.characters(), max_size=30),
    st.sampled_from(
        ["", " ", "\0", "a\0b", "\ud83d", "\udcff", "\x07", "a.b~c%2E", "x" * 400, "é" * 300, "a\nb", "."]
    ),
)


@given(TEXTS, TEXTS, TEXTS)
@settings(max_examples=60, deadline=None)
@example("\0", "", "")
@example("", "\udcff", "")
@example("", "", "\ud83d")
@example("", "", "")
@example("é" * 300, "x" * 400, "\x07" * 300)
def test_a_text_is_read_by_every_provider_or_refused_by_all(
    providers: dict[str, CoreConnection], kind: str, correlation_id: str, value: str
) -> None:
    message = Message(type=kind, correlation_id=correlation_id)
    message.set_property("p", value)

    def sendable() -> None:
        for text in (kind, correlation_id, value):
            sendable_text(text)

    assert accepts(sendable) is accepts(message.check)
    is_read_alike(providers, message)


@given(st.one_of(st.integers(), st.sampled_from([0, 1, MAX_LONG - 1, MAX_LONG, MAX_LONG + 1, -1, 1 << 64])))
@settings(deadline=None, max_examples=40)
def test_an_expiration_fits_a_long_at_every_edge(
    providers: dict[str, CoreConnection], milliseconds: int
) -> None:
    is_taken = accepts(partial(expiration_after, milliseconds))
    assert not is_taken or 0 <= milliseconds < MAX_LONG
    for connection in providers.values():
        produce = partial(connection.session().producer, "q", time_to_live=milliseconds)
        assert accepts(produce) is is_taken
    is_late = milliseconds > expiration_after(60_000)
    is_read_alike(providers, Message(expiration=milliseconds if is_late else 0))


def test_what_no_edge_takes_no_provider_keeps(providers: dict[str, CoreConnection]) -> None:
    for connection in providers.values():
        session = connection.session()
        producer = session.producer("q")
        for reply_to in ("queue:orders", "a/b", "queue://..", "mail://x", "a\0", "\ud83d"):
            is_refused(producer.send, Message(reply_to=reply_to))
        for priority in (-1, 10, 100, 1 << 31, -(1 << 31)):
            is_refused(read_priority, priority)
            is_refused(session.producer, "q", priority=priority)
            is_refused(producer.send, Message(priority=priority))
            is_refused(producer.send, "x", priority=priority)
        for name in ("\0", "a\0", "\udcff"):
            with pytest.raises(SubscriptionError):
                session.shared_durable_consumer("topic://t", name)


DEFINED = [
    *(("JMSXGroupID", "string", "5"), ("JMSXGroupSeq", "int", "5"), ("JMSXUserID", "string", "u")),
    *(("JMSXAppID", "string", "a"), ("JMSXProducerTXID", "string", "1"), ("JMSXState", "int", "2")),
    *(("JMSXConsumerTXID", "string", "1"), ("JMSXRcvTimestamp", "long", "1")),
]


@rows("name, defined, text", DEFINED)
def test_a_property_that_jms_defines_has_its_type_at_every_edge(
    providers: dict[str, CoreConnection], name: str, defined: str, text: str
) -> None:
    bare = Message()
    add_property(bare, f"{name}={text}")
    assert bare.property_types == {name: defined}
    for kind in PROPERTY_TYPES:
        value = parse_property(kind, "true" if kind == "boolean" else text if text.isdigit() else "5")
        by_hand = Message()
        by_hand.set_property(name, value, kind)
        edges: list[Callable[[], object]] = [
            partial(by_command, kind, text_of(value), name),
            partial(providers["memory"].session().producer("typed").send, by_hand),
            partial(by_meta_object, kind, text_of(value), name),
        ]
        for edge in edges:
            if kind == defined:
                edge()
            else:
                with pytest.raises((ValueError, BadArgument), match=f"expected {defined}"):
                    edge()


def test_python_gives_a_property_the_type_that_jms_defines(providers: dict[str, CoreConnection]) -> None:
    for connection in providers.values():
        session = connection.session()
        session.producer("of python").send("x", properties={"JMSXGroupSeq": 5})
        got = session.consumer("of python", "JMSXGroupSeq = 5").receive(0)
        assert got is not None
        assert got.property_types["JMSXGroupSeq"] == "int"
        for name, value in (("JMSXGroupID", 5), ("JMSXGroupSeq", 1 << 40), ("JMSXGroupSeq", "5")):
            is_refused(session.producer("of python").send, "x", properties={name: value})


OF_PROVIDERS: dict[str, tuple[str, PropertyValue]] = {
    "JMSXUserID": ("string", "root"),
    "JMSXAppID": ("string", "trusted"),
    "JMSXProducerTXID": ("string", "1"),
    "JMSXConsumerTXID": ("string", "1"),
    "JMSXRcvTimestamp": ("long", 1),
    "JMSXState": ("int", 2),
    "JMSXOther": ("string", "x"),
}
"""What only a provider sets (JMS 2.0, 3.5.9), with a value that a sender claims."""


def test_what_a_provider_sets_is_never_taken_from_a_sender(
    providers: dict[str, CoreConnection],
) -> None:
    with Table() as table:
        for name, (kind, value) in OF_PROVIDERS.items():
            for provider, connection in providers.items():
                with table.row(name, provider), closing(connection.session()) as session:
                    sent = Message(b"x")
                    for own in ("JMSXGroupID", "n"):
                        sent.set_property(own, "g")
                    sent.set_property(name, value, kind)
                    session.producer("claims").send(sent)
                    assert session.consumer("claims", f"{name} IS NOT NULL").receive(0) is None
                    (browsed,) = session.browser("claims")
                    got = session.consumer("claims", "JMSXGroupID = 'g' AND n = 'g'").receive(0)
                    assert got is not None
                    for seen in browsed, got:
                        assert seen.properties == {"JMSXGroupID": "g", "n": "g"}
