"""`connector explain`: what would be sent, what has been confirmed, and where a message is looked for."""

from __future__ import annotations

import datetime
import json

from tests.cli.in_process import Commands
from tests.tables import rows


def test_a_message_is_explained(plain: Commands) -> None:
    done = plain("explain", "order.json", "--destination", "web", "--json")
    assert done.returncode == 0
    found = done.document
    reason = "InputFormat is 'CANCEL', the message has no format"
    assert found["rules"] == [
        {"name": "Order_Create", "id": "Order_Create", "matches": True, "reasons": [], "priority": 0},
        {"name": "Order_Cancel", "id": "Order_Cancel", "matches": False, "reasons": [reason], "priority": 0},
    ]
    chosen = [found[name] for name in ("rule", "data_handler", "mime_type", "named_by")]
    assert chosen == ["Order_Create", "JsonHandler", "application/json", "Default"]
    (bo,) = found["objects"]
    assert (bo["object"], bo["verb"], bo["values"]["Total"]) == ("Order", "Create", 2.5)
    assert "s3cret" not in done.stdout
    common = {"confirmed": False, "sent": None}
    assert bo["subscriptions"] == [
        {"name": "book", "wants": True, "reason": "", "sends_to": None, **common},
        {"name": "crm", "wants": False, "reason": "wants Cust*", "sends_to": "queue://crm", **common},
    ]
    assert (found["outcome"], found["settled"]) == ("published", "queue://archive")
    assert not (plain.directory / "data").exists()


@rows(
    "options, status, words",
    [
        ("--destination web", 0, "only the rule Order_Create counts"),
        ("--type CANCEL", 1, "no XML"),
        ("--type CANCEL --destination web", 0, "several rules match (Order_Create, Order_Cancel)"),
        ("", 0, "no rule of MO_Config matches, so the default data handler decides"),
        ("", 0, "unsubscribed, no copy is kept"),
        ("--destination web", 0, "  subscription crm: wants Cust*"),
        (
            "--property connector_hops:int=21",
            1,
            "reason: the message was sent on 21 times, more often than max_hops (20)",
        ),
    ],
)
def test_an_explanation_for_people(plain: Commands, options: str, status: int, words: str) -> None:
    done = plain("explain", "order.json", *options.split())
    assert (done.returncode, words in done.stdout) == (status, True), done.stdout


def test_the_computed_destination_and_properties_are_shown(plain: Commands) -> None:
    file = plain.directory / "adapter.yaml"
    route = """destination: "queue://of-{OrderId}", destinations: ["queue://of-1*"], group: "{OrderId}",
      properties: {total: "{Total}"}"""
    written = (
        file.read_text()
        .replace("object: Cust*", "object: Order")
        .replace('destination: "queue://crm"', route)
    )
    file.write_text(written)
    done = plain("explain", "order.json", "--destination", "web")
    assert "  subscription crm: sends it to queue://of-1\n" in done.stdout
    assert "    total = 2.5\n    JMSXGroupID = 1\n" in done.stdout
    file.write_text(written.replace("of-1*", "of-2*"))
    done = plain("explain", "order.json", "--destination", "web", "--json")
    found = done.document["objects"][0]["subscriptions"][1]
    assert "the destination would be queue://of-1, which is none of destinations" in found["reason"]
    assert done.document["outcome"] == "failed"


def test_rules_of_one_name_are_told_apart(plain: Commands) -> None:
    file = plain.directory / "metaobjects" / "objects.yaml"
    several = "[{InputDestination: queue://web}, {InputFormat: LIST, DataHandlerMimeType: application/json}]"
    file.write_text(file.read_text().replace("{InputDestination: queue://web}", several))
    found = plain("explain", "order.json", "--type", "LIST", "--json").document
    reason = "InputDestination is queue://web, the message is from queue://orders"
    assert [(one["name"], one["id"], one["matches"], one["reasons"]) for one in found["rules"][:2]] == [
        ("Order_Create", "Order_Create[0]", False, [reason]),
        ("Order_Create", "Order_Create[1]", True, []),
    ]
    assert (found["rule"], found["named_by"]) == ("Order_Create[1]", "the rule Order_Create[1]")
    why = plain("explain", "order.json", "--type", "LIST", "--destination", "web").stdout
    assert "several rules match (Order_Create[0], Order_Create[1])" in why


def test_the_type_that_a_message_names_is_told_to_have_chosen(plain: Commands) -> None:
    given = ("explain", "order.json", "--destination", "web", "--json")
    found = plain(*given, "--property", "connector_content_type=text/plain").document
    assert (found["mime_type"], found["named_by"]) == ("text/plain", "the property connector_content_type")


def test_the_message_that_a_subscription_sends_is_shown(plugged: Commands) -> None:
    plugged.write("body", "7\n8\n")
    done = plugged("explain", "body", "--type", "LINES")
    assert done.returncode == 0
    assert "  split: true" in done.stdout
    assert "record 2: Order.Create" in done.stdout
    assert "  subscription crm: sends it to queue://crm\n    | 8\n" in done.stdout
    assert "aloud" not in done.stdout
    found = plugged("explain", "body", "--type", "LINES", "--json").document
    first = found["objects"][0]["subscriptions"][1]
    assert (first["sends_to"], first["sent"]["body"]) == ("queue://crm", "7\r\n")
    assert not (plugged.directory / "data").exists()


def test_a_message_that_cannot_be_made_is_a_failure(plugged: Commands) -> None:
    plugged.write("body", '{"BusinessObject": "Order", "OrderId": "13"}')
    done = plugged("explain", "body")
    assert done.returncode == 1
    assert "  subscription crm: cannot send it: MalformedData: 13 brings bad luck" in done.stdout
    assert "reason: crm: MalformedData: 13 brings bad luck" in done.stdout
    assert "failed, a copy goes to queue://error" in done.stdout


def test_a_ciphertext_is_nowhere_to_be_seen(plugged: Commands) -> None:
    plugged.change("handlers/lines.py", "{bo['OrderId']}", "{bo['Pin']}")
    plugged.write("body", '{"BusinessObject": "Order", "OrderId": "7", "Pin": "s3cret"}')
    done = plugged("explain", "body")
    assert "its body is not shown, because the object has a Ciphertext" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr
    document = plugged("explain", "body", "--json").stdout
    assert "s3cret" not in document
    assert json.loads(document)["objects"][0]["subscriptions"][1]["sent"]["body"] is None


def test_stderr_says_why_the_adapter_would_not_take_the_message(plugged: Commands) -> None:
    plugged.write("body", '{"BusinessObject": "Order", "OrderId": "7"}')
    first = plugged("explain", "body")
    assert "queue://orders is the first of 2 inputs; --destination names another" in first.stderr
    web = "the message does not fit the selector of queue://web: region = 'EU'"
    assert web in plugged("explain", "body", "--destination", "web").stderr
    assert web not in plugged("explain", "body", "--destination", "web", "--property", "region=EU").stderr
    other = plugged("explain", "body", "--destination", "other")
    assert "queue://other is no InputDestination: the adapter takes no message from there" in other.stderr


def test_a_message_in_a_queue_is_explained_by_its_id_and_stays(plain: Commands) -> None:
    identity = plain.send("web", "<Order><OrderId>1</OrderId></Order>", "--type", "CANCEL")
    found = plain("explain", identity, "--json").document
    assert (found["message_id"], found["destination"]) == (identity, "queue://web")
    assert found["why"].startswith("several rules match")
    assert len(plain("browse", "web", "--json").stdout.splitlines()) == 1
    plain.write("data/web/incoming/target/order-7.json", '{"BusinessObject": "Order", "OrderId": "7"}')
    assert plain("explain", "order-7.json").returncode == 0


def test_a_copy_is_explained_as_the_message_that_it_was(plugged: Commands) -> None:
    identity = plugged.send(
        *("error", "7\n8\n", "--correlation-id", "C7", "--type", "LINES"),
        *("--property", "connector_origin_destination=queue://orders"),
        *("--property", "connector_outcome=failed"),
        *("--property", "connector_delivered=book#1"),
    )
    done = plugged("explain", identity)
    assert f"{identity} from queue://orders, format LINES" in done.stdout
    assert done.stdout.count("  subscription book: has confirmed already\n") == 1
    assert done.stdout.count("  subscription book: gets it\n") == 1
    found = plugged("explain", identity, "--json").document
    assert found["objects"][0]["values"]["Meta"] == {"CorrelationID": "C7", "Destination": "queue://orders"}
    assert [one["confirmed"] for one in found["objects"][0]["subscriptions"]] == [True, False]


@rows(
    "line, words",
    [
        ("ID:1 --type LINES", "no such file, and --type and --property are for a file"),
        ("ID:1 --property a=b", "no such file, and --type and --property are for a file"),
        ("ID:1", "no such file, and no message of this id in queue://orders, queue://web"),
        ("order-7.json --destination web", "no message of this id in queue://web"),
    ],
)
def test_what_is_neither_a_file_nor_a_message_is_told(plain: Commands, line: str, words: str) -> None:
    plain.send("orders", "x")
    plain.write("data/orders/incoming/target/order-7.json", '{"BusinessObject": "Order", "OrderId": "7"}')
    assert words in plain("explain", *line.split()).refusal()


TIMERS = """timers:
  - {name: nightly, cron: "0 2 * * *", to: queue://jobs, object: Order, data: {OrderId: 7}, misfire: all}
  - {name: each, every: 15m, to: queue://beats, body: alive}
"""


def test_timers_are_shown_with_their_next_times(plain: Commands) -> None:
    refusal = plain("explain").refusal()
    assert "expected a FILE or the id of a message, because the configuration has no timers" in refusal
    file = plain.directory / "adapter.yaml"
    file.write_text(f"{file.read_text()}\n{TIMERS}")
    done = plain("explain", "--json")
    nightly, each = done.document["timers"]
    assert {key: nightly[key] for key in ("to", "object", "times", "misfire")} == {
        "to": "queue://jobs",
        "object": "Order",
        "times": "cron 0 2 * * *",
        "misfire": "all",
    }
    moments = [datetime.datetime.fromisoformat(one) for one in each["next"]]
    assert [one.minute % 15 for one in moments] == [0, 0, 0]
    assert moments[2] - moments[1] == moments[1] - moments[0] == datetime.timedelta(minutes=15)
    assert [one.astimezone().hour for one in map(datetime.datetime.fromisoformat, nightly["next"])] == [2] * 3
    lines = plain("explain").stdout.splitlines()
    assert lines[0] == "timer nightly: cron 0 2 * * *, misfire all"
    assert lines[1] == "  sends Order to queue://jobs"
    assert lines[4] == "  sends a body to queue://beats"
    assert not (plain.directory / "data").exists()


def test_the_when_that_says_no_is_named(plain: Commands) -> None:
    file = plain.directory / "adapter.yaml"
    text = file.read_text()
    assert text.count("name: book") == 1, text
    file.write_text(text.replace("name: book", "name: book, when: 'Total > `99`'"))
    done = plain("explain", "order.json", "--destination", "web")
    assert "  subscription book: its when says no: Total > `99`\n" in done.stdout
    assert (
        "reason: no subscription wants Order.Create (the when of book says no)\nunsubscribed" in done.stdout
    )
    file.write_text(text.replace("name: book", "name: book, when: 'divide(Total, `0`, `2`)'"))
    done = plain("explain", "order.json", "--destination", "web")
    reason = "when: `0`: found the number 0, expected another number than 0 in divide()"
    assert (done.returncode, f"reason: book: {reason}\nfailed" in done.stdout) == (1, True), done.stdout


def test_the_object_that_a_map_makes_is_shown(plain: Commands) -> None:
    file = plain.directory / "adapter.yaml"
    plain.write(
        "metaobjects/bill.yaml",
        "business_object: Bill\nverbs: [Create]\nattributes: {Number: {type: String, key: true}}\n---\n"
        'map: OrderToBill\nfrom: Order\nto: Bill\nattributes: {Number: "upper(OrderId)"}\n',
    )
    bill = "{object: Order, destination: bills, name: bill, map: OrderToBill}"
    file.write_text(file.read_text().replace("subscriptions:\n", f"subscriptions:\n  - {bill}\n"))
    done = plain("explain", "order.json", "--destination", "web")
    assert (
        "  subscription bill: sends it to queue://bills\n    Bill.Create of the map OrderToBill\n"
        in done.stdout
    )
    found = plain("explain", "order.json", "--destination", "web", "--json").document
    mapped = {one["name"]: one.get("mapped") for one in found["objects"][0]["subscriptions"]}
    assert mapped["bill"]["values"].keys() == {"Number"}
    assert (mapped["bill"]["map"], mapped["bill"]["object"], mapped["book"]) == ("OrderToBill", "Bill", None)
