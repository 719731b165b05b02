"""``connector new``."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from connector.businessobjects.name_handlers import make_name_handler
from connector.config.loading import check, load
from tests.authoring.conftest import BARE
from tests.cli.in_process import Answer, Commands, call
from tests.distribution import install
from tests.tables import rows

ADAPTER = BARE.replace("./metaobjects", "./objects")
ORDER = '{"OrderId": "O-1", "Total": 12.5, "Line": [{"Article": "Bolt"}]}'
SAMPLE = ("Order", "--from-sample", "order.json")


@pytest.fixture
def shop(tmp_path: Path) -> Commands:
    (tmp_path / "adapter.yaml").write_text(ADAPTER)
    (tmp_path / "order.json").write_text(ORDER)
    return Commands(tmp_path)


def new(shop: Commands, *arguments: str) -> Answer:
    return shop("new", "businessobject", *arguments)


def mistakes(shop: Commands) -> list[str]:
    return [str(one) for one in check(shop.directory / "adapter.yaml", {}) if not one.warning]


def test_a_skeleton_is_written_where_the_configuration_says(shop: Commands) -> None:
    done = new(shop, "Order")
    assert (done.returncode, done.stderr) == (0, "")
    looks = "Look at:\n  this is a skeleton: write the attributes\n"
    assert done.stdout == f"wrote objects/Order.yaml: Order\n{looks}"
    assert check(shop.directory / "adapter.yaml", {}) == []
    definition = load(shop.directory / "adapter.yaml", {}).metaobjects.definitions["Order"]
    assert list(definition.verbs) == ["Create", "Update", "Delete", "Retrieve"]
    assert list(definition.attributes) == ["Id"]


def test_without_a_configuration_a_draft_goes_to_metaobjects(tmp_path: Path) -> None:
    for name, options, folder in (("Order", (), "metaobjects"), ("Other", ("--into", "a/b"), "a/b")):
        said = new(Commands(tmp_path), name, *options).stdout
        assert said.startswith(f"wrote {folder}/{name}.yaml: {name}\n")


def test_what_is_left_out_is_listed_and_stands_in_the_file(shop: Commands) -> None:
    shop.write("order.json", '{"Id": 1, "tags": [["a"]]}')
    done = new(shop, *SAMPLE, "--json")
    assert done.stderr == "left out: Order.tags: a list of lists\n"
    assert done.document == {
        "file": "objects/Order.yaml",
        "objects": ["Order"],
        "checks": [
            "required and max_length are in no sample, and a key may be blank",
            "bodies with parts that were left out need IgnoreUndefinedAttributes: true",
            "Order: is Id its key?",
        ],
        "left_out": ["Order.tags: a list of lists"],
        "converted": [{"BusinessObject": "Order", "Verb": "Create", "Id": 1}],
    }
    assert "#   tags: a list of lists\n" in shop.read("objects/Order.yaml")
    assert check(shop.directory / "adapter.yaml", {}) == []


def test_nothing_is_overwritten_without_force(shop: Commands) -> None:
    assert new(shop, "Order").returncode == 0
    refusal = new(shop, *SAMPLE).refusal()
    assert refusal == "connector: there is objects/Order.yaml already; --force replaces the file\n"
    assert new(shop, *SAMPLE, "--force").returncode == 0
    assert "Order_Line" in shop.read("objects/Order.yaml")
    assert os.listdir(shop.directory / "objects") == ["Order.yaml"]


def test_definitions_of_the_deployment_keep_their_names(shop: Commands) -> None:
    line = "business_object: Bill_Line\nattributes: {X: {type: String}}\n"
    shop.write("objects/all.yaml", f"business_object: Order\n---\n{line}")
    refusal = new(shop, "Order", "--force").refusal()
    assert refusal == "connector: Order is defined already, in objects/all.yaml\n"
    assert new(shop, "Bill", "--from-sample", "order.json").returncode == 0
    assert "business_object: Bill_Line_2\n" in shop.read("objects/Bill.yaml")
    assert mistakes(shop) == []


FORMATS = "json, jsonlines, xml, csv, delimited, namevalue, json-schema, xsd"


def test_a_format_can_be_named(shop: Commands) -> None:
    shop.write("data", "Id\n1\n")
    assert new(shop, "Order", "--from-sample", "data", "--format", "csv").returncode == 0


@rows(
    "line, error",
    [
        ("a-b", "'a-b' is no name of a business object, expected at most 80 letters"),
        ("Date", "'Date' is no name of a business object"),
        ("../x", "'../x' is no name of a business object"),
        ("Order --from-sample gone", "gone: cannot be read: No such file or directory\n"),
        ("Order --from-sample bad.json", "bad.json: the body is no JSON: "),
        ("Order --into order.json", "cannot write order.json: "),
        (
            "Order --from-sample data",
            f"data: the format is not known: line 1: found 'Id', expected a sample of {FORMATS}; --format",
        ),
        ("Order --from-sample data --format toml", f"--format toml: expected one of {FORMATS}\n"),
        ("Order --format csv", "--format is for --from-sample\n"),
    ],
)
def test_a_wrong_call_is_an_error_and_writes_nothing(shop: Commands, line: str, error: str) -> None:
    shop.write("bad.json", "{")
    shop.write("data", "Id\n1\n")
    before = sorted(shop.directory.rglob("*"))
    assert new(shop, *line.split()).refusal().startswith(f"connector: {error}")
    assert sorted(shop.directory.rglob("*")) == before


def test_several_samples_make_one_draft(shop: Commands) -> None:
    for number, body in enumerate(("7;Zoë\n", "12;\n")):
        shop.directory.joinpath(f"{number}.csv").write_bytes(body.encode("cp1252"))
    options = ("--charset", "cp1252", "--header", "no")
    for files in (("0.csv", "1.csv"), ("0.csv", "--from-sample", "1.csv")):
        done = new(shop, "Stock", "--from-sample", *files, *options, "--force")
        assert "the data handler needs header: false" in done.stdout
        text = shop.read("objects/Stock.yaml")
        assert text.startswith("# Drafted from 0.csv, 1.csv: ")
        assert "  Column1: {type: Integer, key: true, blank: true}\n  Column2: String\n" in text


LINES = (
    '{"BusinessObject": "Order", "Verb": "Create", "Id": 1}',
    '{"BusinessObject": "Order", "Verb": "Create", "Id": 2}',
)
JSON = "application/json"
OBJECT = '{\n    "BusinessObject": "Order",\n    "Verb": "Create",\n    "Id": "007"'


@rows(
    "files, options, handler, shown",
    [
        ({"a.json": '[{"Id": 1}, {"Id": 2}]'}, (), f"{JSON} with split: true", "\n  ".join(LINES)),
        (
            {"a.json": '{"Id": 1}\n{"Id": 2}\n'},
            (),
            "application/jsonl with split: true",
            "\n  ".join(LINES),
        ),
        (
            {"a.json": '{"Id": "007", "x": [["a"]]}'},
            (),
            f"{JSON} with IgnoreUndefinedAttributes: true",
            f"{OBJECT}\n  }}",
        ),
        (
            {"a.json": '{"Id": "007", "x": null}'},
            (),
            f"{JSON} with null: value",
            f'{OBJECT},\n    "x": null\n  }}',
        ),
        (
            {"a.json": '{"Id": "007", "password": "geheim"}'},
            (),
            JSON,
            f'{OBJECT},\n    "password": "********"\n  }}',
        ),
        (
            {"a.csv": "Id;Ort\n007;K\xf6ln\n"},
            ("--charset", "latin-1"),
            'text/csv with delimiter: ";", charset: latin-1',
            f'{OBJECT},\n    "Ort": "Köln"\n  }}',
        ),
        (
            {"a.csv": "007;x\n"},
            ("--header", "no"),
            'text/csv with delimiter: ";", header: false',
            OBJECT.replace("Id", "Column1") + ',\n    "Column2": "x"\n  }',
        ),
        (
            {"a.xml": "<!DOCTYPE a><a><Id>007</Id></a>"},
            (),
            "text/xml with doctype: ignore",
            f"{OBJECT}\n  }}",
        ),
        ({"a.txt": "Order~Create~007"}, (), "text/delimited", OBJECT.replace("Id", "Attribute1") + "\n  }"),
        (
            {"a.xml": "<a><Id>007</Id></a>", "b.xml": "<a><Id>9</Id></a>"},
            (),
            "text/xml",
            f"{OBJECT}\n  }}",
        ),
    ],
)
def test_a_sample_is_shown_as_its_draft_reads_it(
    shop: Commands, files: dict[str, str], options: tuple[str, ...], handler: str, shown: str
) -> None:
    for name, text in files.items():
        shop.directory.joinpath(name).write_bytes(text.encode("latin-1"))
    done = new(shop, "Order", "--from-sample", *files, *options)
    assert done.returncode == 0
    assert done.stdout.endswith(f"\n{next(iter(files))}, as it is read by {handler}:\n  {shown}\n")


def test_a_sample_in_another_character_set_names_the_option_of_the_command(shop: Commands) -> None:
    for name, body in {
        "a.csv": "a,b\nä,1\n".encode("cp1252"),
        "b.csv": "a,b\n".encode("utf-16-le"),
        "c.xml": "<a>ä</a>".encode("cp1252"),
        "d.xml": "<a><b/></a>".encode("utf-16-le"),
        "e.json": '{"a": "ä"}'.encode("cp1252"),
    }.items():
        shop.write(name, body)
        assert "; --charset names" in new(shop, "Order", "--from-sample", name).refusal()


def test_a_long_sample_is_shown_in_part(shop: Commands) -> None:
    shop.write("a.json", json.dumps({f"a{number}": "x" * 1000 for number in range(100)}))
    lines = new(shop, "Order", "--from-sample", "a.json").stdout.splitlines()
    assert len(lines[-2]) < 500
    assert lines[-1] == "  ... and 44 more lines"
    shop.write("a.csv", "Id\n" + "7\n" * 100)
    done = new(shop, "Order", "--from-sample", "a.csv", "--force")
    assert done.stdout.endswith("\n  ... and 80 more lines\n")


def test_a_sample_that_its_draft_cannot_read_is_told(shop: Commands) -> None:
    child = "BusinessObject=Order\nVerb=Create\nId=1\nLine=1\nBusinessObject=Line\nVerb=Create\nSku=1\n"
    shop.write("order.txt", child)
    shop.write("objects/line.yaml", "business_object: Line\nattributes: {X: {type: String}}\n")
    told = new(shop, "Order", "--from-sample", "order.txt", "--json").document["checks"][-1]
    assert told.startswith("order.txt cannot be read with this draft: line 5: ")
    assert "expected the object Order_Line" in told


def test_a_format_without_an_option_to_pass_over_parts_is_not_told_of_it(shop: Commands) -> None:
    shop.write("a.txt", "BusinessObject=Order\nX=1\nBusinessObject=B\nY=1\nObjectEventId=1\nX=q\n")
    done = new(shop, "Order", "--from-sample", "a.txt", "--json")
    assert done.document["left_out"] == ["Order.X: an object in one place, a text in another"]
    assert not any("IgnoreUndefinedAttributes" in one for one in done.document["checks"])
    assert any(one.startswith("a.txt cannot be read with this draft") for one in done.document["checks"])


@rows(
    "arguments, error",
    [
        (["Order", "order.json"], "found order.json behind the name; samples stand behind --from-sample"),
        ([*SAMPLE, "--header", "maybe"], "--header maybe: expected yes or no"),
        ([*SAMPLE, "--header", "no"], "--header is for the format csv, found json"),
        ([*SAMPLE, "--charset", "utf-99"], "--charset utf-99: expected the name of a character set"),
        ([*SAMPLE, "a.xml"], "a.xml: the body is no JSON"),
        (["Order", "--charset", "cp1252"], "--charset is for --from-sample"),
        (
            ["Order", "--from-sample", "a.xsd", "order.json"],
            "--from-sample: a.xsd is a schema, expected",
        ),
        (
            ["Order", "--from-sample", "a.xsd", "--charset", "utf-8"],
            "--charset is for bodies, and a.xsd",
        ),
    ],
)
def test_samples_that_do_not_fit_are_an_error(shop: Commands, arguments: list[str], error: str) -> None:
    shop.write("a.xml", "<Order/>")
    shop.write("a.xsd", "<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'/>")
    assert new(shop, *arguments).refusal().startswith(f"connector: {error}")


# --- a data handler -------------------------------------------------------------------------------


def configure(plugged: Commands, plugins: str) -> None:
    plugged.change("adapter.yaml", "datahandlers: ./handlers\n", plugins)


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
    (shop.directory / "objects").mkdir()
    shop.write("adapter.yaml", f"{ADAPTER}datahandlers: ./datahandlers\n")
    assert mime_type in shop("datahandlers").stdout
    assert "exists already" in shop("new", "datahandler", name).refusal()
    assert shop("new", "datahandler", name, "--force", "--json").returncode == 0


def test_a_directory_of_the_configuration_need_not_exist(plugged: Commands) -> None:
    configure(plugged, "datahandlers: ./mine\n")
    done = plugged("new", "datahandler", "ledger", environment={"PATH": ""})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "wrote mine/ledger_handler.py and mine/test_ledger_handler.py\n"
        "Next:\n"
        f"  {sys.executable} -m pytest mine/test_ledger_handler.py\n"
        "  connector datahandlers\n"
        "  use it: DataHandlerMimeType: text/x-ledger\n"
    )
    listed = plugged("datahandlers", "--json").documents
    (found,) = [one for one in listed if one["mime_types"] == ["text/x-ledger"]]
    assert found["class"] == "mine/ledger_handler.py:LedgerHandler"
    assert [option["name"] for option in found["options"]] == ["separator", "charset"]


@rows(
    "plugins, into, line",
    [
        ("", (), "  add to adapter.yaml: datahandlers: ./datahandlers\n"),
        ("", ("--into", "x/y"), "  add to adapter.yaml: datahandlers: ./x/y\n"),
        ("datahandlers: ./handlers\n", ("--into", "x"), "  change in adapter.yaml: datahandlers: ./x\n"),
    ],
)
def test_the_line_that_the_configuration_needs_is_said(
    plugged: Commands, plugins: str, into: tuple[str, ...], line: str
) -> None:
    configure(plugged, plugins)
    assert line in plugged("new", "datahandler", "ledger", *into).stdout


def test_the_paths_are_those_of_the_user(plugged: Commands, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = plugged.directory
    done = call(place.parent, "new", "datahandler", "ledger", "-c", f"{place.name}/adapter.yaml")
    assert done.stdout.startswith(f"wrote {place.name}/handlers/ledger_handler.py and ")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert call(elsewhere, "new", "datahandler", "ledger").returncode == 0
    assert (elsewhere / "datahandlers/ledger_handler.py").is_file()


@rows(
    "arguments, error",
    [
        *((["datahandler", name], "expected a name") for name in ("1st", "a/b", "../x", "")),
        (
            ["datahandler", "Csv", "--from-sample", "order.json"],
            "connector: --from-sample, --format, --charset, --header and --schema-directory are for a "
            "business object\n",
        ),
        (["table", "Csv"], "'table' is not one of 'businessobject', 'datahandler'"),
        (["datahandler", "ledger"], "handlers/lines.py is a file, so give a directory with --into"),
    ],
)
def test_what_no_data_handler_can_be_is_refused(plugged: Commands, arguments: list[str], error: str) -> None:
    configure(plugged, "datahandlers: ./handlers/lines.py\n")
    before = sorted(plugged.directory.rglob("*"))
    assert error in plugged("new", *arguments).refusal()
    assert sorted(plugged.directory.rglob("*")) == before


def test_a_name_handler_passes_its_test_and_is_used(shop: Commands) -> None:
    done = shop("new", "namehandler", "stock_list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "NameHandlerClass: stock_list_names:name_of" in done.stdout
    name_of = make_name_handler("stock_list_names:name_of", "", shop.directory)
    assert name_of(b"Order: 1") == "Order"
    spent = pytest.main(["-q", "-p", "no:cacheprovider", str(shop.directory / "test_stock_list_names.py")])
    assert spent == pytest.ExitCode.OK
    assert "exists already" in shop("new", "namehandler", "stock_list").refusal()


# --- a sink ---------------------------------------------------------------------------------------


def test_a_sink_is_a_package_that_passes_its_test(shop: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    done = shop("new", "sink", "StockList", environment={"PATH": os.path.dirname(sys.executable)})
    assert (done.returncode, done.stderr) == (0, "")
    wrote, _, *steps = done.stdout.splitlines()
    assert wrote.startswith("wrote stock-list-sink: pyproject.toml, stock_list_sink/__init__.py, ")
    assert steps == [
        "  python -m pip install --no-build-isolation -e ./stock-list-sink",
        "  python -m pytest stock-list-sink/test_stock_list_sink.py",
        "  use it, in subscriptions: of adapter.yaml: - {object: Order, stock_list: ./objects.jsonl}",
        "  connector check",
    ]
    place = shop.directory / "stock-list-sink"
    project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    install(place, monkeypatch, project["name"], project["entry-points"]["connector.sinks"], {})
    spent = pytest.main(["-q", "-p", "no:cacheprovider", "-k", "not worker", str(place)])
    assert spent == pytest.ExitCode.OK
    assert "there is a sink 'stock_list' already" in shop("new", "sink", "stock_list").refusal()
    assert shop("new", "sink", "StockList", "--force", "--json").document["key"] == "stock_list"
    shop.write("adapter.yaml", f"{ADAPTER}subscriptions: [{{object: Order, stock_list: ./objects.jsonl}}]\n")
    assert new(shop, "Order").returncode == 0
    assert mistakes(shop) == []


@rows(
    "name, error",
    [
        ("1st", "expected a name"),
        ("table", "there is a sink 'table' already"),
        ("class", "'class' is a word of Python"),
        *((name, "has a meaning in subscriptions already") for name in ("external", "retries", "json")),
    ],
)
def test_a_sink_with_a_key_that_means_something_is_refused(shop: Commands, name: str, error: str) -> None:
    before = sorted(shop.directory.rglob("*"))
    assert error in shop("new", "sink", name).refusal()
    assert sorted(shop.directory.rglob("*")) == before


# --- a map ----------------------------------------------------------------------------------------


def test_a_map_gets_what_has_the_same_name(shop: Commands) -> None:
    shop.write(
        "objects/objects.yaml",
        """\
business_object: Order
verbs: [Create, Cancel]
attributes:
  Id: {type: String, key: true}
  Total: Decimal
  Rate: Double
  At: Date
  Line: {type: OrderLine, cardinality: n}
  Buyer: Party
  Tags: {type: String, cardinality: n}
---
business_object: OrderLine
attributes: {Sku: String, Count: Integer, Note: String}
---
business_object: Party
attributes: {Name: String}
---
business_object: Invoice
verbs: [Create]
attributes:
  Id: {type: String, key: true}
  Total: String
  Rate: Decimal
  At: String
  Line: {type: InvoiceLine, cardinality: n}
  Buyer: Party
  Tags: String
  Number: {type: String, required: true}
---
business_object: InvoiceLine
attributes: {Sku: String, Count: Decimal}
""",
    )
    done = shop("new", "map", "Order", "Invoice")
    missing = [
        "Rate: a Double cannot be a Decimal",
        "Tags: a list of String cannot be a String",
        "Number: required, and Order has no attribute of this name",
    ]
    said = "wrote objects/OrderToInvoice.yaml: the map OrderToInvoice, 3 attributes without an expression\n"
    assert done.stdout == said + "".join(f"  {one}\n" for one in missing)
    file = shop.directory / "objects/OrderToInvoice.yaml"
    assert (
        file.read_text()
        == """\
map: OrderToInvoice
from: Order
to: Invoice
verb: Create
attributes:
  Id: Id
  Total: "to_string(Total)"
  # Rate: a Double cannot be a Decimal
  At: At
  Line: "Line[].{Sku: Sku, Count: Count}"
  Buyer: Buyer
  # Tags: a list of String cannot be a String
  # Number: required, and Order has no attribute of this name
"""
    )
    (mistake,) = mistakes(shop)
    assert "OrderToInvoice.attributes: no Number, which Invoice requires" in mistake
    file.write_text(file.read_text().replace("  # Number: required", "  Number: Id  # required"))
    assert mistakes(shop) == []
    assert "there is OrderToInvoice already" in shop("new", "map", "Order", "Invoice").refusal()
    assert shop("new", "map", "Order", "Invoice", "--force", "--json").document["missing"] == missing
    assert "no business object 'Invoce' is defined" in shop("new", "map", "Order", "Invoce").refusal()
    assert "takes two business objects" in shop("new", "map", "Order").refusal()
