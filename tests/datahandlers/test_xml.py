"""XML: what is refused, with what text, and what is not."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import time

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.xml_handler import XmlHandler
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint
from tests.datahandlers.definitions import SAMPLES, define, known, make, refusal
from tests.tables import rows

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
        (customer("\n<Nmae/>"), "Customer has no attribute 'Nmae', did you mean 'Name'?: line 2"),
        (customer("<Home>\n<Citty/></Home>"), "Home: Address has no attribute 'Citty', did you mean 'City'?: line 2"),
        (customer("<Rating>7.0</Rating>"), "Rating: found the text '7.0', expected an integer: line 1"),
        (customer("<Rating> </Rating>"), "Rating: found the text ' ', expected an integer"),
        (customer("<Address/>\n<Address><AddressID>x</AddressID></Address>"), "Address[1].AddressID: found the text"),
        (customer("<Name>a</Name><Name>a</Name>"), "Name: found a second time, expected one: line 1"),
        (customer("<Home/><Home/>"), "Home: found a second time"),
        (customer("<Name><b/></Name>"), "Name: found the element 'b', expected text (String): line 1"),
        (customer("text"), "found the text 'text' between elements: line 1"),
        (customer("<Home><City/>text</Home>"), "Home: found the text 'text' between elements"),
        (customer("<Meta><MessageID>x</MessageID></Meta>"), "Meta: holds a meta-object of Customer"),
        (customer("<Name lang='en'>a</Name>"), "Name: the XML attribute 'lang' is not known"),
        (b"<Customer Verb='Create'/>", "the XML attribute 'Verb' is not known"),
        (customer("<Home verb='Create'/>"), "Home: the XML attribute 'verb' is not known"),
        (b"<a>" * 100_000, "nested deeper than 200 levels"),
        (homes(202), "nested deeper than 200 levels: line 1"),
        (b"<!DOCTYPE Customer><Customer/>", "document type declaration (<!DOCTYPE), which is refused; send it without"),
    ],
)  # fmt: skip
def test_a_wrong_body_is_refused_with_its_place(body: bytes, reason: str) -> None:
    assert reason in refusal(STRICT.to_business_object, body, CUSTOMER)


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


XSI = "xmlns:i='http://www.w3.org/2001/XMLSchema-instance' i:schemaLocation='urn:c c.xsd'"
OTHERS = f"<?pi a?><c:Customer xmlns:c='urn:c' {XSI} verb='Update'><?pi b?><c:Name>a<!-- c -->b<?pi c?>c</c:Name></c:Customer>"
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
        # the rule wins over the root element and its verb
        (STRICT, "<Note verb='Update'><Name>a</Name></Note>", CUSTOMER, ("Customer", "Create", A)),
        (STRICT, "<x verb='Update'/>", Hint("Customer"), ("Customer", "Update", {})),
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


def test_nesting_is_limited_also_where_elements_are_passed_over() -> None:
    deeper = customer("<x>" * 200 + "</x>" * 200)
    assert "nested deeper than 200 levels" in refusal(LENIENT.to_business_object, deeper, None)


def test_a_root_element_that_names_no_object_is_unknown() -> None:
    with pytest.raises(UnknownBusinessObject, match="'Custmer' is defined, did you mean 'Customer'"):
        STRICT.to_business_object(b"<Custmer/>", None)


def test_objects_nested_as_deeply_as_allowed_are_read_and_written() -> None:
    bo = STRICT.to_business_object(homes(200), None)
    assert STRICT.to_business_object(STRICT.to_body(bo), None) == bo


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


def test_a_name_that_xml_lacks_cannot_be_written() -> None:
    definitions = known(define("A", **{"1st": "String"}))
    with pytest.raises(MalformedData, match=r"A: 1st: .1st. is no name in XML; give elem_name"):
        make(XmlHandler, definitions).to_body(BusinessObject(definitions, "A", values={"1st": "x"}))
