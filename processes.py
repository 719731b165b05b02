"""The business processes of this deployment: what happens to a business object that arrives.

A process is a plain function. Returning means done. Any exception means that the event has failed;
its text is kept with the message as the reason. Three answers say something else, all from ``connector``:
``Unsubscribed`` (not for me), ``NotActive`` (not now: the message stays) and ``TemporaryFailure``
(try again in place). Of a subscription with ``reply: true``, what the process returns is sent back.

After a crash an event may come a second time, then ``event.delivery_count`` is above 1. A process
whose effect must not be doubled goes by ``event.id``, which stays the same.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from connector import Reply

RECEIVED = Path(os.environ.get("CONNECTOR_DATA", "./data"), "received")
"""Relative to the directory of adapter.yaml, in which processes run."""


def book_order(order, event):
    """Books an order whose total is what its lines come to."""
    total = sum(line["Quantity"] * line["Price"] for line in order["Line"] or ())
    if total != order["Total"]:  # exact, because both are Decimals
        raise ValueError(f"order {order['OrderId']}: the lines come to {total}, Total says {order['Total']}")
    _append("orders", order, event)


def store_customer(customer, event):
    """Stores a customer, with the region that its message names."""
    _append("customers", customer, event, region=customer["Meta"]["JMSProperties"]["Region"])


def find_customer(customer, event):
    """Answers who asks for a customer with what was stored of it last."""
    wanted = customer["CustomerId"]
    for record in reversed(_read("customers")):
        if record["CustomerId"] == wanted:
            return {name: value for name, value in record.items() if name in customer.definition.attributes}
    return Reply("BO_DOES_NOT_EXIST", f"there is no customer {wanted}")


def keep_note(note, event):
    """Keeps a note."""
    _append("notes", note, event)


def _append(name, bo, event, **more):
    """Adds a line to ``received/<name>.jsonl``; one write, so that lines of several workers never mix."""
    record = {"event": event.id, "verb": bo.verb, **more, **bo.as_dict(body_only=True)}
    line = json.dumps(record, ensure_ascii=False, default=str) + "\n"  # a Decimal as a text: it stays exact
    RECEIVED.mkdir(parents=True, exist_ok=True)
    with open(RECEIVED / f"{name}.jsonl", "ab", buffering=0) as file:
        file.write(line.encode())


def _read(name):
    """The records in ``received/<name>.jsonl``, oldest first."""
    try:
        with open(RECEIVED / f"{name}.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []
