"""`connector test`: what a case expects, differences, secrets, mistakes, and where cases are looked for."""

from __future__ import annotations

import pytest

from tests.cli.in_process import Answer, Commands, call
from tests.tables import rows

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
---
name: lists
message: {destination: web, body: '{"OrderId": "1", "Tag": [1, 2], "Code": ["s3cret"]}'}
expect: {object: Order, values: {OrderId: "1", Tag: [1, 2], Code: [s3cret]}}
"""
SENDS = """\
message: {type: LINES, body: "7\\n8\\n"}
expect:
  records: [{object: Order, values: {OrderId: 7}}, {verb: Create}]
  sends: {crm: [7, {body_file: eight.txt}]}
"""


COMPUTED = """\
message: {type: LINES, correlation_id: c, body: "7\\n8\\n"}
expect:
  records: [{}, {}]
  sends:
    crm:
      - {destination: crm-7, body: 7, group: 7, correlation_id: none, priority: 3,
         properties: {id: 7, total: }}
      - {destination: "queue://crm-8", properties: {"id:string": 8}}
"""


@pytest.fixture
def run(plain: Commands) -> Commands:
    return Commands(plain.directory, "test")


@pytest.fixture
def plugged_run(plugged: Commands) -> Commands:
    commands = Commands(plugged.directory, "test")
    commands.write("eight.txt", "8\n")
    return commands


def check(run: Commands, cases: str, *arguments: str) -> Answer:
    """Runs the cases of a file."""
    run.write("orders.test.yaml", cases)
    return run(*arguments)


def test_cases_pass(run: Commands) -> None:
    done = check(run, CASES)
    assert (done.returncode, done.stdout) == (0, "4 passed, 0 failed\n")
    listed = run("orders.test.yaml", "--json").documents
    assert [(one["case"], one["passed"]) for one in listed] == [
        (name, True) for name in ("an order", "cancelled", "wrong", "lists")
    ]


def test_computed_destinations_headers_and_properties_are_compared(plugged_run: Commands) -> None:
    file = plugged_run.directory / "adapter.yaml"
    route = """destination: "queue://crm-{OrderId}", destinations: ["queue://crm-*"], group: "{OrderId}",
      properties: {id: "{OrderId}", total: "{Total}"}, priority: 3, correlation_id: "{Total}\""""
    file.write_text(file.read_text().replace('destination: "queue://crm"', route))
    done = check(plugged_run, COMPUTED)
    assert (done.returncode, done.stdout) == (0, "1 passed, 0 failed\n")
    wrong = COMPUTED.replace("crm-7", "crm-9").replace("group: 7", "group: 9").replace("string", "int")
    done = check(plugged_run, wrong.replace("total: ", "total: 1"))
    assert done.stdout.splitlines()[1:5] == [
        "  sends: crm: destination: expected queue://crm-9, found queue://crm-7",
        "  sends: crm: group: expected 9, found 7",
        "  sends: crm: properties.total: expected 1, found none",
        "  sends: crm: properties.id: expected 8 (int), found 8 (string)",
    ]


def test_the_bodies_that_a_subscription_sends_are_compared(plugged_run: Commands) -> None:
    done = check(plugged_run, SENDS)
    assert (done.returncode, done.stdout) == (0, "1 passed, 0 failed\n")
    assert "aloud" in done.stderr


@rows(
    "old, new, words",
    [
        ("Total: 2.50", "Total: 3", '-  "Total": 3.0'),
        ("Count: 2}]}\n    rule", "Count: 3}]}\n    rule", '-      "Count": 3,'),
        ("verb: Create", "verb: Cancel", "verb: expected Cancel, found Create"),
        ("rule: Order_Create", "rule: none", "rule: expected none, found Order_Create"),
        ("[book]", "[book, crm]", "subscriptions: expected book, crm, found book"),
        ("outcome: published", "outcome: failed", "outcome: expected failed, found published"),
        ("destination: archive", "destination: error", "expected queue://error, found queue://archive"),
        ("found the number 1", "found the number 2", "reason: expected 'found the number 2'"),
        ("{OrderId: no}", "{OrderId: yes}", '-  "OrderId": "yes"'),
        ("Tag: [1, 2]", "Tag: [1, 3]", "-    3"),
        ("Code: [s3cret]", "Code: [x]", '-  "Code": "********"'),
    ],
)
def test_a_case_that_fails_shows_the_difference(run: Commands, old: str, new: str, words: str) -> None:
    assert CASES.count(old) == 1
    done = check(run, CASES.replace(old, new))
    assert done.returncode == 1
    assert done.stdout.endswith("3 passed, 1 failed\n")
    assert "FAILED orders.test.yaml:" in done.stdout
    assert words in done.stdout
    assert "s3cret" not in done.stdout


@rows(
    "old, new, words",
    [
        ("[7,", "[9,", "  sends: crm:\n  --- expected\n  +++ found\n  @@ -1 +1 @@\n  -9\n  +7\n"),
        (", {body_file: eight.txt}]", "]", "  sends: crm: expected 1 message, found 2 messages\n"),
        ("crm: [7,", "book: [7,", "  sends: book: expected 2 messages, found no messages\n"),
    ],
)
def test_another_body_is_shown_as_a_difference(plugged_run: Commands, old: str, new: str, words: str) -> None:
    done = check(plugged_run, SENDS.replace(old, new))
    assert (done.returncode, words in done.stdout) == (1, True), done.stdout


def test_the_white_space_of_json_does_not_count(plugged_run: Commands) -> None:
    plugged_run.change("adapter.yaml", "text/lines, name: crm", "application/json, name: crm")
    cases = """\
name: spaces
message: {body: '{"BusinessObject": "Order", "OrderId": "7", "Total": 1.50}'}
expect:
  sends:
    crm: |
      { "ObjectEventId": "ID:spaces", "OrderId": "7", "Total": 1.5,
        "Verb": "Create", "BusinessObject": "Order" }
"""
    assert check(plugged_run, cases).returncode == 0
    done = check(plugged_run, cases.replace("1.5,", "2,"))
    assert done.returncode == 1
    assert '-  "Total": 2,\n  +  "Total": 1.5,' in done.stdout


def test_a_difference_never_shows_a_ciphertext(plugged_run: Commands) -> None:
    body = '{"BusinessObject": "Order", "OrderId": "7", "Pin": "s3cret", "Line": [{"Code": "s3cret"}, {}]}'
    plugged_run.write("order.json", body)
    plugged_run.change("adapter.yaml", "text/lines, name: crm", "application/json, name: crm")
    case = "message: {body_file: order.json}\nexpect: {object: Order, %s}"
    wrong = "sends: {crm: '{}'}, values: {OrderId: 7, Pin: other, Line: [{Code: s3cret}]}"
    done = check(plugged_run, case % wrong)
    assert done.returncode == 1
    assert "s3cret" not in done.stdout + done.stderr
    assert '-  "Pin": "********"\n  +  "Pin": "******** (another text)"' in done.stdout
    assert '"Code": "********"' in done.stdout
    assert "sends: crm: another body, which is not shown, because the object has a Ciphertext" in done.stdout
    right = "values: {OrderId: 7, Pin: s3cret, Line: [{Code: s3cret}, {}]}"
    assert check(plugged_run, case % right).returncode == 0


def test_what_the_message_brings_counts_only_where_a_case_names_it(plugged_run: Commands) -> None:
    message = """message: {correlation_id: C7, body: '{"BusinessObject": "Order", "OrderId": "7"}'}"""
    brought = 'ObjectEventId: "ID:second", Meta: {CorrelationID: C7, Destination: queue://orders}'
    cases = "\n---\n".join(
        f"name: {name}\n{message}\nexpect: {{object: Order, values: {{OrderId: 7{more}}}}}"
        for name, more in (("first", ""), ("second", f", {brought}"))
    )
    done = check(plugged_run, cases)
    assert (done.returncode, done.stdout) == (0, "2 passed, 0 failed\n")
    assert check(plugged_run, cases.replace("{CorrelationID: C7,", "{CorrelationID: C8,")).returncode == 1


@rows(
    "body, expected, status, words",
    [
        ("{}", "rule: none", 0, ""),  # unsubscribed
        ("x", "rule: none, subscriptions: []", 1, "  outcome: found failed (the body is no JSON"),
        ("x", "rule: none, outcome: failed", 0, ""),
        ("x", "reason: no JSON", 0, ""),
    ],
)
def test_a_message_that_fails_unexpectedly_fails_its_case(
    run: Commands, body: str, expected: str, status: int, words: str
) -> None:
    done = check(run, f"message: {{destination: orders, body: '{body}'}}\nexpect: {{{expected}}}")
    assert (done.returncode, words in done.stdout) == (status, True), done.stdout


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
        ("[{Item: 7, Count: 2}]", "{a: []}", "expected a list of mappings"),
        ("Tag: [1, 2]", "Tag: 1", "expect.values.Tag: a single value, expected a list of values"),
        ("Tag: [1, 2]", "Tag: [1, x]", "expect.values.Tag[1]: found the text 'x', expected an integer"),
        ("Tag: [1, 2]", "Tag: [1, {a: 1}]", "expect.values.Tag[1]: a mapping, expected a single value"),
        (
            *("Tag: [1, 2]", "Tag: [1, null]"),
            "expect.values.Tag[1]: null, expected a value, because a list has no gaps",
        ),
    ],
)
def test_a_mistake_in_a_case_is_told_with_its_place(run: Commands, old: str, new: str, words: str) -> None:
    assert words in check(run, CASES.replace(old, new)).refusal()


RULE = "\nexpect: {rule: none}"


@rows(
    "case, words",
    [
        ("message: {body: x}\nexpect: {}", "orders.test.yaml:2:1: case.expect: nothing is expected"),
        (
            "message: {properties: {'a:int': x}}" + RULE,
            "orders.test.yaml:1:33: message.properties.a:int: 'x' is no int",
        ),
        (
            "message: {properties: {'a:itn': 1}}" + RULE,
            "message.properties.a:itn: 'itn' is no property type",
        ),
        ("message: {destination: a/b}" + RULE, "orders.test.yaml:1:24: message.destination: "),
        ("expect: {destination: a/b}", "orders.test.yaml:1:23: expect.destination: "),
        ("expect: {subscriptions: [bok]}", "test.yaml:1:26: expect.subscriptions: no subscription has "),
        ("expect: {sends: {cmr: x}}", "expected one of book, crm, did you mean 'crm'?"),
        ("message: {bytes: yes}" + RULE, "message.bytes: found 'yes', expected one of true"),
    ],
)
def test_a_mistake_is_told_in_one_line_and_nothing_runs(run: Commands, case: str, words: str) -> None:
    (line,) = check(run, case).refusal().splitlines()
    assert words in line


def test_cases_are_found_below_the_configuration_from_any_directory(
    run: Commands, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert "there is no case" in run().refusal()
    case = "message: {body: x}\nexpect: {outcome: failed}\n"
    for name in ("deep/er", ".hidden", "venv/lib", "data/orders"):
        run.write(f"{name}/one.test.yaml", case)
    run.write("venv/pyvenv.cfg", "")
    assert check(run, case).stdout == "2 passed, 0 failed\n"
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = call(elsewhere, "test", "-c", str(run.directory / "adapter.yaml"))
    assert done.stdout == "2 passed, 0 failed\n"
    assert check(run, case, "deep").stdout == "1 passed, 0 failed\n"
    assert "nothing" in check(run, case, "nothing").refusal()


def test_an_expression_of_a_case_holds_or_is_named(run: Commands) -> None:
    case = """\
name: counted
message: {destination: web, body: '{"OrderId": "1", "Total": 2.5, "Line": [{"Item": "7", "Count": 2}]}'}
expect: {object: Order, jmespath: "%s"}
"""
    answer = check(run, case % "length(Line) == Line[0].Count")
    assert answer.returncode == 1
    assert "jmespath: length(Line) == Line[0].Count does not hold" in answer.stdout + answer.stderr
    assert check(run, case % "length(Line) == `1` && Total == `2.50`").returncode == 0
    (run.directory / "names.csv").write_text("item,name\n7,screw\n")
    assert check(run, case % "lookup('names.csv', Line[0].Item) == 'screw'").returncode == 0
    answer = check(run, case % "lookup('none.csv', Line[0].Item) == 'screw'")
    assert "none.csv: No such file or directory" in answer.stderr
    answer = check(run, case % "upper(Total) == 'X'")
    assert "does not hold: Total: found the number 2.5, expected a text in upper()" in answer.stdout
    answer = check(run, case % "length(Line")
    assert answer.returncode == 2
    assert "expect.jmespath" in answer.stderr


MAPS = """\
business_object: Bill
verbs: [Create]
attributes: {Number: {type: String, key: true}, Amount: Decimal}
---
map: OrderToBill
from: Order
to: Bill
attributes: {Number: OrderId, Amount: "round(to_number(to_string(Total)), `1`)"}
"""


def test_the_object_that_a_map_makes_is_compared(run: Commands) -> None:
    run.write("metaobjects/bill.yaml", MAPS)
    case = """\
name: billed
message: {destination: web, body: '{"OrderId": "1", "Total": 2.55}'}
expect: {maps: {OrderToBill: %s}}
"""
    for good in ("{verb: Create, values: {Number: '1', Amount: 2.6}}", '{jmespath: "Amount == `2.60`"}'):
        assert check(run, case % good).stdout == "1 passed, 0 failed\n"
    answer = check(run, case % "{values: {Number: '1', Amount: 2.5}}")
    assert '  maps: OrderToBill: -  "Amount": 2.5,' in answer.stdout
    answer = check(run, case % "[]")
    assert "maps: OrderToBill: expected no objects, found 1 object" in answer.stdout
    answer = check(run, (case % "{}").replace("OrderToBill", "OrderToBil"))
    assert "there is no map 'OrderToBil', expected one of OrderToBill, did you mean" in answer.stderr
