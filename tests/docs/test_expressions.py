"""The examples of the page of expressions have the values that the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

from connector.businessobjects.condition import Condition
from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.expression_functions import SIGNATURES
from connector.businessobjects.expressions import compile_expression
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.lookups import read_lookups
from connector.text.json_text import from_json, to_json_text
from tests.docs.reader import blocks
from tests.tables import rows

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/expressions.md"
TEXT = PAGE.read_text("utf-8")
ROWS = [[cell.strip() for cell in line.split(" | ")] for line in TEXT.splitlines() if line.startswith("| ")]


def code(cell: str) -> str:
    """Returns the text of a cell without its back quotes."""
    return re.sub(r"^(`+)(.*?)\1$", r"\2", cell.strip("| ").strip())


OBJECT = from_json(next(block.text for block in blocks(PAGE) if block.language == "json"))
EXAMPLES = [(code(row[-2]), code(row[-1])) for row in ROWS if "(" in row[-2] and row[-1].startswith("`")]


@rows("expression, value", EXAMPLES)
def test_an_example_has_its_value(tmp_path: Path, expression: str, value: str) -> None:
    (tmp_path / "countries.csv").write_text("code,name\nNL,Netherlands\nBE,Belgium\n", "utf-8")
    lookups = read_lookups(["countries.csv"], tmp_path)
    assert to_json_text(compile_expression(expression, lookups).search(OBJECT)) == value


def test_the_page_names_every_function() -> None:
    named = set(re.findall(r"`([a-z_]+)(?:\([^`]*\))?`", TEXT))
    assert SIGNATURES.keys() - named == set()


@rows("comparison, value", [(code(r[0]), code(r[1])) for r in ROWS if r[0].startswith("| `At ")])
def test_an_example_of_dates_holds(comparison: str, value: str) -> None:
    order = Definition("Order", attributes={"At": Attribute("At", "Date")})
    bo = BusinessObject(Definitions({"Order": order}), "Order", "Create", {"At": OBJECT["At"]})
    assert Condition(comparison).holds(bo, bo.as_dict()) is json.loads(value)
