"""The files of the corpus, and how each is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
OBJECT: Final = "Partner"
"""The business object of every file."""


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Args:
        file: of the file, and of its broken brother.
        mime_type: of the data handler.
        options: of the data handler.
        drafts: options of ``new businessobject``.
        told: options of the data handler that the draft names.
        definition: the file that defines the object. Empty = it is drafted from the file.
        is_rewritten: the same values are written in another way, such as ``1.234,50`` as ``1234,50``.
    """

    file: str
    mime_type: str
    options: dict[str, Any] = field(default_factory=dict)
    drafts: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    definition: str = ""
    is_rewritten: bool = False

    @property
    def format(self) -> str:
        """What bodies are made of."""
        return _FORMATS.get(self.mime_type, "flat")


_FORMATS: Final = {
    "text/xml": "xml",
    "application/soap+xml": "xml",
    "application/json": "json",
    "application/jsonl": "jsonlines",
    "text/csv": "csv",
}
_SPLIT: Final = {"split": True}
_FLAT: Final = {"BONameSize": 0, "BOVerbSize": 0, "BOCountSize": 0, "split": True}
GERMAN: Final = {
    "decimal": ",",
    "thousands": ".",
    "date_format": "%d.%m.%Y",
    "true": ["WAHR", "ja"],
    "false": ["FALSCH"],
}
KINDS: Final = (
    Kind("ubl-order.xml", "text/xml"),
    Kind("ubl-invoice.xml", "text/xml"),
    Kind("cxml-order.xml", "text/xml", options={"doctype": "ignore"}, told=("doctype: ignore",)),
    Kind("pain001.xml", "text/xml"),
    Kind("camt053.xml", "text/xml"),
    Kind("idoc-orders.xml", "text/xml"),
    Kind("gs1-despatch-advice.xml", "text/xml"),
    Kind("soap-order.xml", "application/soap+xml", told=("application/soap+xml",)),
    Kind("attributes.xml", "text/xml"),
    Kind("nil.xml", "text/xml", options={"null": "value"}, told=("null: value",)),
    Kind("mixed.xml", "text/xml"),
    Kind("latin1.xml", "text/xml"),
    Kind("utf16.xml", "text/xml"),
    Kind("entities.xml", "text/xml"),
    Kind("deep.xml", "text/xml"),
    Kind("shop-orders.json", "application/json", options=_SPLIT, told=("split: true",)),
    Kind("order-nested.json", "application/json"),
    Kind("nulls.json", "application/json", options={"null": "value"}, told=("null: value",)),
    Kind("numbers.json", "application/json"),
    Kind("bom.json", "application/json"),
    Kind("utf16.json", "application/json"),
    Kind("deep.json", "application/json"),
    Kind("events.jsonl", "application/jsonl", options=_SPLIT),
    Kind(
        "decimal-comma.csv",
        "text/csv",
        options={**_SPLIT, **GERMAN, "delimiter": ";", "quote": "none"},
        definition="decimal-comma.yaml",
        is_rewritten=True,
    ),
    Kind("quotes.csv", "text/csv", options=_SPLIT),
    Kind(
        "inch-marks.tsv",
        "text/csv",
        options={**_SPLIT, "delimiter": "\t", "quote": "none"},
        told=(
            "quote: none",
            "separated by",
        ),
    ),
    Kind("sep.csv", "text/csv", options=_SPLIT),
    Kind("utf16.csv", "text/csv", options=_SPLIT),
    Kind(
        "cp1252.csv",
        "text/csv",
        options={**_SPLIT, "charset": "cp1252", "delimiter": ";"},
        drafts=("--charset", "cp1252"),
        told=("separated by",),
    ),
    Kind("bom.csv", "text/csv", options=_SPLIT),
    Kind(
        "no-header.csv",
        "text/csv",
        options={**_SPLIT, "header": False},
        drafts=("--header", "no"),
        told=("header: false",),
    ),
    Kind("mixed-line-ends.csv", "text/csv", options=_SPLIT),
    Kind("blank-header.csv", "text/csv", options=_SPLIT),
    Kind(
        "bank-statement.txt",
        "text/fixedwidth",
        options={
            **_FLAT,
            "record_type": {"at": 1, "length": 2},
            "decimal": ",",
            "negative": "trailing",
            "date_format": "%y%m%d",
            "short_lines": True,
        },
        definition="bank-statement.yaml",
        is_rewritten=True,
    ),
    Kind(
        "dtaus.txt",
        "text/fixedwidth",
        options={**_FLAT, "record_type": {"at": 5, "length": 1}, "record_length": 128, "charset": "latin-1"},
        definition="dtaus.yaml",
    ),
    Kind(
        "idoc-orders.txt",
        "text/fixedwidth",
        options={**_FLAT, "record_type": {"at": 1, "length": 10}, "short_lines": True},
        definition="idoc-orders.yaml",
    ),
    Kind(
        "price-list.txt",
        "text/fixedwidth",
        options={**_FLAT, "date_format": "%Y%m%d", "true": ["Y"], "false": ["N"]},
        definition="price-list.yaml",
        is_rewritten=True,
    ),
    Kind(
        "order-positions.txt",
        "text/delimited",
        options={**_SPLIT, "header": "none", "Delimiter": "|", "comment": "#", "record_type": {"field": 1}},
        definition="order-positions.yaml",
    ),
    Kind(
        "settings.txt",
        "text/namevalue",
        options={**_SPLIT, "header": "none"},
        definition="settings.yaml",
        is_rewritten=True,
    ),
    Kind(
        "two-dates.csv",
        "text/csv",
        options={**_SPLIT, **GERMAN, "delimiter": ";", "date_format": ["%d.%m.%Y", "%d.%m.%Y %H:%M"]},
        definition="two-dates.yaml",
        is_rewritten=True,
    ),
    Kind(
        "paths.txt",
        "text/delimited",
        options={
            **_SPLIT,
            "Delimiter": "|",
            "Escape": "none",
            "record_type": {"field": 1},
            "date_format": "%Y%m%d",
        },
        definition="paths.yaml",
    ),
    Kind("order.namevalue", "text/namevalue", is_rewritten=True),
    Kind("customer.delimited", "text/delimited", is_rewritten=True),
    Kind("order.fixedwidth", "text/fixedwidth", definition="order.yaml", is_rewritten=True),
)

REFUSED: Final = (
    "edifact.edi",
    "x12.edi",
    "mt940.txt",
    "truncated.json",
    "undefined-entity.xml",
    "empty.csv",
)
"""The files of which nothing is drafted."""

REFUSALS: Final = dict(
    line.split(": ", 1) for line in (HERE / "refusals.txt").read_text("utf-8").splitlines()
)
"""What is told of each broken file."""
