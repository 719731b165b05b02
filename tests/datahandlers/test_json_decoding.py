"""JSON bodies that are decoded in one step mean what they mean when they are parsed and set."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.json_handler import JsonHandler
from connector.errors import MalformedData
from connector.formats.datahandler import Hint
from connector.formats.json_decoder import MAX_LEVELS, JsonDecoder
from connector.formats.json_plan import JsonPlans
from connector.testing.datahandlers import objects_of
from tests.datahandlers.definitions import (
    RENAMED,
    RENAMED_BODY,
    RENAMED_VALUES,
    SAMPLES,
    define,
    known,
    make,
    without_decoder,
)
from tests.tables import rows

CUSTOMER = Hint("Customer", "Create")
HINTS = (CUSTOMER, Hint("Customer"), Hint("Address", "Update"), Hint("Nobody", "Create"), None)
OPTIONS: tuple[dict[str, Any], ...] = (
    {"IgnoreUndefinedAttributes": False, "write_type": True},
    {"IgnoreUndefinedAttributes": True, "write_type": True},
)


with without_decoder():
    PARSING = [make(JsonHandler, **options) for options in OPTIONS]
    RENAMED_PARSING = make(JsonHandler, RENAMED, write_type=False)
DECODING = [make(JsonHandler, **options) for options in OPTIONS]
RENAMED_DECODING = make(JsonHandler, RENAMED, write_type=False)


def decoder(*keys: str, definitions: Definitions = SAMPLES) -> JsonDecoder:
    return JsonDecoder(JsonPlans(definitions), keys)


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
    *('""', '"2024-02-29"', '"2024-02-30"', '"2024-02-29T23:59:60Z"', '"Customer"', '"Address"', '"Create"'),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', '"\\x"', '"\t"', '"'),
    *('"' + "💶" * 20 + '"', '"' + "💶" * 21 + '"'),
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
    st.sampled_from([f'"{name}"' for name in SAMPLES["Customer"].attributes]),
    st.sampled_from([f'"{name}"' for name in SAMPLES["Address"].attributes]),
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


WRONG = [
    *(b"", b"[]", b"null", b"{", b"{} {}", b'\xef\xbb\xbf{"Name": "a"}', '{"Name": "a"}'.encode("utf-16")),
    *(b'{"Name": "\xff"}', b'{"Name": "\\ud800"}', b'{"Nmae": "a"}', b'{"Meta": {}}', b'{"Name": 1}'),
    *(b'{"Name": "a", "Name": "a"}', b'{"Name": "a", "N\\u0061me": ":"}', b'{"Home": {"City": "a", "x": 1}}'),
    *(b'{"CustomerId": "123456789012345678901"}', b'{"Rating": 1.0}', b'{"Rating": 2147483648}'),
    *(b'{"Discount": 3.5e38}', b'{"Limit": NaN}', b'{"Limit": 1e999}', b'{"Limit": "1"}'),
    *(b'{"Since": "2023-02-29"}', b'{"Home": [{}]}'),
    *(b'{"Address": {}}', b'{"Address": [null]}', b'{"Verb": 1}'),
    b'{"Home":' + b'{"Before":' * MAX_LEVELS + b"{}" + b"}" * MAX_LEVELS + b"}",
    b'{"Home":' + b'{"Before":' * 100_000,
]


@rows("body", WRONG)
def test_the_decoder_leaves_what_is_wrong_or_odd_to_its_caller(body: bytes) -> None:
    assert decoder("Verb").decode("Customer", body) is None


@settings(max_examples=250)
@given(bodies())
@example(b'\xef\xbb\xbf\xef\xbb\xbf{"Name": "a"}')
@example(b'{"Home": {"City": "a", "x": "\\"}, "City": 1}')
@example(b'{"Notes": ":", "x": 1}')
@example(b'{"Notes": "a\\\\", "Notes": ":"}')
def test_any_body_means_the_same_decoded_and_parsed(body: bytes) -> None:
    assert_both_agree(body)


@rows("name", [*SAMPLES["Customer"].attributes, "BusinessObject", "Verb", "Nmae"])
def test_any_value_of_any_attribute_means_the_same_decoded_and_parsed(name: str) -> None:
    for value in (*NUMBER_TOKENS, *TEXT_TOKENS, *WORDS, "[]", "{}", "[{}]", "[null]", "[[]]", '{"City": 1}'):
        assert_both_agree(f'{{"{name}": {value}}}')


@settings(max_examples=200)
@given(CUSTOMERS, st.booleans())
def test_a_right_body_is_decoded_and_means_the_same_parsed(values: dict[str, Any], escaped: bool) -> None:
    body = json.dumps(values, ensure_ascii=escaped).encode()
    assert decoder("BusinessObject", "Verb").decode("Customer", body) is not None
    assert_both_agree(body)


@rows("levels", [0, 1, 29, 30, 31, 32, 33, 197, 198, 199, 200, 1000, 100_000])
def test_nesting_means_the_same_decoded_and_parsed(levels: int) -> None:
    assert_both_agree(nested(levels))
    assert_both_agree(nested(levels)[:-1])


@settings(max_examples=100)
@given(st.text(max_size=20) | CUSTOMERS.map(json.dumps) | st.just('{"Name": "\ud800"}'))
def test_text_means_the_same_decoded_and_parsed(body: str) -> None:
    assert_both_agree(body)


def test_what_stands_beside_the_attributes_of_the_outermost_object_comes_beside_it() -> None:
    decoded = decoder("Verb", "Trace").decode("Customer", b'{"Trace": null, "Verb": "Update", "Home": {}}')
    bo = BusinessObject(SAMPLES, "Customer", None, {"Home": {}})
    assert decoded == (bo, {"Verb": "Update", "Trace": None})
    assert decoder("Verb").decode("Customer", b'{"Home": {"Verb": "Update"}}') is None


def test_what_is_decoded_can_be_changed_and_pickled() -> None:
    one = decoder()
    first, _ = one.decode("Customer", b'{"Address": [{"City": "a"}]}')  # type: ignore[misc]
    first["Address"][0]["City"] = "b"
    first.add("Address")
    assert pickle.loads(pickle.dumps(first)) == copy.deepcopy(first) == first
    second, _ = one.decode("Customer", b'{"Address": [{"City": "a"}]}')  # type: ignore[misc]
    assert second.as_dict() == {"Address": [{"City": "a"}]}


def test_an_object_with_a_member_called_as_a_key_is_left_to_the_caller() -> None:
    assert decoder("Verb", definitions=RENAMED).decode("Order", b'{"Verb": "Create"}') is None
    bo = RENAMED_DECODING.to_business_object(b'{"Verb": "Create"}', Hint("Order"))
    assert (bo.verb, bo.as_dict()) == ("Create", {"Kind": "Create"})
    freed = make(JsonHandler, known(define("Order", Verb="String name=kind", Id="String")))
    bo = freed.to_business_object(b'{"Verb": "Update", "kind": "x"}', Hint("Order"))
    assert (bo.verb, bo.as_dict()) == ("Update", {"Verb": "x"})


@settings(max_examples=200)
@given(objects_of(RENAMED, "Order"))
def test_any_object_means_the_same_decoded_and_parsed(bo: BusinessObject) -> None:
    body = RENAMED_DECODING.to_body(bo)
    assert decoder(definitions=RENAMED).decode("Order", body) is not None
    hint = Hint(bo.type, bo.verb)
    again = RENAMED_DECODING.to_business_object(body, hint)
    assert again == RENAMED_PARSING.to_business_object(body, hint)
    assert again.as_dict() == bo.as_dict()


@settings(max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from([*RENAMED_BODY, *RENAMED_VALUES, "x"]),
        st.sampled_from(
            [*RENAMED_BODY.values(), None, "", 1, [], {}, {"town": "a"}, {"City": "a"}, {"at": {}}]
        ),
    )
)
def test_any_renamed_member_means_the_same_decoded_and_parsed(document: dict[str, Any]) -> None:
    body, hint = json.dumps(document), Hint("Order", "Create")
    assert outcome(RENAMED_DECODING, body, hint) == outcome(RENAMED_PARSING, body, hint)
