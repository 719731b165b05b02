"""``keep_archive`` and its like: copies that were kept long enough go, and are logged."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.events.conftest import Bench, EventDeployment, logged
from tests.tables import rows
from tests.waiting import now_ms, until_past

QUEUES = ("archive", "error", "unsubscribed")
CUSTOMER = '{"CustomerId": "1"}'
BROKEN = '{"CustomerId": '


def settle_and_wait(bench: Bench, **keep: Any) -> EventDeployment:
    """One message is archived, one in error, one unsubscribed; then 1 ms passes. Returns it with ``keep``."""
    deployment = bench.deploy(DuplicateEventElimination=True)
    deployment.drop("customers", CUSTOMER, "4.x.T")
    deployment.drop("customers", BROKEN, "4.y.T")
    deployment.drop("orders", '{"BusinessObject": "Unknown"}', "4.z.T")
    deployment.drain()
    assert [len(deployment.messages(queue)) for queue in QUEUES] == [1, 1, 1]
    until_past(now_ms() + 1)
    return bench.deploy(DuplicateEventElimination=True, **keep)


@rows("queue", QUEUES)
def test_each_key_is_about_the_copies_of_one_queue(
    bench: Bench, caplog: pytest.LogCaptureFixture, queue: str
) -> None:
    caplog.clear()
    deployment = settle_and_wait(bench, **{f"keep_{queue}": "1ms"})
    with caplog.at_level(logging.INFO):
        deployment.drain()
    assert [name for name in QUEUES if not deployment.messages(name)] == [queue]
    (line,) = logged(caplog, "old copies were removed")
    assert (line["destination"], line["number"]) == (f"queue://{queue}", 1)


def test_without_them_everything_is_kept(bench: Bench) -> None:
    deployment = settle_and_wait(bench)
    deployment.drain()
    assert all(deployment.messages(queue) for queue in QUEUES)


def test_a_service_prunes_too(bench: Bench) -> None:
    deployment = settle_and_wait(bench, keep_archive="1ms")
    with deployment.running() as adapter:
        adapter._connection.recovered_at = -1e9
        adapter.serve()
    assert deployment.messages("archive") == []


def test_one_queue_for_errors_and_unsubscribed_keeps_for_the_longer_time(bench: Bench) -> None:
    deployment = bench.deploy(UnsubscribedDestination="queue://error", keep_error="1ms")
    deployment.drop("customers", BROKEN)
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
        deployment.drop("customers", CUSTOMER, "4.x.T....again")
        adapter.drain()
        assert adapter.summary.as_dict()["duplicates"] == 1
    assert bench.called() == ["ID:x"]
