"""SOAP 1.1 and 1.2: a business object is the content of an envelope's body (SOAP 1.2 Part 1, section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lxml import etree

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import text_of
from connector.errors import MalformedData
from connector.formats.datahandler import DataHandler, Hint, Option, charset
from connector.formats.xml_places import ElementError, error_at
from connector.formats.xml_plan import XmlItem, XmlPlans
from connector.formats.xml_reader import XmlReader, refuse_text_within
from connector.formats.xml_writer import XmlWriter, escape
from connector.text.names import shown
from connector.text.xml_parser import local_name, parse_xml

_NAMESPACES: Final = {
    "1.1": "http://schemas.xmlsoap.org/soap/envelope/",
    "1.2": "http://www.w3.org/2003/05/soap-envelope",
}
_VERSIONS: Final = {uri: version for version, uri in _NAMESPACES.items()}
ENVELOPES: Final = frozenset(_VERSIONS)
"""The namespaces of envelopes."""
_ENCODINGS: Final = (
    "http://schemas.xmlsoap.org/soap/encoding/",
    "http://www.w3.org/2003/05/soap-encoding",
)
_ROLES: Final = {
    "1.1": ("actor", ("", "http://schemas.xmlsoap.org/soap/actor/next")),
    "1.2": ("role", ("", *(f"{_NAMESPACES['1.2']}/role/{name}" for name in ("next", "ultimateReceiver")))),
}
"""The XML attribute of a header block that says who the block is for, and its values for this receiver."""
_SPACE: Final = " \t\r\n"
_FAULT_PARTS: Final = ("Code", "Reason", "Actor", "Detail")


class SoapHandler(DataHandler):
    """SOAP envelopes.

    The only element of the body is the business object, as in XML. A child with the tag ``soap=header`` in
    its application-specific information is a header block, and not part of the body. A header block for
    another receiver is passed over. So is a block that no child takes, unless its ``mustUnderstand`` is true.
    Both versions of SOAP are read.

    A fault becomes the object FaultObject, with the attributes ``Code``, ``Reason``, ``Actor`` and ``Detail``
    as far as the object has them. That object is written as a fault. Without FaultObject, a fault makes the
    body malformed. Processing instructions and document types are refused, as SOAP demands.
    """

    mime_types = ("application/soap+xml", "xml/soap")
    options = (
        Option("version", str, "1.2", "The version of envelopes that are written.", choices=("1.1", "1.2")),
        Option("BOPrefix", str, "", "Stands before the name of the element, and `_`, in the object's name."),
        Option("IgnoreUndefinedAttributes", bool, False, "Pass over elements that the definition lacks."),
        Option(
            "null",
            str,
            "ignore",
            "`value`: xsi:nil is null, and is written again. `ignore`: not set.",
            choices=("ignore", "value"),
        ),
        Option("FaultObject", str, "", "The business object of faults. Empty: a fault is malformed."),
        Option("charset", str, "", "The character set. Empty: as the body says. UTF-8 on writing.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self._definitions = definitions
        self._version: str = options["version"]
        self._fault: str = options["FaultObject"]
        self._charset: str = options["charset"]
        self._ignore_undefined: bool = options["IgnoreUndefinedAttributes"]
        if self._fault and self._fault not in definitions:
            raise ValueError(f"FaultObject: there is no business object {self._fault!r}")
        for name in _FAULT_PARTS if self._fault else ():
            attribute = definitions[self._fault].attributes.get(name)
            if attribute is not None and (attribute.is_child or attribute.is_many):
                raise ValueError(f"FaultObject: {self._fault}.{name} is no single value of a simple type")
        keeps_null = options.get("null") == "value"
        plans = XmlPlans(definitions, options["BOPrefix"])
        self._plans = plans
        self._reader = XmlReader(
            plans,
            ignore_undefined=self._ignore_undefined,
            keeps_null=keeps_null,
            no_attributes=(*_NAMESPACES.values(), *_ENCODINGS),
        )
        self._writer = XmlWriter(plans, keeps_null=keeps_null)

    # --- reading ------------------------------------------------------------------------------

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        try:
            return self._read(body, hint)
        except ElementError as error:
            raise error.placed(body, self._charset) from None

    def _read(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        if _may_have_instructions(body):
            self._refuse_instructions(parse_xml(body, self._charset, keeps_specials=True))
        header, content, version = self._parts(parse_xml(body, self._charset))
        elements = [one for one in content if isinstance(one.tag, str)]
        if not elements:
            raise error_at("the Body of the envelope is empty, expected a business object", content)
        if elements[0].tag == f"{{{_NAMESPACES[version]}}}Fault":
            return self._read_fault(elements[0], version, hint)
        if len(elements) > 1 and not self._ignore_undefined:
            name = shown(local_name(elements[1].tag))
            raise error_at(f"found a second element {name} in the Body, expected one", elements[1])
        name = hint.object if hint is not None else self._plans.object_of(elements[0].tag)
        is_named = not (hint and hint.is_of_body)
        bo = self._reader.read(self._definitions.schema(name), elements[0], is_named=is_named)
        if hint is not None and hint.verb:
            bo.verb = hint.verb
        self._read_headers(bo, header, version)
        return bo

    @staticmethod
    def _refuse_instructions(envelope: etree._Element) -> None:
        around = (*envelope.itersiblings(preceding=True), *envelope.itersiblings())
        for one in (*around, *envelope.iter(etree.ProcessingInstruction)):
            if isinstance(one, etree._ProcessingInstruction):
                raise error_at("a SOAP message has no processing instructions", one)

    def _parts(self, envelope: etree._Element) -> tuple[etree._Element | None, etree._Element, str]:
        """Returns Header, Body and the version of an envelope."""
        uri, _, name = str(envelope.tag).rpartition("}")
        version = _VERSIONS.get(uri.removeprefix("{"), "")
        if name != "Envelope":
            raise error_at(f"found the element {shown(name)}, expected a SOAP Envelope", envelope)
        if not version:
            found = shown(uri.removeprefix("{") or "none")
            expected = " or ".join(_NAMESPACES.values())
            raise error_at(
                f"VersionMismatch: the namespace of the Envelope is {found}, expected {expected}",
                envelope,
            )
        found_parts: dict[str, etree._Element] = {}
        refuse_text_within(envelope)
        for part in envelope:
            refuse_text_within(part)
            local = local_name(str(part.tag))
            if part.tag not in (f"{uri}}}Header", f"{uri}}}Body") or local in found_parts:
                raise error_at(f"found {shown(local)} in the Envelope, expected Header and Body", part)
            if local == "Header" and "Body" in found_parts:
                raise error_at("found the Header after the Body", part)
            found_parts[local] = part
        if "Body" not in found_parts:
            raise error_at("the Envelope has no Body", envelope)
        return found_parts.get("Header"), found_parts["Body"], version

    def _read_headers(self, bo: BusinessObject, header: etree._Element | None, version: str) -> None:
        blocks = {item.name: item.field for item in self._header_items(bo.type)}
        role, ours = _ROLES[version]
        uri = f"{{{_NAMESPACES[version]}}}"
        for block in header if header is not None else ():
            name = local_name(str(block.tag))
            if block.get(f"{uri}{role}", "").strip(_SPACE) not in ours:
                continue
            field = blocks.get(name)
            if field is None or field.child is None:
                must = block.get(f"{uri}mustUnderstand", "false").strip(_SPACE)
                if must not in ("0", "1", "false", "true"):
                    raise error_at(
                        f"mustUnderstand of the header block {shown(name)} is {shown(must)}, expected true "
                        "or false",
                        block,
                    )
                if must in ("1", "true"):
                    raise error_at(
                        f"MustUnderstand: no attribute of {bo.type} takes the header block {shown(name)}",
                        block,
                    )
                continue
            child = self._reader.read(field.child, block, is_named=False)
            child.verb = None
            if field.many:
                bo[field.name] = [*(bo[field.name] or ()), child]
            elif bo[field.name] is not None:
                raise error_at(f"found the header block {shown(name)} a second time, expected one", block)
            else:
                bo[field.name] = child

    def _header_items(self, name: str) -> list[XmlItem]:
        """Returns the children of an object that are header blocks."""
        children = [item for item in self._plans.get(name).items if item.field.child is not None]
        return [
            item for item in children if tags(item.field.attribute.app_specific_info).get("soap") == "header"
        ]

    def _read_fault(self, fault: etree._Element, version: str, hint: Hint | None) -> BusinessObject:
        uri = f"{{{_NAMESPACES['1.2']}}}"
        texts: dict[str, str | None]
        if version == "1.1":
            detail = fault.find("detail")
            texts = {
                "Code": fault.findtext("faultcode"),
                "Reason": fault.findtext("faultstring"),
                "Actor": fault.findtext("faultactor"),
            }
        else:
            detail = fault.find(f"{uri}Detail")
            texts = {
                "Code": fault.findtext(f"{uri}Code/{uri}Value"),
                "Reason": fault.findtext(f"{uri}Reason/{uri}Text"),
                "Actor": fault.findtext(f"{uri}Role"),
            }
        if detail is not None:
            inner = [_as_text(one) for one in detail]
            texts["Detail"] = (detail.text or "").strip(_SPACE) + "".join(inner)
        if not self._fault:
            code, reason = (shown((texts[key] or "none").strip(_SPACE)) for key in ("Code", "Reason"))
            reason = f"the body is a SOAP fault: code {code}, reason {reason}; FaultObject takes it"
            raise error_at(reason, fault)
        bo = BusinessObject(self._definitions, self._fault, hint.verb if hint is not None else None)
        for name, text in texts.items():
            if text is not None and name in bo.definition.attributes:
                bo.set_text(name, text if name == "Detail" else text.strip(_SPACE))
        return bo

    # --- writing ------------------------------------------------------------------------------

    def to_body(self, bo: BusinessObject) -> bytes:
        uri = _NAMESPACES[self._version]
        header = ""
        if bo.type == self._fault:
            content = self._fault_text(bo)
        else:
            items = self._header_items(bo.type)
            content = self._element(bo, {item.field.name for item in items})
            header = self._headers(bo, items)
        declaration = f"<?xml version='1.0' encoding='{self._charset or 'UTF-8'}'?>"
        body = f"<soap:Body>{content}</soap:Body>"
        text = f'{declaration}\n<soap:Envelope xmlns:soap="{uri}">{header}{body}</soap:Envelope>'
        return self._writer.encode(bo, text, self._charset)

    def _element(self, bo: BusinessObject, without: set[str]) -> str:
        if without & set(bo):
            body = BusinessObject(bo.definitions, bo.type, bo.verb)
            for name in bo:
                if name not in without:
                    body.set_values({name: bo.value(name)}, keeps_null=True)
            bo = body
        return self._writer.element(bo)

    def _headers(self, bo: BusinessObject, items: list[XmlItem]) -> str:
        blocks = []
        for item in items:
            value = bo.value(item.field.name)
            children = [] if value is None else value if item.field.many else [value]
            blocks += [self._writer.element(child, item.name) for child in children]
        return f"<soap:Header>{''.join(blocks)}</soap:Header>" if blocks else ""

    def _fault_text(self, bo: BusinessObject) -> str:
        code, reason, actor, detail = (
            text_of(bo.value(name))
            if name in bo.definition.attributes and bo.value(name) is not None
            else None
            for name in _FAULT_PARTS
        )
        if detail:
            try:
                parse_xml(f"<d>{detail}</d>")
            except MalformedData:
                detail = escape(detail)
        if self._version == "1.1":
            parts = [f"<faultcode>{escape(code or 'soap:Server')}</faultcode>"]
            parts.append(f"<faultstring>{escape(reason or '')}</faultstring>")
            parts.append(f"<faultactor>{escape(actor)}</faultactor>" if actor else "")
            parts.append(f"<detail>{detail}</detail>" if detail else "")
        else:
            parts = [f"<soap:Code><soap:Value>{escape(code or 'soap:Receiver')}</soap:Value></soap:Code>"]
            parts.append(
                f'<soap:Reason><soap:Text xml:lang="en">{escape(reason or "")}</soap:Text></soap:Reason>'
            )
            parts.append(f"<soap:Role>{escape(actor)}</soap:Role>" if actor else "")
            parts.append(f"<soap:Detail>{detail}</soap:Detail>" if detail else "")
        return f"<soap:Fault>{''.join(parts)}</soap:Fault>"


def _may_have_instructions(body: bytes | str) -> bool:
    """Whether a body may have a processing instruction. In other encodings the mark looks different."""
    if isinstance(body, str):
        return body.count("<?") > body.startswith("<?xml ")
    return body[:1] != b"<" or b"\0" in body[:4] or body.count(b"<?") > body.startswith(b"<?xml ")


def _as_text(element: etree._Element) -> str:
    """Returns an element as text, without the namespaces that only elements around it need."""
    copied = parse_xml(etree.tostring(element, with_tail=False))
    etree.cleanup_namespaces(copied)
    return etree.tostring(copied, encoding="unicode")
