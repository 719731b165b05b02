"""XML by the tags of the application-specific information, validation, and splitting."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.soap_handler import SoapHandler
from connector.datahandlers.xml_handler import XmlHandler
from connector.errors import MalformedData
from connector.formats.datahandler import Hint
from tests.datahandlers.definitions import SAMPLES, define, known, make, refusal
from tests.tables import rows

XSI = "http://www.w3.org/2001/XMLSchema-instance"


ORDER = known(
    define(
        "Order",
        OrderId="String type=attribute;attr_name=order-id",
        Customer="String elem_name=customer.name",
        Note="String elem_name=note;type=cdata",
        Remark="String type=comment",
        Style="String type=pi",
        Price="Price",
        Line="Line* elem_name=line",
        Raw="String escape=false",
        Where="String type=xsinoNSlocation",
        Places="String type=xsischemalocation",
    ),
    define("Price", Currency="String type=attribute", Value="Double type=pcdata;notag"),
    define("Line", No="Integer type=attribute", Item="String type=pcdata"),
)
FULL = {
    "OrderId": 'a"<&>\n',
    "Customer": "Zoë & <co>",
    "Note": "x < y ]]> & z",
    "Remark": " by hand ",
    "Style": 'xml-stylesheet href="a.css"',
    "Price": {"Currency": "EUR", "Value": 2.5},
    "Line": [{"No": 1, "Item": "tea"}, {"No": 2, "Item": " rum "}],
    "Raw": "<b>bold</b> text &amp; more",
    "Where": "order.xsd",
    "Places": "urn:a a.xsd",
}


def xml(definitions: Definitions = SAMPLES, base: Path = Path(), **options: Any) -> XmlHandler:
    return make(XmlHandler, definitions, base, **options)


def order(values: dict[str, Any]) -> BusinessObject:
    return BusinessObject(ORDER, "Order", "Create", values)


# --- XML attributes in namespaces -------------------------------------------------------------


def test_an_xml_attribute_with_a_namespace_of_its_own_has_to_match() -> None:
    definitions = known(
        define(
            "Doc",
            Href="String type=attribute;attr_name=href;ns=urn:x",
            Lang="String type=attribute;attr_name=xml:lang",
            Plain="String type=attribute;attr_name=plain",
        )
    )
    body = "<Doc xmlns:a='urn:x' xmlns:b='urn:y' a:href='1' xml:lang='da' b:plain='2'/>"
    bo = xml(definitions).to_business_object(body, Hint("Doc", "Create"))
    assert bo.as_dict() == {"Href": "1", "Lang": "da", "Plain": "2"}
    written = xml(definitions).to_body(bo)
    assert b' xml:lang="da"' in written
    assert xml(definitions).to_business_object(written, None) == bo
    for wrong in ("<Doc xmlns:b='urn:y' b:href='1'/>", "<Doc href='1'/>"):
        reason = refusal(xml(definitions).to_business_object, wrong, None)
        assert "the XML attribute 'href' is not known" in reason


PASSED_OVER = f"<Order xml:lang='da' xmlns:i='{XSI}' i:type='t' xmlns:x='urn:x'><Raw xml:space='preserve'>a</Raw>%s</Order>"


@rows(
    "options, body, values",
    [
        *(
            ({}, f"<Order xmlns:x='urn:x' {name}='A'/>", {"OrderId": "A"})
            for name in ("order-id", "x:order-id")
        ),
        ({}, PASSED_OVER % "", {"Raw": "a"}),
        (
            {"IgnoreUndefinedAttributes": True},
            PASSED_OVER % "<line x:a='1'>b</line>",
            {"Raw": "a", "Line": [{"Item": "b"}]},
        ),
    ],
)
def test_an_xml_attribute_counts_by_its_local_name_and_those_of_xml_and_xsi_do_not_count(
    options: dict[str, Any], body: str, values: dict[str, Any]
) -> None:
    assert xml(ORDER, **options).to_business_object(body, None).as_dict() == values


def test_a_blank_text_of_an_element_stays_blank() -> None:
    definitions = known(define("Doc", Text="String type=pcdata;notag", A="String type=attribute"))
    for values in ({"Text": ""}, {"A": "1"}):
        bo = BusinessObject(definitions, "Doc", "Create", values)
        assert xml(definitions).to_business_object(xml(definitions).to_body(bo), None) == bo


@rows("charset", ["ascii", "iso-8859-1", "utf-16", "utf-8"])
def test_a_character_set_without_a_character(charset: str) -> None:
    definitions = known(
        define("Doc", Name="String", Grün="String elem_name=gr\u0169n", Style="String type=pi")
    )
    handler = xml(definitions, charset=charset)
    for values in ({"Name": "\u20ac <\u0169>"}, {"Grün": "a"}, {"Style": "a \u20ac"}):
        bo = BusinessObject(definitions, "Doc", "Create", values)
        if charset.startswith("utf") or "Name" in values:
            assert handler.to_business_object(handler.to_body(bo), None) == bo
        else:
            assert f"Doc cannot be written in {charset}" in refusal(handler.to_body, bo)


# --- large documents --------------------------------------------------------------------------

LARGE = 10_100_000  # more than the ten million to which libxml2 limits a text by default


@rows(
    "begin, end, attribute_name",
    [
        ("<Order><Raw>", "</Raw></Order>", "Raw"),
        ("<Order><note><![CDATA[", "]]></note></Order>", "Note"),
        ("<Order><!--", "--></Order>", "Remark"),
        ("<Order><?x ", "?></Order>", "Style"),
        ("<Order order-id='", "'/>", "OrderId"),
        ("<Order><Price>1<!--", "--></Price></Order>", ""),
    ],
)
def test_a_text_may_be_as_long_as_a_body(begin: str, end: str, attribute_name: str) -> None:
    handler = xml(ORDER)
    bo = handler.to_business_object(f"{begin}{'a' * LARGE}{end}".encode(), Hint("Order", "Create"))
    if attribute_name:
        assert len(bo[attribute_name]) == LARGE + (2 if attribute_name == "Style" else 0)
        assert handler.to_business_object(handler.to_body(bo), None) == bo


@rows(
    "body, words",
    [
        ("<Order>" + "\n" * 70_000 + "<Price><Amount/></Price></Order>", "line 70001 column 8"),
        ("<Order>" + "\n" * 70_000 + "<Price>x</Price></Order>", "line 70001"),
        ("<a>" * 3000 + "</a>" * 3000, "the body is nested deeper than 200 levels"),
        (f"<{'a' * LARGE}/>", "the body has a name of more than 10,000,000 characters"),
    ],
)
def test_what_the_parser_limits_is_named_and_a_line_that_it_does_not_tell_is_not_told_wrong(
    body: str, words: str
) -> None:
    assert words in refusal(xml(ORDER).to_business_object, body, Hint("Order", "Create"))


# --- tags -------------------------------------------------------------------------------------


def test_tags_say_what_an_attribute_is_in_xml() -> None:
    bo = order({k: v for k, v in FULL.items() if k != "Raw"})
    body = xml(ORDER).to_body(bo)
    root = etree.fromstring(body)  # a reader of its own: plain lxml
    assert {name: root.get(name) for name in root.attrib} == {
        "order-id": 'a"<&>\n',
        "verb": "Create",
        f"{{{XSI}}}noNamespaceSchemaLocation": "order.xsd",
        f"{{{XSI}}}schemaLocation": "urn:a a.xsd",
    }
    assert (root.findtext("customer.name"), root.findtext("note")) == ("Zoë & <co>", "x < y ]]> & z")
    for piece in (b"<![CDATA[x < y ", b"<!-- by hand -->", b'<?xml-stylesheet href="a.css"?>'):
        assert piece in body
    price = root.find("Price")
    assert price is not None
    assert (price.get("Currency"), price.text) == ("EUR", "2.5")
    assert [(line.get("No"), line.text) for line in root.findall("line")] == [("1", "tea"), ("2", " rum ")]
    assert xml(ORDER).to_business_object(body, None) == bo


def test_a_value_is_written_as_it_is_where_the_tag_says_so() -> None:
    assert b"<Raw><b>bold</b> text &amp; more</Raw>" in xml(ORDER).to_body(order({"Raw": FULL["Raw"]}))
    customer = BusinessObject(SAMPLES, "Customer", "Create", {"Name": "a < b"})
    reason = refusal(xml(DefaultEscapeBehavior=False).to_body, customer)
    assert "Name has escape=false, and is no XML" in reason


@rows(
    "values, words",
    [
        ({"Remark": "a--b"}, "a comment cannot contain --"),
        ({"Remark": "a-"}, "a comment cannot contain --"),
        ({"Style": "a ?> b"}, "expected a processing instruction"),
        ({"Style": "<"}, "expected a processing instruction"),
        ({"Style": "a  b"}, "expected a processing instruction"),
        ({"Style": "a\nb"}, "expected a processing instruction"),
        ({"Style": "a b\rc"}, "Style: XML reads a carriage return in a pi as a line feed"),
        ({"Remark": "b\rc"}, "Remark: XML reads a carriage return in a comment as a line feed"),
        ({"Price": {"Currency": "EUR", "Value": ""}}, "Price: Value is blank, and XML cannot tell a blank"),
        ({"Raw": "a\r\nb"}, "Raw has escape=false, and XML reads a carriage return"),
    ],
)
def test_what_xml_cannot_hold_in_this_form_is_refused(values: dict[str, str], words: str) -> None:
    assert words in refusal(xml(ORDER).to_body, order(values))


@rows(
    "body, words",
    [
        ("<Order><OrderId>1</OrderId></Order>", "OrderId: is another element or XML attribute"),
        ("<Order><Price Currency='EUR'>x</Price></Order>", "Price.Value: found the text 'x', expected a number: line 1"),
        ("<Order><line No='x'>a</line></Order>", "Line[0].No: found the text 'x', expected an integer"),
        ("<Order no='1'/>", "the XML attribute 'no' is not known"),
        ("<Order xmlns:x='urn:x' x:no='1'/>", "the XML attribute 'no' is not known"),
        ("<Order xmlns:x='urn:x'><Raw x:no='1'/></Order>", "Raw: the XML attribute 'no' is not known"),
        ("<Order xmlns:x='urn:x' x:order-id='1' order-id='2'/>", "OrderId: found the XML attribute 'order-id' a second time"),
        ("<Order xml:order-id='1'>a</Order>", "found the text 'a' between elements"),
        (f"<Order xmlns:i='{XSI}'><Raw i:nil='yes'/></Order>", "Raw: xsi:nil is 'yes', expected true or false"),
        (f"<Order xmlns:i='{XSI}'><line i:nil='true' No='1'/></Order>", "Line: the XML attribute 'No' beside xsi:nil cannot be kept"),
        ("<Order><note>a<b/></note></Order>", "Note: found the element 'b', expected text (String)"),
    ],
)  # fmt: skip
def test_a_mistake_names_the_attribute_and_the_line(body: str, words: str) -> None:
    assert words in refusal(xml(ORDER).to_business_object, body, None)


DOCUMENT = known(
    define(
        "App_Order",
        Declaration="String type=pi",
        Kind="String type=doctype",
        Comment="String type=comment",
        Root="Order elem_name=Order",
    ),
    define("Order", Id="String"),
)


def test_an_object_may_be_the_whole_document(tmp_path: Path) -> None:
    (tmp_path / "order.dtd").write_text(
        "<!ELEMENT Order (Id?)><!ELEMENT Id (#PCDATA)><!ATTLIST Order verb CDATA #IMPLIED>"
    )
    handler = xml(DOCUMENT, tmp_path, BOPrefix="App", Validation=True, DTDPath=".")
    values = {
        "Declaration": 'xml version="1.0" encoding="ISO-8859-1"',
        "Kind": 'DOCTYPE Order SYSTEM "order.dtd"',
        "Comment": " by hand ",
        "Root": {"Id": "é"},
    }
    bo = BusinessObject(DOCUMENT, "App_Order", "Create", values)
    body = handler.to_body(bo)
    assert body == (
        b'<?xml version="1.0" encoding="ISO-8859-1"?>\n<!DOCTYPE Order SYSTEM "order.dtd">\n<!-- by hand -->\n'
        b'<Order verb="Create"><Id>\xe9</Id></Order>'
    )
    assert handler.to_business_object(body, None) == bo
    with pytest.raises(MalformedData, match="Root is not set, so there is no root element"):
        handler.to_body(BusinessObject(DOCUMENT, "App_Order", "Create", {"Comment": "x"}))


NAMESPACES = known(
    define("Order", "ns=urn:a", Id="String", Mark="String ns=urn:b;type=attribute", Line="Line"),
    define("Line", "ns=urn:c", Item="String", Other="String ns="),
    define("Plain", "ns=urn:a", Id="String"),
)


def test_namespaces_are_written_and_have_to_match() -> None:
    handler = xml(NAMESPACES)
    values = {"Id": "1", "Mark": "m", "Line": {"Item": "i", "Other": "o"}}
    bo = BusinessObject(NAMESPACES, "Order", "Create", values)
    body = handler.to_body(bo)
    root = etree.fromstring(body)
    found = root.tag, root.get("{urn:b}Mark"), root.findtext("{urn:a}Line/{urn:c}Item")
    assert found == ("{urn:a}Order", "m", "i")
    assert root.findtext("{urn:a}Line/Other") == "o"
    assert handler.to_business_object(body, None) == bo
    plain = BusinessObject(NAMESPACES, "Plain", None, {"Id": "1"})
    assert b'<Plain xmlns="urn:a"><Id>1</Id></Plain>' in handler.to_body(plain)
    for wrong in (
        "<Order xmlns='urn:a'><Id xmlns='urn:z'>1</Id></Order>",
        "<o:Order xmlns:o='urn:a'><Id>1</Id></o:Order>",
    ):
        assert "expected 'urn:a'" in refusal(handler.to_business_object, wrong, None)


def test_two_attributes_of_one_element_are_refused() -> None:
    definitions = known(define("A", X="String", Y="String elem_name=X"))
    reason = refusal(xml(definitions).to_business_object, "<A/>", None)
    assert "two attributes are the element X" in reason


# --- validation -------------------------------------------------------------------------------

XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
<xs:include schemaLocation="part.xsd"/>
<xs:element name="Note"><xs:complexType><xs:sequence><xs:element name="Text" type="Short"/></xs:sequence>
<xs:attribute name="verb"/></xs:complexType></xs:element></xs:schema>"""
PART = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:simpleType name="Short">
<xs:restriction base="xs:string"><xs:maxLength value="3"/></xs:restriction></xs:simpleType></xs:schema>"""


def test_a_body_is_validated_against_a_schema_on_reading_and_writing(tmp_path: Path) -> None:
    (tmp_path / "note.xsd").write_text(XSD)
    (tmp_path / "part.xsd").write_text(PART)
    handler = xml(SAMPLES, tmp_path, Validation=True, schema="note.xsd")
    assert handler.to_business_object("<Note><Text>abc</Text></Note>", None).as_dict() == {"Text": "abc"}
    with pytest.raises(MalformedData, match=r"not valid: line 2 column \d+: Element 'Text'.*maxLength"):
        handler.to_business_object("<Note>\n<Text>abcd</Text></Note>", None)
    with pytest.raises(MalformedData, match="not valid"):
        handler.to_body(BusinessObject(SAMPLES, "Note", "Create", {"Text": "abcd"}))


@rows(
    "schema, words",
    [
        (XSD.replace("part.xsd", "../../part.xsd"), "note.xsd:2: '../../part.xsd' is not in the directory"),
        (XSD.replace("part.xsd", "http://127.0.0.1:9/part.xsd"), "is not in the directory of the schema"),
        (XSD.replace("part.xsd", "missing.xsd"), "missing.xsd cannot be read"),
        ("<xs:schema", "note.xsd is no XML"),
        ("<a/>", "note.xsd is no XML Schema"),
    ],
)
def test_a_schema_that_cannot_be_used_is_told_at_the_start(tmp_path: Path, schema: str, words: str) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "part.xsd").write_text(PART)
    (tmp_path / "inner/note.xsd").write_text(schema)
    with pytest.raises(ValueError, match=words):
        xml(SAMPLES, tmp_path, Validation=True, schema="inner/note.xsd")
    with pytest.raises(ValueError, match="Validation needs schema or DTDPath"):
        xml(Validation=True)


SIGNATURES = """<?xml version="1.0"?>
<!DOCTYPE schema PUBLIC "-//W3C//DTD XMLSchema 200102//EN" "http://127.0.0.1:9/XMLSchema.dtd" [
  <!ATTLIST schema xmlns:sig CDATA #FIXED "urn:sig">
  <!ENTITY name 'urn:sig'> <!ENTITY % p ''> <!ENTITY far SYSTEM "secret.txt">
]>
<schema xmlns="http://www.w3.org/2001/XMLSchema" targetNamespace="&name;" elementFormDefault="qualified">
<element name="Seal" type="sig:SealType"/>
<simpleType name="SealType"><restriction base="string"><maxLength value="3"/></restriction></simpleType>
</schema>"""
SEALED = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:s="urn:sig">
<xs:import namespace="urn:sig" schemaLocation="../common/seal.xsd"/>
<xs:import namespace="http://www.w3.org/XML/1998/namespace" schemaLocation="http://127.0.0.1:9/xml.xsd"/>
<xs:element name="Note"><xs:complexType><xs:sequence><xs:element ref="s:Seal"/></xs:sequence>
<xs:attribute ref="xml:lang"/></xs:complexType></xs:element></xs:schema>"""


def test_a_schema_may_lie_in_several_directories_below_one_and_have_a_document_type(tmp_path: Path) -> None:
    definitions = known(define("Note", Seal="String"))
    for name in ("deployment/maindoc", "deployment/common", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    deployment = tmp_path / "deployment"
    (deployment / "maindoc/note.xsd").write_text(SEALED)
    (deployment / "common/seal.xsd").write_text(SIGNATURES)
    (deployment / "common/secret.txt").write_text("secret")

    def made(schema: str, **options: str) -> XmlHandler:
        return xml(definitions, deployment, Validation=True, schema=schema, **options)

    handler = made("maindoc/note.xsd")
    body = "<Note xml:lang='de'><s:Seal xmlns:s='urn:sig'>{}</s:Seal></Note>"
    assert handler.to_business_object(body.format("abc"), None)["Seal"] == "abc"
    assert "maxLength" in refusal(handler.to_business_object, body.format("abcd"), None)
    made("maindoc/note.xsd", schema_directory=".")
    with pytest.raises(ValueError, match=r"'\.\./common/seal\.xsd' is not in the directory of the schemas"):
        made("maindoc/note.xsd", schema_directory="maindoc")
    with pytest.raises(ValueError, match=r"schema_directory: .*missing is no directory"):
        made("maindoc/note.xsd", schema_directory="missing")
    (tmp_path / "far.xsd").write_text(SIGNATURES)
    (deployment / "common/link.xsd").symlink_to(tmp_path / "far.xsd")
    (deployment / "maindoc/linked.xsd").write_text(SEALED.replace("seal.xsd", "link.xsd"))
    with pytest.raises(ValueError, match=r"link\.xsd' is not in the directory of the schemas"):
        made("maindoc/linked.xsd")
    # a schema outside of the directory brings those beside it, and no others
    (tmp_path / "elsewhere/note.xsd").write_text(SEALED.replace("../common/", ""))
    (tmp_path / "elsewhere/seal.xsd").write_text(SIGNATURES)
    made("../elsewhere/note.xsd")
    (tmp_path / "elsewhere/note.xsd").write_text(SEALED.replace("../common", "../deployment/common"))
    made("../elsewhere/note.xsd")
    with pytest.raises(ValueError, match="is not in the directory of the schemas"):
        made("../elsewhere/note.xsd", schema_directory="maindoc")


@rows("entity", ["&far;", "&b9;"])
def test_no_entity_of_another_file_and_no_flood_of_entities_is_expanded(tmp_path: Path, entity: str) -> None:
    floods = "".join(f"<!ENTITY b{n} '{f'&b{n - 1};' * 20}'>" for n in range(1, 10))
    schema = SIGNATURES.replace("<!ENTITY far", f"<!ENTITY b0 'bbbbbbbbbb'>{floods}<!ENTITY far")
    part = f"<annotation><documentation>{entity}</documentation></annotation>"
    schema = schema.replace("<element", f"{part}<element", 1)
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "seal.xsd").write_text(schema)
    with pytest.raises(ValueError, match=r"seal\.xsd is no XML: .*[Ee]ntity") as refused:
        xml(SAMPLES, tmp_path, Validation=True, schema="seal.xsd")
    assert "secret" not in str(refused.value)


def test_a_body_is_validated_against_the_dtd_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "dtds").mkdir()
    (tmp_path / "secret.dtd").write_text("<!ELEMENT Note ANY>")
    (tmp_path / "dtds/note.dtd").write_text("<!ELEMENT Note (Text)><!ELEMENT Text (#PCDATA)><!ENTITY e 'x'>")
    (tmp_path / "dtds/far.dtd").write_text("<!ENTITY % far SYSTEM 'http://127.0.0.1:9/x.dtd'> %far;")
    handler = xml(SAMPLES, tmp_path, Validation=True, DTDPath="dtds")
    right = "<!DOCTYPE Note SYSTEM 'http://example.com/dtds/note.dtd'>\n<Note><Text>a</Text></Note>"
    assert handler.to_business_object(right, None).as_dict() == {"Text": "a"}
    for body, words in (
        (right.replace("Text", "Txet"), "not valid"),
        (right.replace("note.dtd", "../secret.dtd"), "DTDPath has no 'secret.dtd'"),
        (right.replace("note.dtd", "far.dtd"), "far.dtd refers to other files"),
        ("<Note><Text>a</Text></Note>", "names no DTD"),
        (right.replace(">a<", ">&e;<"), "Entity 'e' not defined|an entity"),
        (right.replace("'>", "' [<!ENTITY e 'x'>]>", 1), "document type declaration"),
        (right.replace("'>", "' [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>", 1), "document type declaration"),
    ):
        with pytest.raises(MalformedData, match=words) as refused:
            handler.to_business_object(body, None)
        assert "root:" not in str(refused.value)


# --- many objects -----------------------------------------------------------------------------


def test_each_element_within_the_root_is_an_object() -> None:
    handler = xml(split=True, container="Notes")
    assert handler.splits
    body = "<All><Note verb='Update'><Text>a</Text></Note>\n<Customer><CustomerId>C</CustomerId></Customer></All>"
    found = list(handler.to_business_objects(body, None))
    assert [(bo.type, bo.verb) for bo in found] == [("Note", "Update"), ("Customer", None)]
    joint = handler.to_joint_body(found)
    assert joint.startswith(b"<?xml version='1.0' encoding='UTF-8'?>\n<Notes><Note verb=")
    assert list(handler.to_business_objects(joint, None)) == found
    assert list(handler.to_business_objects("<All/>", None)) == []


@rows(
    "body, words",
    [
        ("<All><Note/>\n<Note><No/></Note></All>", "record 2: Note has no attribute 'No'.*: line 2"),
        ("<All><Note/><Other/></All>", "record 2: no business object 'Other'"),
        ("<All><Note/><Note>", "the body is no XML"),
    ],
)
def test_a_mistake_names_the_record(body: str, words: str) -> None:
    with pytest.raises(MalformedData, match=words):
        list(xml(split=True).to_business_objects(body, None))


# --- bad input --------------------------------------------------------------------------------


@rows(
    "body",
    [
        b"<Note " + b" ".join(b'a%d="x"' % n for n in range(100_000)) + b"/>",
        b"<Note a='" + b"x" * 5_000_000 + b"'/>",
        b"<Note>" + b"<Text/>" * 200_000 + b"</Note>",
        b"<Note>" + b"<a>" * 200_000,
        b"<!DOCTYPE Note [<!ENTITY a '%b'>]><Note><Text>%b" % (b"x" * 50_000, b"&a;" * 50_000),
        b"<Note><!--" + b"-" * 1_000_000,
        b"<?" + b"a" * 1_000_000,
    ],
)
def test_an_attack_is_refused_at_once_and_in_little_memory(body: bytes) -> None:
    for handler in (xml(), make(SoapHandler)):
        begun = time.process_time()
        tracemalloc.start()
        try:
            with pytest.raises(MalformedData):
                handler.to_business_object(body, Hint("Note", "Create"))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert time.process_time() - begun < 10
        assert peak < 20 * len(body) + 10_000_000


def test_bytes_that_are_not_in_their_encoding_are_named() -> None:
    handler = xml()
    with pytest.raises(MalformedData, match="the body is not utf-8: byte 12"):
        handler.to_business_object(b"<Note><Text>\xe9</Text></Note>", None)
    latin = xml(charset="ISO-8859-1")
    assert latin.to_business_object(b"<Note><Text>\xe9</Text></Note>", None)["Text"] == "é"
    assert latin.to_body(BusinessObject(SAMPLES, "Note", None, {"Text": "é💶"})).endswith(
        b"<Note><Text>\xe9&#128182;</Text></Note>"
    )
