"""Outcomes as they travel from a task to the driver, and what copies say of earlier stays."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.events.outcome import (
    Outcome,
    history,
    join_names,
    pack_prepared,
    split_names,
    unpack_prepared,
)
from connector.events.task import MAX_REASON, shorten
from connector.events.task_answer import pack_answer, unpack_answer
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared
from connector.status import OutcomeKind
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


@given(st.lists(st.tuples(outcomes, st.sets(st.integers(0, 1 << 40)))))
def test_an_answer_tells_the_outcome_of_each_event(found: list[tuple[Outcome, set[int]]]) -> None:
    expected: dict[int, Outcome] = {}
    told: dict[bytes, list[int]] = {}
    for outcome, sequences in found:
        for sequence in sequences - set(expected):
            expected[sequence] = outcome
            told.setdefault(outcome.to_json(), []).append(sequence)
    answer = unpack_answer(pack_answer(told, 1.5))
    assert (answer.seconds, answer.ended) == (1.5, None)
    found_now = {number: without_blanks(outcome) for number, outcome in answer.outcomes.items()}
    assert found_now == {number: without_blanks(outcome) for number, outcome in expected.items()}
    assert len({id(outcome) for outcome in answer.outcomes.values()}) <= len(told)


def test_a_journal_that_names_the_event_in_its_outcome_is_read() -> None:
    line = b'[17,"published","Order","Create",null,1,["a"]]'
    outcome = Outcome.from_list(orjson.loads(line))
    assert outcome == Outcome(OutcomeKind.PUBLISHED, "Order", "Create", attempts=1, delivered=("a",))


@rows("values", [[], [1], ["sent"], [1, "sent"], ["failed", *[None] * 20]])
def test_what_is_no_outcome_is_refused(values: list[Any]) -> None:
    with pytest.raises(ValueError, match="is no outcome"):
        Outcome.from_list(values)


def test_a_prepared_message_is_found_again() -> None:
    prepared = Prepared(("q/working/x", "q/target/x"), Destination("queue", "erp"))
    unpacked = unpack_prepared(orjson.loads(orjson.dumps(pack_prepared(prepared))))
    assert tuple(unpacked.handle) == prepared.handle
    assert unpacked.destination == prepared.destination


@given(st.lists(texts.filter(bool), max_size=6))
def test_names_of_subscriptions_survive_in_one_property(names: list[str]) -> None:
    assert split_names(join_names(names)) == tuple(names)


@given(st.text(max_size=9000) | st.text(min_size=2000).map(lambda t: t * 9))
def test_a_reason_is_whole_up_to_8_kib_and_always_unicode(text: str) -> None:
    short = shorten(text)
    size = len(text.encode("utf-8", "backslashreplace"))
    assert len(short.encode("utf-8")) <= MAX_REASON == 8192
    if size <= MAX_REASON:
        assert short == text.encode("utf-8", "backslashreplace").decode()
    else:
        assert short.endswith("...")
        assert len(short.encode("utf-8")) > MAX_REASON - 8


@rows(
    "properties, expected",
    [
        ({}, (0, ())),
        ({"connector_attempts": 3, "connector_outcome": "failed"}, (3, ())),
        (
            {"connector_attempts": 1, "connector_outcome": "failed", "connector_delivered": "a;b"},
            (1, ("a", "b")),
        ),
        ({"connector_outcome": "given_back", "connector_delivered": "a"}, (0, ("a",))),
        ({"connector_attempts": 1, "connector_outcome": "published", "connector_delivered": "a"}, (1, ())),
        ({"connector_attempts": "9", "connector_delivered": 4}, (0, ())),
        ({"connector_attempts": -4}, (0, ())),
        ({"connector_attempts": (1 << 63) - 1}, (1 << 30, ())),
    ],
)
def test_a_copy_says_how_often_it_was_tried_and_who_has_confirmed(
    properties: dict[str, Any], expected: tuple[int, tuple[str, ...]]
) -> None:
    message = Message(message_id="ID:1")
    for name, value in properties.items():
        message.set_property(name, value)
    assert history(message) == expected
