"""JSON: members that are not called as their attributes, and the character sets of bodies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.businessobjects.definition import Attribute, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.json_handler import JsonHandler
from connector.errors import MalformedData
from connector.formats.datahandler import DataHandler, Hint
from connector.formats.json_decoder import JsonDecoder
from connector.formats.json_plan import JsonPlans, name_in_json
from connector.testing.datahandlers import DataHandlerSuite, Sample, objects_of
from tests.datahandlers.definitions import define, known, make, without_decoder
from tests.tables import rows

ORDER = Hint("Order", "Create")
KEYS = ("BusinessObject", "Verb")


DEFINITIONS = known(
    define(
        "Order",
        "cw_mo_conn=Meta",
        Id="String name=order-id;elem_name=x;attr_name=y",
        Date="Date type=attribute; attr_name = order date",
        First="String name=Second",  # the names change places
        Second="String name=First",
        Kind="String name=Verb;",
        Total="Double elem_name=Betrag €",
        Line="Line* name=lines",
        Home="Place",
        Plain="Plain",
        Meta="Plain name=meta",
    ),
    define("Line", Article="String", Place="Place name=at"),
    define("Place", City="String name=town", Within="Place"),
    define("Plain", Text="String", Note="String name=;x=y"),
)
VALUES = {
    "Id": "1",
    "Date": "2024-05-31",
    "First": "a",
    "Second": "b",
    "Kind": "c",
    "Total": 1.5,
    "Line": [{"Article": "x", "Place": {"City": "Oslo", "Within": {"City": "Norway"}}}, {}],
    "Home": {"Within": {"City": "Rome"}},
    "Plain": {"Text": "d", "Note": "e"},
}
BODY = {
    "order-id": "1",
    "order date": "2024-05-31",
    "Second": "a",
    "First": "b",
    "Verb": "c",
    "Betrag €": 1.5,
    "lines": [{"Article": "x", "at": {"town": "Oslo", "Within": {"town": "Norway"}}}, {}],
    "Home": {"Within": {"town": "Rome"}},
    "Plain": {"Text": "d", "Note": "e"},
}


def handler(definitions: Definitions = DEFINITIONS, **options: Any) -> JsonHandler:
    return make(JsonHandler, definitions, **{"write_type": False, **options})


with without_decoder():
    PARSING = handler()


class TestNames(DataHandlerSuite):
    @pytest.fixture
    def handler(self) -> DataHandler:
        return handler()

    @pytest.fixture
    def objects(self) -> Sequence[BusinessObject]:
        return [
            BusinessObject(DEFINITIONS, "Order", "Create", VALUES),
            BusinessObject(DEFINITIONS, "Line", "Update", {"Article": "", "Place": {}}),
        ]

    @pytest.fixture
    def samples(self) -> Sequence[Sample]:
        return [Sample(json.dumps(BODY).encode(), ORDER, VALUES)]

    @pytest.fixture
    def malformed(self) -> Sequence[bytes]:
        return [b'{"Id": "1"}', b'{"order-id": 1}', b'{"Home": {"City": "a"}}', b'{"lines": [{"Place": {}}]}']


class TestUtf16(TestNames):
    @pytest.fixture
    def handler(self) -> DataHandler:
        return handler(charset="utf-16")

    @pytest.fixture
    def samples(self) -> Sequence[Sample]:
        return [Sample(json.dumps(BODY, ensure_ascii=False).encode("utf-16"), ORDER, VALUES)]


def test_the_application_specific_information_names_the_members() -> None:
    bo = BusinessObject(DEFINITIONS, "Order", "Create", VALUES)
    assert json.loads(handler().to_body(bo)) == BODY
    assert list(json.loads(handler().to_body(bo))) == list(BODY)
    for one in (handler(), PARSING):
        assert one.to_business_object(json.dumps(BODY), ORDER) == bo


@rows(
    "info, name",
    [
        ("", "a"),
        ("name=b;elem_name=c;attr_name=d", "b"),
        ("attr_name=d;elem_name=c", "c"),
        ("ATTR_NAME = d e ", "d e"),
        ("name=;attr_name=d", "d"),
        ("name", "a"),
    ],
)
def test_the_first_tag_counts(info: str, name: str) -> None:
    assert name_in_json(Attribute("a", "String", app_specific_info=info)) == name


def test_renamed_attributes_are_decoded_in_one_step() -> None:
    decoded = JsonDecoder(JsonPlans(DEFINITIONS)).decode("Order", json.dumps(BODY).encode())
    assert decoded is not None
    assert decoded[0].as_dict() == VALUES
    decoded = JsonDecoder(JsonPlans(DEFINITIONS), KEYS).decode(
        "Line", b'{"Verb": "Create", "at": {"town": "x"}}'
    )
    assert decoded is not None
    assert (decoded[0].as_dict(), decoded[1]) == ({"Place": {"City": "x"}}, {"Verb": "Create"})


def test_an_object_with_a_member_called_as_a_key_is_left_to_the_caller() -> None:
    assert JsonDecoder(JsonPlans(DEFINITIONS), KEYS).decode("Order", b'{"Verb": "Create"}') is None
    bo = handler().to_business_object(b'{"Verb": "Create"}', Hint("Order"))
    assert (bo.verb, bo.as_dict()) == ("Create", {"Kind": "Create"})
    freed = known(define("Order", Verb="String name=kind", Id="String"))
    bo = handler(freed).to_business_object(b'{"Verb": "Update", "kind": "x"}', Hint("Order"))
    assert (bo.verb, bo.as_dict()) == ("Update", {"Verb": "x"})


@rows(
    "body, reason",
    [
        ('{"Id": "1"}', "Order: Id: the attribute Id of Order is 'order-id' in JSON"),
        ('{"order-idd": "1"}', "order-idd: no such attribute in Order, did you mean 'order-id'?"),
        ('{"Meta": {}}', "Meta: holds a meta-object of Order, which is never part of a body"),
        ('{"meta": {}}', "meta: no such attribute in Order"),
        (
            '{"lines": [{}, {"at": {"City": "a"}}]}',
            "Order: Line[1].Place.City: the attribute City of Place is 'town'",
        ),
        (
            '{"lines": [{}, {"at": {"town": 1}}]}',
            "Order: Line[1].Place.City: found the number 1, expected a text",
        ),
        ('{"lines": {}}', "Order: Line: found an object, expected a list of objects (Line)"),
        ('{"lines": [1]}', "Order: Line[0]: found the number 1, expected an object (Line)"),
        ('{"Home": []}', "Order: Home: found a list, expected an object (Place)"),
        ('{"Plain": {"text": "a"}}', "Order: Plain.text: no such attribute in Plain, did you mean 'Text'?"),
    ],
)
def test_a_wrong_member_is_refused_with_its_path(body: str, reason: str) -> None:
    with pytest.raises(MalformedData) as refused:
        handler().to_business_object(body, ORDER)
    assert reason in str(refused.value)


def test_members_that_are_no_attribute_may_be_passed_over() -> None:
    body = '{"Id": "1", "order-id": "2", "Home": {"City": "a", "town": "b"}, "meta": 1}'
    bo = handler(IgnoreUndefinedAttributes=True).to_business_object(body, ORDER)
    assert bo.as_dict() == {"Id": "2", "Home": {"City": "b"}}


@rows("attributes", [("name=c", "name=c"), ("name=b", ""), ("", "attr_name=a")])
def test_two_attributes_cannot_have_one_name(attributes: tuple[str, str]) -> None:
    first, second = attributes
    definitions = known(
        define("Order", Child="Inner"), define("Inner", a=f"String {first}", b=f"String {second}")
    )
    for call in (
        lambda: handler(definitions).to_business_object(b"{}", ORDER),
        lambda: handler(definitions).to_body(BusinessObject(definitions, "Order")),
        lambda: JsonDecoder(JsonPlans(definitions)).decode("Order", b"{}"),
    ):
        with pytest.raises(MalformedData, match=r"Inner: a and b are both '[abc]' in JSON"):
            call()


def test_objects_nested_without_end_are_named() -> None:
    count = 3000
    chain = [define(f"N{n}", c=f"N{n + 1}", x="String") for n in range(count)]
    definitions = known(*chain, define(f"N{count}", x="String name=y"))
    assert not JsonPlans(definitions).get("N0").is_plain
    found = handler(definitions).to_business_object(b'{"c": {"x": "a"}}', Hint("N0"))
    assert found.as_dict() == {"c": {"x": "a"}}
    found = handler(definitions).to_business_object(b'{"c": {"y": "a"}}', Hint(f"N{count - 1}"))
    assert found.as_dict() == {"c": {"x": "a"}}


@settings(max_examples=200)
@given(objects_of(DEFINITIONS, "Order"))
def test_any_object_means_the_same_decoded_and_parsed(bo: BusinessObject) -> None:
    body = handler().to_body(bo)
    assert JsonDecoder(JsonPlans(DEFINITIONS)).decode("Order", body) is not None
    hint = Hint(bo.type, bo.verb)
    again = handler().to_business_object(body, hint)
    assert again == PARSING.to_business_object(body, hint)
    assert again.as_dict() == bo.as_dict()


@settings(max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from([*BODY, *VALUES, "x"]),
        st.sampled_from([*BODY.values(), None, "", 1, [], {}, {"town": "a"}, {"City": "a"}, {"at": {}}]),
    )
)
def test_any_body_means_the_same_decoded_and_parsed(document: dict[str, Any]) -> None:
    def outcome(one: JsonHandler) -> Any:
        try:
            return one.to_business_object(json.dumps(document), ORDER).as_dict()
        except MalformedData as error:
            return str(error)

    assert outcome(handler()) == outcome(PARSING)


# --- character sets ---------------------------------------------------------------------------


@rows("charset", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_names_the_character_set(charset: str) -> None:
    body = '{"order-id": "Zoë €"}'.encode(charset)
    assert handler().to_business_object(body, ORDER)["Id"] == "Zoë €"


@rows("mark", [b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xfe\xff"])
def test_a_body_of_a_mark_alone_is_empty(mark: bytes) -> None:
    with pytest.raises(MalformedData, match="the body is empty"):
        handler().to_business_object(mark, ORDER)


def test_the_character_set_is_an_option() -> None:
    one = handler(charset="ISO-8859-1")
    bo = one.to_business_object('{"order-id": "Zoë"}'.encode("ISO-8859-1"), ORDER)
    assert bo["Id"] == "Zoë"
    assert one.to_body(bo) == '{"order-id":"Zoë"}'.encode("ISO-8859-1")
    bo["Id"] = "€"
    with pytest.raises(MalformedData, match=r"the character '.u20ac' does not exist in ISO-8859-1"):
        one.to_body(bo)


@rows(
    "charset, body, reason",
    [
        ("", b'{"order-id": "\xff"}', "the body is not UTF-8: byte 14, line 1"),
        ("", '{"order-id"'.encode("utf-16")[:-1], "the body is not utf-16-le: byte 22"),
        ("utf-8", b'{"order-id": "\xff"}', "the body is not utf-8: byte 14"),
        ("utf-8", '{"order-id"}'.encode("utf-16"), "the body is not utf-8: byte 0"),
        ("ascii", '{"order-id": "ë"}'.encode(), "the body is not ascii: byte 14"),
        ("utf-16-le", b"{}\0\xd8", "the body is not utf-16-le: byte 2"),
        ("", b"\xff\xfe\xff\xfe{\0}\0", "the body is no JSON"),
    ],
)
def test_a_body_in_another_character_set_is_refused_with_its_byte(
    charset: str, body: bytes, reason: str
) -> None:
    with pytest.raises(MalformedData) as refused:
        handler(charset=charset).to_business_object(body, ORDER)
    assert reason in str(refused.value)
