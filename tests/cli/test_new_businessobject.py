"""``connector new businessobject``: the draft is written, checked, and tells what to look at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from connector.config.loading import check, load
from tests.cli.in_process import Answer, Commands
from tests.tables import rows

ADAPTER = """\
provider: {type: dropbox, root: ./data, create: true}
connector:
  ApplicationName: shop
  InputDestination: queue://orders
metaobjects: ./objects
"""
ORDER = '{"OrderId": "O-1", "Total": 12.5, "Line": [{"Article": "Bolt"}]}'


@pytest.fixture
def shop(tmp_path: Path) -> Commands:
    (tmp_path / "adapter.yaml").write_text(ADAPTER)
    (tmp_path / "order.json").write_text(ORDER)
    return Commands(tmp_path)


def new(shop: Commands, *arguments: str) -> Answer:
    return shop("new", "businessobject", *arguments)


def test_a_skeleton_is_written_where_the_configuration_says(shop: Commands) -> None:
    done = new(shop, "Order")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "wrote objects/Order.yaml: Order\nLook at:\n  this is a skeleton: write the attributes\n"
    )
    assert check(shop.directory / "adapter.yaml", {}) == []
    definition = load(shop.directory / "adapter.yaml", {}).metaobjects.definitions["Order"]
    assert list(definition.verbs) == ["Create", "Update", "Delete", "Retrieve"]
    assert list(definition.attributes) == ["Id"]


def test_without_a_configuration_a_draft_goes_to_metaobjects(tmp_path: Path) -> None:
    assert new(Commands(tmp_path), "Order").stdout.startswith("wrote metaobjects/Order.yaml: Order\n")
    assert new(Commands(tmp_path), "Other", "--into", "a/b").stdout.startswith(
        "wrote a/b/Other.yaml: Other\n"
    )


def test_a_draft_from_a_sample_converts_the_sample(shop: Commands) -> None:
    done = new(shop, "Order", "--from-sample", "order.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout
        == """\
wrote objects/Order.yaml: Order, Order_Line
Look at:
  types are those of the values in the sample
  required and max_length are in no sample
  Order: is OrderId its key?
  Order_Line: is Article its key?
"""
    )
    assert (
        shop.read("objects/Order.yaml")
        == """\
# Drafted from order.json: look at the keys, the types and what is required.
business_object: Order
version: 1.0.0
verbs:
  Create:
  Update:
  Delete:
  Retrieve:
attributes:
  OrderId: {type: String, key: true}
  Total: Decimal
  Line: {type: Order_Line, cardinality: n}
---
business_object: Order_Line
attributes:
  Article: {type: String, key: true}
"""
    )
    assert check(shop.directory / "adapter.yaml", {}) == []


def test_a_format_can_be_named(shop: Commands) -> None:
    shop.write("data", "Id\n1\n")
    assert new(shop, "Order", "--from-sample", "data").refusal() == (
        "connector: data: the format is not known, name it: "
        "json, xml, csv, delimited, namevalue, json-schema, xsd\n"
    )
    assert new(shop, "Order", "--from-sample", "data", "--format", "csv").returncode == 0
    assert new(shop, "Order2", "--from-sample", "data", "--format", "toml").refusal() == (
        "connector: --format toml: expected one of json, xml, csv, delimited, namevalue, json-schema, xsd\n"
    )
    alone = new(shop, "Order2", "--format", "csv")
    assert (alone.returncode, alone.stderr) == (2, "connector: --format is for --from-sample\n")


def test_what_is_left_out_is_listed_and_stands_in_the_file(shop: Commands) -> None:
    shop.write("s.json", '{"Id": 1, "tags": [["a"]]}')
    done = new(shop, "Order", "--from-sample", "s.json", "--json")
    reason = "a list of lists"
    assert done.stderr == f"left out: Order.tags: {reason}\n"
    assert done.document == {
        "file": "objects/Order.yaml",
        "objects": ["Order"],
        "checks": [
            "types are those of the values in the sample",
            "required and max_length are in no sample",
            "bodies with parts that were left out need IgnoreUndefinedAttributes: true",
            "Order: is Id its key?",
        ],
        "left_out": [f"Order.tags: {reason}"],
    }
    assert f"#   tags: {reason}\n" in shop.read("objects/Order.yaml")
    assert check(shop.directory / "adapter.yaml", {}) == []


def test_nothing_is_overwritten_without_force(shop: Commands) -> None:
    assert new(shop, "Order").returncode == 0
    assert new(shop, "Order", "--from-sample", "order.json").refusal() == (
        "connector: there is objects/Order.yaml already; --force replaces the file\n"
    )
    assert new(shop, "Order", "--from-sample", "order.json", "--force").returncode == 0
    assert "Order_Line" in shop.read("objects/Order.yaml")
    assert os.listdir(shop.directory / "objects") == ["Order.yaml"]


def test_definitions_of_the_deployment_keep_their_names(shop: Commands) -> None:
    shop.write(
        "objects/all.yaml",
        "business_object: Order\n---\nbusiness_object: Bill_Line\nattributes: {X: {type: String}}\n",
    )
    assert new(shop, "Order", "--force").refusal() == (
        "connector: Order is defined already, in objects/all.yaml\n"
    )
    assert new(shop, "Bill", "--from-sample", "order.json").returncode == 0
    assert "business_object: Bill_Line_2\n" in shop.read("objects/Bill.yaml")
    assert [
        str(problem) for problem in check(shop.directory / "adapter.yaml", {}) if not problem.warning
    ] == []


@rows(
    "arguments, error",
    [
        (["a-b"], "connector: 'a-b' is no name of a business object, expected at most 80 letters"),
        (["Date"], "connector: 'Date' is no name of a business object"),
        (["../x"], "connector: '../x' is no name of a business object"),
        (["Order", "--from-sample", "gone"], "connector: gone: cannot be read: No such file or directory\n"),
        (["Order", "--from-sample", "bad.json"], "connector: bad.json: the body is no JSON: "),
        (["Order", "--into", "order.json"], "connector: cannot write order.json: "),
    ],
)
def test_a_wrong_call_is_an_error_and_writes_nothing(
    shop: Commands, arguments: list[str], error: str
) -> None:
    shop.write("bad.json", "{")
    before = sorted(shop.directory.rglob("*"))
    assert new(shop, *arguments).refusal().startswith(error)
    assert sorted(shop.directory.rglob("*")) == before


def test_options_of_a_business_object_are_not_for_a_data_handler(shop: Commands) -> None:
    assert shop("new", "datahandler", "Csv", "--from-sample", "order.json").refusal() == (
        "connector: --from-sample, --format and --schema-directory are for a business object\n"
    )
    assert "'table' is not one of 'businessobject', 'datahandler'" in shop("new", "table", "Csv").refusal()


@pytest.mark.process
def test_a_data_handler_is_drafted_that_works(shop: Commands) -> None:
    assert shop("new", "datahandler", "stock_list").returncode == 0
    tested = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "datahandlers/test_stock_list_handler.py",
        ],
        cwd=shop.directory,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout


@rows(
    "name, module, mime_type",
    [
        ("stock_list", "stock_list_handler", "text/x-stock-list"),
        ("StockList", "stock_list_handler", "text/x-stock-list"),
        ("EDI2", "edi2_handler", "text/x-edi2"),
    ],
)
def test_a_data_handler_has_names_of_its_own(shop: Commands, name: str, module: str, mime_type: str) -> None:
    done = shop("new", "datahandler", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"wrote datahandlers/{module}.py and datahandlers/test_{module}.py\n")
    assert "add to adapter.yaml: datahandlers: ./datahandlers" in done.stdout
    (shop.directory / "objects").mkdir()
    shop.write("adapter.yaml", f"{ADAPTER}datahandlers: ./datahandlers\n")
    assert mime_type in shop("datahandlers").stdout
    assert "exists already" in shop("new", "datahandler", name).refusal()
    assert shop("new", "datahandler", name, "--force", "--json").returncode == 0


@rows("name", ["1st", "a/b", "../x", ""])
def test_a_name_that_no_data_handler_can_have_is_refused(shop: Commands, name: str) -> None:
    assert "expected a name" in shop("new", "datahandler", name).refusal()
    assert not (shop.directory / "datahandlers").exists()
