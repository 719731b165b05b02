"""Round trips a second of each data handler, beside the bare parser of its format.

A round trip reads the body of an order of 40 attributes and 10 lines, and writes the order again. The body of
CSV is one record of 40 attributes.

``python -m benchmarks.datahandlers [--runs N] [--seconds S] [--only MIME]``
"""

from __future__ import annotations

import argparse
import base64
import csv
import io
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import orjson
from lxml import etree

from benchmarks.common import machine, scratch, spread
from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.formats.catalogue import discover
from connector.formats.datahandler import DataHandler, Hint
from connector.formats.handlers import Handlers

TYPES = {
    "Text": ("String", "Harbour Street 7"),
    "Count": ("Integer", 4711),
    "Amount": ("Double", 1234.5),
    "Paid": ("Boolean", True),
    "Day": ("Date", "2026-01-31"),
}
TEMPLATE = """\
{{ BusinessObject }} {{ Verb }}
{% for name in names %}{{ name }}: {{ order[name] }}
{% endfor %}{% for line in Line %}{{ line.Text0 }} {{ line.Count0 }} {{ line.Amount0 }}
{% endfor %}"""


def _simple(count: int) -> dict[str, Attribute]:
    kinds = list(TYPES)
    made = {}
    for number in range(count):
        kind = kinds[number % len(kinds)]
        name = f"{kind}{number // len(kinds)}"
        made[name] = Attribute(name, TYPES[kind][0], max_length=20)
    return made


def _values(count: int) -> dict[str, Any]:
    return {name: TYPES[name.rstrip("0123456789")][1] for name in _simple(count)}


VERBS = {"Create": Verb("Create")}
DEFINITIONS = Definitions(
    {
        definition.name: definition
        for definition in (
            Definition("Line", attributes=_simple(8), verbs=VERBS),
            Definition("Flat", attributes=_simple(40), verbs=VERBS),
            Definition(
                "Order",
                attributes={**_simple(39), "Line": Attribute("Line", "Line", cardinality="n")},
                verbs=VERBS,
            ),
            Definition("Blob", attributes={"Data": Attribute("Data", "LongText")}, verbs=VERBS),
            Definition(
                "Exchange",
                attributes={
                    "Request": Attribute("Request", "Order"),
                    "Response": Attribute("Response", "Order"),
                },
                verbs=VERBS,
            ),
        )
    }
)
FLAT = BusinessObject(DEFINITIONS, "Flat", "Create", _values(40))
ORDER = BusinessObject(DEFINITIONS, "Order", "Create", {**_values(39), "Line": [_values(8)] * 10})
BLOB = BusinessObject(
    DEFINITIONS, "Blob", "Create", {"Data": base64.b64encode(bytes(range(256)) * 12).decode()}
)
EXCHANGE = BusinessObject(DEFINITIONS, "Exchange", "Create", {"Request": ORDER.as_dict()})


# --- bare parsers -----------------------------------------------------------------------------


def bare_json(body: bytes) -> bytes:
    return orjson.dumps(orjson.loads(body))


def bare_xml(body: bytes) -> bytes:
    text: bytes = etree.tostring(etree.fromstring(body), encoding="UTF-8", xml_declaration=True)
    return text


def bare_csv(body: bytes, **dialect: Any) -> bytes:
    rows = list(csv.reader(io.StringIO(body.decode(), newline=""), **dialect))
    out = io.StringIO(newline="")
    csv.writer(out, **dialect).writerows(rows)
    return out.getvalue().encode()


def bare_lines(body: bytes) -> bytes:
    pairs = [line.partition("=") for line in body.decode().splitlines()]
    return "\n".join(f"{name}={value}" for name, _, value in pairs).encode()


def bare_delimited(body: bytes) -> bytes:
    return bare_csv(body, delimiter="~", quoting=csv.QUOTE_NONE, escapechar="\\", lineterminator="")


def bare_fixed(body: bytes) -> bytes:
    text = body.decode()
    fields = [text[start : start + 20].strip() for start in range(0, len(text), 20)]
    return "".join(field.ljust(20) for field in fields).encode()


def bare_base64(body: bytes) -> bytes:
    return base64.b64decode(base64.b64encode(body))


def bare_text(body: bytes) -> bytes:
    return body.decode().encode()


# --- the measurement --------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A data handler and the bare parser of its format.

    Args:
        bo: the object that is written.
        bare: reads and writes a body.
        options: of the handler.
    """

    bo: BusinessObject
    bare: Callable[[bytes], bytes]
    options: dict[str, object]


CASES = {
    "application/json": Case(ORDER, bare_json, {}),
    "application/jsonl": Case(ORDER, bare_json, {}),
    "text/xml": Case(ORDER, bare_xml, {}),
    "application/soap+xml": Case(ORDER, bare_xml, {}),
    "text/requestresponse": Case(EXCHANGE, bare_xml, {}),
    "text/csv": Case(FLAT, bare_csv, {}),
    "text/namevalue": Case(ORDER, bare_lines, {}),
    "text/delimited": Case(ORDER, bare_delimited, {}),
    "text/fixedwidth": Case(ORDER, bare_fixed, {}),
    "text/plain": Case(BLOB, bare_text, {"attribute": "Data"}),
    "application/octet-stream": Case(BLOB, bare_base64, {}),
}


def measured(work: Callable[[], object], seconds: float) -> float:
    """Returns how often a second ``work`` runs."""
    count, begun = 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        work()
        count += 1
    return count / spent


def compare(
    name: str,
    ours: Callable[[], object],
    bare: Callable[[], object],
    size: int,
    arguments: argparse.Namespace,
) -> None:
    for work in (ours, bare):
        measured(work, arguments.seconds / 4)  # warm
    with_handler, without = [], []
    for _ in range(arguments.runs):
        with_handler.append(measured(ours, arguments.seconds))
        without.append(measured(bare, arguments.seconds))
    ratio = statistics.median(b / o for b, o in zip(without, with_handler, strict=True))
    print(
        f"{name} ({size} bytes)\n  {spread(with_handler)}/s, bare {spread(without)}/s, "
        f"time over time {ratio:.2f}"
    )


def template(handlers: Callable[[str, dict[str, object]], DataHandler], directory: Path) -> Iterator[Any]:
    """Yields the work of the template handler and of a bare template. Both only write."""
    text = "".join(f"{name}: {{{{ {name} }}}}\n" for name in _simple(39))
    text += (
        "{% for line in Line %}"
        + " ".join(f"{{{{ line.{name} }}}}" for name in _simple(8))
        + "\n{% endfor %}"
    )
    (directory / "order.j2").write_text(text)
    handler = handlers("text/template", {"template": "order.j2"})
    bare = jinja2.Environment().from_string(text)
    values = ORDER.as_dict()
    yield lambda: handler.to_body(ORDER)
    yield lambda: bare.render(values).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    print(machine())
    with scratch() as directory:
        catalogue = discover(directory)

        def handlers(mime_type: str, options: dict[str, object]) -> DataHandler:
            specs = [
                catalogue.spec(one, options if one == mime_type else {}) for one in (mime_type, "text/xml")
            ]
            return Handlers(specs, DEFINITIONS, directory).get(mime_type)

        for mime_type, case in CASES.items():
            if arguments.only not in mime_type or catalogue.find(mime_type) is None:
                continue
            handler, hint = handlers(mime_type, case.options), Hint(case.bo.type, "Create")
            written = handler.to_body(case.bo)
            body = written.encode() if isinstance(written, str) else written
            assert handler.to_business_object(body, hint) == case.bo, mime_type

            def ours(handler: DataHandler = handler, body: bytes = body, hint: Hint = hint) -> object:
                return handler.to_body(handler.to_business_object(body, hint))

            def bare(case: Case = case, body: bytes = body) -> object:
                return case.bare(body)

            compare(mime_type, ours, bare, len(body), arguments)
        if arguments.only in "text/template" and catalogue.find("text/template") is not None:
            ours_writing, bare_writing = template(handlers, directory)
            compare("text/template, writing", ours_writing, bare_writing, len(ours_writing()), arguments)


if __name__ == "__main__":
    main()
