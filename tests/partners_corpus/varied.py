"""Bodies that differ from a file of the corpus in their values, and what two bodies must have in common."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from typing import Any, Final

from lxml import etree

from connector.text.encoding import decode
from tests.partners_corpus.corpus import Kind

TEXTS: Final = ("007", "00.50", "1E5", "1e-3", "0", "12345678901234567890", "1.50", "-0", "")
_NUMBERS: Final = (0, -7, 12345678901234567890, Decimal("1E+5"), Decimal("0.10"), "")
_SOAP: Final = "{http://www.w3.org/2003/05/soap-envelope}"
_TYPE: Final = ("BusinessObject", "Verb")


def varied(body: bytes, kind: Kind, chance: random.Random) -> bytes:
    """Returns a body of the same shape: with other values, and parts that are missing, empty or repeated."""
    return _FORMATS[kind.format][0](body, kind, chance)


def comparable(body: bytes, kind: Kind) -> object:
    """Returns what a body says, without what the format passes over."""
    return _FORMATS[kind.format][1](body, kind)


# --- XML --------------------------------------------------------------------------------------


def _content(body: bytes) -> etree._Element:
    """Returns the root element, or what an envelope of SOAP contains."""
    root = etree.fromstring(body, etree.XMLParser(resolve_entities=False))
    found = root.find(f"{_SOAP}Body/*")
    return root if found is None else found


def _varied_xml(body: bytes, kind: Kind, chance: random.Random) -> bytes:
    root = _content(body)
    elements = list(root.iter("*"))
    for one in chance.sample(elements, min(3, len(elements))):
        if not len(one) and (one.text or "").strip() and "-" not in (one.text or ""):
            one.text = chance.choice(TEXTS) or None
        plain = [str(name) for name, value in one.items() if name[0] != "{" and "-" not in str(value)]
        for name in plain[:1]:
            one.set(name, chance.choice(TEXTS))
    for one in chance.sample(elements, 2):
        parent = one.getparent()
        if parent is None or one is root:
            continue
        if len(parent.findall(one.tag)) > 1:
            one.addnext(deepcopy(one))
        elif len(parent) > 1 and not (one.tail or "").strip():
            parent.remove(one)
    return etree.tostring(root.getroottree(), encoding="UTF-8")


def _tree(body: bytes, kind: Kind) -> object:
    return _parts(_content(body))


def _parts(element: etree._Element) -> object:
    """Returns names, texts and XML attributes, without the declarations of namespaces."""
    children = [(_parts(one), (one.tail or "").strip()) for one in element.iterchildren("*")]
    attributes = sorted(
        (str(name), "true" if "nil" in str(name) else value) for name, value in element.items()
    )
    return element.tag, attributes, (element.text or "").strip(), children


# --- JSON -------------------------------------------------------------------------------------


def _varied_json(body: bytes, kind: Kind, chance: random.Random) -> bytes:
    def vary(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: vary(one) for name, one in value.items() if chance.random() < 0.9}
        if isinstance(value, list):
            return [vary(one) for one in value for _ in range(chance.randint(1, 2))]
        if isinstance(value, bool) or value is None or chance.random() < 0.4:
            return value
        if isinstance(value, int | Decimal):
            return chance.choice(_NUMBERS)
        return "" if value[:4].isdigit() else chance.choice(TEXTS)

    lines = [json.dumps(vary(one), default=_Digits) for one in _documents(body, kind)]
    return ("\n".join(lines) if kind.format == "jsonlines" else lines[0]).encode()


class _Digits(float):
    """A number of JSON with the digits of a Decimal."""

    def __init__(self, value: Decimal) -> None:
        self._value = value

    def __repr__(self) -> str:
        return str(self._value)


def _documents(body: bytes, kind: Kind) -> list[Any]:
    text = decode(body)
    texts = filter(str.strip, text.split("\n")) if kind.format == "jsonlines" else [text]
    return [json.loads(one, parse_float=Decimal) for one in texts]


def _values(body: bytes, kind: Kind) -> object:
    keeps_null = kind.options.get("null") == "value"

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            members = {name: plain(one) for name, one in value.items() if name not in _TYPE}
            return {name: one for name, one in members.items() if keeps_null or one is not None}
        return [plain(one) for one in value] if isinstance(value, list) else value

    return plain(_documents(body, kind))


# --- separated values -------------------------------------------------------------------------


def _rows(body: bytes, kind: Kind) -> list[list[str]]:
    text = decode(body, kind.options.get("charset", ""))
    delimiter = kind.options.get("delimiter", ",")
    if text.startswith("sep="):
        delimiter, text = text[4], text.partition("\n")[2]
    has_quotes = kind.options.get("quote") != "none"
    quoting = csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE
    found = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting)  # type: ignore[arg-type]
    rows = [row for row in found if row]
    return rows if kind.options.get("header") is False else [[one.strip() for one in rows[0]], *rows[1:]]


def _varied_rows(body: bytes, kind: Kind, chance: random.Random) -> bytes:
    rows = _rows(body, kind)
    first = 0 if kind.options.get("header") is False else 1
    for row in rows[first:]:
        row[:] = [chance.choice(TEXTS) if chance.random() < 0.5 else one for one in row]
        row[0] = row[0] or "0"  # a line without a character is passed over
    rows += deepcopy(rows[first:]) if chance.random() < 0.5 else []
    delimiter = kind.options.get("delimiter", ",")
    if kind.options.get("quote") == "none":
        return "".join(f"{delimiter.join(row)}\n" for row in rows).encode()
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue().encode(kind.options.get("charset") or "utf-8")


# --- flat files -------------------------------------------------------------------------------


def _lines(body: bytes, kind: Kind) -> object:
    lines = decode(body, kind.options.get("charset", "")).splitlines()
    return [one.rstrip(" |") for one in lines if one and not one.startswith("#")]


def _no_variation(body: bytes, kind: Kind, chance: random.Random) -> bytes:
    raise AssertionError(f"{kind.file} is not varied")


_FORMATS: Final[
    dict[str, tuple[Callable[[bytes, Kind, random.Random], bytes], Callable[[bytes, Kind], object]]]
] = {
    "xml": (_varied_xml, _tree),
    "json": (_varied_json, _values),
    "jsonlines": (_varied_json, _values),
    "csv": (_varied_rows, _rows),
    "flat": (_no_variation, _lines),
}
