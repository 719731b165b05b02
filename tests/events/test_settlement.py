"""Settlement: where a message goes, what its copy says, and how long the copy is kept.

See WBI Adapter for JMS, "Archiving".
"""

from __future__ import annotations

import datetime
import logging
from typing import Any

import pytest

from tests.events.conftest import ORDER, Bench, EventDeployment, customer, logged
from tests.tables import Table, rows
from tests.waiting import now_ms, until_past

ONLY_ORDERS = ({"object": "Order", "process": "processes:a", "name": "a"},)
UNWANTED = {"outcome": "unsubscribed", "kind": "unsubscribed", "object": "Customer", "verb": "Create"}
CASES: dict[str, tuple[str, str, dict[str, object]]] = {
    "archive": ("orders", ORDER, {"outcome": "published", "attempts": 1, "delivered": "a"}),
    "error": ("orders", "{", {"outcome": "failed", "attempts": 0, "kind": "malformed"}),
    "unsubscribed": ("customers", customer(), {"attempts": 0, **UNWANTED}),
}
"""By the queue of the copy: queue and body of the message, and what the copy says."""


def test_a_copy_carries_where_from_what_when_why_and_how_often(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=ONLY_ORDERS)
    for where, (queue, body, _) in CASES.items():
        deployment.drop(queue, body, f"6.{where}.T..corr.back.TYPE.mineS=yes")
    for queue in ("orders", "customers"):
        deployment.drop(queue, "{", "of one name")
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    outcomes = deployment.outcomes()
    with Table() as table:
        for where, (queue, body, says) in CASES.items():
            with table.row(where):
                copy = deployment.copy(where, f"ID:{where}")
                properties: dict[str, Any] = dict(copy.properties)
                when = datetime.datetime.fromisoformat(properties.pop("connector_time"))
                assert before <= when <= datetime.datetime.now(datetime.UTC)
                says = {"origin_destination": f"queue://{queue}", **says}
                if says.get("outcome") != "published":
                    says["application"] = "test"
                if reason := outcomes[f"ID:{where}"][1]:
                    says["reason"] = reason
                assert properties == {"mine": "yes", **{f"connector_{name}": says[name] for name in says}}
                found = (copy.body, copy.priority, copy.correlation_id, copy.reply_to, copy.type)
                assert found == (body.encode(), 6, "corr", "queue://back", "TYPE")
    names = [one.properties.get("connector_file_name") for one in deployment.messages("error")]
    assert names.count("of one name") == 2
    for queue in ("orders", "customers"):
        for folder in ("target", "processing", "processed"):
            assert deployment.names(queue, folder) == []


@rows(
    "kept, orders, customers",
    [(None, ["4.archive.T", "4.error.T"], ["4.unsubscribed.T"]), ({"keep_processed": "0"}, [], [])],
)
def test_without_a_destination_for_the_copy_it_is_discarded_and_counted(
    bench: Bench, kept: dict[str, str] | None, orders: list[str], customers: list[str]
) -> None:
    no_copies: Any = dict.fromkeys(f"{where}Destination" for where in ("Archive", "Error", "Unsubscribed"))
    deployment = bench.deploy(subscriptions=ONLY_ORDERS, provider=kept, **no_copies)
    for where, (queue, body, _) in CASES.items():
        deployment.drop(queue, body, f"4.{where}.T")
    counts = deployment.drain().summary.as_dict()
    expected = {"published": 1, "failed": 1, "unsubscribed": 1, "discarded": 3}
    assert {name: counts[name] for name in expected} == expected
    assert deployment.names("orders", "processed") == orders
    assert deployment.names("customers", "processed") == customers
    assert deployment.names("orders") == deployment.names("orders", "processing") == []


# -- the kind and the place of a reason ------------------------------------------------------------------


OF_A = {"object": "Customer", "verb": "Create", "subscription": "a"}
KINDS = {
    "{": {"kind": "malformed"},
    customer("x" * 3000): {"kind": "too_large"},
    customer("a: fail"): {"kind": "refused", **OF_A},
    customer("a: failed"): {"kind": "refused", **OF_A},
    customer("a: refused"): {"kind": "temporary", **OF_A},
    customer("a: temporary"): {"kind": "temporary", **OF_A},
    customer("a: exit 3"): {"kind": "worker_died"},
    customer("a: hang"): {"kind": "timeout", "subscription": "a"},
    '{"BusinessObject": "Note"}': {"kind": "unsubscribed", "object": "Note", "verb": "Create"},
    '{"BusinessObject": "Nothing"}': {"kind": "unsubscribed"},
    ORDER: {"kind": "send_failed", "object": "Order", "verb": "Create", "subscription": "crm"},
}


@pytest.mark.process
def test_a_copy_says_what_kind_of_reason_it_has(bench: Bench) -> None:
    one = {"object": "Customer", "process": "processes:a", "name": "a", "timeout": "1s"}
    crm = {"object": "Order", "destination": "queue://crm", "name": "crm", "mime_type": "text/plain"}
    deployment = bench.deploy(subscriptions=[one, crm], max_attempts=1, max_body="2KiB")
    for number, body in enumerate(KINDS):
        deployment.drop("orders", body, f"4.{number}.T")
    deployment.drain(isolated=True)
    copies = [*deployment.messages("error"), *deployment.messages("unsubscribed")]
    names = ("kind", "object", "verb", "subscription", "place")
    found = {
        copy.message_id: {
            name: copy.properties[key] for name in names if (key := f"connector_{name}") in copy.properties
        }
        for copy in copies
    }
    with Table() as table:
        for number, (body, expected) in enumerate(KINDS.items()):
            with table.row(body[:60]):
                place = str(found[f"ID:{number}"].pop("place", "none"))
                assert found[f"ID:{number}"] == expected
                assert place.startswith("processes.py:") is (expected["kind"] in ("refused", "temporary"))


# -- keep_archive and its like ---------------------------------------------------------------------------


def settle_and_wait(bench: Bench, **keep: Any) -> EventDeployment:
    """One message is archived, one in error, one unsubscribed; then 1 ms passes. Returns it with ``keep``."""
    settings: dict[str, Any] = {"subscriptions": ONLY_ORDERS, "DuplicateEventElimination": True}
    deployment = bench.deploy(**settings)
    for where, (queue, body, _) in CASES.items():
        deployment.drop(queue, body, f"4.{where}.T")
    deployment.drain()
    assert [len(deployment.messages(queue)) for queue in CASES] == [1, 1, 1]
    until_past(now_ms() + 1)
    return bench.deploy(**settings, **keep)


@rows("queue", CASES)
def test_each_key_removes_copies_of_one_queue(
    bench: Bench, caplog: pytest.LogCaptureFixture, queue: str
) -> None:
    caplog.clear()
    deployment = settle_and_wait(bench, **{f"keep_{queue}": "1ms"})
    with caplog.at_level(logging.INFO):
        deployment.drain()
    assert [name for name in CASES if not deployment.messages(name)] == [queue]
    (line,) = logged(caplog, "old copies were removed")
    assert (line["destination"], line["number"]) == (f"queue://{queue}", 1)


def test_a_service_prunes_too(bench: Bench) -> None:
    deployment = settle_and_wait(bench, keep_archive="1ms")
    with deployment.running() as adapter:
        adapter._connection.recovered_at = -1e9
        adapter.serve()
    assert deployment.messages("archive") == []


def test_one_queue_for_errors_and_unsubscribed_keeps_for_the_longer_time(bench: Bench) -> None:
    deployment = bench.deploy(UnsubscribedDestination="queue://error", keep_error="1ms")
    deployment.drop("customers", "{")
    with deployment.running() as adapter:
        adapter.drain()
        until_past(now_ms() + 1)
        adapter.drain()
    assert len(deployment.messages("error")) == 1


def test_the_duplicate_window_does_not_need_the_copy_in_the_archive(bench: Bench) -> None:
    deployment = settle_and_wait(bench, keep_archive="1ms")
    with deployment.running() as adapter:
        adapter.drain()
        assert deployment.messages("archive") == []
        deployment.drop("orders", ORDER, "4.archive.T....again")
        adapter.drain()
        assert adapter.summary.as_dict()["duplicates"] == 1
    assert bench.called() == ["ID:archive"]
