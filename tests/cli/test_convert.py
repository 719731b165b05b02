"""`connector convert` and `datahandlers`, with the shipped data handlers and with those of a deployment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conversion_deployments import ORDER
from tests.cli.in_process import Commands
from tests.tables import rows

OBJECT = ("--object", "Order")
LINES = (*OBJECT, "--from", "text/lines")
NAMED = '{"BusinessObject": "Order", "OrderId": "1"}'
BROKEN = "connector: stdin: the data handler Broken raised"


@pytest.fixture
def run(plain: Commands) -> Commands:
    return Commands(plain.directory, "convert")


@pytest.fixture
def plugged_run(plugged: Commands) -> Commands:
    return Commands(plugged.directory, "convert")


def test_a_body_becomes_a_business_object(run: Commands) -> None:
    done = run(*OBJECT, data=ORDER)
    assert done.returncode == 0
    assert done.document == {"BusinessObject": "Order", "Verb": "Create", **json.loads(ORDER)}
    assert list(done.document)[:2] == ["BusinessObject", "Verb"]
    assert run(data=NAMED).document["BusinessObject"] == "Order"
    assert run(*OBJECT, "--verb", "Cancel", data=NAMED).document["Verb"] == "Cancel"


@rows("digits", ["0.10", "-12345678901234567890.0000001"])
def test_a_decimal_keeps_its_digits_in_every_answer(plain: Commands, digits: str) -> None:
    plain.write("order.json", f'{{"OrderId": "1", "Price": {digits}}}')
    convert = ("convert", *OBJECT)
    explain = ("explain", "order.json", "--destination", "queue://web")
    for command in ((*convert, "order.json"), explain):
        assert f'"Price": {digits}' in plain(*command).stdout
        assert f'"Price": {digits}' in plain(*command, "--json").stdout
    for mime_type in ("text/xml", "text/namevalue", "text/delimited", "application/json"):
        body = plain(*convert, "--to", mime_type, "order.json").stdout
        assert digits in body
        assert f'"Price": {digits}' in plain(*convert, "--from", mime_type, data=body).stdout
    message = "message: {destination: queue://web, body_file: order.json}\n"
    for price, told in ((digits, "1 passed, 0 failed\n"), ("99", f'+  "Price": {digits}')):
        expected = f"expect: {{object: Order, values: {{OrderId: '1', Price: {price}}}}}\n"
        plain.write("price.test.yaml", message + expected)
        assert told in plain("test").stdout


@rows(
    "arguments, data, status, words",
    [
        (OBJECT, '{"OrderId": 7}', 1, "stdin: Order: OrderId: found the number 7"),
        (OBJECT, '{"Total": 7}', 1, "stdin: Order: OrderId: required, but not set"),
        ([], '{"OrderId": "7"}', 1, "names a business object; --object names it"),
        (["--object", "Ordr"], ORDER, 2, "did you mean 'Order'"),
        ([*OBJECT, "--verb", "Creat"], ORDER, 2, "did you mean 'Create'"),
        (["--verb", "Create"], ORDER, 2, "--verb needs --object"),
        (["--from", "text/jason"], ORDER, 2, "no data handler for 'text/jason'"),
        ([*OBJECT, "--to", "text/plain"], ORDER, 1, "no attribute 'Text'"),
        (["missing.json"], "", 2, "missing.json: No such file"),
        ([*OBJECT, "--json", "--to", "text/xml"], ORDER, 2, "--json"),
    ],
)
def test_what_cannot_be_converted_is_told(
    run: Commands, arguments: list[str], data: str, status: int, words: str
) -> None:
    done = run(*arguments, data=data)
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_convert_prints_is_a_body_again(plugged_run: Commands) -> None:
    body = '{"OrderId": "7", "Pin": "p", "Total": 1e+22, "Line": [{"Item": "A"}, {}]}'
    once = plugged_run(*OBJECT, "--verb", "Cancel", data=body)
    assert once.document["Total"] == 1e22
    again = plugged_run(data=once.stdout)
    assert (again.returncode, again.stdout) == (0, once.stdout)
    line = plugged_run(*OBJECT, "--json", data='{"OrderId": "Æ"}').stdout
    assert line == '{"BusinessObject": "Order", "Verb": "Create", "OrderId": "Æ"}\n'


def test_the_options_may_be_those_of_a_meta_object_or_of_a_rule(run: Commands) -> None:
    run.write(
        "metaobjects/lenient.yaml",
        "datahandler_metaobject: MO_Lenient\nhandlers:\n"
        "  application/json: {IgnoreUndefinedAttributes: true, write_type: false}\n"
        "  text/xml: {BOPrefix: X}\n",
    )
    body = '{"OrderId": "7", "Other": 1}'
    assert "no such attribute" in run(*OBJECT, data=body).failure()
    lenient = (*OBJECT, "--handlers", "MO_Lenient")
    assert run(*lenient, data=body).document == {"BusinessObject": "Order", "Verb": "Create", "OrderId": "7"}
    assert run(*lenient, "--to", "application/json", data=body).document == {"OrderId": "7"}
    assert "BOPrefix 'X'" in run(*lenient, "--to", "text/xml", data=body).failure()
    refused = run(*OBJECT, "--handlers", "MO_Lenien", data=body)
    assert (refused.returncode, "did you mean 'MO_Lenient'" in refused.stderr) == (2, True)


def test_a_rule_names_object_verb_data_handler_and_options(run: Commands) -> None:
    run.change(
        "metaobjects/objects.yaml",
        "  Order_Cancel: {InputFormat: CANCEL, DataHandlerMimeType: text/xml}\n",
        "  Order_Cancel:\n"
        "    - {InputFormat: CX, DataHandlerMimeType: text/xml, DataHandlerConfigMO: MO_Lenient}\n"
        "    - {InputFormat: CJ, DataHandlerMimeType: application/json}\n",
    )
    run.write(
        "metaobjects/lenient.yaml",
        "datahandler_metaobject: MO_Lenient\nhandlers:\n  text/xml: {IgnoreUndefinedAttributes: true}\n",
    )
    body = "<Order><OrderId>7</OrderId><Other/></Order>"
    cancelled = {"BusinessObject": "Order", "Verb": "Cancel", "OrderId": "7"}
    assert run("--rule", "Order_Cancel[0]", data=body).document == cancelled
    assert run("--rule", "Order_Cancel[1]", data='{"OrderId": "7"}').document == cancelled
    for name, words in (
        ("Order_Cancel", "it is a list: Order_Cancel[0], Order_Cancel[1]"),
        ("Order_Creat", "did you mean 'Order_Create'"),
    ):
        refused = run("--rule", name, data=body)
        assert (refused.returncode, words in refused.stderr) == (2, True)
    assert "--rule and --object" in run("--rule", "Order_Create", *OBJECT, data=body).stderr


def test_objects_are_lines_or_one_body_where_the_format_has_one(plugged_run: Commands) -> None:
    order = {"BusinessObject": "Order", "Verb": "Create"}
    split = plugged_run(*LINES, data="7\n8\n").documents
    assert split == [{**order, "OrderId": number} for number in ("7", "8")]
    joint = plugged_run(*LINES, "--to", "text/lines", data="7\n8\n")
    assert (joint.returncode, joint.stdout) == (0, "7\n8\n")
    assert joint.stderr == "read aloud\nwritten aloud\nwritten aloud\n", "not among the answer"
    json_body = ("--to", "application/json")
    refused = plugged_run(*LINES, *json_body, data="7\n8\n").failure()
    assert "the body holds 2 objects, and a body of application/json holds one" in refused
    single = plugged_run(*LINES, *json_body, data="7\n")
    assert single.document == {**order, "OrderId": "7"}


@pytest.mark.process
def test_a_body_of_any_bytes_leaves_as_the_data_handler_has_written_it(plugged_run: Commands) -> None:
    plugged_run.change("handlers/lines.py", "return None", 'return b"\\xff\\x00\\r\\n"')
    done = plugged_run.process(*OBJECT, "--to", "text/broken", data=b'{"OrderId": "7"}')
    assert (done.returncode, done.stdout) == (0, b"\xff\x00\r\n")


@rows(
    "arguments, data, words",
    [
        (["--from", "text/lines"], "7\nx\n", "stdin: record 2: found 'x', expected digits"),
        (["--from", "text/lines"], "", "stdin: the body holds no record"),
        (["--to", "text/lines"], '{"OrderId": "13"}', "stdin: 13 brings bad luck"),
        (["--from", "text/broken"], "7", f"{BROKEN} KeyError: 'nothing' (handlers/lines.py:"),
        (
            ["--to", "text/broken"],
            '{"OrderId": "7"}',
            BROKEN.replace("raised", "returned NoneType from to_body, expected bytes or str"),
        ),
    ],
)
def test_what_a_data_handler_refuses_is_told_with_source_and_place(
    plugged_run: Commands, arguments: list[str], data: str, words: str
) -> None:
    assert words in plugged_run(*OBJECT, *arguments, data=data).failure().splitlines()[-1]


# --- datahandlers -----------------------------------------------------------------------------


@pytest.fixture
def listing(plugged: Commands) -> Commands:
    return Commands(plugged.directory, "datahandlers")


def listed(listing: Commands) -> dict[str, Any]:
    return {one["class"]: one for one in listing("--json").documents}


def test_a_plug_in_is_listed_with_its_first_line(listing: Commands) -> None:
    found = listed(listing)
    assert [one for one in found if found[one]["default"]] == [
        "connector.datahandlers.json_handler:JsonHandler"
    ]
    lines = found["handlers/lines.py:Lines"]
    told = (lines["origin"], lines["doc"], lines["mime_types"])
    assert told == ("plug-in", "Lines of numbers.", ["text/lines"])
    split = {"name": "split", "type": "bool", "default": True, "doc": "Each line is an object."}
    assert lines["options"] == [{**split, "choices": [], "configured": []}]
    common = [option["name"] for option in lines["common_options"]]
    assert common == ["ClassName", "DummyKey", "NameHandlerClass"]


def test_options_are_those_of_each_mime_type_and_of_each_meta_object(listing: Commands) -> None:
    listing.write(
        "metaobjects/options.yaml",
        "datahandler_metaobject: MO_DataHandler_Default\nhandlers: {text/xml: {BOPrefix: A}}\n"
        "---\ndatahandler_metaobject: MO_Other\n"
        "handlers: {application/xml: {BOPrefix: B, NameHandlerClass: root}}\n",
    )
    xml = listed(listing)["connector.datahandlers.xml_handler:XmlHandler"]
    assert (xml["origin"], xml["default"]) == ("shipped", False)
    (prefix,) = [option for option in xml["options"] if option["name"] == "BOPrefix"]
    assert prefix["configured"] == [
        {"value": "A", "mime_type": "text/xml", "config": "MO_DataHandler_Default"},
        {"value": "B", "mime_type": "application/xml", "config": "MO_Other"},
    ]
    text = listing().stdout
    assert 'BOPrefix (str, default "", configured for text/xml in MO_DataHandler_Default: A, ' in text
    place = "application/xml in MO_Other"
    assert f'  NameHandlerClass (str, default "", configured for {place}: root): ' in text


def test_a_data_handler_that_is_named_by_its_class_is_listed(listing: Commands) -> None:
    mine = 'class Mine:\n    """By name."""\n    mime_types = ("text/mine",)\n    options = ()\n'
    listing.write("mine.py", mine)
    listing.change("adapter.yaml", "DataHandlerMimeType: application/json", "DataHandlerClassName: mine:Mine")
    found = listed(listing)
    assert [one for one in found if found[one]["default"]] == ["mine.py:Mine"]
    assert found["mine.py:Mine"]["doc"] == "By name."
    line = "mine.py:Mine (named by DataHandlerClassName, the default of the connector)"
    assert line in listing().stdout.splitlines()


def test_a_plug_in_that_replaces_a_shipped_handler_is_marked(listing: Commands) -> None:
    listing.write("handlers/mine.py", 'class Mine:\n    """Ours."""\n    mime_types = ("text/plain",)\n')
    lines = listing().stdout.splitlines()
    assert "text/plain: handlers/mine.py:Mine (plug-in)" in lines
    assert any("text_handler:TextHandler (shipped, replaced for text/plain)" in line for line in lines)


def test_a_configuration_with_mistakes_still_says_which_options_there_are(
    listing: Commands, tmp_path_factory: pytest.TempPathFactory
) -> None:
    listing.change("adapter.yaml", "DataHandlerMimeType: application/json", "DataHandlerMimeType: text/csw")
    done = listing()
    assert done.returncode == 0
    assert "text/lines: handlers/lines.py:Lines (plug-in)" in done.stdout
    assert done.stderr == "adapter.yaml has 1 mistake, which connector check shows: read as far as possible\n"
    empty: Path = tmp_path_factory.mktemp("empty")
    done = Commands(empty)("datahandlers")
    assert (done.returncode, "text/xml, application/xml" in done.stdout) == (0, True)
    assert "adapter.yaml does not exist" in done.stderr


def test_a_file_that_the_user_names_has_to_be_there(listing: Commands) -> None:
    for file, words in (("missing.yaml", "no such file"), (".", "is a directory")):
        assert listing("-c", file).refusal().startswith(f"{file}: {words}, expected ")
