"""What XML Schema has: each feature is drafted, and valid documents come back valid and as they were."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from connector.authoring.drafting.draft import Draft
from connector.authoring.drafting.sample_files import Samples
from connector.authoring.drafting.samples import draft_of
from connector.businessobjects.instance import finish
from connector.datahandlers.xml_handler import XmlHandler
from connector.errors import MalformedData
from connector.formats.datahandler import Hint
from tests.authoring.drafting.drafts import defaults, definitions
from tests.authoring.drafting.drafts import schema_shapes as shapes
from tests.tables import rows

XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
HEAD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"'
QUALIFIED = f'{HEAD} xmlns="urn:t" xmlns:t="urn:t" targetNamespace="urn:t" elementFormDefault="qualified">'


def files(directory: Path, **texts: str) -> Path:
    """Writes schemas, and returns the one that is called ``main``."""
    for name, text in texts.items():
        (directory / f"{name}.xsd").write_text(
            text if text.startswith(HEAD) else f"{QUALIFIED}{text}</xs:schema>"
        )
    return directory / "main.xsd"


def drafted(main: Path, name: str = "Order") -> Draft:
    return draft_of(name, Samples([(main, main.read_bytes())]), "xsd", (), main.parent)


def check(main: Path, draft: Draft, *bodies: str) -> None:
    """Reads bodies by a draft, and writes them again, validated both times."""
    options = defaults(XmlHandler, Validation=True, schema=str(main), schema_directory=str(main.parent))
    handler = XmlHandler(options, definitions(draft, main.parent))
    for body in bodies:
        bo = handler.to_business_object(body, None)
        bo.verb = "Create"
        finish(bo)
        written, read = (etree.fromstring(text) for text in (handler.to_body(bo), body))
        assert etree.tostring(written, method="c14n") == etree.tostring(read, method="c14n")


def order(content: str, more: str = "") -> str:
    return f'<xs:element name="Order"><xs:complexType>{content}</xs:complexType></xs:element>{more}'


def sequence(*parts: str) -> str:
    return f"<xs:sequence>{''.join(parts)}</xs:sequence>"


def body(content: str, tag: str = "", more: str = "") -> str:
    return f'<Order xmlns="urn:t"{more}{tag}>{content}</Order>'


FEATURES = {
    "substitution": (
        order(sequence('<xs:element ref="Pay" maxOccurs="1"/>'))
        + '<xs:element name="Pay" type="P" abstract="true"/><xs:element name="Card" substitutionGroup="Pay" type="C"/>'
        '<xs:element name="Cash" substitutionGroup="Pay"/><xs:element name="Gold" substitutionGroup="Card"/>'
        '<xs:complexType name="P"><xs:sequence><xs:element name="Sum" type="xs:int"/></xs:sequence></xs:complexType>'
        '<xs:complexType name="C"><xs:complexContent><xs:extension base="P"><xs:attribute name="No"/></xs:extension></xs:complexContent></xs:complexType>',
        [body("<Cash><Sum>1</Sum></Cash>"), body('<Card No="7"><Sum>1</Sum></Card>'), body('<Gold No="8"><Sum>1</Sum></Gold>')],
    ),
    "abstract type": (
        order(sequence('<xs:element name="Way" type="Way" maxOccurs="unbounded"/>'))
        + '<xs:complexType name="Way" abstract="true"><xs:sequence><xs:element name="Id" type="xs:int"/></xs:sequence></xs:complexType>'
        '<xs:complexType name="Ship"><xs:complexContent><xs:extension base="Way"><xs:sequence><xs:element name="Port" type="xs:string"/></xs:sequence></xs:extension></xs:complexContent></xs:complexType>'
        '<xs:complexType name="Big"><xs:complexContent><xs:extension base="Ship"><xs:attribute name="Tons" type="xs:int" use="required"/></xs:extension></xs:complexContent></xs:complexType>'
        '<xs:complexType name="Road"><xs:complexContent><xs:extension base="Way"><xs:sequence><xs:element name="Plate" type="xs:string" maxOccurs="2"/></xs:sequence></xs:extension></xs:complexContent></xs:complexType>',
        [body('<Way xsi:type="Ship"><Id>1</Id><Port>HH</Port></Way><Way Tons="5" xsi:type="Big"><Id>2</Id><Port>B</Port></Way><Way xsi:type="Road"><Id>1</Id><Plate>a</Plate><Plate>b</Plate></Way>', more=f" {XSI}")],
    ),
    "derived type": (
        order(sequence('<xs:element name="To" type="A"/>'))
        + '<xs:complexType name="A"><xs:sequence><xs:element name="City" type="xs:string"/></xs:sequence></xs:complexType>'
        '<xs:complexType name="B"><xs:complexContent><xs:extension base="A"><xs:sequence><xs:element name="Land" type="xs:string"/></xs:sequence></xs:extension></xs:complexContent></xs:complexType>',
        [body("<To><City>Ulm</City></To>"), body('<To xsi:type="B"><City>Ulm</City><Land>DE</Land></To>', more=f" {XSI}")],
    ),
    "restriction": (
        order(sequence('<xs:element name="To" type="B"/>'))
        + '<xs:complexType name="A"><xs:sequence><xs:element name="City" type="xs:string" minOccurs="0"/><xs:element name="Zip" type="xs:string" minOccurs="0"/></xs:sequence><xs:attribute name="x"/><xs:attribute name="y"/></xs:complexType>'
        '<xs:complexType name="B"><xs:complexContent><xs:restriction base="A"><xs:sequence><xs:element name="Zip" type="xs:string"/></xs:sequence><xs:attribute name="y" use="prohibited"/></xs:restriction></xs:complexContent></xs:complexType>',
        [body('<To x="1"><Zip>7</Zip></To>')],
    ),
    "nillable": (
        order(sequence('<xs:element name="A" type="xs:int" nillable="true"/>', '<xs:element name="B" type="xs:date" nillable="true" minOccurs="0"/>', '<xs:element name="C" type="K" nillable="true"/>', '<xs:element name="D" type="xs:string" nillable="true" maxOccurs="3" minOccurs="0"/>', '<xs:element name="E" type="K" minOccurs="0"/>'))
        + '<xs:complexType name="K"><xs:sequence><xs:element name="V" type="xs:int"/></xs:sequence></xs:complexType>',
        [
            body('<A xsi:nil="true"/><C xsi:nil="true"/>', more=f" {XSI}"),
            body('<A>1</A><B xsi:nil="true"/><C><V>1</V></C><D>a</D><D xsi:nil="true"/><E><V>2</V></E>', more=f" {XSI}"),
            body("<A>1</A><C><V>1</V></C>"),
        ],
    ),
    "text with attributes": (
        order(sequence('<xs:element name="Sum" type="M" maxOccurs="2"/>', '<xs:element name="Note" type="N" minOccurs="0"/>'))
        + '<xs:complexType name="M"><xs:simpleContent><xs:extension base="xs:int"><xs:attribute name="Cur" use="required"/><xs:attribute name="Value"/></xs:extension></xs:simpleContent></xs:complexType>'
        '<xs:complexType name="N"><xs:simpleContent><xs:extension base="xs:string"><xs:attribute name="lang"/></xs:extension></xs:simpleContent></xs:complexType>',
        [body('<Sum Cur="EUR">10</Sum><Sum Cur="USD" Value="x">0</Sum><Note lang="de"/>'), body('<Sum Cur="EUR">1</Sum><Note> a  b </Note>'), body('<Sum Cur="EUR">1</Sum><Note/>')],
    ),
    "mixed and any": (
        order(sequence('<xs:element name="Text" type="T" minOccurs="0" maxOccurs="2"/>', '<xs:element name="Free" minOccurs="0"><xs:complexType><xs:sequence><xs:any maxOccurs="unbounded" processContents="skip"/></xs:sequence><xs:anyAttribute processContents="skip"/></xs:complexType></xs:element>', '<xs:element name="Flag" minOccurs="0"><xs:complexType/></xs:element>', '<xs:element name="Plain" minOccurs="0"><xs:complexType mixed="true"><xs:attribute name="a"/></xs:complexType></xs:element>'))
        + '<xs:complexType name="T" mixed="true"><xs:sequence><xs:element name="b" type="T" minOccurs="0" maxOccurs="9"/></xs:sequence></xs:complexType>',
        [body('<Text>a <b>c<b/></b> d</Text><Text/><Free x="1"><q xmlns="">1</q><z xmlns="urn:z"/></Free><Flag/><Plain a="1">text</Plain>'), body("")],
    ),
    "groups": (
        order(sequence('<xs:group ref="G" minOccurs="0"/>', '<xs:choice minOccurs="0"><xs:sequence><xs:element name="x" type="xs:int"/><xs:element name="y" type="xs:int"/></xs:sequence><xs:element name="x2" type="xs:int"/></xs:choice>'), ) .replace("</xs:complexType>", '<xs:attributeGroup ref="M"/></xs:complexType>', 1)
        + '<xs:group name="G"><xs:choice><xs:element name="g" type="xs:string"/><xs:element name="h" type="xs:string" maxOccurs="3"/></xs:choice></xs:group>'
        '<xs:attributeGroup name="M"><xs:attribute name="m" type="xs:int" use="required"/><xs:attributeGroup ref="L"/></xs:attributeGroup><xs:attributeGroup name="L"><xs:attribute name="l"/></xs:attributeGroup>',
        [body("<g>1</g><x>1</x><y>2</y>", ' m="1"'), body("<h>1</h><h/><x2>1</x2>", ' l="a" m="2"')],
    ),
    "zero": (
        order(sequence('<xs:element name="a" type="xs:int" minOccurs="0"/>', '<xs:element name="never" minOccurs="0" maxOccurs="0" type="xs:int"/>', '<xs:sequence minOccurs="0" maxOccurs="0"><xs:element name="nor" type="xs:int"/></xs:sequence>', '<xs:element name="z" type="xs:int" minOccurs="0" maxOccurs="unbounded"/>')),
        [body(""), body("<a>0</a><z>0</z><z>0</z>")],
    ),
    "times": (
        order(sequence(*(f'<xs:element name="{kind}" type="xs:{kind}" minOccurs="0" maxOccurs="9"/>' for kind in ("date", "dateTime", "time", "gYear", "gYearMonth", "gMonthDay", "duration")))),
        [
            body("<date>2024-05-31</date><date>2024-05-31Z</date><date>2024-05-31+14:00</date><date>2024-05-31-05:30</date>"
            "<dateTime>2024-05-31T08:00:00</dateTime><dateTime>2024-05-31T24:00:00Z</dateTime><dateTime>2024-05-31T08:00:00.123456789-05:00</dateTime>"
            "<time>08:00:00Z</time><time>08:00:00.5+02:00</time><gYear>2024Z</gYear><gYear>-0044</gYear><gYearMonth>2024-05</gYearMonth><gMonthDay>--05-31+01:00</gMonthDay><duration>P1DT2H</duration>")
        ],
    ),
    "list and union": (
        order(sequence('<xs:element name="l" type="L"/>', '<xs:element name="u" type="U"/>', '<xs:element name="n" type="P"/>').replace("</xs:sequence>", '</xs:sequence><xs:attribute name="refs" type="xs:NMTOKENS"/>'))
        + '<xs:simpleType name="L"><xs:list><xs:simpleType><xs:restriction base="xs:int"/></xs:simpleType></xs:list></xs:simpleType>'
        '<xs:simpleType name="U"><xs:union memberTypes="xs:int xs:date"><xs:simpleType><xs:restriction base="xs:string"><xs:enumeration value="none"/></xs:restriction></xs:simpleType></xs:union></xs:simpleType>'
        '<xs:simpleType name="P"><xs:restriction base="xs:int"><xs:pattern value="[0-9]{3}"/></xs:restriction></xs:simpleType>',
        [body("<l>1 2 3</l><u>2024-05-31</u><n>007</n>", ' refs="a b"'), body("<l/><u>none</u><n>100</n>")],
    ),
    "all": (
        order('<xs:all><xs:element name="a" type="xs:int"/><xs:element name="b" type="xs:int" minOccurs="0"/></xs:all>'),
        [body("<a>1</a>"), body("<a>1</a><b>2</b>")],
    ),
    "recursion": (
        order(sequence('<xs:element name="Part" type="T" minOccurs="0" maxOccurs="unbounded"/>'))
        + '<xs:complexType name="T"><xs:sequence><xs:element name="Id" type="xs:int"/><xs:element name="Part" type="T" minOccurs="0" maxOccurs="unbounded"/><xs:element ref="Order" minOccurs="0"/></xs:sequence></xs:complexType>',
        [body("<Part><Id>1</Id><Part><Id>2</Id><Part><Id>3</Id></Part></Part><Order><Part><Id>4</Id></Part></Order></Part>")],
    ),
}  # fmt: skip


@rows("feature", FEATURES)
def test_a_feature_of_xml_schema_comes_back_as_it_was(tmp_path: Path, feature: str) -> None:
    schema, bodies = FEATURES[feature]
    main = files(tmp_path, main=schema)
    made = drafted(main)
    assert made.left_out == []
    check(main, made, *bodies)


def test_the_same_local_name_in_two_namespaces_is_two_attributes(tmp_path: Path) -> None:
    main = files(
        tmp_path,
        main=f'{HEAD} xmlns:t="urn:t" xmlns:u="urn:u" targetNamespace="urn:t" elementFormDefault="qualified" attributeFormDefault="qualified">'
        '<xs:import namespace="urn:u" schemaLocation="u.xsd"/>'
        '<xs:element name="Order"><xs:complexType><xs:sequence><xs:element name="Id" type="t:K"/><xs:element ref="u:Id"/></xs:sequence>'
        '<xs:attribute name="Id" type="xs:int"/><xs:attribute ref="u:Id"/></xs:complexType></xs:element>'
        '<xs:complexType name="K"><xs:sequence><xs:element name="a" type="xs:int"/></xs:sequence></xs:complexType></xs:schema>',
        u=f'{HEAD} xmlns="urn:u" targetNamespace="urn:u"><xs:element name="Id" type="K"/><xs:attribute name="Id" type="xs:string"/>'
        '<xs:complexType name="K"><xs:sequence><xs:element name="b" type="xs:int"/></xs:sequence></xs:complexType></xs:schema>',
    )  # fmt: skip
    made = drafted(main)
    assert made.left_out == []
    assert list(shapes(made)["Order"]) == ["Id", "Id_2", "Id_3", "Id_4"]
    ids = "<t:Id><t:a>1</t:a></t:Id><u:Id><b>2</b></u:Id>"
    check(main, made, f'<t:Order t:Id="1" u:Id="x" xmlns:t="urn:t" xmlns:u="urn:u">{ids}</t:Order>')


@rows(
    "head, text",
    [
        ('xmlns:t="urn:t" targetNamespace="urn:t"', '<t:Order xmlns:t="urn:t" a="1"><Id>1</Id><In><x>2</x></In></t:Order>'),
        ('xmlns:t="urn:t" targetNamespace="urn:t" elementFormDefault="qualified"', '<Order xmlns="urn:t" a="1"><Id>1</Id><In><x>2</x></In></Order>'),
        ("", '<Order a="1"><Id>1</Id><In><x>2</x></In></Order>'),
        (
            'xmlns:t="urn:t" targetNamespace="urn:t" elementFormDefault="qualified" attributeFormDefault="qualified"',
            '<Order xmlns="urn:t" xmlns:ns0="urn:t" ns0:a="1"><Id>1</Id><In><x>2</x></In></Order>',
        ),
    ],
)  # fmt: skip
def test_elements_are_qualified_or_not_as_the_schema_says(tmp_path: Path, head: str, text: str) -> None:
    content = order(
        sequence('<xs:element name="Id" type="xs:int"/><xs:element name="In"><xs:complexType><xs:sequence>'
        '<xs:element name="x" type="xs:int"/></xs:sequence></xs:complexType></xs:element>') + '<xs:attribute name="a"/>'
    )  # fmt: skip
    main = files(tmp_path, main=f"{HEAD} {head}>{content}</xs:schema>")
    check(main, drafted(main), text)


def test_a_file_without_a_namespace_takes_that_of_the_file_that_includes_it(tmp_path: Path) -> None:
    main = files(
        tmp_path,
        main='<xs:include schemaLocation="part.xsd"/><xs:redefine schemaLocation="old.xsd"><xs:complexType name="R">'
        '<xs:complexContent><xs:extension base="R"><xs:sequence><xs:element name="n" type="xs:int"/></xs:sequence>'
        "</xs:extension></xs:complexContent></xs:complexType></xs:redefine>"
        + order(sequence('<xs:element name="P" type="P"/><xs:element name="R" type="R"/>')),
        part=f'{HEAD} elementFormDefault="qualified"><xs:complexType name="P"><xs:sequence><xs:element ref="Q"/></xs:sequence>'
        '</xs:complexType><xs:element name="Q" type="S"/><xs:simpleType name="S"><xs:restriction base="xs:int"/></xs:simpleType></xs:schema>',
        old='<xs:complexType name="R"><xs:sequence><xs:element name="o" type="xs:int"/></xs:sequence></xs:complexType>',
    )
    made = drafted(main)
    assert made.left_out == []
    assert shapes(made)["Order_R"] == {"o": "Integer", "n": "Integer"}
    check(main, made, body("<P><Q>1</Q></P><R><o>1</o><n>2</n></R>"))


def test_several_files_of_one_namespace_are_imported(tmp_path: Path) -> None:
    part = f'{HEAD} xmlns="urn:u" targetNamespace="urn:u" elementFormDefault="qualified">'
    main = files(
        tmp_path,
        main=f'{HEAD} xmlns="urn:t" xmlns:u="urn:u" targetNamespace="urn:t" elementFormDefault="qualified">'
        '<xs:import namespace="urn:u" schemaLocation="a.xsd"/><xs:import namespace="urn:u" schemaLocation="b.xsd"/>'
        '<xs:import namespace="urn:v" schemaLocation="c.xsd"/>'
        + order(sequence('<xs:element ref="u:A"/><xs:element ref="u:B"/>'))
        + "</xs:schema>",
        a=f'{part}<xs:element name="A" type="C"/><xs:complexType name="C"><xs:sequence><xs:element name="c" type="xs:int"/>'
        "</xs:sequence></xs:complexType></xs:schema>",
        b=f'{part}<xs:include schemaLocation="a.xsd"/><xs:element name="B" type="C"/></xs:schema>',
        c=f'{HEAD} xmlns:u="urn:u" targetNamespace="urn:v"><xs:import namespace="urn:u"/><xs:element name="D" type="u:C"/></xs:schema>',
    )
    made = drafted(main)
    assert made.left_out == []
    text = '<Order xmlns="urn:t" xmlns:u="urn:u"><u:A><u:c>1</u:c></u:A><u:B><u:c>2</u:c></u:B></Order>'
    check(main, made, text)


def test_what_a_draft_cannot_keep_is_named(tmp_path: Path) -> None:
    main = files(
        tmp_path,
        main=order(
            sequence(
                '<xs:sequence maxOccurs="9"><xs:element name="k" type="xs:int"/><xs:element name="v" type="xs:int"/></xs:sequence>',
                '<xs:element name="a" type="xs:int"/>',
                '<xs:element name="N" type="K" nillable="true" minOccurs="0"/>',
                '<xs:element ref="Gone" minOccurs="0"/><xs:element ref="Lost" minOccurs="0"/>',
                '<xs:any namespace="##other" minOccurs="0"/>',
            )
            + "<xs:anyAttribute/>",
            '<xs:complexType name="K"><xs:sequence><xs:element name="V" type="xs:int"/></xs:sequence><xs:attribute name="w"/></xs:complexType>'
            '<xs:element name="Lost" abstract="true"/>',
        ),
    )
    made = drafted(main)
    assert made.left_out == [
        "Order.xs:any: elements or XML attributes of any name",
        "Order.k, v: the order among each other and the elements between; they are written name by name",
        "Order.Gone: the schema does not define this element",
        "Order.Lost: an abstract element that no element substitutes",
        'Order.N: xsi:nil="true", which is read as not set, and is not written',
        'Order.N: XML attributes beside xsi:nil="true"',
    ]
    assert "bodies with parts that were left out need IgnoreUndefinedAttributes: true" in made.checks
    definitions(made, tmp_path)


BASE = '<xs:complexType name="B"><xs:sequence><xs:element name="i" type="xs:int"/></xs:sequence></xs:complexType>'
CARD = '<xs:element name="Card" substitutionGroup="Order" type="B"/>'


@rows(
    "elements, told",
    [
        (CARD, "Card in its place"),
        (CARD + CARD.replace("Card", "Cash"), "Card or Cash in its place"),
        (CARD.replace(" type", ' abstract="1" type') + CARD.replace("Order", "Card").replace('"Card"', '"Visa"', 1), "has Visa in its place"),
        ("", "no element substitutes it"),
        (CARD.replace(" type", ' abstract="true" type'), "no element substitutes it"),
    ],
)  # fmt: skip
def test_an_abstract_root_names_the_elements_in_its_place(tmp_path: Path, elements: str, told: str) -> None:
    (tmp_path / "more.xsd").write_text(f"{QUALIFIED}{BASE}{elements}</xs:schema>")
    root = '<xs:include schemaLocation="more.xsd"/><xs:element name="Order" abstract="true" type="B"/>'
    made = drafted(files(tmp_path, main=root))
    (reason,) = made.left_out
    assert reason.startswith("Order.root element Order: it is abstract, and ")
    assert told in reason
    untyped = files(tmp_path, main=root.replace(' type="B"', ""))
    with pytest.raises(MalformedData, match=told):
        drafted(untyped)


def test_a_choice_of_very_many_elements_is_kept_as_xml(tmp_path: Path) -> None:
    many = "".join(f'<xs:element name="e{n}" type="xs:int"/>' for n in range(101))
    schema = order(sequence('<xs:element name="Any" type="Any" maxOccurs="2"/>'))
    main = files(
        tmp_path, main=f'{schema}<xs:complexType name="Any"><xs:choice>{many}</xs:choice></xs:complexType>'
    )
    made = drafted(main)
    assert shapes(made) == {"Order": {"Any": "String n type=xml"}}
    check(main, made, body("<Any><e7>1</e7></Any><Any><e100>2</e100></Any>"))


def test_documents_of_another_namespace_are_not_read(tmp_path: Path) -> None:
    made = drafted(files(tmp_path, main=order(sequence('<xs:element name="a" type="xs:int"/>'))))
    handler = XmlHandler(defaults(XmlHandler), definitions(made, tmp_path))
    with pytest.raises(MalformedData, match="'urn:other', expected 'urn:t'"):
        handler.to_business_object('<Order xmlns="urn:other"><a>1</a></Order>', Hint("Order"))
