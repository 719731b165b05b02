"""`connector convert`, `datahandlers`, `explain` and `test`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.in_process import Commands
from tests.tables import rows

ADAPTER = """\
provider: {type: dropbox, root: ./data, create: true}
connector:
  ApplicationName: shop
  InputDestination: [queue://orders, queue://web]
  ArchiveDestination: queue://archive
  ErrorDestination: queue://error
  ConfigurationMetaObject: MO_Config
  DataHandlerMimeType: application/json
  DefaultVerb: Create
subscriptions:
  - {object: Order, verbs: [Create], process: "processes:book", name: book}
  - {object: Cust*, destination: "queue://crm", name: crm}
metaobjects: ./metaobjects
"""
OBJECTS = """\
business_object: Order
verbs: {Create: , Cancel: }
attributes:
  OrderId: {type: String, key: true, required: true}
  Total: Double
  Pin: Ciphertext
  Line: {type: Line, cardinality: n}
  Tag: {type: Integer, cardinality: n}
  Code: {type: Ciphertext, cardinality: n}
  Price: Decimal
---
business_object: Line
attributes: {Item: {type: String, key: true}, Count: Integer}
---
business_object: Customer
verbs: {Create: }
attributes: {CustomerId: {type: String, key: true}}
---
static_metaobject: MO_Config
Default: {DataHandlerMimeType: application/json}
rules:
  Order_Create: {InputDestination: queue://web}
  Order_Cancel: {InputFormat: CANCEL, DataHandlerMimeType: text/xml}
---
datahandler_metaobject: MO_DataHandler_Default
handlers:
  application/json: {write_type: false}
"""
ORDER = '{"OrderId": "1", "Total": 2.5, "Pin": "s3cret", "Line": [{"Item": "tea", "Count": 2}]}'
NAMED = '{"BusinessObject": "Order", "OrderId": "1"}'


@pytest.fixture
def run(tmp_path: Path) -> Commands:
    shop = Commands(tmp_path)
    shop.write("metaobjects/objects.yaml", OBJECTS)
    shop.write("adapter.yaml", ADAPTER)
    shop.write("processes.py", "def book(order, event):\n    raise SystemExit('called')\n")
    return shop


# --- convert ----------------------------------------------------------------------------------


def test_a_body_becomes_a_business_object(run: Commands) -> None:
    done = run("convert", "--object", "Order", data=ORDER)
    assert done.returncode == 0
    assert done.document == {"BusinessObject": "Order", "Verb": "Create", **json.loads(ORDER)}
    assert list(done.document)[:2] == ["BusinessObject", "Verb"]


@rows("digits", ["0.10", "12345678901234567890.123456789", "-10.00", "0.0000001"])
def test_a_decimal_keeps_its_digits_in_every_answer(run: Commands, digits: str) -> None:
    body = f'{{"OrderId": "1", "Price": {digits}}}'
    run.write("order.json", body)
    assert f'"Price": {digits}' in run("convert", "--object", "Order", "order.json").stdout
    assert f'"Price": {digits}' in run("convert", "--object", "Order", "--json", "order.json").stdout
    for mime_type in ("text/xml", "text/namevalue", "text/delimited", "application/json"):
        done = run("convert", "--object", "Order", "--to", mime_type, "order.json")
        assert digits in done.stdout
        back = run("convert", "--object", "Order", "--from", mime_type, data=done.stdout)
        assert f'"Price": {digits}' in back.stdout
    explain = ("explain", "order.json", "--destination", "queue://web")
    assert f'"Price": {digits}' in run(*explain).stdout
    assert f'"Price": {digits}' in run(*explain, "--json").stdout
    message = "message: {destination: queue://web, body_file: order.json}\n"
    case = message + "expect: {object: Order, values: {OrderId: '1', Price: PRICE}}\n"
    run.write("price.test.yaml", case.replace("PRICE", digits))
    assert run("test").stdout == "1 passed, 0 failed\n"
    run.write("price.test.yaml", case.replace("PRICE", "99"))
    assert f'+  "Price": {digits}' in run("test").stdout


def test_a_body_may_name_its_object_and_the_verb_is_that_of_the_call(run: Commands) -> None:
    assert run("convert", data=NAMED).document["BusinessObject"] == "Order"
    done = run("convert", "--object", "Order", "--verb", "Cancel", data=NAMED)
    assert done.document["Verb"] == "Cancel"


def test_an_object_is_written_in_another_format_and_back(run: Commands) -> None:
    run.write("order.json", ORDER)
    done = run("convert", "--object", "Order", "--to", "text/xml", "order.json")
    assert done.stdout.startswith("<?xml")
    assert "<Item>tea</Item>" in done.stdout
    again = run("convert", "--from", "text/xml", "--to", "application/json", data=done.stdout)
    assert again.document == json.loads(ORDER)  # write_type is false in this deployment


@rows(
    "arguments, data, status, words",
    [
        (["--object", "Order"], '{"OrderId": 7}', 1, "stdin: Order: OrderId: found the number 7"),
        (["--object", "Order"], '{"Total": 7}', 1, "stdin: Order: OrderId: required, but not set"),
        ([], '{"OrderId": "7"}', 1, "names a business object; --object names it"),
        (["--object", "Ordr"], ORDER, 2, "did you mean 'Order'"),
        (["--object", "Order", "--verb", "Creat"], ORDER, 2, "did you mean 'Create'"),
        (["--verb", "Create"], ORDER, 2, "--verb needs --object"),
        (["--from", "text/jason"], ORDER, 2, "no data handler for 'text/jason'"),
        (["--object", "Order", "--to", "text/plain"], ORDER, 1, "no attribute 'Text'"),
        (["missing.json"], "", 2, "missing.json: No such file"),
    ],
)
def test_what_cannot_be_converted_is_told(
    run: Commands, arguments: list[str], data: str, status: int, words: str
) -> None:
    done = run("convert", *arguments, data=data)
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


# --- datahandlers -----------------------------------------------------------------------------


def test_a_plug_in_that_replaces_a_shipped_handler_is_marked(run: Commands) -> None:
    run.write("mine.py", 'class Mine:\n    """Ours."""\n    mime_types = ("text/plain",)\n')
    run.change("adapter.yaml", "metaobjects:", "datahandlers: ./mine.py\nmetaobjects:")
    lines = run("datahandlers").stdout.splitlines()
    assert "text/plain: mine.py:Mine (plug-in)" in lines
    assert any("text_handler:TextHandler (shipped, replaced for text/plain)" in line for line in lines)


def test_without_a_configuration_the_shipped_data_handlers_are_listed(tmp_path: Path) -> None:
    done = Commands(tmp_path)("datahandlers")
    assert done.returncode == 0
    assert "text/xml, application/xml" in done.stdout
    assert "adapter.yaml does not exist" in done.stderr


# --- explain ----------------------------------------------------------------------------------


def test_a_message_is_explained(run: Commands) -> None:
    run.write("order.json", ORDER)
    done = run("explain", "order.json", "--destination", "web", "--json")
    assert done.returncode == 0
    found = done.document
    assert found["rules"] == [
        {"name": "Order_Create", "matches": True, "reasons": [], "priority": 0},
        {
            "name": "Order_Cancel",
            "matches": False,
            "reasons": ["InputFormat is 'CANCEL', the message has no format"],
            "priority": 0,
        },
    ]
    assert (found["rule"], found["data_handler"], found["mime_type"]) == (
        "Order_Create",
        "JsonHandler",
        "application/json",
    )
    assert found["named_by"] == "Default"
    (bo,) = found["objects"]
    assert (bo["object"], bo["verb"], bo["values"]["Total"]) == ("Order", "Create", 2.5)
    assert "s3cret" not in done.stdout
    common = {"confirmed": False, "sent": None}
    assert bo["subscriptions"] == [
        {"name": "book", "wants": True, "reason": "", "sends_to": None, **common},
        {"name": "crm", "wants": False, "reason": "wants Cust*", "sends_to": "queue://crm", **common},
    ]
    assert (found["outcome"], found["settled"]) == ("published", "queue://archive")
    assert not (run.directory / "data").exists()


@rows(
    "arguments, status, words",
    [
        (["--destination", "web"], 0, "only the rule Order_Create counts"),
        (["--type", "CANCEL"], 1, "no XML"),
        (["--type", "CANCEL", "--destination", "web"], 0, "several rules match (Order_Create, Order_Cancel)"),
        ([], 0, "no rule of MO_Config matches, so the default data handler decides"),
        ([], 0, "unsubscribed, no copy is kept"),
        (["--destination", "web"], 0, "  subscription crm: wants Cust*"),
    ],
)
def test_an_explanation_for_people(run: Commands, arguments: list[str], status: int, words: str) -> None:
    run.write("order.json", ORDER)
    done = run("explain", "order.json", *arguments)
    assert done.returncode == status
    assert words in done.stdout


def test_a_message_in_a_queue_is_explained_by_its_id_and_stays(run: Commands) -> None:
    identity = run.send("web", "<Order><OrderId>1</OrderId></Order>", "--type", "CANCEL")
    found = run("explain", identity, "--json").document
    assert (found["message_id"], found["destination"]) == (identity, "queue://web")
    assert found["why"].startswith("several rules match")
    assert len(run("browse", "web", "--json").stdout.splitlines()) == 1
    assert (
        "no such file, and no message of this id in queue://orders, queue://web"
        in run("explain", "ID:nothing").refusal()
    )


# --- test -------------------------------------------------------------------------------------

CASES = """\
- name: an order
  message: {destination: web, body: '{"OrderId": "1", "Total": 2.5, "Line": [{"Item": "7", "Count": 2}]}'}
  expect:
    object: Order
    verb: Create
    values: {OrderId: 1, Total: 2.50, Line: [{Item: 7, Count: 2}]}
    rule: Order_Create
    data_handler: JsonHandler
    subscriptions: [book]
    outcome: published
    destination: archive
- name: cancelled
  message: {type: CANCEL, body: "<Order><OrderId>no</OrderId></Order>"}
  expect: {object: Order, verb: Cancel, contains: {OrderId: no}, outcome: unsubscribed, destination: none}
---
name: wrong
message: {destination: web, body: '{"OrderId": 1}'}
expect: {outcome: failed, reason: found the number 1, destination: "queue://error"}
"""


def test_cases_pass(run: Commands) -> None:
    run.write("cases/orders.test.yaml", CASES)
    done = run("test")
    assert (done.returncode, done.stdout) == (0, "3 passed, 0 failed\n")
    listed = run("test", "cases", "--json").documents
    assert [(one["case"], one["passed"]) for one in listed] == [
        ("an order", True),
        ("cancelled", True),
        ("wrong", True),
    ]


@rows(
    "old, new, words",
    [
        ("Total: 2.50", "Total: 3", '-  "Total": 3.0'),
        ("Count: 2}]}\n    rule", "Count: 3}]}\n    rule", '-      "Count": 3,'),
        ("verb: Create", "verb: Cancel", "verb: expected Cancel, found Create"),
        ("rule: Order_Create", "rule: none", "rule: expected none, found Order_Create"),
        ("[book]", "[book, crm]", "subscriptions: expected book, crm, found book"),
        ("outcome: published", "outcome: failed", "outcome: expected failed, found published"),
        (
            "destination: archive",
            "destination: error",
            "destination: expected queue://error, found queue://archive",
        ),
        ("found the number 1", "found the number 2", "reason: expected 'found the number 2'"),
        ("{OrderId: no}", "{OrderId: yes}", '-  "OrderId": "yes"'),
    ],
)
def test_a_case_that_fails_shows_the_difference(run: Commands, old: str, new: str, words: str) -> None:
    assert CASES.count(old) == 1
    run.write("orders.test.yaml", CASES.replace(old, new))
    done = run("test")
    assert done.returncode == 1
    assert done.stdout.endswith("2 passed, 1 failed\n")
    assert "FAILED orders.test.yaml:" in done.stdout
    assert words in done.stdout


@rows(
    "old, new, words",
    [
        ("expect:\n    object", "expects:\n    object", "orders.test.yaml:3:3: case.expects: unknown key"),
        ("Total: 2.50", "Totl: 2", "Order has no such attribute"),
        ("Total: 2.50", "Total: x", "expect.values.Total: found the text 'x', expected a number"),
        ("outcome: published", "outcome: publish", "did you mean 'published'"),
        ("object: Order\n", "object: Ordr\n", "did you mean 'Order'"),
        ("    object: Order\n", "", "values without object"),
        ('body: "<', 'body_file: "<', "No such file"),
        ("Line: [", "Line: {a: [", "expected a list of mappings"),
    ],
)
def test_a_mistake_in_a_case_is_told_with_its_place(run: Commands, old: str, new: str, words: str) -> None:
    text = CASES.replace(old, new)
    if "{a: [" in new:
        text = text.replace("Count: 2}]}\n    rule", "Count: 2}]}}\n    rule")
    run.write("orders.test.yaml", text)
    assert words in run("test").refusal()


LISTS = """\
name: lists
message:
  destination: queue://web
  body: '{"OrderId": "1", "Tag": [1, 2], "Code": ["s3cret"]}'
expect:
  object: Order
  values: {OrderId: "1", Tag: [1, 2], Code: [s3cret]}
"""


def test_a_case_expects_lists_of_values(run: Commands) -> None:
    run.write("lists.test.yaml", LISTS)
    assert run("test").stdout == "1 passed, 0 failed\n"
    run.write("lists.test.yaml", LISTS.replace("Tag: [1, 2]", "Tag: [1, 3]").replace("[s3cret]", "[x]"))
    done = run("test")
    assert done.returncode == 1
    assert "-    3" in done.stdout
    assert '-  "Code": "********"' in done.stdout
    assert "s3cret" not in done.stdout


@rows(
    "new, words",
    [
        ("Tag: 1", "expect.values.Tag: a single value, expected a list of values"),
        ("Tag: [1, x]", "expect.values.Tag[1]: found the text 'x', expected an integer"),
        ("Tag: [1, {a: 1}]", "expect.values.Tag[1]: a mapping, expected a single value"),
        ("Tag: [1, null]", "expect.values.Tag[1]: null, expected a value, because a list has no gaps"),
    ],
)
def test_a_mistake_in_an_expected_list_is_told_with_its_place(run: Commands, new: str, words: str) -> None:
    run.write("lists.test.yaml", LISTS.replace("Tag: [1, 2]", new))
    assert words in run("test").refusal()


def test_no_case_at_all_is_an_error(run: Commands) -> None:
    assert "there is no case" in run("test").refusal()
