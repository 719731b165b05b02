"""`connector test`: bodies that are sent, secrets, mistakes in cases, and where cases are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.in_process import Answer, Commands, call
from tests.tables import rows

SENDS = """\
message: {type: LINES, body: "7\\n8\\n"}
expect:
  records: [{object: Order, values: {OrderId: 7}}, {verb: Create}]
  sends: {crm: [7, {body_file: eight.txt}]}
"""


@pytest.fixture
def run(plugged: Path) -> Commands:
    commands = Commands(plugged, "test")
    commands.write("eight.txt", "8\n")
    return commands


def check(run: Commands, cases: str, *arguments: str) -> Answer:
    """Runs the cases of a file."""
    run.write("orders.test.yaml", cases)
    return run(*arguments)


def test_the_bodies_that_a_subscription_sends_are_compared(run: Commands) -> None:
    done = check(run, SENDS)
    assert (done.returncode, done.stdout) == (0, "1 passed, 0 failed\n")
    assert "aloud" in done.stderr


@rows(
    "old, new, words",
    [
        ("[7,", "[9,", "  sends: crm:\n  --- expected\n  +++ found\n  @@ -1 +1 @@\n  -9\n  +7\n"),
        (", {body_file: eight.txt}]", "]", "  sends: crm: expected 1 message, found 2 messages\n"),
        ("crm: [7,", "book: [7,", "  sends: book: expected 2 messages, found no messages\n"),
    ],
)
def test_another_body_is_shown_as_a_difference(run: Commands, old: str, new: str, words: str) -> None:
    done = check(run, SENDS.replace(old, new))
    assert done.returncode == 1
    assert words in done.stdout


def test_the_white_space_of_json_does_not_count(run: Commands) -> None:
    run.change("adapter.yaml", "text/lines, name: crm", "application/json, name: crm")
    cases = """\
name: spaces
message: {body: '{"BusinessObject": "Order", "OrderId": "7", "Total": 1.50}'}
expect:
  sends:
    crm: |
      { "ObjectEventId": "ID:spaces", "OrderId": "7", "Total": 1.5,
        "Verb": "Create", "BusinessObject": "Order" }
"""
    assert check(run, cases).returncode == 0
    done = check(run, cases.replace("1.5,", "2,"))
    assert done.returncode == 1
    assert '-  "Total": 2,\n  +  "Total": 1.5,' in done.stdout


def test_a_difference_never_shows_a_ciphertext(run: Commands) -> None:
    body = '{"BusinessObject": "Order", "OrderId": "7", "Pin": "s3cret", "Line": [{"Code": "s3cret"}, {}]}'
    run.write("order.json", body)
    run.change("adapter.yaml", "text/lines, name: crm", "application/json, name: crm")
    done = check(
        run,
        "message: {body_file: order.json}\n"
        "expect:\n  object: Order\n  sends: {crm: '{}'}\n"
        "  values: {OrderId: 7, Pin: other, Line: [{Code: s3cret}]}\n",
    )
    assert done.returncode == 1
    assert "s3cret" not in done.stdout + done.stderr
    assert '-  "Pin": "********"\n  +  "Pin": "******** (another text)"' in done.stdout
    assert '"Code": "********"' in done.stdout
    assert "sends: crm: another body, which is not shown, because the object has a Ciphertext" in done.stdout
    right = "values: {OrderId: 7, Pin: s3cret, Line: [{Code: s3cret}, {}]}"
    assert (
        check(run, f"message: {{body_file: order.json}}\nexpect: {{object: Order, {right}}}").returncode == 0
    )


def test_what_the_message_brings_counts_only_where_a_case_names_it(run: Commands) -> None:
    cases = """\
name: first
message: {correlation_id: C7, body: '{"BusinessObject": "Order", "OrderId": "7"}'}
expect: {object: Order, values: {OrderId: 7}}
---
name: second
message: {correlation_id: C7, body: '{"BusinessObject": "Order", "OrderId": "7"}'}
expect:
  object: Order
  values: {OrderId: 7, ObjectEventId: "ID:second", Meta: {CorrelationID: C7, Destination: queue://orders}}
"""
    done = check(run, cases)
    assert (done.returncode, done.stdout) == (0, "2 passed, 0 failed\n")
    assert check(run, cases.replace("{CorrelationID: C7,", "{CorrelationID: C8,")).returncode == 1


def test_a_message_that_fails_unexpectedly_fails_its_case(run: Commands) -> None:
    assert check(run, "message: {body: '{}'}\nexpect: {rule: none}").returncode == 0  # unsubscribed
    broken = check(run, "message: {body: 'x'}\nexpect: {rule: none, subscriptions: []}")
    assert broken.returncode == 1
    assert "  outcome: found failed (the body is no JSON" in broken.stdout
    assert check(run, "message: {body: 'x'}\nexpect: {rule: none, outcome: failed}").returncode == 0
    assert check(run, "message: {body: 'x'}\nexpect: {reason: no JSON}").returncode == 0


@rows(
    "case, words",
    [
        ("message: {body: x}\nexpect: {}", "orders.test.yaml:2:1: case.expect: nothing is expected"),
        ("message: {body: x}", "orders.test.yaml:1:1: case.expect: nothing is expected"),
        (
            "message: {properties: {'a:int': x}}\nexpect: {rule: none}",
            "orders.test.yaml:1:33: message.properties.a:int: 'x' is no int",
        ),
        (
            "message: {properties: {'a:itn': 1}}\nexpect: {rule: none}",
            "message.properties.a:itn: 'itn' is no property type",
        ),
        ("message: {destination: a/b}\nexpect: {rule: none}", "orders.test.yaml:1:24: message.destination: "),
        ("expect: {destination: a/b}", "orders.test.yaml:1:23: expect.destination: "),
        (
            "expect: {subscriptions: [bok]}",
            "orders.test.yaml:1:26: expect.subscriptions: no subscription has ",
        ),
        ("expect: {sends: {cmr: x}}", "expected one of book, crm, did you mean 'crm'?"),
        ("message: {bytes: yes}\nexpect: {rule: none}", "message.bytes: found 'yes', expected one of true"),
        ("expect: {sends: {crm: {bdy: x}}}", "expect.sends.crm.bdy: unknown key"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_nothing_runs(run: Commands, case: str, words: str) -> None:
    (line,) = check(run, case).refusal().splitlines()
    assert words in line


def test_cases_are_found_below_the_configuration_from_any_directory(
    run: Commands, tmp_path_factory: pytest.TempPathFactory
) -> None:
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
