"""JSON bodies that are decoded in one step mean what they mean when they are parsed and set."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from connector.datahandlers.json_handler import JsonHandler
from connector.errors import MalformedData
from connector.formats.datahandler import Hint
from connector.formats.json_decoder import JsonDecoder
from connector.formats.json_plan import JsonPlans
from connector.testing.datahandlers import sample_definitions
from tests.datahandlers.definitions import without_decoder
from tests.tables import rows

DEFINITIONS = sample_definitions()
CUSTOMER = Hint("Customer", "Create")
HINTS = (CUSTOMER, Hint("Customer"), Hint("Address", "Update"), Hint("Nobody", "Create"), None)
OPTIONS = (
    {"IgnoreUndefinedAttributes": False, "write_type": True},
    {"IgnoreUndefinedAttributes": True, "write_type": True},
)


with without_decoder():
    PARSING = [JsonHandler(options, DEFINITIONS) for options in OPTIONS]
DECODING = [JsonHandler(options, DEFINITIONS) for options in OPTIONS]


def outcome(handler: JsonHandler, body: bytes | str, hint: Hint | None) -> tuple[Any, ...]:
    """All that can be seen of what a body means; ``repr`` tells 1 from 1.0 and -0.0 from 0.0."""
    try:
        bo = handler.to_business_object(body, hint)
    except MalformedData as error:
        return type(error), str(error)
    return bo.type, bo.verb, repr(bo.as_dict()), list(bo), handler.to_body(bo), bo.object_event_id


def assert_both_agree(body: bytes | str) -> None:
    for decoding, parsing in zip(DECODING, PARSING, strict=True):
        for hint in HINTS:
            assert outcome(decoding, body, hint) == outcome(parsing, body, hint)


_NUMBERS = (
    "0 -0 -0.0 1 7 1.0 1e2 1E+2 0.1 2147483647 2147483648 -2147483648 -2147483649 9007199254740993 "
    "9223372036854775808 18446744073709551616 -9223372036854775809 3.4028234663852886e38 "
    "3.4028234663852889e38 3.4028235E38 -3.4028235e38 3.4028236e38 "
    "-3.5e38 1e308 1.7976931348623159e308 1e999 5e-324 1e-999 NaN Infinity "
    "-Infinity 01 +1 1. .5 - 0x1 1_0"
)
NUMBER_TOKENS = _NUMBERS.split()
TEXT_TOKENS = (
    '""',
    '"2024-02-29"',
    '"2024-02-30"',
    '"2024-02-29T23:59:60Z"',
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\ud83d\\ude00"',
    '"\\u0000"',
    '"\\x"',
    '"\t"',
    '"',
    '"' + "💶" * 20 + '"',
    '"' + "💶" * 21 + '"',
    '"Customer"',
    '"Address"',
    '"Create"',
)
WORDS = ("true", "false", "null", "nul", "True")
DIGITS = st.text("0123456789", min_size=1, max_size=25)
NUMBERS = st.one_of(
    st.sampled_from(NUMBER_TOKENS),
    st.integers().map(str),
    st.floats(allow_nan=False).map(repr),
    st.builds("{}{}.{}e{}{}".format, st.sampled_from(["", "-"]), DIGITS, DIGITS, st.just("-"), DIGITS),
    st.builds("{}{}".format, DIGITS, st.integers(-400, 400).map("e{}".format)),
)
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=25).map(json.dumps),
    st.text('a:"\\{}[],é💶', max_size=25).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(TEXT_TOKENS),
)
KEYS = st.one_of(
    st.sampled_from([f'"{name}"' for name in DEFINITIONS["Customer"].attributes]),
    st.sampled_from([f'"{name}"' for name in DEFINITIONS["Address"].attributes]),
    st.sampled_from(['"BusinessObject"', '"Verb"', '"N\\u0061me"', '"name"', '"x"', '""', '"\\ud800"', "x"]),
)
SPACE = st.sampled_from(["", "", "", " ", "\n", "\r\n\t", "\f", "\u00a0"])
VALUES = st.recursive(
    st.one_of(NUMBERS, TEXTS, st.sampled_from(WORDS)),
    lambda inner: st.one_of(
        st.builds("[{}{}]".format, SPACE, st.lists(inner, max_size=3).map(",".join)),
        st.lists(st.tuples(KEYS, inner), max_size=4).map(
            lambda pairs: "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"
        ),
    ),
    max_leaves=8,
)
RIGHT = {
    "CustomerId": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    "Name": st.text(st.characters(exclude_categories=["Cs"]), max_size=25) | st.none(),
    "Notes": st.text('a:"\\', max_size=25),
    "Active": st.booleans() | st.just("") | st.none(),
    "Rating": st.integers(-(2**31), 2**31 - 1) | st.just(""),
    "Discount": st.floats(-3.4e38, 3.4e38) | st.integers(-(10**30), 10**30) | st.just(""),
    "Limit": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**30), 10**30),
    "Since": st.dates().map(str) | st.datetimes().map(lambda time: time.isoformat()) | st.just(""),
    "BusinessObject": st.just("Customer"),
    "Verb": st.sampled_from(["Create", "Update", "", None, "Buy"]),
}
ADDRESSES = st.fixed_dictionaries(
    {}, optional={"City": RIGHT["Name"], "AddressID": RIGHT["Rating"], "Before": st.just({"City": "a"})}
)
CUSTOMERS = st.fixed_dictionaries(
    {}, optional={**RIGHT, "Home": ADDRESSES | st.none(), "Address": st.lists(ADDRESSES, max_size=3)}
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """From right to hostile."""
    if draw(st.booleans()):
        members = [
            (json.dumps(key), json.dumps(value, ensure_ascii=draw(st.booleans())))
            for key, value in draw(CUSTOMERS).items()
        ]
    else:
        members = []
    members += draw(st.lists(st.tuples(KEYS, VALUES), max_size=3))
    space = draw(SPACE)
    text = f"{space},".join(f"{key}{space}:{space}{value}" for key, value in draw(st.permutations(members)))
    coding = draw(st.sampled_from(["utf-8"] * 8 + ["utf-16", "utf-32", "latin-1"]))
    body = f"{space}{{{text}}}{space}".encode(coding, "replace")
    body = draw(st.sampled_from([b""] * 8 + [b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 2])) + body
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(body)))
        end = at + draw(st.integers(0, 3))
        body = body[:at] + draw(st.sampled_from([b"", b"\xff", b'"', b"\\", b"}", b":", b"\0"])) + body[end:]
    return body


def nested(levels: int) -> bytes:
    """An object of the type that may be its own child."""
    return b'{"Home":' + b'{"City":"a","Before":' * levels + b"{}" + b"}" * levels + b"}"


@settings(max_examples=600)
@given(bodies())
@example(b'\xef\xbb\xbf\xef\xbb\xbf{"Name": "a"}')
@example(b'{"Home": {"City": "a", "x": "\\"}, "City": 1}')
@example(b'{"Notes": ":", "x": 1}')
@example(b'{"Notes": "a\\\\", "Notes": ":"}')
def test_any_body_means_the_same_decoded_and_parsed(body: bytes) -> None:
    assert_both_agree(body)


@rows("name", [*DEFINITIONS["Customer"].attributes, "BusinessObject", "Verb", "Nmae"])
def test_any_value_of_any_attribute_means_the_same_decoded_and_parsed(name: str) -> None:
    for value in (*NUMBER_TOKENS, *TEXT_TOKENS, *WORDS, "[]", "{}", "[{}]", "[null]", "[[]]", '{"City": 1}'):
        assert_both_agree(f'{{"{name}": {value}}}')


@settings(max_examples=200)
@given(CUSTOMERS, st.booleans())
def test_a_right_body_is_decoded_and_means_the_same_parsed(values: dict[str, Any], escaped: bool) -> None:
    body = json.dumps(values, ensure_ascii=escaped).encode()
    assert (
        JsonDecoder(JsonPlans(DEFINITIONS), ("BusinessObject", "Verb")).decode("Customer", body) is not None
    )
    assert_both_agree(body)


@rows("levels", [0, 1, 29, 30, 31, 32, 33, 197, 198, 199, 200, 1000, 100_000])
def test_nesting_means_the_same_decoded_and_parsed(levels: int) -> None:
    assert_both_agree(nested(levels))
    assert_both_agree(nested(levels)[:-1])


@settings(max_examples=100)
@given(st.text(max_size=20) | CUSTOMERS.map(json.dumps) | st.just('{"Name": "\ud800"}'))
def test_text_means_the_same_decoded_and_parsed(body: str) -> None:
    assert_both_agree(body)
