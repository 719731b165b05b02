"""Well: each fact that is beyond its limit is a reason, and nothing else is."""

from __future__ import annotations

from typing import Any

from connector.operate.limits import Health
from connector.operate.well import Facts, InstanceFacts, well
from tests.tables import rows

LIMITS = Health()


def limits(**changes: Any) -> Health:
    return LIMITS.model_copy(update=changes)


def one(**facts: Any) -> Facts:
    """The facts of one instance."""
    return Facts(instances=[InstanceFacts("host-a", **facts)])


def test_an_application_within_its_limits_is_well() -> None:
    at_the_limits = Facts(
        instances=[InstanceFacts("a", published=10, failed=10, workers_died=10, idle=300.0)],
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
        (
            one(published=1, failed=5, last_failure="Boom:\n  no shelf"),
            "host-a: 5 of 6 events failed in 5 minutes, more than 50% (health.failed_share), "
            "the last one: Boom: no shelf",
        ),
        (one(workers_died=11), "host-a: 11 workers died in 5 minutes, more than 10 (health.workers_died)"),
        (one(idle=301.0), "host-a: no good poll for 301 s, more than 5m (health.last_good_poll)"),
        (
            Facts(instances=[InstanceFacts("a")], ages={"queue://orders": 7200.0}),
            "queue://orders: the oldest message has waited 7,200 s, more than 1h (health.oldest_waiting)",
        ),
        (
            Facts(instances=[InstanceFacts("a")], resting={"books": "TimeoutError: 30 s"}),
            "books rests: TimeoutError: # s",
        ),
        (
            Facts(instances=[InstanceFacts("a")], databases={"shop": "the database shop: refused"}),
            "the database shop: refused",
        ),
        (Facts(instances=[InstanceFacts("a")], disk="1 MiB are free"), "nothing is claimed: 1 MiB are free"),
    ],
)
def test_each_fact_beyond_its_limit_is_a_reason(facts: Facts, reason: str) -> None:
    assert well(facts, LIMITS) == [reason]


def test_a_failed_provider_is_the_only_reason_because_nothing_else_is_known() -> None:
    assert well(Facts(provider="no root"), LIMITS) == ["the provider cannot be used: no root"]


@rows(
    "facts, changes, reason",
    [
        (one(failed=1), {"failed_least": 1}, "failed_share"),
        (one(failed=1, published=9), {"failed_least": 1, "failed_share": 0.0}, "failed_share"),
        (one(), {"instances": 2}, "1 instance running, expected 2 (health.instances)"),
        (
            Facts(instances=[InstanceFacts("a")], error_waiting=1001),
            {"error_waiting": 1000},
            "the error destination has 1,001 messages, more than 1,000 (health.error_waiting)",
        ),
        (
            Facts(instances=[InstanceFacts("a")], error_growth=1),
            {"error_growth": 0},
            "the error destination has gained 1 message, more than 0 (health.error_growth)",
        ),
    ],
)
def test_limits_can_be_changed(facts: Facts, changes: dict[str, Any], reason: str) -> None:
    assert well(facts, LIMITS) == []
    (found,) = well(facts, limits(**changes))
    assert reason in found


@rows(
    "facts, changes",
    [
        (one(failed=100), {"failed_share": 1.0}),
        (one(workers_died=1000), {"workers_died": None}),
        (one(idle=1e6), {"last_good_poll": None}),
        (Facts(), {"instances": 0}),
        (Facts(instances=[InstanceFacts("a")], ages={"queue://orders": 1e9}), {"oldest_waiting": None}),
    ],
)
def test_a_limit_can_be_lifted(facts: Facts, changes: dict[str, Any]) -> None:
    assert len(well(facts, LIMITS)) == 1
    assert well(facts, limits(**changes)) == []


def test_an_ended_instance_still_tells_what_it_has_failed_but_needs_no_poll() -> None:
    found = well(one(runs=False, failed=10, idle=1e6), LIMITS)
    assert [text.partition(":")[0] for text in found] == [
        "no instance runs, expected 1 (health.instances)",
        "host-a",
    ]


def test_a_long_reason_is_cut() -> None:
    (found,) = well(one(failed=10, last_failure="x" * 10_000), LIMITS)
    assert len(found) < 400
