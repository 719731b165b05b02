"""File names carry all headers, byte for byte as the protocol has them, and lose nothing."""

from __future__ import annotations

import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.errors import MalformedData
from connector.messaging.message import PERSISTENT, PROPERTY_TYPES, Message, PropertyValue
from connector.stores.dropbox import codec
from tests.tables import rows

ALL_FIELDS = "4.1140429201295000-9262574723.T.1140429211295.corr1283.TestQueue1.XYZType.prop1S=hello"
MINIMUM = "4.1140429201295000-9262574723.T"


texts = st.text(st.characters(exclude_categories=["Cs"]))
headers = st.one_of(st.none(), texts.filter(bool))
_VALUES: dict[str, st.SearchStrategy[PropertyValue]] = {
    "boolean": st.booleans(),
    "byte": st.integers(-(1 << 7), (1 << 7) - 1),
    "short": st.integers(-(1 << 15), (1 << 15) - 1),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": texts,
}
properties = st.dictionaries(
    texts.filter(lambda name: name and not name.startswith(codec.OWN) and name != codec.DELIVERY_COUNT),
    st.sampled_from(PROPERTY_TYPES).flatmap(lambda kind: st.tuples(st.just(kind), _VALUES[kind])),
    max_size=5,
)
names = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1),
    st.binary(min_size=1).map(lambda raw: os.fsdecode(raw.replace(b"/", b"_").replace(b"\0", b"_"))),
    st.lists(
        st.sampled_from(
            ["4", "-1", "9", "T", "B", "x", "", "1140429201295000-1", "aS=b", "aI=b", "%41", "&", "²"]
        ),
        min_size=1,
        max_size=10,
    )
    .map(".".join)
    .filter(bool),
)
"""What may lie in ``target/``: anything a file system takes, some of it nearly a structured name."""


@st.composite
def messages(draw: st.DrawFn) -> Message:
    message = Message(
        message_class=draw(st.sampled_from("MBSPOT")),
        message_id=draw(st.one_of(texts.filter(bool).map("ID:".__add__), texts.filter(bool))),
        correlation_id=draw(headers),
        reply_to=draw(
            st.one_of(st.none(), st.sampled_from(["queue://replies", "topic://prices", "queue://a.b ü"]))
        ),
        type=draw(headers),
        delivery_mode=draw(st.sampled_from([1, PERSISTENT])),
        priority=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        expiration=draw(st.integers(0, 1 << 62)),
        delivery_count=draw(st.integers(1, 1000)),
    )
    for name, (kind, value) in draw(properties).items():
        message.set_property(name, value, kind)
    return message


def _same(first: object, second: object) -> bool:
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first):
        return math.isnan(second)
    return first == second and type(first) is type(second)


@given(messages())
def test_every_header_and_property_survives_in_one_plain_file_name(message: Message) -> None:
    if message.message_id == "ID:":
        message.message_id = "ID:x"
    name = codec.encode(message)
    assert name.isascii()
    assert name.isprintable()
    assert not set('/ ~*?:"<>|\\') & set(name)
    assert not name.startswith(".")
    assert not name.endswith(".")
    assert len(name.split(".")) <= 8
    decoded, _ = codec.decode(name)
    for field in (
        *("message_class", "message_id", "correlation_id", "reply_to", "type", "delivery_mode", "priority"),
        *("expiration", "delivery_count", "property_types"),
    ):
        assert getattr(decoded, field) == getattr(message, field), field
    assert decoded.properties.keys() == message.properties.keys()
    assert all(_same(decoded.properties[name], value) for name, value in message.properties.items())


def test_the_examples_of_the_protocol_mean_what_it_says_and_come_back_byte_for_byte() -> None:
    for name in (ALL_FIELDS, MINIMUM):
        assert codec.encode(codec.decode(name)[0]) == name
    message, _ = codec.decode(ALL_FIELDS)
    assert message.headers() == {
        "JMSMessageID": "ID:1140429201295000-9262574723",
        "JMSDestination": None,
        "JMSTimestamp": 1140429201295,
        "JMSCorrelationID": "corr1283",
        "JMSReplyTo": "queue://TestQueue1",
        "JMSType": "XYZType",
        "JMSDeliveryMode": PERSISTENT,
        "JMSPriority": 4,
        "JMSExpiration": 1140429211295,
        "JMSRedelivered": False,
    }
    assert (message.properties, message.property_types) == ({"prop1": "hello"}, {"prop1": "string"})


@rows("dots", range(9))
def test_trailing_dots_mean_nothing_and_properties_are_added_behind_them(dots: int) -> None:
    assert codec.decode(MINIMUM + "." * dots) == codec.decode(MINIMUM)
    if dots < 6:
        message, _ = codec.decode(codec.add_properties(MINIMUM + "." * dots, "aS=1"))
        assert message.properties == {"a": "1"}
        assert message.message_id == "ID:1140429201295000-9262574723"


@rows("raw", ["v1.2", "v1.2.", ".v", "a..b"])
def test_dots_that_a_foreign_program_left_in_the_properties_survive(raw: str) -> None:
    message, _ = codec.decode(f"4.id.T.....aS={raw}")
    assert message.properties == {"a": raw}


OTHER = "report.csv 2024.report.csv x 4.id 4..T 4.id.X 4.id.t 2147483648.id.T -2147483649.id.T +4.id.T"


@rows("name", [*OTHER.split(), "4_0.id.T", "٤.id.T", "README.T.B"])
def test_any_other_name_is_itself_the_id_of_a_bytes_message(name: str) -> None:
    message, own = codec.decode(name)
    assert (message.message_id, message.message_class, message.priority) == (name, "B", 4)
    assert own == {}


@given(names)
def test_every_file_name_there_is_decodes_or_says_what_is_wrong(name: str) -> None:
    try:
        message, _ = codec.decode(name)
    except MalformedData as error:
        reason = str(error)
        assert "the file name" in reason
        return
    assert message.message_id == codec.message_id(name)
    for text in (message.message_id, message.correlation_id, message.type, message.reply_to):
        (text or "").encode("utf-8")
    for key, value in message.properties.items():
        f"{key}{value}".encode()


@given(names)
def test_a_name_that_gains_a_property_keeps_its_id_class_and_priority(name: str) -> None:
    gained = codec.add_properties(name, "connector_outcomeS=failed")
    fields = codec.split(gained)
    assert fields is not None
    assert codec.message_id(gained) == codec.message_id(name)
    before = codec.split(name)
    expected = (before.priority, before.message_class) if before else ("4", "B")
    assert (fields.priority, fields.message_class) == expected
    assert "connector_outcomeS=failed" in codec.split_properties(fields.properties)
    for _ in range(2):
        gained = codec.add_properties(codec.without_properties(gained, ("connector_",)), "connector_xI=1")
        assert codec.message_id(gained) == codec.message_id(name)


@given(names, st.integers(0, 50))
def test_the_delivery_count_is_written_from_the_second_delivery_on(name: str, count: int) -> None:
    try:
        codec.decode(name)
    except MalformedData:
        return
    counted = codec.with_delivery_count(name, count)
    assert codec.decode(counted)[0].delivery_count == max(count, 1)
    assert codec.decode(codec.with_delivery_count(counted, 1))[0].delivery_count == 1


@rows(
    "name, reason",
    [
        ("4.id.T.soon", "field 4 .expiration."),
        ("4.id.T.-1", "field 4 .expiration."),
        ("4.id.T.²", "field 4 .expiration."),
        ("4.id.T.99999999999999999999", "field 4 .expiration."),
        ("4.id.T.....novalue", "a property 'novalue'"),
        ("4.id.T.....S=x", "a property 'S=x'"),
        ("4.id.T.....aQ=x", "a property 'aQ=x'"),
        ("4.id.T.....aI=x", "a property 'a': 'x' is no int"),
        ("4.id.T.....aY=200", "a property 'a': .* does not fit a byte"),
        ("4.id.T.....aB=yes", "a property 'a': 'yes' is no boolean"),
        ("4.id.T.....JMS_dropboxmq_modeS=x", "delivery mode 'x'"),
        ("4.id.T.....JMS_dropboxmq_modeI=7", "delivery mode '7'"),
    ],
)
def test_garbage_in_a_later_field_names_the_field(name: str, reason: str) -> None:
    with pytest.raises(MalformedData, match=reason):
        codec.decode(name)


def test_bytes_that_are_no_unicode_are_shown_escaped_and_text_that_is_none_has_no_name() -> None:
    assert codec.message_id(os.fsdecode(b"caf\xe9")) == "caf\\xe9"
    message, _ = codec.decode(os.fsdecode(b"4.a\xe9b.T..c\xe9..t\xff.nS=v\xe9&m%E9S=%ff"))
    assert (message.message_id, message.correlation_id, message.type) == ("ID:a\\xe9b", "c\\xe9", "t\\xff")
    assert message.properties == {"n": "v\\xe9", "m\\xe9": "\\xff"}
    message = Message(message_id="ID:x")
    message.set_property("p", "\ud800")
    with pytest.raises(ValueError, match="surrogates"):
        codec.encode(message)


def test_a_property_that_only_looks_like_the_mark_of_a_bare_name_is_none() -> None:
    for pairs in ("XJMS_dropboxmq_bareB=true", "JMS_dropboxmq_bareB=false", "aS=JMS_dropboxmq_bareB=true"):
        name = f"4.id.T.....{pairs}"
        assert codec.message_id(name) == "ID:id"
        assert codec.decode(name)[0].message_id == "ID:id"


@given(st.floats(width=32))
def test_a_float_is_written_no_longer_than_its_32_bits_need(number: float) -> None:
    pair = codec.encode_property("p", "float", number)
    assert _same(codec.decode_property(pair)[2], number)
    mantissa = pair.removeprefix("pF=").replace("%2E", "").partition("e")[0]
    assert len(mantissa.strip("-").lstrip("0")) <= 9


def test_a_message_without_an_id_or_of_no_class_has_no_name() -> None:
    with pytest.raises(ValueError, match="needs an id"):
        codec.encode(Message())
    with pytest.raises(ValueError, match="no message class"):
        codec.encode(Message(message_id="ID:x", message_class="Z"))
