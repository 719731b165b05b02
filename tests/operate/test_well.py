"""The counts of an instance, and well: each fact beyond its limit is a reason, and nothing else is."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

from connector.operate.activity import BOUNDS, Activity, Durations, cumulative, minutes_of, total
from connector.operate.health_section import Health
from connector.operate.well import Facts, InstanceFacts, Share, UnwellKind, notices, well
from connector.service.status_document import StatusFound
from connector.status import OutcomeKind
from tests.tables import rows

LIMITS = Health()


def limits(**changes: Any) -> Health:
    return LIMITS.model_copy(update=changes)


def one(**facts: Any) -> Facts:
    """The facts of one instance."""
    return Facts(instances=[InstanceFacts("host-a", **facts)])


def running(**facts: Any) -> Facts:
    """Facts beside an instance that is well."""
    return Facts(instances=[InstanceFacts("a")], **facts)


def test_an_application_within_its_limits_is_well() -> None:
    at_the_limits = Facts(
        instances=[InstanceFacts("a", workers_died=10, idle=300.0)],
        inputs={"queue://orders": Share(20, 10, "no shelf", 60.0)},
        subscriptions={"book": Share(20, 10, "no shelf", 60.0)},
        error_waiting=5000,
        error_growth=5000,
        ages={"queue://orders": 3600.0},
    )
    assert well(at_the_limits, LIMITS) == []
    assert well(Facts(polls=False), LIMITS) == []


@rows(
    "facts, reason",
    [
        (Facts(), "no instance runs, expected 1 (health.instances)"),
        (Facts(provider="no root"), "the provider cannot be used: no root"),  # nothing else is known
        (
            running(inputs={"queue://orders": Share(6, 5, "Boom:\n  no shelf")}),
            "queue://orders: 5 of 6 events failed in 5 minutes, more than 50% (health.failed_share), "
            "the last one: Boom: no shelf",
        ),
        (  # the good events of its input hide it
            running(inputs={"queue://all": Share(200, 8)}, subscriptions={"book": Share(9, 8, "no shelf")}),
            "book: 8 of 9 deliveries failed in 5 minutes, more than 50% (health.failed_share), "
            "the last one: no shelf",
        ),
        (one(workers_died=11), "host-a: 11 workers died in 5 minutes, more than 10 (health.workers_died)"),
        (one(idle=301.0), "host-a: no good poll for 301 s, more than 5m (health.last_good_poll)"),
        (
            running(ages={"queue://orders": 7200.0}),
            "queue://orders: the oldest message has waited 7,200 s, more than 1h (health.oldest_waiting)",
        ),
        (one(obstacle="Spark is dead: 5 s"), "host-a: it cannot work now: Spark is dead: 5 s"),
        (
            one(left_open={"queue://orders": "nothing comes"}),
            "host-a: events of a dead instance from queue://orders cannot be settled: nothing comes",
        ),
        (running(resting={"books": ("TimeoutError: 30 s", 7.0)}), "books rests: TimeoutError: 30 s"),
        (
            running(in_doubt=["ID:1", "ID:2"], in_progress="queue://progress"),
            "2 messages in queue://progress may or may not have been published (ID:1, ID:2)",
        ),
        (running(databases={"shop": "the database shop: refused"}), "the database shop: refused"),
        (running(disk="1 MiB are free"), "nothing is claimed: 1 MiB are free"),
    ],
)
def test_each_fact_beyond_its_limit_is_a_reason(facts: Facts, reason: str) -> None:
    assert [one.text for one in well(facts, LIMITS)] == [reason]


@rows(
    "facts, changes, reason",
    [
        (running(inputs={"queue://a": Share(1, 1)}), {"failed_least": 1}, "failed_share"),
        (
            running(inputs={"queue://a": Share(10, 1)}),
            {"failed_least": 1, "failed_share": 0.0},
            "failed_share",
        ),
        (one(), {"instances": 2}, "1 instance running, expected 2 (health.instances)"),
        (
            running(error_waiting=1001),
            {"error_waiting": 1000},
            "the error destination has 1,001 messages, 1,000 or more (health.error_waiting)",
        ),
        (
            running(error_growth=1),
            {"error_growth": 0},
            "the error destination has gained 1 message, more than 0 (health.error_growth)",
        ),
    ],
)
def test_limits_can_be_changed(facts: Facts, changes: dict[str, Any], reason: str) -> None:
    assert well(facts, LIMITS) == []
    (found,) = well(facts, limits(**changes))
    assert reason in found.text


@rows(
    "facts, changes",
    [
        (running(inputs={"queue://a": Share(100, 100)}), {"failed_share": 1.0}),
        (one(workers_died=1000), {"workers_died": None}),
        (one(idle=1e6), {"last_good_poll": None}),
        (Facts(), {"instances": 0}),
        (running(ages={"queue://orders": 1e9}), {"oldest_waiting": None}),
    ],
)
def test_a_limit_can_be_lifted(facts: Facts, changes: dict[str, Any]) -> None:
    assert len(well(facts, LIMITS)) == 1
    assert well(facts, limits(**changes)) == []


def test_an_ended_instance_still_tells_what_it_has_failed_but_needs_no_poll() -> None:
    inputs = {"queue://orders": Share(10, 10)}
    found = well(Facts(instances=[InstanceFacts("a", runs=False, idle=1e6)], inputs=inputs), LIMITS)
    none_runs = "no instance runs, expected 1 (health.instances)"
    assert [one.text.partition(": ")[0] for one in found] == [none_runs, "queue://orders"]


def test_a_failure_that_its_input_explains_is_told_once() -> None:
    shares = {"inputs": {"queue://orders": Share(10, 9)}, "subscriptions": {"book": Share(9, 9)}}
    assert [one.subject for one in well(running(**shares), LIMITS)] == ["queue://orders"]


def test_messages_in_error_are_a_notice_until_a_limit_makes_them_a_reason() -> None:
    facts = running(error_waiting=2, errors="queue://error")
    (notice,) = notices(facts, LIMITS)
    assert (notice.kind, notice.subject, notice.text) == (
        "error_waiting",
        "queue://error",
        "2 messages wait in queue://error",
    )
    strict = limits(error_waiting=2)
    assert notices(facts, strict) == []
    assert [one.kind for one in well(facts, strict)] == ["error_waiting"]
    assert notices(running(error_waiting=0), LIMITS) == notices(running(), LIMITS) == []


def test_a_long_reason_is_cut() -> None:
    (found,) = well(one(obstacle="x" * 10_000), LIMITS)
    assert 900 < len(found.text) <= 1000


@rows(
    "facts, reason",
    [
        (
            Facts(provider="secret", provider_name="sql"),
            {"kind": "provider", "subject": "sql", "next": ["connector check --connect", "#provider"]},
        ),
        (
            running(disk="secret", path="/var/lib/my shop"),
            {"kind": "disk", "subject": "/var/lib/my shop", "next": ["df -h '/var/lib/my shop'", "#disk"]},
        ),
        (
            running(resting={"books": ("secret", 0.0)}),
            {
                "kind": "resting",
                "subject": "books",
                "since": "1970-01-01T00:00:00.000Z",
                "next": ["connector resume books", "#resting"],
            },
        ),
        (
            running(inputs={"queue://orders": Share(5, 5, "secret", 60.0)}),
            {
                "kind": "failures",
                "subject": "queue://orders",
                "since": "1970-01-01T00:01:00.000Z",
                "count": 5,
                "next": ["connector errors", "#failures"],
            },
        ),
        (
            running(ages={"queue://orders": 3601.0}, now=3601.5),
            {
                "kind": "waiting",
                "subject": "queue://orders",
                "since": "1970-01-01T00:00:00.500Z",
                "next": ["connector browse queue://orders", "#waiting"],
            },
        ),
    ],
)
def test_a_reason_says_what_is_sick_and_what_to_do(facts: Facts, reason: dict[str, Any]) -> None:
    (found,) = well(facts, LIMITS)
    command, place = reason["next"]
    values = {"since": None, "count": 1, **reason, "next": [command, f"docs/how-to/runbook.md{place}"]}
    assert found.to_json(with_text=False) == values
    assert found.to_json() == {**values, "text": found.text}


def test_each_kind_has_its_row_in_the_runbook() -> None:
    page = Path("docs/how-to/runbook.md").read_text()
    headings = re.findall(r"^### `(\w+)`", page, re.MULTILINE)
    assert headings == [kind.value for kind in UnwellKind]


# -- counts: since the start of an instance, by minute, and durations in buckets --------------------------


def test_counts_of_the_last_five_minutes_pass_and_totals_stay() -> None:
    now = 6_000.0
    activity = Activity(lambda: now)
    activity.count_outcome("queue://a", OutcomeKind.FAILED, 3, "refused", "no shelf", "shop.py:7")
    now = 6_120.0
    activity.count_outcome("queue://a", OutcomeKind.PUBLISHED, 5)
    activity.count_outcome("queue://a", OutcomeKind.UNSUBSCRIBED, 7, "unsubscribed", "nobody")
    note = activity.note()
    assert note["minutes"] == {"queue://a": [[100, 0, 3, 0], [102, 5, 0, 0]]}
    for moment, counts in (
        (now, (5, 3, 0)),
        (6_359.0, (5, 3, 0)),
        (6_360.0, (5, 0, 0)),
        (6_480.0, (0, 0, 0)),
    ):
        assert total(minutes_of(note, moment)["queue://a"])[1:] == counts
    again = Activity(lambda: now)
    again.restore(json.loads(json.dumps(note)))  # the next process of the instance
    assert again.note() == note
    again.restore({"minutes": [[100, 0, 3, 0]]})  # of an earlier version
    assert again.note() == note
    assert activity.events == {
        ("queue://a", "failed", "refused"): 3,
        ("queue://a", "published", ""): 5,
        ("queue://a", "unsubscribed", "unsubscribed"): 7,
    }
    failure = {"destination": "queue://a", "kind": "refused", "place": "shop.py:7", "reason": "no shelf"}
    assert activity.last_failure == {"time": 6_000.0, **failure}


def test_only_a_few_minutes_are_kept() -> None:
    now = 0.0
    activity = Activity(lambda: now)
    for minute in range(1000):
        now = minute * 60.0
        activity.count_outcome("queue://a", OutcomeKind.PUBLISHED, 1)
    assert [one[0] for one in activity.minutes()["queue://a"]] == [994, 995, 996, 997, 998, 999]


def test_a_dead_worker_counts_in_its_minute() -> None:
    activity = Activity(lambda: 60.0)
    activity.count_job(2.0, 1.5, 0)
    activity.count_job(1.0, 0.0, 2)
    assert (activity.jobs, activity.job_seconds, activity.spark_seconds) == (2, 3.0, 1.5)
    assert (activity.workers_died, total(activity.minutes()[""]).workers_died) == (2, 2)


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


@rows(
    "waiting, delayed, works, may_wait",
    [
        (0, 0, False, False),
        (1, 0, False, True),
        (0, 1, False, True),
        (0, 0, True, True),
        (None, 0, False, True),  # a broker may not tell
        (0, None, False, True),
    ],
)
def test_a_rest_is_a_reason_while_something_may_wait_for_it(
    waiting: int | None, delayed: int | None, *, works: bool, may_wait: bool
) -> None:
    found = StatusFound(0.0)
    found.inputs = [{"waiting": 0, "delayed": 0}, {"waiting": waiting, "delayed": delayed}]
    found.batches = [{}] * works
    assert found.may_wait is may_wait
