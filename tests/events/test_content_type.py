"""The MIME type that a message from outside names chooses its data handler."""

from __future__ import annotations

import json

from connector.messaging.message import CONTENT_TYPE
from tests.events.conftest import ORDER, Bench, handler, with_rules
from tests.tables import rows

XML = "<Order><Id>1</Id></Order>"
CSV = "Id\nü\n"
RULES = """\
  Order_Create: {InputDestination: queue://orders, DataHandlerMimeType: text/csv, DataHandlerConfigMO: MO_L}
  Order_Cancel: {InputFormat: CANCEL, DataHandlerClassName: "own:Own"}
"""
LATIN = """\
---
datahandler_metaobject: MO_L
handlers:
  text/csv: {charset: ISO-8859-1}
"""
OWN = handler(
    "text/own",
    head="from connector.businessobjects.instance import BusinessObject",
    reads="return BusinessObject(self.definitions, 'Order', 'Cancel', {'Id': 'own'})",
)


@rows(
    "type, body, format, identity",
    [
        ("application/json", ORDER, "", "1"),
        ("text/xml", XML, "", "1"),
        ("Text/XML; charset=utf-8", XML, "", "1"),
        ("text/csv", CSV.encode("latin-1"), "", "ü"),
        (None, CSV.encode("latin-1"), "", "ü"),
        ("text/xml", XML, "CANCEL", "own"),
        ("what/ever", XML, "CANCEL", "own"),
    ],
)
def test_the_type_counts_before_rules_and_a_class_counts_before_the_type(
    bench: Bench, type: str | None, body: str | bytes, format: str, identity: str
) -> None:
    deployment = bench.deploy(objects=with_rules(RULES) + LATIN)
    deployment.write("own.py", OWN)
    properties = {} if type is None else {CONTENT_TYPE: type}
    queue = "customers" if format else "orders"
    deployment.send(f"queue://{queue}", body, type=format or None, properties=properties)
    assert [outcome for outcome, _ in deployment.outcomes().values()] == ["published"]
    (call,) = [json.loads(line) for line in (deployment.directory / "calls").read_text().splitlines()]
    assert call["values"]["Id"] == identity


@rows("type", ["text/html", "", "own:Own"])
def test_a_type_without_a_data_handler_fails_its_message(bench: Bench, type: str) -> None:
    deployment = bench.deploy()
    deployment.send("queue://orders", ORDER, properties={CONTENT_TYPE: type})
    ((outcome, reason),) = deployment.outcomes().values()
    assert (outcome, "no data handler for" in reason) == ("failed", True)
