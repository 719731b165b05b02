"""Data handlers beside the bare parsers and writers of their formats: orders of 40 attributes."""

from __future__ import annotations

import csv
import io
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from benchmarks.common import machine
from connector.businessobjects.datahandler import Hint
from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.csv_handler import CsvHandler
from connector.datahandlers.json_handler import JsonHandler

RECORDS = 1000
TYPES = ["String"] * 22 + ["Integer"] * 6 + ["Double"] * 6 + ["Date"] * 4 + ["Boolean"] * 2
HINT = Hint("Order", "Create")
chance = random.Random(7)


def value_of(kind: str, number: int) -> Any:
    match kind:
        case "Integer":
            return number * 31
        case "Double":
            return round(number * 1.37, 2)
        case "Date":
            return f"2024-05-{number % 28 + 1:02}"
        case "Boolean":
            return number % 2 == 0
    return f"Value {number} of {number * 7}"


def definitions(prefix: str = "") -> Definitions:
    """Orders of 40 attributes with lines. The names in JSON begin with ``prefix``, if there is one."""
    info = f"name={prefix}{{}}" if prefix else ""
    attributes = {
        f"Attribute{n}": Attribute(f"Attribute{n}", kind, app_specific_info=info.format(f"Attribute{n}"))
        for n, kind in enumerate(TYPES)
    }
    line = {name: attributes[name] for name in ("Attribute0", "Attribute1", "Attribute22", "Attribute28")}
    verbs = {"Create": Verb("Create")}
    flat = Definition("Order", attributes=attributes, verbs=verbs)
    lines = Attribute("Line", "Line", cardinality="n")
    whole = Definition("WholeOrder", attributes={**attributes, "Line": lines}, verbs=verbs)
    return Definitions({"Order": flat, "WholeOrder": whole, "Line": Definition("Line", attributes=line)})


def order() -> dict[str, Any]:
    return {f"Attribute{n}": value_of(kind, chance.randrange(10_000)) for n, kind in enumerate(TYPES)}


def handler(of: type[Any], defined: Definitions, **options: Any) -> Any:
    return of({**{one.name: one.default for one in of.options}, **options}, defined)


def compare(what: str, calls: int, ours: Callable[[], Any], bare: Callable[[], Any]) -> None:
    """Prints the microseconds of an order, ours and bare, in turn."""
    pairs = []
    for _ in range(25):
        pair = []
        for run in (ours, bare):
            begun = time.perf_counter()
            run()
            pair.append((time.perf_counter() - begun) / calls * 1e6)
        pairs.append(pair)
    ratios = sorted(a / b for a, b in pairs)
    mine, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"{what:44} {mine:7.1f} us, bare {theirs:6.1f} us: {statistics.median(ratios):4.2f} times "
        f"[{ratios[0]:.2f} to {ratios[-1]:.2f}]"
    )


def of_csv() -> None:
    defined = definitions()
    names = list(defined["Order"].attributes)
    one = handler(CsvHandler, defined, split=True)
    kinds = {"plain": {}, "a field with quotes and one not set": {"Attribute3": "a, b", "Attribute7": None}}
    for kind, changes in kinds.items():
        bos = [BusinessObject(defined, "Order", "Create", {**order(), **changes}) for _ in range(RECORDS)]
        rows = [[bo[name] for name in names] for bo in bos]
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
            file = io.StringIO(newline="")
            csv.writer(file, quoting=quoting).writerows([names, *rows])
            body = file.getvalue().replace("True", "true").replace("False", "false").encode()
            if kind == "plain" or quoting == csv.QUOTE_MINIMAL:
                quoted = ", all quoted" if quoting == csv.QUOTE_ALL else ""
                ours = partial(_read_all, one, body)
                compare(f"read CSV, {kind}{quoted}", RECORDS, ours, partial(_bare, body))
                if kind == "plain" and not quoted:
                    compare("read CSV, beside DictReader and numbers", RECORDS, ours, partial(_by_hand, body))

        compare(f"write CSV, {kind}", RECORDS, partial(one.to_joint_body, bos), partial(_bare_write, rows))
    alone = handler(CsvHandler, defined)
    body = alone.to_body(bos[0])
    compare(
        "read CSV, a body of one record",
        500,
        lambda: [alone.to_business_object(body, HINT) for _ in range(500)],
        lambda: [_bare(body) for _ in range(500)],
    )


def _read_all(one: CsvHandler, body: bytes) -> list[BusinessObject]:
    return list(one.to_business_objects(body, HINT))


def _bare(body: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(body.decode(), newline="")))


def _by_hand(body: bytes) -> list[dict[str, Any]]:
    """Reads as a program does that trusts its input."""
    records: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(body.decode(), newline="")))
    numbers = [(f"Attribute{n}", {"Integer": int, "Double": float}.get(kind)) for n, kind in enumerate(TYPES)]
    converted = [(name, kind) for name, kind in numbers if kind is not None]
    for record in records:
        for name, kind in converted:
            record[name] = kind(record[name])
    return records


def _bare_write(rows: list[list[Any]]) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)
    return file.getvalue().encode()


def of_json() -> None:
    for kind, prefix in (("", ""), (", renamed", "in_")):
        defined = definitions(prefix)
        one = handler(JsonHandler, defined, write_type=False)
        bo = BusinessObject(
            defined, "WholeOrder", "Create", {**order(), "Line": [order_line() for _ in range(10)]}
        )
        body = one.to_body(bo)
        document = orjson.loads(body)
        compare(
            f"read JSON{kind}",
            200,
            lambda: [one.to_business_object(body, Hint("WholeOrder", "Create")) for _ in range(200)],  # noqa: B023
            lambda: [orjson.loads(body) for _ in range(200)],  # noqa: B023
        )
        compare(
            f"write JSON{kind}",
            200,
            lambda: [one.to_body(bo) for _ in range(200)],  # noqa: B023
            lambda: [orjson.dumps(document) for _ in range(200)],  # noqa: B023
        )


def order_line() -> dict[str, Any]:
    return {name: value for name, value in order().items() if name in definitions()["Line"].attributes}


def main() -> None:
    print(machine())
    of_csv()
    of_json()


if __name__ == "__main__":
    main()
