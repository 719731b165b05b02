"""Outcomes: how they travel from a task to the driver, what copies, numbers and the log tell of them."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.events.hooks.grouped_log import GroupedLog
from connector.events.outcome import MAX_REASON, Outcome, history, retries_of, shorten
from connector.events.run.task_answer import TaskAnswer, pack_answer, unpack_answer
from connector.events.summary import Summary
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.operate.own_history import OwnHistory
from connector.operate.reasons import group_id
from connector.operate.replay import Replay
from connector.status import OutcomeKind
from connector.text.alike import mask
from tests.events.conftest import ORDER, Bench
from tests.tables import rows

texts = st.text(st.characters(exclude_categories=["Cs"]))
handles = st.lists(st.lists(texts, min_size=2, max_size=2), max_size=3).map(tuple)
outcomes = st.builds(
    Outcome,
    kind=st.sampled_from([kind.value for kind in OutcomeKind]),
    object=st.none() | texts,
    verb=st.none() | texts,
    reason=st.none() | texts,
    attempts=st.integers(0, 1 << 30),
    delivered=st.lists(texts, max_size=4).map(tuple),
    sends=handles,
    discards=handles,
    provider_failed=st.booleans(),
    not_read=st.booleans(),
    due=st.integers(0, 1 << 50),
    retries=texts,
)


def without_blanks(outcome: Outcome) -> Outcome:
    """A blank text and no text at all mean the same, and travel as the same where nothing follows."""
    return outcome._replace(
        object=outcome.object or None, verb=outcome.verb or None, reason=outcome.reason or None
    )


@given(outcomes)
def test_what_arrives_is_what_was_packed(outcome: Outcome) -> None:
    packed = outcome.to_json()
    assert b"\n" not in packed  # a line of the journal
    assert without_blanks(Outcome.from_list(orjson.loads(packed))) == without_blanks(outcome)


@given(st.lists(st.tuples(outcomes, st.sets(st.integers(0, 1 << 40), max_size=9)), max_size=9))
def test_an_answer_tells_the_outcome_of_each_event(found: list[tuple[Outcome, set[int]]]) -> None:
    expected: dict[int, Outcome] = {}
    told: dict[bytes, list[int]] = {}
    for outcome, sequences in found:
        for sequence in sequences - set(expected):
            expected[sequence] = without_blanks(outcome)
            told.setdefault(outcome.to_json(), []).append(sequence)
    answer = unpack_answer(pack_answer(TaskAnswer(seconds=1.5), told))
    assert (answer.seconds, answer.ended) == (1.5, None)
    assert {number: without_blanks(outcome) for number, outcome in answer.outcomes.items()} == expected
    assert len({id(outcome) for outcome in answer.outcomes.values()}) <= len(told)


def test_a_journal_of_an_earlier_version_is_read() -> None:
    """It had neither the kind of a reason nor its place. Still earlier ones: test_recovery.py."""
    written = ["failed", "Order", "Create", "why", 1, [], [], []]
    assert Outcome.from_list(written) == Outcome(OutcomeKind.FAILED, "Order", "Create", "why", 1)


@rows("values", [[], [1], ["sent"], [1, "sent"], ["failed", *[None] * 20]])
def test_what_is_no_outcome_is_refused(values: list[Any]) -> None:
    with pytest.raises(ValueError, match="is no outcome"):
        Outcome.from_list(values)


@given(st.text(max_size=9000) | st.text(min_size=200, max_size=900).map(lambda text: text * 40))
def test_a_reason_is_whole_up_to_8_kib_and_always_unicode(text: str) -> None:
    short, whole = shorten(text).encode("utf-8"), text.encode("utf-8", "backslashreplace")
    assert len(short) <= MAX_REASON == 8192
    if len(whole) <= MAX_REASON:
        assert short == whole
    else:
        assert (short.endswith(b"..."), len(short) > MAX_REASON - 8) == (True, True)


@rows(
    "properties, expected",
    [
        ({}, (0, ())),
        ({"attempts": 3, "outcome": "failed"}, (3, ())),
        ({"attempts": 1, "outcome": "failed", "delivered": "a;b"}, (1, ("a", "b"))),
        ({"outcome": "given_back", "delivered": "a"}, (0, ("a",))),
        ({"attempts": 1, "outcome": "published", "delivered": "a"}, (1, ())),
        ({"attempts": "9", "delivered": 4}, (0, ())),
        ({"attempts": -4}, (0, ())),
        ({"attempts": (1 << 63) - 1}, (1 << 30, ())),
    ],
)
def test_a_copy_says_how_often_it_was_tried_and_who_has_confirmed(
    properties: dict[str, Any], expected: tuple[int, tuple[str, ...]]
) -> None:
    message = Message(message_id="ID:1")
    for name, value in properties.items():
        message.set_property(f"connector_{name}", value)
    assert history(message, OwnHistory("a"), "queue://in") == (0, ())
    message.set_property("connector_application", "a")
    assert history(message, OwnHistory("a"), "queue://in") == expected


@rows(
    "written_by, lies_in, counts",
    [
        ("a", "queue://in", True),
        ("a", "queue://error", True),
        (None, "queue://error", True),  # a copy of version 0.3.0
        (None, "queue://in", False),
        (None, "queue://error.of.b", False),
        ("b", "queue://in", False),
        ("b", "queue://error", False),
        ("A", "queue://in", False),
        ("", "queue://error", False),
        (1, "queue://error", False),
        (True, "queue://in", False),
    ],
)
def test_a_history_counts_for_the_application_that_wrote_it(
    written_by: str | int | None, lies_in: str, *, counts: bool
) -> None:
    own = OwnHistory("a", frozenset({"queue://error", "queue://archive"}))
    message = Message(message_id="ID:1")
    told: dict[str, Any] = {
        "attempts": 3,
        "outcome": "later",
        "delivered": "x",
        "retries": "y=2",
        "application": written_by,
    }
    for name, value in told.items():
        if value is not None:
            message.set_property(f"connector_{name}", value)
    assert history(message, own, lies_in) == ((3, ("x",)) if counts else (0, ()))
    assert retries_of(message, own, lies_in) == ({"y": 2} if counts else {})
    replayed = Replay(Destination("queue", lies_in.removeprefix("queue://")), own=own).properties(message)
    assert replayed == ({"connector_delivered": "x", "connector_application": "a"} if counts else {})


# -- the numbers of a run ------------------------------------------------------------------------------

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
    found = document["claimed"], document["discarded"], document["expired"]
    assert found == (len(events), sum(discarded for _, _, discarded in events), expired)
    assert {"queue://a", "queue://c"} <= set(document["destinations"])


def fail(summary: Summary, reason: str) -> None:
    summary.count_outcome("queue://a", "1", Outcome(OutcomeKind.FAILED, reason=reason), discarded=False)


def test_reasons_that_differ_in_values_only_are_counted_together() -> None:
    summary = Summary(["queue://a"])
    for number in range(5):
        fail(summary, f"order {number} of 'x{number}' is wrong")
    assert summary.reasons["queue://a", "failed"] == {"order 0 of 'x0' is wrong": 5}


def test_a_frequent_reason_counts_though_it_comes_after_thousands_of_rare_ones() -> None:
    summary = Summary(["queue://a"])
    letters = str.maketrans("0123456789", "abcdefghij")  # reasons that differ in digits only are alike
    for number in range(5000):
        fail(summary, f"R-{str(number).translate(letters)}")
        if number % 10 == 5:
            fail(summary, "the disk")
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
    deployment = bench.deploy(
        subscriptions=[{"object": "Order", "process": "processes:a", "name": "a"}],
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
    kinds = {"published": 6, "failed": 6, "unsubscribed": 7, "duplicates": 1, "in_doubt": 0}
    numbers = {"claimed": 20, "expired": 1, "discarded": 7, **kinds}
    assert {key: document[key] for key in numbers} == numbers
    claimed = {name: counts["claimed"] for name, counts in document["destinations"].items()}
    assert claimed == {"queue://orders": 19, "queue://customers": 1}
    assert document["destinations"]["queue://orders"]["expired"] == 1
    found = Counter(KINDS[event["outcome"]] for event in document["events"])
    assert found == {name: number for name, number in kinds.items() if number}
    assert next(event for event in document["events"] if event["id"] == "ID:p3") == {
        "id": "ID:p3",
        "destination": "queue://orders",
        "object": "Order",
        "verb": "Create",
        "outcome": "published",
        "reason": None,
    }
    assert all(event["reason"] for event in document["events"] if event["outcome"] != "published")


# -- lines of the log: one of each group and minute, and how many it stands for --------------------------

LOG = logging.getLogger("connector.events")


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    return [(one.__dict__["reason"], one.__dict__.get("number", 1)) for one in caplog.records]


def test_alike_lines_are_written_once_a_minute_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    log = GroupedLog(LOG, lambda: now)
    for number in range(5):
        log.warning("no", extra={"reason": f"order {number} is wrong", "destination": "queue://a"})
    log.warning("no", extra={"reason": "order 1 is wrong", "destination": "queue://b"})
    log.warning("no", extra={"reason": "another", "destination": "queue://a"})
    log.flush()
    assert lines(caplog) == [("order 0 is wrong", 1), ("order 1 is wrong", 1), ("another", 1)]
    now = 61.0
    caplog.clear()
    log.warning("no", extra={"reason": "order 7 is wrong", "destination": "queue://a"})
    assert lines(caplog) == [("order 7 is wrong", 5)]


def test_what_no_line_stands_for_is_counted_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    log = GroupedLog(LOG, lambda: 0.0)
    for _ in range(3):
        log.error("no", extra={"reason": "why"}, exc_info=ValueError("x"))
    log.flush(all_groups=True)
    log.flush(all_groups=True)
    assert lines(caplog) == [("why", 1), ("why", 2)]
    assert [one.exc_info is not None for one in caplog.records] == [True, False]


def test_groups_without_end_take_no_memory_without_end(caplog: pytest.LogCaptureFixture) -> None:
    log = GroupedLog(LOG, lambda: 0.0)
    for number in [*range(3000), 2999]:
        log.error("no", extra={"reason": "why", "place": str(number)})
    assert len(caplog.records) == 3000


@rows(
    "text, masked",
    [
        ("order 17 of 'Miller' is wrong", "order # of '...' is wrong"),
        ('ID:ab-12 says "x y" and `z`', "# says '...' and '...'"),
        ("Smith's order isn't paid", "Smith's order isn't paid"),
        ("ConnectionError: [Errno 111] to 10.0.0.1:80", "ConnectionError: [Errno #] to #"),
        ("", ""),
    ],
)
def test_what_differs_between_alike_texts_is_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@given(st.text(max_size=3000))
def test_any_text_is_masked_into_a_group(text: str) -> None:
    masked = mask(text)
    assert len(masked) <= 500
    assert len(group_id("malformed", "", "", masked)) == 10


@rows("text", ["a" * 1_000_000, "'" * 1_000_000, "'a" * 500_000, "1" * 1_000_000])
def test_a_hostile_text_ends(text: str) -> None:
    assert len(mask(text)) <= 500
