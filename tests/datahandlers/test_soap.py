"""SOAP: envelopes, header blocks and faults, also with another implementation (zeep)."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import requests
from lxml import etree
from zeep import Client
from zeep.exceptions import Fault
from zeep.transports import Transport

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.soap_handler import SoapHandler
from connector.formats.datahandler import Hint
from tests.datahandlers.definitions import SAMPLES, define, known, make, refusal
from tests.tables import rows

SOAP = known(
    define("Order", Id="String", Security="Token soap=header;elem_name=security"),
    define("Token", User="String"),
    define("Fault", Code="String", Reason="String", Actor="String", Detail="String"),
)
URIS = {"1.1": "http://schemas.xmlsoap.org/soap/envelope/", "1.2": "http://www.w3.org/2003/05/soap-envelope"}


def soap(definitions: Definitions = SAMPLES, **options: Any) -> SoapHandler:
    return make(SoapHandler, definitions, **options)


def envelope(content: str, version: str = "1.2") -> str:
    return f"<s:Envelope xmlns:s='{URIS[version]}'>{content}</s:Envelope>"


@rows("version", ["1.1", "1.2"])
def test_header_blocks_are_children(version: str) -> None:
    handler = soap(SOAP, version=version)
    bo = BusinessObject(SOAP, "Order", "Create", {"Id": "1", "Security": {"User": "u"}})
    body = handler.to_body(bo)
    root = etree.fromstring(body)
    uri = f"{{{URIS[version]}}}"
    found = root.findtext(f"{uri}Header/security/User"), root.findtext(f"{uri}Body/Order/Id")
    assert found == ("u", "1")
    assert root.find(f"{uri}Body/Order/security") is None
    assert handler.to_business_object(body, None) == bo
    assert bo["Security"]["User"] == "u"  # unchanged


@rows(
    "body, words",
    [
        (envelope("<s:Body><Order/><Order/></s:Body>"), "found a second element 'Order' in the Body"),
        (envelope("<s:Header/><s:Body><Order/></s:Body><x/>"), "found 'x' in the Envelope"),
        (envelope("<s:Body><Order/></s:Body><s:Header/>"), "found the Header after the Body"),
        (envelope("<s:Header><a s:mustUnderstand='1'/></s:Header><s:Body><Order/></s:Body>"), "MustUnderstand: no attribute of Order takes the header block 'a'"),
        *((envelope(f"<s:Header><a s:mustUnderstand='{value}'/></s:Header><s:Body><Order/></s:Body>"), f"mustUnderstand of the header block 'a' is '{value.strip()}'") for value in ("yes", "TRUE", "True", "", " ", "2", "01", "true false", "１")),
        (envelope("<s:Body><Order/></s:Body>").replace("2003", "2004"), "VersionMismatch"),
        ("<Order/>", "found the element 'Order', expected a SOAP Envelope"),
        (envelope("lost<s:Body><Order/></s:Body>"), "found the text 'lost' between elements"),
        (envelope("<s:Body><Order/></s:Body>lost"), "found the text 'lost' between elements"),
        (envelope("<s:Body>lost<Order/></s:Body>"), "found the text 'lost' between elements"),
        (envelope("<s:Header><a/>lost</s:Header><s:Body><Order/></s:Body>"), "found the text 'lost' between elements"),
        ("<?x y?>" + envelope("<s:Body><Order/></s:Body>"), "no processing instructions"),
        ("<!DOCTYPE a>" + envelope("<s:Body><Order/></s:Body>"), "document type declaration"),
        (envelope("<s:Body><s:Fault><s:Code><s:Value>s:Sender</s:Value></s:Code><s:Reason><s:Text>no stock</s:Text></s:Reason></s:Fault></s:Body>"), "a SOAP fault: code 's:Sender', reason 'no stock'"),
    ],
)  # fmt: skip
def test_an_envelope_that_is_wrong_is_told(body: str, words: str) -> None:
    assert words in refusal(soap(SOAP).to_business_object, body, None)


NEXT = {
    "1.1": "http://schemas.xmlsoap.org/soap/actor/next",
    "1.2": "http://www.w3.org/2003/05/soap-envelope/role/next",
}
OURS = [
    *(("1.1", ""), ("1.1", "s:actor=''"), ("1.1", f"s:actor='{NEXT['1.1']}'")),
    *(("1.2", ""), ("1.2", "s:role=''"), ("1.2", f"s:role=' {NEXT['1.2']} '")),
    ("1.2", "s:role='http://www.w3.org/2003/05/soap-envelope/role/ultimateReceiver'"),
    ("1.2", "role='http://example.org/log'"),  # in no namespace, so no role
]
FOREIGN = [
    ("1.1", "s:actor='http://example.org/log'"),
    ("1.1", f"s:actor='{NEXT['1.2']}'"),
    ("1.1", "s:actor='urn:x'"),
    ("1.2", "s:role='http://example.org/log'"),
    ("1.2", "s:role='http://www.w3.org/2003/05/soap-envelope/role/none'"),
    ("1.2", f"s:role='{NEXT['1.1']}'"),
    ("1.2", "s:role='http://www.w3.org/2003/05/soap-envelope/role/Next'"),
]
MUST = ["s:mustUnderstand='1'", "s:mustUnderstand='true'"]


@rows("version, role", OURS)
@rows("must", MUST)
def test_a_mandatory_header_block_for_this_receiver_has_to_be_taken(
    version: str, role: str, must: str
) -> None:
    body = envelope(
        f"<s:Header><a {role} {must}>1</a></s:Header><s:Body><Order><Id>1</Id></Order></s:Body>", version
    )
    reason = refusal(soap(SOAP).to_business_object, body, None)
    assert "MustUnderstand: no attribute of Order takes the header block 'a'" in reason
    taken = "<security %s %s><User>u</User></security>"
    if not role.startswith("role"):
        body = envelope(f"<s:Header>{taken % (role, must)}</s:Header><s:Body><Order/></s:Body>", version)
        assert soap(SOAP).to_business_object(body, None).as_dict() == {"Security": {"User": "u"}}


@rows("version, role", FOREIGN)
@rows("must", ["", *MUST])
def test_a_header_block_for_another_receiver_is_passed_over(version: str, role: str, must: str) -> None:
    blocks = f"<a {role} {must}>1</a><security {role} {must}><Other/></security><security><User>u</User></security>"
    body = envelope(f"<s:Header>{blocks}</s:Header><s:Body><Order><Id>1</Id></Order></s:Body>", version)
    assert soap(SOAP).to_business_object(body, None).as_dict() == {"Id": "1", "Security": {"User": "u"}}


def test_a_header_block_that_nobody_takes_and_attributes_of_soap_itself_are_passed_over() -> None:
    encoding = "http://schemas.xmlsoap.org/soap/encoding/"
    order = f"<Order s:encodingStyle='{encoding}'><Id xmlns:e='{encoding}' e:arrayType='x'>1</Id></Order>"
    body = envelope(f"<s:Header><a/></s:Header><s:Body>{order}</s:Body>", "1.1")
    assert soap(SOAP).to_business_object(body, None).as_dict() == {"Id": "1"}


def test_the_detail_of_a_fault_may_be_as_long_as_a_body() -> None:
    size = 10_100_000  # more than the ten million to which libxml2 limits a text by default
    detail = f"<s:Detail><why>{'a' * size}</why></s:Detail>"
    fault = f"<s:Fault><s:Code><s:Value>a</s:Value></s:Code><s:Reason><s:Text>b</s:Text></s:Reason>{detail}</s:Fault>"
    handler = soap(SOAP, FaultObject="Fault")
    bo = handler.to_business_object(envelope(f"<s:Body>{fault}</s:Body>"), Hint("Fault", "Create"))
    assert len(bo["Detail"]) == size + len("<why></why>")
    assert handler.to_business_object(handler.to_body(bo), Hint("Fault", "Create")) == bo


def test_a_fault_is_an_object_of_single_values() -> None:
    with pytest.raises(ValueError, match="FaultObject: there is no business object 'Nothing'"):
        soap(SOAP, FaultObject="Nothing")
    with pytest.raises(ValueError, match=r"FaultObject: T\.Code is no single value"):
        soap(known(define("T", Code="String*")), FaultObject="T")


# --- with zeep --------------------------------------------------------------------------------

WSDL = """<wsdl:definitions xmlns:wsdl="http://schemas.xmlsoap.org/wsdl/" xmlns:xs="http://www.w3.org/2001/XMLSchema"
 xmlns:soap="http://schemas.xmlsoap.org/wsdl/{soap}/" xmlns:t="urn:shop" targetNamespace="urn:shop">
<wsdl:types><xs:schema targetNamespace="urn:shop" elementFormDefault="qualified">
 <xs:element name="Order"><xs:complexType><xs:sequence>
  <xs:element name="OrderId" type="xs:string"/><xs:element name="Count" type="xs:int" maxOccurs="unbounded"/>
 </xs:sequence></xs:complexType></xs:element>
 <xs:element name="Answer"><xs:complexType><xs:sequence>
  <xs:element name="Text" type="xs:string"/></xs:sequence></xs:complexType></xs:element>
</xs:schema></wsdl:types>
<wsdl:message name="Ask"><wsdl:part name="body" element="t:Order"/></wsdl:message>
<wsdl:message name="Tell"><wsdl:part name="body" element="t:Answer"/></wsdl:message>
<wsdl:portType name="Port"><wsdl:operation name="place">
 <wsdl:input message="t:Ask"/><wsdl:output message="t:Tell"/></wsdl:operation></wsdl:portType>
<wsdl:binding name="Binding" type="t:Port">
 <soap:binding style="document" transport="http://schemas.xmlsoap.org/soap/http"/>
 <wsdl:operation name="place"><soap:operation soapAction="place"/>
  <wsdl:input><soap:body use="literal"/></wsdl:input><wsdl:output><soap:body use="literal"/></wsdl:output>
 </wsdl:operation></wsdl:binding>
<wsdl:service name="Service"><wsdl:port name="Port" binding="t:Binding">
 <soap:address location="http://127.0.0.1:9/"/></wsdl:port></wsdl:service>
</wsdl:definitions>"""


SHOP = known(
    define("Order", "ns=urn:shop", OrderId="String", Count="Integer*"),
    define("Answer", "ns=urn:shop", Text="String"),
    SOAP["Fault"],
)
ORDER = {"OrderId": "é <&>", "Count": [2, 1]}


class _Replies(Transport):  # type: ignore[misc]  # zeep has no annotations
    """Answers every request with a body, without a network."""

    def __init__(self, body: bytes, kind: str, status: int) -> None:
        super().__init__()
        self._reply = body, kind, status
        self.sent = b""

    def post(self, address: str, message: bytes, headers: Any) -> requests.Response:
        self.sent = message
        response = requests.Response()
        response._content, response.headers["Content-Type"], response.status_code = self._reply
        return response


def handler(version: str) -> SoapHandler:
    return soap(SHOP, version=version, FaultObject="Fault")


def exchange(tmp_path: Path, version: str, reply: bytes, status: int = 200) -> tuple[Any, bytes]:
    """Returns what zeep makes of the reply, and the envelope that zeep has sent."""
    soap, kind = ("soap", "text/xml") if version == "1.1" else ("soap12", "application/soap+xml")
    (tmp_path / "shop.wsdl").write_text(WSDL.format(soap=soap))
    transport = _Replies(reply, kind, status)
    client = Client(str(tmp_path / "shop.wsdl"), transport=transport)
    try:
        return client.service.place(**ORDER), transport.sent
    except Fault as fault:
        return fault, transport.sent


@rows("version", ["1.1", "1.2"])
def test_zeep_writes_what_we_read_and_reads_what_we_write(tmp_path: Path, version: str) -> None:
    reply = handler(version).to_body(BusinessObject(SHOP, "Answer", None, {"Text": "thanks <é>"}))
    found, sent = exchange(tmp_path, version, reply)
    assert found == "thanks <é>"
    order = handler(version).to_business_object(sent, Hint("Order", "Create"))
    assert order.as_dict() == ORDER
    assert handler(version).to_business_object(sent, None).type == "Order"
    values = {"Code": "soap:Client", "Reason": "no <stock>", "Actor": "urn:a", "Detail": "<why>none</why>"}
    fault = BusinessObject(SHOP, "Fault", "Create", values)
    body = handler(version).to_body(fault)
    found, _ = exchange(tmp_path, version, body, 500)
    assert isinstance(found, Fault)
    assert found.message == "no <stock>"
    assert etree.tostring(found.detail[0]).startswith(b"<why")
    assert handler(version).to_business_object(body, Hint("Fault", "Create")) == fault
    assert handler(version).to_business_object(body, None)["Reason"] == "no <stock>"
