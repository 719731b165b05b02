"""A draft of one sample alters nothing: bodies that differ from it come back with the same values."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from connector.authoring.drafting.samples import format_of
from connector.businessobjects.instance import check, finish
from connector.datahandlers.csv_handler import CsvHandler
from connector.datahandlers.json_handler import JsonHandler
from connector.datahandlers.namevalue_handler import NameValueHandler
from connector.datahandlers.xml_handler import XmlHandler
from connector.formats.datahandler import Hint
from connector.text.json_text import from_json
from tests.authoring.drafting.drafts import defaults, definitions, draft

HOME = Path(__file__).parents[3]
STANDARDS = HOME / "tests/authoring/standards"
IDOC = b"""<ORDERS05><IDOC BEGIN="1"><EDI_DC40 SEGMENT="1"><MANDT>100</MANDT><CRETIM>101530</CRETIM>
<BELNR>4500012345</BELNR><Paid>true</Paid></EDI_DC40><E1EDP01><POSEX>10</POSEX><MENGE>5.500</MENGE><sku>15</sku></E1EDP01>
<E1EDP01><POSEX>20</POSEX><MENGE>1</MENGE></E1EDP01></IDOC></ORDERS05>"""
SAMPLES = {
    "idoc.xml": IDOC,
    **{str(path.relative_to(HOME)): path.read_bytes() for path in sorted(STANDARDS.rglob("*.xml"))},
    **{
        str(path.relative_to(HOME)): path.read_bytes()
        for folder in ("connector/template", "examples", "tests/authoring/standards/health")
        for path in sorted((HOME / folder).rglob("*.json"))
        if not path.name.endswith(".schema.json")
    },
}
TEXTS = ("007", "00.50", "1E5", "1e-3", "0", "12345678901234567890", "1.50", "-0", "")


def varied_xml(body: bytes, chance: random.Random) -> bytes:
    root = etree.fromstring(body)
    leaves = [one for one in root.iter("*") if not len(one) and (one.text or "").strip()]
    plain = [one for one in leaves if "-" not in (one.text or "")]  # no dates
    for one in chance.sample(plain, min(4, len(plain))):
        one.text = chance.choice(TEXTS) or None
    for one in chance.sample(list(root.iter("*")), 2):
        parent = one.getparent()
        if parent is None:
            continue
        if len(parent.findall(one.tag)) > 1:
            one.addnext(deepcopy(one))
        elif len(parent) > 1:
            parent.remove(one)
    return etree.tostring(root)


def varied_json(body: bytes, chance: random.Random) -> bytes:
    document = json.loads(body)

    def vary(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: vary(one) for name, one in value.items() if chance.random() < 0.9}
        if isinstance(value, list):
            return [vary(one) for one in value for _ in range(chance.randint(1, 2))]
        if isinstance(value, bool) or chance.random() < 0.4:
            return value
        if isinstance(value, int | float):
            return chance.choice([0, 12345678901234567890, 7, 1e5, 0.25, ""])
        return "" if value[:4].isdigit() else chance.choice(TEXTS)

    return json.dumps(vary(document)).encode()


def parts(element: etree._Element) -> object:
    """Returns names, texts and XML attributes, without the declarations of namespaces."""
    children = [parts(one) for one in element.iterchildren("*")]
    return element.tag, sorted(map(str, element.items())), (element.text or "").strip(), children


def tree(body: bytes) -> object:
    return parts(etree.fromstring(body))


Handling = tuple[type[Any], Callable[[bytes, random.Random], bytes], Callable[[bytes], object]]
HANDLERS: dict[str, Handling] = {
    "xml": (XmlHandler, varied_xml, tree),
    "json": (JsonHandler, varied_json, from_json),
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_varied_samples_come_back_with_the_same_values(sample: str, tmp_path: Path) -> None:
    body = SAMPLES[sample]
    format_name = format_of(Path(sample), body)
    kind, vary, comparable = HANDLERS[format_name]
    known = definitions(draft(body, format_name), tmp_path)
    options = {"write_type": False} if kind is JsonHandler else {}
    handler = kind(defaults(kind, **options), known)
    for number in range(10):
        changed = vary(body, random.Random(number))
        bo = handler.to_business_object(changed, Hint("Order", "Create"))
        finish(bo)
        check(bo)
        assert comparable(handler.to_body(bo)) == comparable(changed)


def test_varied_texts_of_columns_and_names_come_back(tmp_path: Path) -> None:
    table = CsvHandler(
        defaults(CsvHandler, write_type=False), definitions(draft("Id,Sum\n7,1.5\n", "csv"), tmp_path)
    )
    made = draft("BusinessObject=Order\nVerb=Create\nId=7\nSum=1.5\n", "namevalue")
    lines = NameValueHandler(defaults(NameValueHandler), definitions(made, tmp_path))
    for text in TEXTS:
        for handler, body in (
            (table, f"Id,Sum\n{text},x\n"),
            (lines, f"BusinessObject=Order\nId={text}\nSum=x\n"),
        ):
            bo = handler.to_business_object(body, Hint("Order", "Create"))
            finish(bo)
            assert bo.as_dict() == ({"Id": text, "Sum": "x"} if text else {"Sum": "x"})
            assert handler.to_business_object(handler.to_body(bo), Hint("Order", "Create")) == bo
