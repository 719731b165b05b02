"""SOAP with another implementation: zeep writes envelopes that we read, and reads those that we write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import requests
from lxml import etree
from zeep import Client
from zeep.exceptions import Fault
from zeep.transports import Transport

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.soap_handler import SoapHandler
from connector.formats.datahandler import Hint
from tests.datahandlers.definitions import define, known, make
from tests.tables import rows

WSDL = """<wsdl:definitions xmlns:wsdl="http://schemas.xmlsoap.org/wsdl/" xmlns:xs="http://www.w3.org/2001/XMLSchema"
 xmlns:soap="http://schemas.xmlsoap.org/wsdl/{soap}/" xmlns:t="urn:shop" targetNamespace="urn:shop">
<wsdl:types><xs:schema targetNamespace="urn:shop" elementFormDefault="qualified">
 <xs:element name="Order"><xs:complexType><xs:sequence>
  <xs:element name="OrderId" type="xs:string"/><xs:element name="Total" type="xs:double"/>
  <xs:element name="Line" maxOccurs="unbounded"><xs:complexType><xs:sequence>
   <xs:element name="Item" type="xs:string"/><xs:element name="Count" type="xs:int"/>
  </xs:sequence></xs:complexType></xs:element>
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


DEFINITIONS = known(
    define("Order", "ns=urn:shop", OrderId="String", Total="Double", Line="Line*"),
    define("Line", "ns=urn:shop", Item="String", Count="Integer"),
    define("Answer", "ns=urn:shop", Text="String"),
    define("Fault", Code="String", Reason="String", Detail="String"),
)
ORDER = {"OrderId": "é <&>", "Total": 2.5, "Line": [{"Item": "tea", "Count": 2}, {"Item": "rum", "Count": 1}]}


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
    return make(SoapHandler, DEFINITIONS, version=version, FaultObject="Fault")


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
    reply = handler(version).to_body(BusinessObject(DEFINITIONS, "Answer", None, {"Text": "thanks <é>"}))
    found, sent = exchange(tmp_path, version, reply)
    assert found == "thanks <é>"
    order = handler(version).to_business_object(sent, Hint("Order", "Create"))
    assert order.as_dict() == ORDER
    assert handler(version).to_business_object(sent, None).type == "Order"


@rows("version", ["1.1", "1.2"])
def test_zeep_reads_our_faults_and_we_read_them_back(tmp_path: Path, version: str) -> None:
    fault = BusinessObject(DEFINITIONS, "Fault", None, {"Reason": "no <stock>", "Detail": "<why>none</why>"})
    body = handler(version).to_body(fault)
    found, _ = exchange(tmp_path, version, body, 500)
    assert isinstance(found, Fault)
    assert found.message == "no <stock>"
    assert etree.tostring(found.detail[0]).startswith(b"<why")
    assert handler(version).to_business_object(body, None)["Reason"] == "no <stock>"
