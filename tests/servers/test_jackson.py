"""Jackson (Java) reads what the data handlers write, and writes what they read."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.csv_handler import CsvHandler
from connector.datahandlers.json_handler import JsonHandler
from connector.datahandlers.xml_handler import XmlHandler
from connector.formats.datahandler import Hint, resolve_options
from tests.forked_command import PipedProcess
from tests.servers.conftest import resolved

PACKAGES: Final = [
    "com.fasterxml.jackson.core:jackson-databind:2.18.2",
    "com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.18.2",
    "com.fasterxml.jackson.dataformat:jackson-dataformat-xml:2.18.2",
]
TYPES: Final = {
    "Id": "String", "Count": "Integer", "Total": "Double", "Paid": "Boolean", "Text": "LongText",
    "Day": "Date",
}  # fmt: skip
SIMPLE: Final = {name: Attribute(name, kind) for name, kind in TYPES.items()}
LINES: Final = Attribute("Line", "Line", cardinality="n")
DEFINITIONS: Final = Definitions(
    {
        name: Definition(name, attributes=attributes, verbs={"Create": Verb("Create")})
        for name, attributes in (("Flat", SIMPLE), ("Line", SIMPLE), ("Order", {**SIMPLE, "Line": LINES}))
    }
)
VALUES: Final = {
    "Id": "O-1",
    "Count": -2147483648,
    "Total": 0.1,
    "Paid": True,
    "Text": 'Zoë 💶, "quoted" <&> \\ ; two\nlines',
    "Day": "2026-01-31",
}
_JACKSON: Final = """
import json, sys
from connector.brokers.jms import jvm
from connector.java import find_java

jpype = jvm.start(find_java().home, sys.argv[2:])
jackson, (kind, body) = "com.fasterxml.jackson", (sys.argv[1], sys.stdin.read())
if kind == "json":
    mapper = jpype.JClass(f"{jackson}.databind.ObjectMapper")()
    written = mapper.writeValueAsString(mapper.readTree(body))
elif kind == "xml":
    mapper = jpype.JClass(f"{jackson}.dataformat.xml.XmlMapper")()
    written = mapper.writer().withRootName("Order").writeValueAsString(mapper.readTree(body))
else:
    csv_schema = jpype.JClass(f"{jackson}.dataformat.csv.CsvSchema")
    mapper = jpype.JClass(f"{jackson}.dataformat.csv.CsvMapper")()
    reader = mapper.readerFor(jpype.JClass("java.util.LinkedHashMap"))
    rows = reader.with_(csv_schema.emptySchema().withHeader()).readValues(body).readAll()
    schema = csv_schema.builder()
    for name in rows[0].keySet():
        schema.addColumn(name)
    written = mapper.writer(schema.build().withHeader()).writeValueAsString(rows)
print(json.dumps(str(written)))
"""
"""Reads a body of a format, and writes it again as a JSON text. Arguments: the format, and the jars."""


def through_jackson(kind: str, body: bytes) -> bytes:
    jars = resolved("jackson", PACKAGES).paths()
    with PipedProcess(kind, *jars, script=_JACKSON) as process:
        output, errors = process.communicate(body.decode(), timeout=240)
    assert process.wait() == 0, errors
    text: str = json.loads(output)
    return text.encode()


def make(kind: type[Any], **options: object) -> Any:
    return kind(resolve_options(kind.options, options, "test"), DEFINITIONS)


@pytest.mark.parametrize(("kind", "handler"), [("json", JsonHandler), ("xml", XmlHandler)])
def test_an_order_survives_jackson(kind: str, handler: type[Any]) -> None:
    order = BusinessObject(DEFINITIONS, "Order", None, {**VALUES, "Line": [VALUES, {"Id": "2"}]})
    written = make(handler).to_body(order)
    again = make(handler).to_business_object(through_jackson(kind, written), Hint("Order"))
    assert again.as_dict() == order.as_dict()


def test_records_survive_jackson() -> None:
    handler = make(CsvHandler, split=True)
    records = [BusinessObject(DEFINITIONS, "Flat", None, {**VALUES, "Id": f"O-{n}"}) for n in range(3)]
    again = through_jackson("csv", handler.to_joint_body(records))
    found = list(handler.to_business_objects(again, Hint("Flat")))
    assert [bo.as_dict() for bo in found] == [bo.as_dict() for bo in records]
