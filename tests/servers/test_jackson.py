"""Jackson (Java) reads what the data handlers write, and writes what they read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.csv_handler import CsvHandler
from connector.datahandlers.json_handler import JsonHandler
from connector.datahandlers.xml_handler import XmlHandler
from connector.formats.datahandler import Hint, resolve_options
from connector.java import find_java
from tests.servers.conftest import resolved

PACKAGES = [
    "com.fasterxml.jackson.core:jackson-databind:2.18.2",
    "com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.18.2",
    "com.fasterxml.jackson.dataformat:jackson-dataformat-xml:2.18.2",
]
SIMPLE = {
    "Id": Attribute("Id", "String"),
    "Count": Attribute("Count", "Integer"),
    "Total": Attribute("Total", "Double"),
    "Paid": Attribute("Paid", "Boolean"),
    "Text": Attribute("Text", "LongText"),
    "Day": Attribute("Day", "Date"),
}
VERBS = {"Create": Verb("Create")}
DEFINITIONS = Definitions(
    {
        "Flat": Definition("Flat", attributes=SIMPLE, verbs=VERBS),
        "Line": Definition("Line", attributes=SIMPLE, verbs=VERBS),
        "Order": Definition(
            "Order", attributes={**SIMPLE, "Line": Attribute("Line", "Line", cardinality="n")}, verbs=VERBS
        ),
    }
)
VALUES = {
    "Id": "O-1",
    "Count": -2147483648,
    "Total": 0.1,
    "Paid": True,
    "Text": 'Zoë 💶, "quoted" <&> \\ ; two\nlines',
    "Day": "2026-01-31",
}


@pytest.fixture(scope="module")
def jars() -> list[str]:
    return [str(path) for path in resolved("jackson", PACKAGES).paths()]


def through_jackson(kind: str, body: bytes, jars: list[str]) -> bytes:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("jackson.py")), kind, *jars],
        input=body,
        capture_output=True,
        env={"JAVA_HOME": str(find_java().executable.parents[1]), "PATH": "/usr/bin:/bin"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def make(kind: type[Any], **options: object) -> Any:
    return kind(resolve_options(kind.options, options, "test"), DEFINITIONS)


@pytest.mark.parametrize(("kind", "handler"), [("json", JsonHandler), ("xml", XmlHandler)])
def test_an_order_survives_jackson(kind: str, handler: type[Any], jars: list[str]) -> None:
    order = BusinessObject(DEFINITIONS, "Order", None, {**VALUES, "Line": [VALUES, {"Id": "2"}]})
    written = make(handler).to_body(order)
    again = make(handler).to_business_object(through_jackson(kind, written, jars), Hint("Order"))
    assert again.as_dict() == order.as_dict()


def test_records_survive_jackson(jars: list[str]) -> None:
    handler = make(CsvHandler, split=True)
    records = [BusinessObject(DEFINITIONS, "Flat", None, {**VALUES, "Id": f"O-{n}"}) for n in range(3)]
    again = through_jackson("csv", handler.to_joint_body(records), jars)
    found = list(handler.to_business_objects(again, Hint("Flat")))
    assert [bo.as_dict() for bo in found] == [bo.as_dict() for bo in records]
