"""Mistakes in maps and in the subscriptions that use them, each with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.config.mistakes import A
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

DEFINITIONS = """\
business_object: Bill
verbs: {Create: }
attributes:
  Number: {type: String, key: true, required: true, max_length: 5}
  Amount: Decimal
  Rate: Decimal
  Paid: Boolean
  Day: Date
  Towns: {type: Town, cardinality: n}
  Names: {type: String, cardinality: n}
  Head: {type: Town}
---
business_object: Town
attributes: {Name: {type: String, required: true}, City: String}
---
"""
MAP = """\
map: ToBill
from: Customer
to: Bill
verb: Create
attributes:
  Number: CustomerId
"""


def put(deployment: Sample, old: str = "", new: str = "") -> None:
    assert old in MAP
    deployment.write("metaobjects/bill.yaml", DEFINITIONS + MAP.replace(old, new, 1))


@rows(
    "old, new, path, words",
    [
        (
            "from: Customer",
            "from: Custmer",
            "from",
            "there is no business object 'Custmer', expected a business",
        ),
        ("from: Customer", "from: Custmer", "from", "did you mean 'Customer'?"),
        ("to: Bill", "to: Bil", "to", "did you mean 'Bill'?"),
        ("verb: Create", "verb: Creat", "verb", "Bill has no verb 'Creat', expected one of Create"),
        ("  Number:", "  Numbr: CustomerId\n  Number:", "attributes.Numbr", "did you mean 'Number'?"),
        ("  Number: CustomerId", "  Amount: '`1`'", "attributes", "no Number, which Bill requires"),
        (": CustomerId", ": CustomrId", "attributes.Number", "did you mean 'CustomerId'?"),
        (": CustomerId", ": Limit", "attributes.Number", "Number: a Double, expected a String"),
        (
            ": CustomerId",
            ": Address",
            "attributes.Number",
            "Number: a list of objects (Address), expected a Str",
        ),
        (
            ": CustomerId",
            ": \"'123456'\"",
            "attributes.Number",
            "found a text of 6 characters, expected at most 5",
        ),
        (": CustomerId", ": lookup(", "attributes.Number", "no JMESPath expression"),
        (": CustomerId", ": \"lookup('no.csv', Name)\"", "attributes.Number", "no.csv: No such file"),
        (
            "  Number:",
            "  Rate: Limit\n  Number:",
            "attributes.Rate",
            "Rate: a Double, which is not exact, expected",
        ),
        ("  Number:", "  Paid: Name\n  Number:", "attributes.Paid", "Paid: a String, expected a Boolean"),
        (
            "  Number:",
            "  Day: \"'soon'\"\n  Number:",
            "attributes.Day",
            "found the text 'soon', expected an ISO",
        ),
        (
            "  Number:",
            "  Names: Name\n  Number:",
            "attributes.Names",
            "Names: a String, expected a list (String)",
        ),
        (
            "  Number:",
            "  Names: 'Address[]'\n  Number:",
            "attributes.Names",
            "Names: an object (Address), expected",
        ),
        ("  Number:", "  Towns: Address\n  Number:", "attributes.Towns", "no Name, which Town requires"),
        (
            "  Number:",
            "  Towns: 'Address[].{Nam: City}'\n  Number:",
            "attributes.Towns",
            "did you mean 'Name'?",
        ),
        (
            "  Number:",
            "  Head: Name\n  Number:",
            "attributes.Head",
            "Head: a String, expected an object (Town)",
        ),
        ("map: ToBill", "map: ToBill\ntoo: Bill", "too", "unknown key"),
    ],
)
def test_a_mistake_in_a_map_has_its_place(
    deployment: Sample, old: str, new: str, path: str, words: str
) -> None:
    put(deployment, old, new)
    problems = [one for one in deployment.check() if not one.warning]
    assert words in "\n".join(map(str, problems))
    assert {(one.file, one.path) for one in problems} == {("metaobjects/bill.yaml", f"ToBill.{path}")}
    assert all(one.line for one in problems)


@rows(
    "attributes",
    [
        "Towns: 'Address[].{Name: City, City: City}'",
        "Head: 'Address[0].{Name: City}'",
        "Names: 'Address[].City'",
        "Amount: \"'1.50'\"",
        "Amount: '`1.50`'",
        "Paid: 'length(Address) > `1`'",
        "Day: \"'2024-05-31'\"",
        "Rate: 'to_string(Limit)'",
        "Head: '`null`'",
    ],
)
def test_what_fits_is_no_mistake(deployment: Sample, attributes: str) -> None:
    put(deployment, "  Number:", f"  {attributes}\n  Number:")
    assert [one for one in deployment.check() if not one.warning] == []


@rows(
    "entry, words",
    [
        ("map: ToBil", "there is no map 'ToBil', expected one of ToBill, did you mean 'ToBill'?"),
        ("map: ToBill", "ToBill takes Customer, not Order, expected a map from Order"),
    ],
)
def test_a_map_that_a_subscription_cannot_have(deployment: Sample, entry: str, words: str) -> None:
    put(deployment)
    deployment.replace(A, "    mime_type: text/xml\n", f"    mime_type: text/xml\n    {entry}\n")
    problem = deployment.problem()
    assert problem.path == "subscriptions[1].map"
    assert words in str(problem)


def test_a_process_has_no_map(deployment: Sample) -> None:
    put(deployment)
    process = "    process: processes:store_customer"
    deployment.replace(A, process, f"{process}\n    map: ToBill")
    problem = deployment.problem()
    assert (problem.path, problem.found) == ("subscriptions[0].map", "map of a process")


def test_keys_of_a_sink_are_checked_against_what_the_map_makes(deployment: Sample) -> None:
    put(deployment)
    process = "    verbs: [Create, Update]\n    process: processes:store_customer"
    webhook = "    map: ToBill\n    webhook: {url: 'https://h.example/{CustomerNo}'}"
    deployment.replace(A, process, webhook)
    assert "Customer has no attribute CustomerNo with a single value" in str(deployment.problem())
    for name in ("{CustomerId}", "{Number}"):
        deployment.replace(A, "{CustomerNo}" if name == "{CustomerId}" else "{CustomerId}", name)
        assert deployment.check() == []
    deployment.replace(
        A, "webhook: {url: 'https://h.example/{Number}'}", "table: shop.bills\n    columns: {n: Name}"
    )
    assert "Bill has no attribute 'Name'" in str(deployment.problem())
    deployment.replace(A, "columns: {n: Name}", "columns: {n: \"lookup('a.csv', Number)\"}")
    assert "looks up in a file, which only a map does for a table" in str(deployment.problem())


def test_the_object_of_a_map_is_another_step_and_no_loop(deployment: Sample) -> None:
    back = "    destination: queue://customers\n"
    bill = "business_object: OrderBill\nverbs: {Create: }\nattributes: {Number: {type: String, key: true}}\n"
    rule = "---\nmap: ToOrderBill\nfrom: Order\nto: OrderBill\nattributes: {Number: \"'1'\"}\n"
    deployment.write("metaobjects/bill.yaml", f"{bill}{rule}")
    deployment.replace(A, "    destination: queue://erp-orders\n", back)
    assert [one.found for one in deployment.check() if "endless loop" in one.found] != []
    deployment.replace(A, back, f"{back}    map: ToOrderBill\n")
    assert [one.found for one in deployment.check() if "endless loop" in one.found] == []
