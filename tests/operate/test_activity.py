"""The counts of an instance: since its start, by minute, and durations in buckets."""

from __future__ import annotations

import threading

from connector.operate.activity import BOUNDS, Activity, Durations, cumulative, recent
from connector.status import OutcomeKind


def test_counts_of_the_last_five_minutes_pass_and_totals_stay() -> None:
    now = 6_000.0
    activity = Activity(lambda: now)
    activity.count_outcome("queue://a", OutcomeKind.FAILED, 3, "refused", "no shelf")
    now = 6_120.0
    activity.count_outcome("queue://a", OutcomeKind.PUBLISHED, 5)
    activity.count_outcome("queue://a", OutcomeKind.UNSUBSCRIBED, 7, "unsubscribed", "nobody")
    note = [list(one) for one in activity.minutes()]
    assert note == [[100, 0, 3, 0], [102, 5, 0, 0]]
    assert recent(note, now)[1:] == (5, 3, 0)
    assert recent(note, 6_359.0)[1:] == (5, 3, 0)
    assert recent(note, 6_360.0)[1:] == (5, 0, 0)
    assert recent(note, 6_480.0)[1:] == (0, 0, 0)
    assert activity.events == {
        ("queue://a", "failed", "refused"): 3,
        ("queue://a", "published", ""): 5,
        ("queue://a", "unsubscribed", "unsubscribed"): 7,
    }
    assert activity.last_failure == {
        "time": 6_000.0,
        "destination": "queue://a",
        "kind": "refused",
        "reason": "no shelf",
    }


def test_only_a_few_minutes_are_kept() -> None:
    now = 0.0
    activity = Activity(lambda: now)
    for minute in range(1000):
        now = minute * 60.0
        activity.count_outcome("queue://a", OutcomeKind.PUBLISHED, 1)
    assert [one.number for one in activity.minutes()] == [994, 995, 996, 997, 998, 999]


def test_a_dead_worker_counts_in_its_minute() -> None:
    activity = Activity(lambda: 60.0)
    activity.count_job(2.0, 1.5, 0)
    activity.count_job(1.0, 0.0, 2)
    assert (activity.jobs, activity.job_seconds, activity.spark_seconds) == (2, 3.0, 1.5)
    assert (activity.workers_died, recent(activity.minutes(), 60.0).workers_died) == (2, 2)


def test_durations_of_a_task_are_added_to_those_of_the_driver() -> None:
    task, driver = Activity(), Activity()
    for _ in range(2):
        task.conversions.add("Order", 0.0005)
        task.deliveries.add("store", 400.0)
        task.add_request("Customer", "SUCCEED", 0.03)
        driver.merge(task.take())
    assert task.take() == {}
    (row,) = driver.conversions.rows().values()
    assert row[:2] == [0.001, 2]
    assert cumulative(driver.deliveries.rows()["store"])[-2:] == [("300.0", 0), ("+Inf", 2)]
    assert cumulative(driver.requests.rows()["Customer SUCCEED"])[4:6] == [("0.025", 0), ("0.05", 2)]


def test_a_duration_at_a_bound_is_within_it() -> None:
    durations = Durations()
    durations.add("", BOUNDS[3], 10)
    assert cumulative(durations.rows()[""])[2:4] == [(str(BOUNDS[2]), 0), (str(BOUNDS[3]), 10)]


def test_very_many_labels_count_together() -> None:
    durations = Durations()
    for number in range(5000):
        durations.add(str(number), 1.0)
    rows = durations.rows()
    assert len(rows) <= 1001
    assert sum(row[0] for row in rows.values()) == 5000.0


def test_threads_lose_no_count() -> None:
    activity = Activity()

    def count() -> None:
        for _ in range(5000):
            activity.count_job(1.0, 1.0, 0)
            activity.add_request("Customer", "SUCCEED", 0.0)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert activity.jobs == 20_000
    assert sum(activity.requests.rows()["Customer SUCCEED"][1:]) == 20_000
