"""Tags for documents of public standards: root elements, prefixes, ``xsi:nil``, ``xsi:type``, XML as text."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.soap_handler import SoapHandler
from connector.datahandlers.xml_handler import XmlHandler
from connector.formats.datahandler import Hint
from tests.datahandlers.definitions import define, known, make, refusal
from tests.tables import rows

XSI = "http://www.w3.org/2001/XMLSchema-instance"


def handler(definitions: Definitions, **options: Any) -> XmlHandler:
    return make(XmlHandler, definitions, **options)


def canonical(body: bytes | str) -> bytes:
    return etree.tostring(etree.fromstring(body), method="c14n")


def round_trip(definitions: Definitions, body: str, **options: Any) -> BusinessObject:
    """Returns the object of a body, which is written as the same canonical XML."""
    made = handler(definitions, **options)
    bo = made.to_business_object(body, None)
    bo.verb = "Create"
    assert canonical(made.to_body(bo)) == canonical(body)
    return bo


# --- root elements ------------------------------------------------------------------------------


def test_objects_of_one_root_element_differ_by_its_namespace() -> None:
    definitions = known(
        define("Transfer", "ns=urn:pay;elem_name=Document;verb=false", Id="String"),
        define("Statement", "ns=urn:account;elem_name=Document;verb=false", No="String"),
        define("Document", verb="String type=attribute", Text="String"),
        define("Plain", Text="String"),
    )
    assert round_trip(definitions, '<Document xmlns="urn:pay"><Id>1</Id></Document>').type == "Transfer"
    assert round_trip(definitions, '<Document xmlns="urn:account"><No>1</No></Document>').type == "Statement"
    assert round_trip(definitions, '<Document verb="Create"><Text>1</Text></Document>').type == "Document"
    bo = BusinessObject(definitions, "Transfer", None, {"Id": "1"})
    for prefixed in (
        handler(definitions, BOPrefix="Their"),
        make(SoapHandler, definitions, BOPrefix="Their"),
    ):
        body = prefixed.to_body(bo)
        assert b'<Document xmlns="urn:pay">' in body
        assert prefixed.to_business_object(body, None) == bo


def test_an_object_may_have_no_verb_in_xml() -> None:
    definitions = known(define("Order", "verb=false", Id="String"))
    made = handler(definitions)
    assert round_trip(definitions, "<Order><Id>1</Id></Order>").verb == "Create"
    reason = refusal(made.to_business_object, '<Order verb="Create"><Id>1</Id></Order>', None)
    assert "XML attribute 'verb' is not known" in reason
    assert made.to_business_object("<Order><Id>1</Id></Order>", Hint("Order", "Create")).verb == "Create"


# --- namespaces ---------------------------------------------------------------------------------

BILL = known(
    define(
        "Bill",
        "ns=urn:bill;xmlns:b=urn:basic;xmlns:A=urn:all;verb=false",
        Id="String ns=urn:basic",
        Lang="String type=attribute;attr_name=lang;ns=http://www.w3.org/XML/1998/namespace",
        Own="String type=attribute;ns=urn:bill",
        Id_2="String elem_name=Id;ns=urn:bill",
        Party="Party* ns=urn:all",
        Where="String type=xsischemalocation",
    ),
    define("Party", "ns=urn:basic", Name="String", Odd="String ns=urn:odd"),
)


@rows(
    "body",
    [
        '<Bill xmlns="urn:bill" xmlns:b="urn:basic"><b:Id>1</b:Id><Id>2</Id></Bill>',
        '<Bill xmlns="urn:bill" xmlns:b="urn:basic" xmlns:A="urn:all" xml:lang="de"><b:Id>1</b:Id>'
        "<A:Party><b:Name>x</b:Name></A:Party></Bill>",
        f'<Bill xmlns="urn:bill" xmlns:xsi="{XSI}" xsi:schemaLocation="urn:bill bill.xsd"><Id>2</Id></Bill>',
        '<Bill xmlns="urn:bill"/>',
    ],
)
def test_a_document_has_the_prefixes_of_the_tags_and_only_those_it_uses(body: str) -> None:
    round_trip(BILL, body)


def test_namespaces_without_a_prefix_of_their_own_get_one() -> None:
    made = handler(BILL)
    bo = BusinessObject(BILL, "Bill", "Create", {"Own": "o", "Party": [{"Odd": "x"}]})
    root = etree.fromstring(made.to_body(bo))
    assert root.get("{urn:bill}Own") == "o"
    assert root.findtext("{urn:all}Party/{urn:odd}Odd") == "x"
    bo.verb = None
    assert made.to_business_object(made.to_body(bo), None) == bo


def test_an_element_in_no_namespace_takes_the_default_namespace_from_the_root() -> None:
    definitions = known(define("Bill", "ns=urn:bill;xmlns:p=urn:bill;verb=false", Id="String ns="))
    round_trip(definitions, '<p:Bill xmlns:p="urn:bill"><Id>1</Id></p:Bill>')
    definitions = known(define("Bill", "ns=urn:bill;xmlns:xml=urn:bill;verb=false", Id="String ns="))
    body = handler(definitions).to_body(BusinessObject(definitions, "Bill", None, {"Id": "1"}))
    assert etree.fromstring(body).tag == "{urn:bill}Bill"


# --- xsi:nil ------------------------------------------------------------------------------------

NILS = known(
    define(
        "Order",
        "verb=false;ns=urn:o",
        Paid="Date nil=unset",
        Total="Double nil=blank",
        Note="String",
        ShipTo="Address nil=unset",
        BillTo="Address",
        Tag="String* nil=blank",
        Stop="Address*",
    ),
    define("Address", "ns=urn:o", City="String nil=blank", Code="String type=attribute"),
)


@rows(
    "body, values",
    [
        ('<Paid xsi:nil="true"/><ShipTo xsi:nil="true"/>', {}),
        ('<Paid>2024-05-31</Paid><Total xsi:nil="true"/><ShipTo/>', {"Paid": "2024-05-31", "Total": "", "ShipTo": {}}),
        (
            '<Paid/><Total>0.5</Total><ShipTo Code="7"><City xsi:nil="true"/></ShipTo>'
            '<Tag>a</Tag><Tag xsi:nil="true"/><Tag>b</Tag>',
            {"Paid": "", "Total": 0.5, "ShipTo": {"City": "", "Code": "7"}, "Tag": ["a", "", "b"]},
        ),
    ],
)  # fmt: skip
def test_nil_is_not_set_or_blank_and_is_written_again(body: str, values: dict[str, Any]) -> None:
    namespaces = f'xmlns="urn:o" xmlns:xsi="{XSI}"' if "xsi:" in body else 'xmlns="urn:o"'
    bo = round_trip(NILS, f"<Order {namespaces}>{body}</Order>")
    assert bo.as_dict() == values


def test_without_a_tag_nil_is_not_set_and_is_not_written() -> None:
    made = handler(NILS)
    body = f'<Order xmlns="urn:o" xmlns:xsi="{XSI}"><Note xsi:nil="{{}}"/><BillTo xsi:nil="1"/></Order>'
    for text, values in (("true", {}), (" 1 ", {}), ("false", {"Note": ""}), ("0", {"Note": ""})):
        assert made.to_business_object(body.format(text), None).as_dict() == values
    assert b"Note" not in made.to_body(BusinessObject(NILS, "Order", None, {}))


@rows(
    "inner, words",
    [
        ('<Paid xsi:nil="true">2024-05-31</Paid>', "Paid: xsi:nil is true, but the element is not empty: line 1"),
        ('<ShipTo xsi:nil="true" Code="7"/>', "ShipTo: the XML attribute 'Code' beside xsi:nil cannot be kept"),
        ('<Total xsi:nil="true"/><Total xsi:nil="true"/>', "Total: found a second time, expected one"),
        ('<Note xsi:nil="true"/><Note>a</Note>', "Note: xsi:nil is true, but there is another element of this name: line 1"),
        ('<Note>a</Note><Note xsi:nil="true"/>', "Note: xsi:nil is true, but there is another element of this name"),
        ('<Note xsi:nil="true"/><Note xsi:nil="true"/>', "Note: xsi:nil is true, but there is another element"),
        ('<ShipTo xsi:nil="1"/><ShipTo Code="7"/>', "ShipTo: xsi:nil is true, but there is another element"),
        ('<Stop/><Stop xsi:nil="true"/><Stop/>', "Stop: xsi:nil is true, but there is another element"),
        ('<Stop xsi:nil="true"/><Stop xsi:nil="true"/>', "Stop: xsi:nil is true, but there is another element"),
    ],
)  # fmt: skip
def test_a_nil_that_says_more_is_refused(inner: str, words: str) -> None:
    body = f'<Order xmlns="urn:o" xmlns:xsi="{XSI}">{inner}</Order>'
    assert words in refusal(handler(NILS).to_business_object, body, None)


# --- xsi:type -----------------------------------------------------------------------------------

TYPES = known(
    define("Order", "ns=urn:o;xmlns:o=urn:o;xmlns:v=urn:v;verb=false", Ship="Means", Via="Via ns=urn:v"),
    define("Means", "ns=urn:o", Type="String type=xsitype;ns=urn:o", Name="String"),
    define("Via", "ns=urn:v", Type="String type=xsitype"),
)  # fmt: skip


@rows(
    "ship, via, names",
    [("o:Truck", "v:Road", ("Truck", "{urn:v}Road")), ("v:Truck", "Road", ("{urn:v}Truck", "Road"))],
)
def test_a_type_is_read_without_its_prefix_and_written_with_one(
    ship: str, via: str, names: tuple[str, str]
) -> None:
    types = f'<o:Ship xsi:type="{ship}"/><v:Via xsi:type="{via}"/>'
    bo = round_trip(TYPES, f'<o:Order xmlns:o="urn:o" xmlns:v="urn:v" xmlns:xsi="{XSI}">{types}</o:Order>')
    assert (bo["Ship"]["Type"], bo["Via"]["Type"]) == names


def test_a_type_of_a_namespace_without_a_prefix_is_declared() -> None:
    made = handler(TYPES)
    bo = BusinessObject(TYPES, "Order", None, {"Ship": {"Type": "{urn:far}Boat"}})
    assert made.to_business_object(made.to_body(bo), None) == bo
    body = f'<Order xmlns="urn:o" xmlns:xsi="{XSI}"><Ship xsi:type="x:Boat"/></Order>'
    reason = refusal(made.to_business_object, body, None)
    assert "Ship.Type: the prefix of 'x:Boat' is not declared" in reason


# --- elements as XML ----------------------------------------------------------------------------

TEXTS = known(
    define("Page", "ns=urn:p;verb=false", Head="String", Text="String type=xml;ns=urn:h", Part="String* type=xml")
)  # fmt: skip


@rows(
    "inner",
    [
        '<h:Text xmlns:h="urn:h" h:lang="de">a <h:b>bold</h:b> &amp; more<c xmlns=""/> tail</h:Text>',
        "<Part>x</Part><Part><Part>y</Part>&lt;z</Part>",
        '<Text xmlns="urn:h" xmlns:q="urn:q"><a type="q:T"/></Text>',
    ],
)
def test_an_element_with_all_that_is_in_it_is_a_text(inner: str) -> None:
    bo = round_trip(TEXTS, f'<Page xmlns="urn:p"><Head>x</Head>{inner}</Page>')
    for text in [*bo.as_dict().get("Part", []), bo["Text"] or "<x/>"]:
        etree.fromstring(text)


@rows(
    "text, words",
    [
        ("<Text", "Page: Text has type=xml, and is no XML"),
        ('<!DOCTYPE Text [<!ENTITY e "x">]><Text xmlns="urn:h">&e;</Text>', "document type declaration"),
        ("<Text/>", "Page: Text: found the element 'Text', expected {urn:h}Text"),
        ("</Page>", "is no XML"),
    ],
)
def test_a_text_that_is_another_element_or_no_xml_cannot_be_written(text: str, words: str) -> None:
    assert words in refusal(handler(TEXTS).to_body, BusinessObject(TEXTS, "Page", None, {"Text": text}))


names = st.sampled_from(["a", "b", "Text"])
spaces = st.sampled_from(["", "urn:p", "urn:h"])
texts = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=5)
trees: st.SearchStrategy[Any] = st.recursive(
    st.tuples(names, spaces, texts, st.just([])),
    lambda inner: st.tuples(names, spaces, texts, st.lists(inner, max_size=3)),
    max_leaves=6,
)


def element(tree: Any, parent: etree._Element) -> None:
    name, space, text, inner = tree
    made = etree.SubElement(parent, f"{{{space}}}{name}" if space else name)
    made.text = made.tail = text
    for one in inner:
        element(one, made)


@given(st.lists(trees, max_size=3), texts)
def test_any_element_survives_as_a_text(inner: list[Any], text: str) -> None:
    page = etree.fromstring('<Page xmlns="urn:p"/>')
    part = etree.SubElement(page, "{urn:h}Text", nsmap={"h": "urn:h"})
    part.text = text
    for one in inner:
        element(one, part)
    made = handler(TEXTS)
    bo = made.to_business_object(etree.tostring(page), None)
    again = etree.fromstring(made.to_body(bo))
    written, read = (etree.tostring(one, method="c14n", exclusive=True) for one in (again, page))
    assert written == read
