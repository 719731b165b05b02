"""XML: what is refused, root elements, prefixes, ``xsi:nil``, ``xsi:type``, and XML as text."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.soap_handler import SoapHandler
from connector.datahandlers.xml_handler import XmlHandler
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint
from tests.datahandlers.definitions import SAMPLES, define, known, make, refusal
from tests.tables import rows

XSI = "http://www.w3.org/2001/XMLSchema-instance"
CUSTOMER = Hint("Customer", "Create")
STRICT = make(XmlHandler)
LENIENT = make(XmlHandler, IgnoreUndefinedAttributes=True)

LAUGHS = (
    "<!DOCTYPE Customer [<!ENTITY a0 'ha'>"
    + "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 12))
    + "]><Customer><Name>&a11;</Name></Customer>"
)


def customer(inner: str) -> bytes:
    return f"<Customer>{inner}</Customer>".encode()


def homes(levels: int) -> bytes:
    """A customer of ``levels`` levels, each a home within the last."""
    before = levels - 3
    return customer("<Home>" + "<Before>" * before + "<City>a</City>" + "</Before>" * before + "</Home>")


@rows(
    "body, reason",
    [
        (b"", "the body is empty, expected an XML document"),
        (b" \r\n", "the body is empty, expected an XML document"),
        (b"<Customer>\n<Name>", "the body is no XML: "),
        (b"<Customer/>x", "line 1 column 12"),
        (b"<Customer>&copy;</Customer>", "Entity 'copy' not defined: line 1"),
        ("<Customer><Name>é</Name></Customer>".encode("latin-1"), "the body is no XML: "),
        (b"<?xml version='1.0' encoding='nonsense'?><Customer/>", "nsupported encoding"),
        (customer("\n<Nmae/>"), "Customer has no attribute 'Nmae', did you mean 'Name'?; define it, or set IgnoreUndefinedAttributes: line 2 column 1"),
        (customer("<Home>\n<Citty/></Home>"), "Home: Address has no attribute 'Citty', did you mean 'City'?; define it, or set IgnoreUndefinedAttributes: line 2 column 1"),
        (customer("<Rating>7.0</Rating>"), "Rating: found the text '7.0', expected an integer: line 1"),
        (customer("<Rating> </Rating>"), "Rating: found the text ' ', expected an integer"),
        (customer("<Address/>\n<Address><AddressID>x</AddressID></Address>"), "Address[1].AddressID: found the text"),
        (customer("<Name>a</Name><Name>a</Name>"), "Name: found a second time, expected one, or cardinality: n: line 1 column 25"),
        (customer("<Home/><Home/>"), "Home: found a second time"),
        (customer("<Name><b/></Name>"), "Name: found the element 'b', expected text (String): line 1"),
        (customer("text"), "found the text 'text' between elements, expected none: line 1 column 1"),
        (customer("<Home><City/>text</Home>"), "Home: found the text 'text' between elements"),
        (customer("<Meta><MessageID>x</MessageID></Meta>"), "Meta: holds a meta-object of Customer"),
        (customer("<Name lang='en'>a</Name>"), "Name: the XML attribute 'lang' is not known"),
        (b"<Customer Verb='Create'/>", "the XML attribute 'Verb' is not known"),
        (customer("<Home verb='Create'/>"), "Home: the XML attribute 'verb' is not known"),
        (b"<a>" * 100_000, "nested deeper than 200 levels"),
        (homes(202), "nested deeper than 200 levels: line 1"),
        (b"<!DOCTYPE Customer><Customer/>", "document type declaration (<!DOCTYPE), which is refused; send it without, or set doctype: ignore, or Validation and DTDPath"),
    ],
)  # fmt: skip
def test_a_wrong_body_is_refused_with_its_place(body: bytes, reason: str) -> None:
    assert reason in refusal(STRICT.to_business_object, body, CUSTOMER)


@rows(
    "body, place",
    [
        ("<Customer\n verb='Update'\n><Home>\n  ü<City/></Home></Customer>", "line 3 column 2"),
        ("<Customer>\r\n<Home><Citty\n/></Home></Customer>", "line 2 column 7"),
        (
            "<?xml version='1.0' encoding='ISO-8859-1'?>\n<Customer><!-- é --><Nmae/></Customer>",
            "line 2 column 21",
        ),
        (
            "<?xml version='1.0' encoding='EUC-JP'?>\n<Customer><Name/><Nmae/></Customer>",
            ": line 2",
        ),  # no column
    ],
)
def test_a_mistake_stands_where_its_element_begins(body: str, place: str) -> None:
    encoding = "iso-8859-1" if "8859" in body else "euc-jp" if "EUC" in body else "utf-8"
    assert refusal(STRICT.to_business_object, body.encode(encoding), CUSTOMER).endswith(place)


@rows(
    "body",
    [
        b"<!DOCTYPE Customer><Customer/>",
        b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- c -->\n<!DOCTYPE Customer SYSTEM 'http://127.0.0.1:9/x'><Customer/>",
        b"<!DOCTYPE Customer [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><Customer><Name>&e;</Name></Customer>",
        b"<!DOCTYPE Customer [<!ENTITY % p SYSTEM 'file:///etc/passwd'> %p;]><Customer/>",
        b"<!DOCTYPE Customer [",
        LAUGHS.encode(),
        LAUGHS.encode("utf-16"),
        LAUGHS.encode("utf-16-le"),
        ("<?xml version='1.0' encoding='UTF-7'?>" + LAUGHS.replace("<", "+ADw-", 1)).encode(),
        ("<?xml version='1.0' encoding='IBM037'?>" + LAUGHS).encode("cp037"),
        LAUGHS.encode("utf-32"),
    ],
)
def test_a_document_type_declaration_is_refused_at_once(body: bytes) -> None:
    begun = time.process_time()
    for handler in (STRICT, LENIENT):
        assert "root:" not in refusal(handler.to_business_object, body, CUSTOMER)
    assert time.process_time() - begun < 2


def test_elements_come_in_any_order_and_leave_in_that_of_the_definition() -> None:
    body = customer("<Address><City>a</City></Address><Rating>1</Rating><Address/><CustomerId>C</CustomerId>")
    bo = STRICT.to_business_object(body, CUSTOMER)
    assert bo.as_dict() == {"CustomerId": "C", "Rating": 1, "Address": [{"City": "a"}, {}]}
    assert STRICT.to_body(bo) == (
        b"<?xml version='1.0' encoding='UTF-8'?>\n"
        b'<Customer verb="Create"><CustomerId>C</CustomerId><Rating>1</Rating>'
        b"<Address><City>a</City></Address><Address/></Customer>"
    )


OTHERS = (
    f"<?pi a?><c:Customer xmlns:c='urn:c' xmlns:i='{XSI}' i:schemaLocation='urn:c c.xsd' verb='Update'>"
    "<?pi b?><c:Name>a<!-- c -->b<?pi c?>c</c:Name></c:Customer>"
)
ENCODINGS = ("UTF-8", "UTF-16", "ISO-8859-1", "windows-1252")
DECLARED = {
    name: f"<?xml version='1.0' encoding='{name}'?><Customer><Name>Zoë</Name></Customer>"
    for name in ENCODINGS
}
A = {"Name": "a"}


@rows(
    "handler, body, hint, found",
    [
        # namespaces, comments and processing instructions do not count
        (STRICT, OTHERS, None, ("Customer", "Update", {"Name": "abc"})),
        # the words of a document type may stand in a text
        (STRICT, "<!-- <!DOCTYPE --><Customer><Name><![CDATA[<!DOCTYPE x>]]></Name></Customer>", None, ("Customer", None, {"Name": "<!DOCTYPE x>"})),
        # the declaration says the encoding
        *((STRICT, DECLARED[name].encode(name), None, ("Customer", None, {"Name": "Zoë"})) for name in ENCODINGS),
        *((STRICT, text, None, ("Customer", None, {"Name": "Zoë"})) for text in DECLARED.values()),
        # the rule wins over the verb of the root element
        (STRICT, "<Customer verb='Update'><Name>a</Name></Customer>", CUSTOMER, ("Customer", "Create", A)),
        (STRICT, "<Customer verb='Update'/>", Hint("Customer"), ("Customer", "Update", {})),
        (STRICT, "<Customer verb=''/>", None, ("Customer", None, {})),
        # undefined elements and attributes are passed over on demand
        (LENIENT, customer("<x a='1'><y/>t</x><Name lang='en'>a</Name><Meta><MessageID>x</MessageID></Meta>"), None, ("Customer", None, A)),
        (LENIENT, customer("<x>" * 199 + "</x>" * 199), None, ("Customer", None, {})),
    ],
)  # fmt: skip
def test_a_body_is_read(
    handler: XmlHandler, body: bytes | str, hint: Hint | None, found: tuple[str, str | None, dict[str, str]]
) -> None:
    bo = handler.to_business_object(body, hint)
    assert (bo.type, bo.verb, bo.as_dict()) == found


def test_a_root_element_that_names_no_object_is_unknown() -> None:
    with pytest.raises(UnknownBusinessObject, match="'Custmer' is defined, did you mean 'Customer'"):
        STRICT.to_business_object(b"<Custmer/>", None)


def test_objects_nested_as_deeply_as_allowed_are_read_and_written() -> None:
    bo = STRICT.to_business_object(homes(200), None)
    assert STRICT.to_business_object(STRICT.to_body(bo), None) == bo
    deeper = customer("<x>" * 200 + "</x>" * 200)  # elements that are passed over
    assert "nested deeper than 200 levels" in refusal(LENIENT.to_business_object, deeper, None)


def test_a_prefix_stands_before_the_root_element_in_the_name_of_the_object() -> None:
    definitions = known(define("App_Note", Text="String"), define("Note"))
    handler = make(XmlHandler, definitions, BOPrefix="App")
    bo = handler.to_business_object(b"<Note verb='Create'><Text>a</Text></Note>", None)
    assert (bo.type, bo["Text"]) == ("App_Note", "a")
    assert b'<Note verb="Create"><Text>a</Text></Note>' in handler.to_body(bo)
    reason = refusal(handler.to_body, BusinessObject(definitions, "Note"))
    assert "Note does not begin with the BOPrefix 'App'" in reason


@rows("text", ["\0", "\x1b", "\ud800", "\ufffe"])
def test_a_character_that_xml_lacks_cannot_be_written(text: str) -> None:
    with pytest.raises(MalformedData, match=r"Note: Text has the character .*, which XML cannot hold"):
        STRICT.to_body(BusinessObject(SAMPLES, "Note", "Create", {"Text": text}))


NAMES = "d\u00b7\u00b7d a\u0301 x\u203f.-9 _\u0488 \u2160 \u05d0\u05b0 \U00010000 Größe \u200cx"


@rows("name", NAMES.split(" "))
def test_each_name_of_xml_can_be_read_and_written(name: str) -> None:
    definitions = known(
        define("A", "verb=false", B=f"String elem_name={name}", C=f"String type=attribute;attr_name={name}")
    )
    made = make(XmlHandler, definitions)
    body = f'<A {name}="c"><{name}>b</{name}></A>'
    bo = made.to_business_object(body.encode(), None)
    assert (bo["B"], bo["C"]) == ("b", "c")
    assert body in made.to_body(bo).decode()


@rows(
    "name",
    ["1st", "-a", ".a", "\u00b7d", "\u0301a", "a b", "a/b", "\u00aa", "x\u00b2", "a\u00d7", "\u2118\u2190"],
)
def test_a_name_that_xml_lacks_is_refused(name: str) -> None:
    for attribute, tag in (("B", f" elem_name={name}"), ("1st", "")):
        definitions = known(define("A", **{attribute: f"String{tag}"}))
        with pytest.raises(MalformedData, match=rf"A: {attribute}: .* is no name in XML; give elem_name"):
            make(XmlHandler, definitions).to_body(BusinessObject(definitions, "A", values={attribute: "x"}))


# --- documents of public standards ----------------------------------------------------------------


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


ROOTS = known(
    define("Order", "", Id="String"),
    define("Named", "elem_name=PurchaseOrder", Id="String"),
    define("Invoice", "ns=urn:invoice-2;verb=false", Id="String", Line="Line ns=urn:lines-2"),
    define("Line", "ns=urn:lines-2", No="String", Item="String ns=*"),
    define("Any", "ns=*;elem_name=Free;verb=false", Id="String", Raw="String type=xml"),
    define("Whole", "", Style="String type=pi", Root="Line ns=urn:lines-2"),
)
INVOICE = "<Invoice xmlns='urn:invoice-2' xmlns:l='urn:lines-2'>{}</Invoice>"


@rows(
    "options, body, hint, reason",
    [
        ({}, "<Whatever/>", Hint("Order"), "found the root element 'Whatever', expected 'Order': line 1"),
        ({}, "<Order/>", Hint("Named"), "found the root element 'Order', expected 'PurchaseOrder'"),
        ({}, "<x/>", Hint("Named", is_of_body=True), "expected 'PurchaseOrder'"),
        ({"BOPrefix": "My"}, "<My_Order/>", Hint("My_Order"), "found the root element 'My_Order', expected 'Order'"),
        ({}, "<Invoice xmlns='urn:invoice-3'/>", None, "the root element 'Invoice' is in the namespace 'urn:invoice-3', expected 'urn:invoice-2'"),
        ({}, "<Invoice xmlns='urn:invoice-3'><Id>1</Id></Invoice>", Hint("Invoice"), "'urn:invoice-3', expected 'urn:invoice-2'"),
        ({}, "<Invoice/>", Hint("Invoice"), "the root element 'Invoice' is in no namespace, expected 'urn:invoice-2'"),
        ({}, INVOICE.format("<Id xmlns='urn:b'>1</Id>"), None, "Id: is in the namespace 'urn:b', expected 'urn:invoice-2'"),
        ({}, INVOICE.format("<Line xmlns='urn:lines-3'><No>1</No></Line>"), None, "Line: is in the namespace 'urn:lines-3', expected 'urn:lines-2'"),
        ({}, "<?a b?><Line xmlns='urn:lines-3'/>", Hint("Whole"), "found the root element 'Line', expected 'Root'"),
        ({}, "<?a b?><Root xmlns='urn:lines-3'/>", Hint("Whole"), "'urn:lines-3', expected 'urn:lines-2'"),
    ],
)  # fmt: skip
def test_a_document_is_what_its_definition_says(
    options: dict[str, Any], body: str, hint: Hint | None, reason: str
) -> None:
    definitions = known(*ROOTS.values(), define("My_Order", "", Id="String"))
    for lenient in (False, True):
        made = handler(definitions, IgnoreUndefinedAttributes=lenient, **options)
        assert reason in refusal(made.to_business_object, body, hint)


def test_a_version_of_a_namespace_is_told_where_only_the_name_is_known() -> None:
    definitions = known(define("Bill", "ns=urn:bill-2;elem_name=Invoice;verb=false", Id="String"))
    reason = refusal(handler(definitions).to_business_object, "<Invoice xmlns='urn:bill-3'/>", None)
    assert "'urn:bill-3', expected 'urn:bill-2'" in reason


@rows(
    "body, hint, values",
    [
        ("<Free xmlns='urn:1'><Id>1</Id></Free>", None, {"Id": "1"}),
        ("<p:Free xmlns:p='urn:2'><Id>1</Id><p:Raw>x</p:Raw></p:Free>", None, {"Id": "1", "Raw": "<p:Raw xmlns:p=\"urn:2\">x</p:Raw>"}),
        ("<PurchaseOrder xmlns='urn:1'><Id>1</Id></PurchaseOrder>", Hint("Named"), {"Id": "1"}),
        ("<x><Id>1</Id></x>", Hint("Order", is_of_body=True), {"Id": "1"}),
        (INVOICE.format("<l:Line><l:No>1</l:No><Item>2</Item></l:Line>"), None, {"Line": {"No": "1", "Item": "2"}}),
        (INVOICE.format("<l:Line><l:Item>2</l:Item></l:Line>"), None, {"Line": {"Item": "2"}}),
    ],
)  # fmt: skip
def test_each_namespace_is_read_where_none_or_any_is_given(
    body: str, hint: Hint | None, values: dict[str, Any]
) -> None:
    bo = handler(ROOTS).to_business_object(body, hint)
    assert bo.as_dict() == values


def test_what_may_be_in_any_namespace_is_written_in_that_of_its_object() -> None:
    made = handler(ROOTS)
    bo = BusinessObject(ROOTS, "Invoice", None, {"Line": {"No": "1", "Item": "2"}})
    root = etree.fromstring(made.to_body(bo))
    assert root.findtext("{urn:lines-2}Line/{urn:lines-2}Item") == "2"
    free = BusinessObject(ROOTS, "Any", None, {"Id": "1", "Raw": '<p:Raw xmlns:p="urn:2">x</p:Raw>'})
    body = made.to_body(free)
    assert etree.fromstring(body).tag == "Free"
    assert made.to_business_object(body, None) == free


def test_what_is_passed_over_may_have_the_name_of_an_attribute_beside_it() -> None:
    made = handler(ROOTS, IgnoreUndefinedAttributes=True)
    body = INVOICE.format("<x:Id xmlns:x='urn:x'>7</x:Id><Id>1</Id>")
    assert made.to_business_object(body, None).as_dict() == {"Id": "1"}
    reason = refusal(handler(ROOTS).to_business_object, body, None)
    assert "Id: is in the namespace 'urn:x', expected 'urn:invoice-2'" in reason


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
        ('<Paid xsi:nil="true">2024-05-31</Paid>', "Paid: xsi:nil is true, expected an empty element: line 1"),
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
    "inner, expected",
    [
        ('<Text xmlns="urn:h"><b xmlns="foo"/></Text>', '<Text xmlns="urn:h"><b xmlns="foo"/></Text>'),
        ('<Text xmlns="urn:h"><f:b xmlns:f="../x"/></Text>', '<Text xmlns="urn:h"><f:b xmlns:f="../x"/></Text>'),
        ('<Text xmlns="urn:h"><b xmlns="#a"><c/></b></Text>', '<Text xmlns="urn:h"><b xmlns="#a"><c/></b></Text>'),
        ('<Text xmlns="urn:h" foo:a="1">a<b/>&amp;&#13;</Text>', '<Text xmlns="urn:h" xmlns:foo="foo" foo:a="1">a<b/>&amp;&#13;</Text>'),
        ('<Text xmlns="urn:h" type="foo:T"/>', '<Text xmlns="urn:h" xmlns:foo="foo" type="foo:T"/>'),
        ('<Part>x</Part>', '<Part xmlns="urn:p">x</Part>'),
    ],
)  # fmt: skip
def test_the_name_of_a_namespace_needs_no_scheme(inner: str, expected: str) -> None:
    made = handler(TEXTS)
    bo = made.to_business_object(f'<Page xmlns="urn:p" xmlns:foo="foo" xmlns:un="used">{inner}</Page>', None)
    text = bo["Text"] or bo["Part"][0]
    assert text == expected
    assert made.to_business_object(made.to_body(bo), None) == bo


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
