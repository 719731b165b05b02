"""Settlement: where a message goes, and what its copy says (WBI Adapter for JMS, "Archiving")."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from connector.errors import ProviderError
from connector.status import ReturnCode
from tests.events.conftest import ORDER, Bench
from tests.tables import Table, rows

ONLY_ORDERS = ({"object": "Order", "process": "processes:a", "name": "a"},)
CASES: dict[str, tuple[str, str, dict[str, object]]] = {
    "archive": ("orders", ORDER, {"outcome": "published", "attempts": 1, "delivered": "a"}),
    "error": ("orders", "{", {"outcome": "failed", "attempts": 0, "kind": "malformed"}),
    "unsubscribed": (
        "customers",
        '{"CustomerId": "1"}',
        {
            "outcome": "unsubscribed",
            "attempts": 0,
            "kind": "unsubscribed",
            "object": "Customer",
            "verb": "Create",
        },
    ),
}
"""By the queue of the copy: queue and body of the message, and what the copy says."""

NO_COPIES: dict[str, Any] = {
    "ArchiveDestination": None,
    "ErrorDestination": None,
    "UnsubscribedDestination": None,
}


def test_a_copy_carries_where_from_what_when_why_and_how_often(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=ONLY_ORDERS)
    for where, (queue, body, _) in CASES.items():
        deployment.drop(queue, body, f"6.{where}.T..corr.back.TYPE.mineS=yes")
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    outcomes = deployment.outcomes()
    with Table() as table:
        for where, (queue, body, says) in CASES.items():
            with table.row(where):
                copy = deployment.copy(where, f"ID:{where}")
                properties: dict[str, Any] = dict(copy.properties)
                when = datetime.datetime.fromisoformat(properties.pop("connector_time"))
                assert before <= when <= datetime.datetime.now(datetime.UTC)
                reason = outcomes[f"ID:{where}"][1]
                says = {
                    "origin_destination": f"queue://{queue}",
                    **says,
                    **({"reason": reason} if reason else {}),
                }
                assert properties == {"mine": "yes", **{f"connector_{name}": says[name] for name in says}}
                assert copy.body == body.encode()
                assert (copy.priority, copy.correlation_id) == (6, "corr")
                assert (copy.reply_to, copy.type) == ("queue://back", "TYPE")
    for queue in ("orders", "customers"):
        assert deployment.names(queue) == deployment.names(queue, "processing") == []
        assert deployment.names(queue, "processed") == []


def test_without_a_destination_for_the_copy_it_is_discarded_and_counted(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=ONLY_ORDERS, **NO_COPIES)
    for where, (queue, body, _) in CASES.items():
        deployment.drop(queue, body, f"4.{where}.T")
    counts = deployment.drain().summary.as_dict()
    assert {name: counts[name] for name in ("published", "failed", "unsubscribed", "discarded")} == {
        "published": 1,
        "failed": 1,
        "unsubscribed": 1,
        "discarded": 3,
    }
    assert deployment.names("orders", "processed") == ["4.archive.T", "4.error.T"]
    assert deployment.names("customers", "processed") == ["4.unsubscribed.T"]
    assert deployment.names("orders") == deployment.names("orders", "processing") == []


def test_nothing_discarded_is_kept_where_nothing_shall_be(bench: Bench) -> None:
    deployment = bench.deploy(provider={"keep_processed": "0"}, **NO_COPIES)
    deployment.drop("orders", ORDER, "4.1.T")
    deployment.outcomes()
    assert deployment.names("orders", "processed") == []


PLACE = " (processes.py:1)"


@rows("size", [10, 100, 4000, 8192 - len(f"a: ValueError: {PLACE}"), 20_000])
def test_a_reason_is_kept_whole_up_to_8_kib(bench: Bench, size: int) -> None:
    text = ("Größe & Maß = 100 %; " * (size // 20 + 1)).encode()[:size].decode("utf-8", "ignore").rstrip()
    processes = f"def a(bo, event): raise ValueError({text!r})\n"
    deployment = bench.deploy(processes=processes, subscriptions=ONLY_ORDERS)
    deployment.drop("orders", ORDER, "4.1.T.....nS=1")
    deployment.outcomes()
    properties = deployment.properties("error", "ID:1")
    reason = properties["connector_reason"]
    whole = f"a: ValueError: {text}"
    if size < 20_000:
        assert reason == f"{whole}{PLACE}"
    else:
        assert reason.endswith(f"...{PLACE}")
        assert whole.startswith(reason.removesuffix(f"...{PLACE}"))
        assert 8180 < len(reason.encode()) <= 8192
    assert properties["n"] == "1"


def test_long_headers_and_a_long_reason_survive_the_way_to_the_error_queue_and_back(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=ONLY_ORDERS)
    name = f"4.1.T..{'c' * 60}...{'&'.join(f'p{n}S={chr(97 + n) * 9}' for n in range(11))}"
    assert len(name) < 255
    deployment.drop("orders", "{", name)
    with deployment.running() as adapter:
        adapter.poll()
        failed = deployment.copy("error", "ID:1")
        assert failed.properties["p10"] == "k" * 9
        deployment.move("error", "orders", ORDER)
        adapter.poll()
    copy = deployment.copy("archive", "ID:1")
    assert copy.correlation_id == "c" * 60
    assert {n: copy.properties[f"p{n}"] for n in range(11)} == {n: chr(97 + n) * 9 for n in range(11)}
    assert copy.properties["connector_outcome"] == "published"
    assert "connector_reason" not in copy.properties
    headers = bench.root / "dropboxmq" / "headers"
    assert len(list(headers.iterdir())) <= 1  # no sidecar is left of what it was before


def test_a_message_that_is_moved_back_many_times_counts_every_attempt(bench: Bench) -> None:
    deployment = bench.deploy(
        processes="def a(bo, event): raise ValueError('no')\n", subscriptions=ONLY_ORDERS
    )
    deployment.drop("orders", ORDER, "a bare name")
    with deployment.running() as adapter:
        for attempt in range(1, 5):
            adapter.poll()
            properties = deployment.properties("error", "a bare name")
            assert properties["connector_attempts"] == attempt
            assert properties["connector_origin_destination"] == "queue://orders"
            deployment.move("error", "orders")
    assert sum(1 for name in properties if name.startswith("connector_")) == 10


def test_two_messages_of_one_name_are_both_kept(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=ONLY_ORDERS)
    for queue in ("orders", "customers"):
        deployment.drop(queue, "{", "same")
    deployment.outcomes()
    assert len(deployment.names("error")) == 2
    assert deployment.ids("error") == ["same", "same"]


def test_a_copy_destination_that_cannot_be_written_stops_the_poll_and_keeps_the_message(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=ONLY_ORDERS, RestartRetryCount=0)
    deployment.drop("orders", "{", "4.bad.T")
    deployment.drop("orders", ORDER, "4.good.T")
    with deployment.running() as adapter:
        error = Path(deployment.folders("error").target)
        error.rmdir()
        error.write_text("in the way")
        report = adapter.poll()
        assert report.code is ReturnCode.APPRESPONSETIMEOUT
        assert "queue://error" in report.reason
        assert "remove what stands in the way" in report.reason
        assert adapter.summary.total.claimed == 0
        with pytest.raises(ProviderError, match="start it first"):
            adapter.poll()
    assert len(deployment.names("orders", "processing")) == 2
    assert deployment.names("archive") == []
    error.unlink()
    error.mkdir()
    deployment.drain()
    # what the journal says was done is settled, and not delivered again
    assert bench.called() == ["ID:good"]
    assert len(deployment.names("error")) == len(deployment.names("archive")) == 1
