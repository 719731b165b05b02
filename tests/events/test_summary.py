"""The numbers of a run: outcomes add up, and the newest events are told one by one."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from connector.events.outcome import Outcome
from connector.events.summary import Summary
from connector.status import OutcomeKind
from tests.events.conftest import ORDER, Bench

KINDS = {
    "published": "published",
    "unsubscribed": "unsubscribed",
    "failed": "failed",
    "duplicate": "duplicates",
    "in_doubt": "in_doubt",
}

settled = st.lists(
    st.tuples(st.sampled_from(["queue://a", "queue://b"]), st.sampled_from(list(KINDS)), st.booleans()),
    max_size=40,
)


@given(settled, st.integers(0, 5))
def test_the_outcomes_add_up_to_what_was_claimed(events: list[tuple[str, str, bool]], expired: int) -> None:
    summary = Summary(["queue://a", "queue://c"])
    for number, (destination, kind, discarded) in enumerate(events):
        summary.count_outcome(destination, str(number), Outcome(OutcomeKind(kind)), discarded=discarded)
    summary.count_expired("queue://a", expired)
    document = summary.as_dict()
    for counts in (document, *document["destinations"].values()):
        assert counts["claimed"] == sum(counts[key] for key in KINDS.values())
    assert document["claimed"] == len(events)
    assert document["discarded"] == sum(discarded for _, _, discarded in events)
    assert document["expired"] == expired
    assert {"queue://a", "queue://c"} <= set(document["destinations"])


def letters(number: int) -> str:
    """Returns a number without digits: reasons that differ in digits only are alike."""
    return str(number).translate(str.maketrans("0123456789", "abcdefghij"))


def test_reasons_that_differ_in_values_only_are_counted_together() -> None:
    summary = Summary(["queue://a"])
    for number in range(5):
        outcome = Outcome(OutcomeKind.FAILED, reason=f"order {number} of 'x{number}' is wrong")
        summary.count_outcome("queue://a", "1", outcome, discarded=False)
    assert summary.reasons["queue://a", "failed"] == {"order 0 of 'x0' is wrong": 5}


def test_a_frequent_reason_counts_though_it_comes_after_thousands_of_rare_ones() -> None:
    summary = Summary(["queue://a"])
    for number in range(5000):
        rare = Outcome(OutcomeKind.FAILED, reason=f"R-{letters(number)}")
        summary.count_outcome("queue://a", "1", rare, discarded=False)
        if number % 10 == 5:
            summary.count_outcome(
                "queue://a", "1", Outcome(OutcomeKind.FAILED, reason="the disk"), discarded=False
            )
    reasons = summary.reasons["queue://a", "failed"]
    assert next(iter(reasons.items())) == ("the disk", 500)
    assert len(reasons) <= 1000


def test_of_many_events_the_newest_thousand_are_told_in_the_order_in_which_they_were_taken() -> None:
    summary = Summary(["queue://a"])
    for number in range(1500):
        outcome = Outcome(OutcomeKind.PUBLISHED, "Order", "Create")
        summary.count_outcome("queue://a", f"ID:{number}", outcome, discarded=False)
    document = summary.as_dict()
    assert document["claimed"] == 1500
    assert [event["id"] for event in document["events"]] == [f"ID:{n}" for n in range(500, 1500)]


def test_a_run_of_everything_is_told_as_it_was(bench: Bench) -> None:
    subscriptions = [{"object": "Order", "process": "processes:a", "name": "a"}]
    deployment = bench.deploy(
        subscriptions=subscriptions,
        DuplicateEventElimination=True,
        UnsubscribedDestination=None,
        PollQuantity=3,
    )
    bodies = {"p": ORDER, "f": "{", "u": '{"BusinessObject": "Note"}'}
    for number in range(6):
        for kind, body in bodies.items():
            deployment.drop("orders", body, f"4.{kind}{number}.T")
    deployment.drop("orders", ORDER, "4.p0.T....again")
    deployment.drop("orders", ORDER, "4.gone.T.1000")
    deployment.drop("customers", '{"CustomerId": "1"}', "4.c.T")
    document = deployment.drain().summary.as_dict()
    outcomes = {"published": 6, "failed": 6, "unsubscribed": 7, "duplicates": 1, "in_doubt": 0}
    numbers = {"claimed": 20, "expired": 1, "discarded": 7, **outcomes}
    assert {key: document[key] for key in numbers} == numbers
    claimed = {name: counts["claimed"] for name, counts in document["destinations"].items()}
    assert claimed == {"queue://orders": 19, "queue://customers": 1}
    events = document["events"]
    found = Counter(KINDS[event["outcome"]] for event in events)
    assert found == {name: number for name, number in outcomes.items() if number}
    assert [e for e in events if e["id"] == "ID:p3"] == [
        {
            "id": "ID:p3",
            "destination": "queue://orders",
            "object": "Order",
            "verb": "Create",
            "outcome": "published",
            "reason": None,
        }
    ]
    assert all(event["reason"] for event in events if event["outcome"] != "published")


def test_events_are_in_the_order_in_which_they_were_taken_also_when_tasks_end_in_another(
    bench: Bench,
) -> None:
    deployment = bench.deploy(order="none", PollQuantity=7)
    names = [f"x{n * 7 % 20:02}" for n in range(20)]
    deployment.drop_in_turn("orders", ORDER, *(f"4.{name}.T" for name in names))
    assert list(deployment.outcomes(parallelism=3)) == [f"ID:{name}" for name in names]
