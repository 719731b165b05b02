"""``connector new types``: classes for the definitions, as a type checker sees them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from mypy import api as mypy

from connector.businessobjects.instance import BusinessObject
from tests.authoring.conftest import BARE
from tests.cli.in_process import Commands
from tests.tables import rows

ORDER = """\
business_object: Order
app_specific_info: cw_mo_conn=Meta
verbs: {Create: }
attributes:
  OrderId: {type: String, key: true, required: true}
  Total: {type: Decimal, required: true, minimum: 0}
  Weight: {type: Float, required: true, blank: true}
  Paid: Boolean
  Since: Date
  Rate: {type: Integer, cardinality: n}
  Line: {type: Line, cardinality: n, required: true}
  Parent: Order
  date: Date
  class: String
  str: String
  Meta: OrderMeta
---
business_object: Line
attributes: {Article: {type: String, key: true, required: true}, Line: Line}
---
business_object: OrderMeta
attributes: {CorrelationID: {type: String, required: true}}
---
business_object: list
attributes: {Id: {type: String, key: true}}
"""
PROCESS = """\
from decimal import Decimal

from business_objects import Line, Order


def total(lines: list[Line]) -> Decimal:
    return sum((Decimal(len(line.Article)) for line in lines), Decimal(0))


def book(order: Order) -> None:
    order.Total = order.Total + total(order.Line)
    order.Paid = None
    since = order.date("Since")
    rates: list[int] = order.Rate or []
    weight: float | None = order.Weight
    text: str = order["class"]
    if order.Parent is not None and order.Parent.Meta is not None:
        text = order.Parent.Meta.CorrelationID or text
    print(since, rates, weight, text)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Commands:
    (tmp_path / "adapter.yaml").write_text(BARE)
    made = Commands(tmp_path)
    made.write("metaobjects/order.yaml", ORDER)
    return made


def test_a_strict_type_checker_takes_a_process_of_the_classes_and_finds_its_mistakes(shop: Commands) -> None:
    done = shop("new", "types")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "wrote business_objects.py: 4 business objects\n"
    mistakes = ("order.Totl", "order.Rate.append(1)", "order.Line[0].Line.Article", "order.Since.upper()")
    lines = "".join(f"    {mistake}\n" for mistake in mistakes)
    shop.write("right.py", PROCESS)
    shop.write("wrong.py", f"from business_objects import Order\n\ndef wrong(order: Order) -> None:\n{lines}")
    shop.write("mypy.ini", f"[mypy]\nmypy_path = {shop.directory}\n")
    files = [str(shop.directory / f"{name}.py") for name in ("right", "wrong", "business_objects")]
    config = f"--config-file={shop.directory / 'mypy.ini'}"
    out, err, _ = mypy.run(["--strict", "--follow-imports=silent", "--cache-dir=/dev/null", config, *files])
    assert err == "", out
    found = [line.split(":")[:2] for line in out.splitlines()[:-1]]
    assert [(Path(file).name, int(line)) for file, line in found] == [
        ("wrong.py", n) for n in (4, 5, 6, 7)
    ], out
    assert '"Order" has no attribute "Totl"; maybe "Total"?' in out


def test_the_module_can_be_imported_and_shows_what_has_no_attribute(shop: Commands) -> None:
    assert shop("new", "types", "shop/names.pyi").returncode == 0
    text = shop.read("shop/names.pyi")
    assert shop("new", "types", "-").stdout == text
    for line in ('# bo["date"]: str | None', '# bo["class"]: str | None', '# bo["str"]: str | None'):
        assert f"    {line}\n" in text
    assert "class list" not in text
    shop.write("names.py", text)
    spec = importlib.util.spec_from_file_location("names", shop.directory / "names.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert issubclass(module.Order, BusinessObject)


def test_nothing_is_overwritten_without_force(shop: Commands) -> None:
    shop.write("business_objects.py", "x = 1\n")
    assert shop("new", "types").refusal() == (
        "connector: there is business_objects.py already; --force replaces the file\n"
    )
    assert shop("new", "types", "--force", "--json").document == {
        "file": "business_objects.py",
        "objects": ["Order", "Line", "OrderMeta", "list"],
    }
    assert "class Order" in shop.read("business_objects.py")


@rows(
    "line, error",
    [
        ("types a-b.py", "a-b.py: expected the name of a Python module, such as business_objects.py\n"),
        ("types names.txt", "names.txt: expected the name of a Python module"),
        ("types --into x", "connector new types takes a file, and no other option than --force and --json\n"),
        ("businessobject", "connector new businessobject needs a NAME\n"),
        ("datahandler", "connector new datahandler needs a NAME\n"),
    ],
)
def test_a_wrong_call_is_an_error(shop: Commands, line: str, error: str) -> None:
    assert shop("new", *line.split()).refusal().startswith(f"connector: {error}")


def test_a_mistake_in_a_definition_is_shown_with_its_place(shop: Commands) -> None:
    shop.write("metaobjects/more.yaml", "business_object: Bill\nattributes: {A: Strin}\n")
    done = shop("new", "types")
    assert done.returncode == 2
    assert "metaobjects/more.yaml:2:" in done.stderr
    assert not (shop.directory / "business_objects.py").exists()
