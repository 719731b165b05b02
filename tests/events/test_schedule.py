"""The schedule: which claims run side by side, in which order, and what goes back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from connector.events.claim.order_groups import Orders
from connector.events.claim.polled_input import InputSettings, PolledInput
from connector.events.outcome import Outcome
from connector.events.run.schedule import MOST_EVENTS, Batch, EndedClaims, Schedule
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.status import OutcomeKind
from tests.tables import rows

INPUTS = {name: Input(Destination("queue", name)) for name in "abc"}


@dataclass(eq=False)
class Taken:
    """A claim, as far as a schedule is concerned."""

    sequence: int
    input: Input
    group_id: str | None = None
    cycle: int = 1
    delivery_count: int = 0
    message_id: str = ""
    duplicate_key: str = ""
    reference: object = field(default="")

    @property
    def destination(self) -> Destination:
        return self.input.destination


def taken(*queues: str, cycle: int = 1, first: int = 0, group: str | None = None) -> list[Claim]:
    """Claims of the named queues, in this order."""
    claims = [Taken(first + n, INPUTS[name], group, cycle) for n, name in enumerate(queues)]
    return cast("list[Claim]", claims)


def polled(name: str, quantity: int = 10, *, is_full: bool = True, order: str = "destination") -> PolledInput:
    """An input whose last poll took all that it may take."""
    one = PolledInput(InputSettings(INPUTS[name], quantity=quantity, order=order))
    one.is_full = is_full
    return one


def make(order: str = "destination", *, stays: bool = True, **seconds: float) -> Schedule:
    """A schedule that knows how long the events of some queues take."""
    schedule = Schedule(Orders(order), SimpleNamespace(tasks_stay=stays))
    for name, each in seconds.items():
        schedule.note([INPUTS[name]], each)
    return schedule


def add(schedule: Schedule, claims: Sequence[Claim], ids: Mapping[int, str] | None = None) -> None:
    schedule.add(claims, ids or {}, claims)


def names(batch: Batch | None) -> str:
    assert batch is not None
    return " ".join(f"{claim.destination.name}{claim.sequence}" for claim in batch.claims)


def batches(schedule: Schedule, number: int = 9) -> list[str]:
    """The claims of the batches that may begin now, at most ``number``."""
    found = iter(lambda: schedule.next_batch(4), None)
    return [names(batch) for batch in itertools.islice(found, number)]


def published(batch: Batch) -> dict[int, Outcome]:
    return {claim.sequence: Outcome(OutcomeKind.PUBLISHED) for claim in batch.claims}


def end(schedule: Schedule, batch: Batch | None, outcomes: Any = None, **more: Any) -> EndedClaims:
    """The job of a batch ends; what leaves is settled."""
    assert batch is not None
    found = published(batch) if outcomes is None else outcomes
    ended_claims = schedule.take_ended(batch, found, more.pop("attempts", {}), more.pop("again", ()), **more)
    schedule.remove_settled(ended_claims)
    return ended_claims


@rows(
    "seconds, claims, expected",
    [
        ({}, "aba", ["a0 a2", "b1"]),  # what is not known to be quick gets one of its own
        ({"a": 0.001, "b": 5.0, "c": 0.001}, "abc", ["a0 c2", "b1"]),  # what is quick shares
        ({}, "a" * 100, [" ".join(f"a{n}" for n in range(20))]),  # a few events are a trial
    ],
)
def test_a_batch_has_what_runs_together(seconds: dict[str, float], claims: str, expected: list[str]) -> None:
    schedule = make(**cast("dict[str, Any]", seconds))
    add(schedule, taken(*claims))
    assert batches(schedule) == expected


def test_without_order_a_slow_destination_takes_a_second_of_each_free_core() -> None:
    schedule = make("none", a=0.5)
    add(schedule, taken(*"a" * 30))
    first = schedule.next_batch(4)
    assert (names(first).count("a"), first and first.tasks) == (8, 4)


def test_a_slow_destination_is_settled_every_second_and_others_get_their_turn() -> None:
    schedule = make(a=0.25, b=0.5)
    add(schedule, taken(*"a" * 10, *"b" * 3))
    first = schedule.next_batch(4)
    assert names(first) == "a0 a1 a2 a3"
    assert names(schedule.next_batch(4)) == "b10 b11"
    end(schedule, first)
    assert names(schedule.next_batch(4)) == "a4 a5 a6 a7"


@rows("order, meanwhile, then", [("destination", ["b1"], ["a0"]), ("none", ["a0", "b1"], [])])
def test_a_key_of_order_is_in_one_batch_at_a_time(order: str, meanwhile: list[str], then: list[str]) -> None:
    schedule = make(order)
    add(schedule, taken("a"))
    first = schedule.next_batch(4)
    add(schedule, taken("a", "b", cycle=2))
    assert sorted(batches(schedule)) == meanwhile
    end(schedule, first)
    assert batches(schedule) == then


@rows("kind", ["rolled_back", None])
def test_what_was_claimed_behind_an_event_that_goes_back_goes_back_too(kind: str | None) -> None:
    schedule = make()
    add(schedule, taken("a"))
    batch = schedule.next_batch(4)
    add(schedule, taken("a", "b", "a", cycle=2))
    outcomes = {} if kind is None else {0: Outcome(OutcomeKind(kind))}
    ended_claims = end(schedule, batch, outcomes)
    assert sorted((c.cycle, c.sequence) for c, _ in ended_claims.returned if c.cycle == 2) == [(2, 0), (2, 2)]
    assert batches(schedule) == ["b1"]


def test_where_a_poll_ends_all_that_waits_goes_back_and_what_runs_goes_on() -> None:
    schedule = make()
    add(schedule, taken("a", "b"))
    first, second = schedule.next_batch(4), schedule.next_batch(4)
    add(schedule, taken("a", "b", "c", cycle=2))
    ended_claims = end(schedule, first, {0: Outcome(OutcomeKind.GIVEN_BACK)}, ends_poll=True)
    assert len(ended_claims.returned) == 3
    assert schedule.next_batch(4) is None
    end(schedule, second)
    assert schedule.unsettled == 0


def test_whoever_ended_a_worker_runs_again_alone_and_first() -> None:
    schedule = make()
    add(schedule, taken("a", "a", "a"))
    batch = schedule.next_batch(4)
    outcomes = {0: Outcome(OutcomeKind.PUBLISHED)}
    end(schedule, batch, outcomes, attempts={1: 1}, again={1, 2})
    alone = schedule.next_batch(4)
    assert (names(alone), alone and alone.attempts) == ("a1", {1: 1})
    assert schedule.next_batch(4) is None
    end(schedule, alone)
    rest = schedule.next_batch(4)
    assert (names(rest), rest and rest.attempts) == ("a2", {})


def test_without_order_the_others_do_not_wait_for_whoever_ended_a_worker() -> None:
    schedule = make("none")
    add(schedule, taken("a", "a", "a", "a"))
    batch = schedule.next_batch(4)
    end(schedule, batch, {}, attempts={1: 1, 3: 1}, again={0, 1, 2, 3})
    assert batches(schedule) == ["a1", "a3", "a0 a2"]


def test_an_event_that_goes_back_after_it_ended_workers_says_how_often() -> None:
    schedule = make()
    add(schedule, taken("a", "a"))
    end(schedule, schedule.next_batch(4), {}, attempts={0: 1}, again={0, 1})
    ended_claims = end(schedule, schedule.next_batch(4), {}, ends_poll=True)
    assert [(claim.sequence, begun) for claim, begun in ended_claims.returned] == [(0, 1), (1, 0)]


def test_a_batch_that_touched_nothing_is_known_when_it_runs_again() -> None:
    schedule = make()
    add(schedule, taken("a"))
    end(schedule, schedule.next_batch(4), {}, again={0}, is_untouched=True)
    again = schedule.next_batch(4)
    assert again is not None
    assert again.is_untouched


@rows("kind, runs, goes_back", [("published", 0, 0), ("failed", 1, 0), ("given_back", 0, 2)])
def test_a_second_copy_waits_for_the_outcome_of_the_first(kind: str, runs: int, goes_back: int) -> None:
    schedule = make("none")
    add(schedule, taken("a", "a", "a"), {0: "x", 1: "x", 2: "x"})
    first = schedule.next_batch(4)
    assert (names(first), batches(schedule)) == ("a0", [])
    ended_claims = end(schedule, first, {0: Outcome(OutcomeKind(kind))})
    duplicates = [outcome for _, outcome in ended_claims.decided if outcome.kind == "duplicate"]
    assert len(duplicates) == (2 if kind == "published" else 0)
    assert len(ended_claims.returned) == goes_back
    second = schedule.next_batch(4)
    assert (second is not None) == bool(runs)
    if second is not None:
        end(schedule, second)
    assert (schedule.unsettled, schedule.ids) == (0, [])


def test_a_slow_destination_is_one_poll_ahead_and_a_quick_one_is_collected() -> None:
    schedule = make(a=0.4, b=0.0001)
    a, b = polled("a", 2), polled("b", 2, is_full=False)
    add(schedule, taken("a", "a", "b", "b"))
    batches = [schedule.next_batch(4), schedule.next_batch(4)]
    assert schedule.may_poll(a)
    assert not schedule.may_poll(polled("a", 2, is_full=False)), "another instance may take it"
    add(schedule, taken("a", "a", "b", "b", cycle=2))
    assert not schedule.may_poll(a)
    assert schedule.may_poll(b)
    for batch in batches:
        end(schedule, batch)
    assert schedule.may_poll(a)
    add(schedule, taken(*"b" * (MOST_EVENTS - 2), cycle=3))
    assert not schedule.may_poll(polled("b", 2))


@rows("order, may", [("destination", False), ("group", False), ("none", True)])
def test_nothing_is_taken_ahead_of_a_destination_that_is_not_known(order: str, may: bool) -> None:
    """Its first event may stand still, and another instance would process the others."""
    schedule = make(order)
    add(schedule, taken("a"))
    schedule.next_batch(4)
    assert schedule.may_poll(polled("a", 2, order=order)) == may


def test_polls_are_collected_in_one_cycle_until_something_of_it_has_begun() -> None:
    schedule = make()
    assert schedule.next_sequence(1) is None
    add(schedule, taken("a", "a"))
    assert schedule.next_sequence(1) == 2
    first = schedule.next_batch(4)
    assert schedule.next_sequence(1) is None
    add(schedule, taken("a", cycle=2))
    assert schedule.next_sequence(2) == 1
    add(schedule, taken("a", "a", cycle=2, first=1))
    end(schedule, first)
    assert names(schedule.next_batch(4)) == "a0 a1 a2"


def test_a_batch_that_is_a_spark_job_collects_more_while_nothing_else_waits() -> None:
    """A job costs some 30 ms. A batch of tasks that stay costs a millisecond, and ends early."""
    a, number = polled("a"), MOST_EVENTS + 1000
    for stays in (False, True):
        alone = make(stays=stays, a=1e-4, b=1e-4)
        add(alone, taken(*"a" * number))
        assert alone.may_poll(a) is not stays
        assert (alone.next_sequence(1) is None) is stays
        beside = make(stays=stays, a=1e-4, b=1e-4)
        add(beside, taken(*"a" * number, "b"))
        assert not beside.may_poll(a)
        batch = alone.next_batch(4)
        assert batch is not None
        assert len(batch.claims) == (MOST_EVENTS if stays else number)


def test_gaps_in_the_numbers_do_not_end_the_collecting() -> None:
    schedule = make()
    add(schedule, taken("a", first=3 * MOST_EVENTS))
    assert schedule.next_sequence(1) == 3 * MOST_EVENTS + 1
    add(schedule, taken(*"a" * (MOST_EVENTS - 1), first=4 * MOST_EVENTS))
    assert schedule.next_sequence(1) is None


def test_calling_off_leaves_what_runs() -> None:
    schedule = make()
    add(schedule, taken("a", "b"), {0: "x", 1: "y"})
    batch = schedule.next_batch(4)
    add(schedule, taken("a", "a", cycle=2), {0: "x", 1: "z"})
    ended_claims = schedule.cancel()
    assert len(ended_claims.returned) == 3
    schedule.remove_settled(ended_claims)
    assert schedule.ids == ["x"]
    end(schedule, batch)
    assert (schedule.unsettled, schedule.ids) == (0, [])


polls = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([None, "g1", "g2"])), min_size=1, max_size=12),
    max_size=6,
)


@settings(max_examples=300)
@given(
    order=st.sampled_from(["destination", "group", "none"]),
    polls=polls,
    seconds=st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.00001, 0.05, 3.0])),
    data=st.data(),
)
def test_every_claim_leaves_once_and_in_its_order(
    order: str, polls: list[list[tuple[str, str | None]]], seconds: dict[str, float], data: st.DataObject
) -> None:
    """Polls, ends of jobs and ended workers in any order: one batch a key, in the order of the claims."""
    schedule = make(order, **cast("dict[str, Any]", seconds))
    left: list[tuple[int, int]] = []
    done: dict[object, list[tuple[int, int]]] = {}
    running: list[Batch] = []
    waiting = list(enumerate(polls, 1))
    while waiting or running:
        if waiting and (not running or data.draw(st.booleans())):
            cycle, entries = waiting.pop(0)
            claims = [Taken(n, INPUTS[q], g, cycle) for n, (q, g) in enumerate(entries)]
            add(schedule, cast("list[Claim]", claims))
        else:
            batch = running.pop(data.draw(st.integers(0, len(running) - 1)))
            ended = data.draw(st.integers(0, 2)) == 0 and not batch.attempts
            outcomes = {} if ended else published(batch)
            first = batch.claims[0].sequence
            again = {claim.sequence for claim in batch.claims} if ended else set()
            ended_claims = end(schedule, batch, outcomes, attempts={first: 1} if ended else {}, again=again)
            for claim, _ in ended_claims.decided:
                left.append((claim.cycle, claim.sequence))
                done.setdefault(Orders(order).key(claim), []).append((claim.cycle, claim.sequence))
        while len(running) < 3 and (found := schedule.next_batch(2)) is not None:
            assert not any(found.keys & other.keys for other in running)
            assert len({claim.cycle for claim in found.claims}) == 1
            running.append(found)
    assert sorted(left) == [(c, n) for c, entries in enumerate(polls, 1) for n in range(len(entries))]
    assert schedule.unsettled == 0
    for key, places in done.items():
        assert key is None or places == sorted(places)
