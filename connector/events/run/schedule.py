"""The schedule: decides which claims run now and which wait.

A claim waits in the group of an ``order`` key while a batch with this key runs. A second copy of an id waits
until the first copy has its outcome. All other claims are collected into the next batch. A destination with
slow events gets batches of its own, so that it delays no other destination.

A task runs its events by the numbers of their claims. So on a single core the events that share a batch are
published in the order in which the poll visited the inputs.

The events of inputs with ``parallel`` have batches of their own (:mod:`connector.events.run.side_by_side`).
An event that runs alone, because it may have ended a worker, is in none of them.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import attrgetter
from typing import Final, Protocol

from connector.events.claim.order_groups import NONE, Orders
from connector.events.claim.polled_input import PolledInput
from connector.events.outcome import Outcome
from connector.events.run.event_keys import FoundKey, RecordKey
from connector.events.run.side_by_side import NOT_PARALLEL, Parallel, SideBySide
from connector.messaging.claim import Claim
from connector.messaging.input import Input
from connector.status import OutcomeKind

MOST_EVENTS: Final = 5000
"""Most events that one batch collects from several polls."""
MOST_SECONDS: Final = 0.2
"""Seconds of work of a task that a batch collects from several polls.

A destination that needs more is slow.
"""
MOST_EVENTS_OF_JOB: Final = 10_000
MOST_SECONDS_OF_JOB: Final = 1.0
"""The same limits where each batch is a Spark job, which is dear, and while no other destination waits."""
_SLICE_SECONDS: Final = 1.0
"""Seconds of work of a task in a batch of a slow destination."""
_UNKNOWN_SECONDS: Final = 1.0
_WEIGHT: Final = 0.3
"""Share of the last task in the mean duration of events."""
_FIRST_EVENTS: Final = 20
"""Events of a destination in a batch while their duration is not known."""
_TASK_SECONDS: Final = 0.002
_TASK_SECONDS_OF_JOB: Final = 0.008
"""Cost of one more task of a batch in seconds. Shorter events run in the task of other events."""


DUPLICATE: Final = Outcome(OutcomeKind.DUPLICATE, reason="it was published before", not_read=True)
"""The outcome of an event whose message was published before."""


@dataclass(slots=True, eq=False)
class Batch:
    """Claims that one job processes.

    Args:
        order_groups: claims that are published one after the other.
        tasks: most tasks that the order groups are spread over.
        keys: of ``order``, which no other running batch may have.
        attempts: by sequence, deliveries that ended a worker, which the claims do not count.
        ids: the duplicate keys of the cycle by sequence. Empty if duplicates are not eliminated.
        is_untouched: whether the batch ran before, and touched nothing because its workers had ended.
        asks_keys: whether the batch publishes nothing, and only finds the duplicate keys by values.
        values: what is known of such keys, by sequence.
        began: start of the batch in monotonic seconds.
        claims: of all order groups.
        side_by_side: the events that its tasks run beside, in slots. None = it has tasks for itself.
    """

    cycle: int
    order_groups: list[list[Claim]]
    tasks: int
    keys: set[Hashable]
    attempts: Mapping[int, int]
    ids: Mapping[int, str]
    is_untouched: bool = False
    side_by_side: SideBySide | None = None
    asks_keys: bool = False
    values: Mapping[int, tuple[RecordKey, ...]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    claims: list[Claim] = field(init=False)

    def __post_init__(self) -> None:
        self.claims = [*chain.from_iterable(self.order_groups)]


@dataclass(slots=True)
class EndedClaims:
    """Claims that leave the schedule once they are settled.

    Args:
        decided: claims with their outcome, which may be final or not.
        returned: claims that go back to their queue, with the deliveries begun since they were claimed.
    """

    decided: list[tuple[Claim, Outcome]] = field(default_factory=list)
    returned: list[tuple[Claim, int]] = field(default_factory=list)

    @property
    def claims(self) -> list[Claim]:
        """All claims of ``decided`` and ``returned``."""
        return [claim for claim, _ in self.decided] + [claim for claim, _ in self.returned]

    def by_input(self) -> Iterable[EndedClaims]:
        """Returns the claims of each input for themselves."""
        found: defaultdict[Input | None, EndedClaims] = defaultdict(EndedClaims)
        for decided in self.decided:
            found[decided[0].input].decided.append(decided)
        for returned in self.returned:
            found[returned[0].input].returned.append(returned)
        return found.values()


@dataclass(slots=True)
class Admitted:
    """Claims whose duplicate keys by values are found, and what becomes of them.

    Args:
        runs: they run, and hold their keys.
        waits: they wait for another claim that holds a key of theirs.
        decided: they need no delivery.
        returned: they go back, because another instance has a key of theirs in flight.
    """

    runs: list[Claim] = field(default_factory=list)
    waits: list[Claim] = field(default_factory=list)
    decided: list[tuple[Claim, Outcome]] = field(default_factory=list)
    returned: list[Claim] = field(default_factory=list)


@dataclass(slots=True)
class _Cycle:
    """The claims of one cycle, from one poll or several."""

    ids: dict[int, str] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    found: dict[int, tuple[FoundKey, ...]] = field(default_factory=dict)
    values: dict[int, tuple[RecordKey, ...]] = field(default_factory=dict)
    size: int = 0
    next_sequence: int = 0
    unsettled: int = 0
    has_begun: bool = False


class TasksKind(Protocol):
    """Says what a batch costs."""

    @property
    def tasks_stay(self) -> bool:
        """Whether the tasks stay from one batch to the next. Otherwise each batch is a Spark job."""


class Schedule:
    """The claims of one connection, from the poll until they are settled. For one thread.

    Args:
        orders: of the destinations.
        parallel: says which events run side by side.
        by_value: the inputs whose events have duplicate keys by values. A first batch finds them.
    """

    def __init__(
        self,
        orders: Orders,
        pipeline: TasksKind,
        parallel: Parallel = NOT_PARALLEL,
        by_value: Set[Input] = frozenset(),
    ) -> None:
        self._by_value = by_value
        self.freed: list[Claim] = []
        """Claims that waited for a key by values, whose holder has left. The caller decides about them."""
        self._parallel = parallel
        self.is_parallel = parallel.is_used
        """Whether any events run side by side."""
        self._key = orders.group_key_of()
        self._pipeline = pipeline
        self._seconds: dict[Input | None, float] = {}
        """The duration of an event by input, learned from earlier events."""
        self._order_groups: dict[Hashable, deque[Claim]] = {}
        self._busy: set[Hashable] = set()
        self._copies: dict[
            str, list[Claim]
        ] = {}  # by key: the claim that runs first, then the waiting copies
        self._cycles: dict[int, _Cycle] = {}
        self._untouched: set[tuple[int, int]] = set()
        self._unsettled: Counter[Input | None] = Counter()
        self._waiting: Counter[Input | None] = Counter()
        self.running: list[Batch] = []

    @property
    def unsettled(self) -> int:
        """Number of claims in the schedule."""
        return sum(cycle.unsettled for cycle in list(self._cycles.values()))

    @property
    def ids(self) -> list[str]:
        """The duplicate keys of all claims that run or wait."""
        return list(self._copies)

    def note(self, inputs: Sequence[Input | None], seconds: float) -> None:
        """Notes that a task has processed events of these inputs, one for each, in ``seconds``."""
        each = seconds / len(inputs)
        for one in set(inputs):
            before = self._seconds.get(one, each)
            self._seconds[one] = before + (each - before) * _WEIGHT

    def ids_of(self, cycle: int) -> Mapping[int, str]:
        """Returns the duplicate keys of a cycle by sequence."""
        return self._cycles[cycle].ids

    def id_of(self, claim: Claim) -> str | None:
        """Returns the duplicate key of a claim, or None if duplicates are not eliminated."""
        return self._cycles[claim.cycle].ids.get(claim.sequence)

    # -- keys by values ------------------------------------------------------------------------------

    def _asks_keys(self, claim: Claim) -> bool:
        """Whether the keys of a claim by values have to be found before its event runs."""
        return claim.input in self._by_value and claim.sequence not in self._cycles[claim.cycle].values

    def note_found(self, claim: Claim, found: tuple[FoundKey, ...]) -> None:
        """Notes the keys of a claim. Empty = its message cannot be converted, and has none."""
        self._cycles[claim.cycle].found[claim.sequence] = found

    def found_of(self, claim: Claim) -> tuple[FoundKey, ...]:
        """Returns the keys of :meth:`note_found`."""
        return self._cycles[claim.cycle].found[claim.sequence]

    def hold(self, claim: Claim, records: tuple[RecordKey, ...]) -> bool:
        """Lets a claim hold its keys, and run. False = it waits for another claim, which holds one."""
        keys = [one.key for one in records if one.key and not one.reason]
        for key in keys:
            if key in self._copies:
                self._copies[key].append(claim)
                return False
        self._cycles[claim.cycle].values[claim.sequence] = records
        for key in keys:
            self._copies[key] = [claim]
        return True

    def resume(self, admitted: Admitted, ended_claims: EndedClaims) -> None:
        """Goes on with claims of :attr:`freed` that were decided about anew.

        Args:
            ended_claims: gets those that leave the schedule.
        """
        for claim in admitted.runs:
            self._wait(claim)
        ended = EndedClaims(admitted.decided)
        for claim in admitted.returned:
            self._return(claim, ended)
        self._release_copies(ended, set())
        ended_claims.decided += ended.decided
        ended_claims.returned += ended.returned

    def may_poll(self, one: PolledInput) -> bool:
        """Whether an input may be polled again.

        While an input has unsettled events, a further poll takes messages ahead of time. Other instances
        cannot take these messages. So only one such poll is allowed, if its events can begin at once or if
        more messages wait. A quick input may be polled more often, because its polls are collected into
        the next batch.
        """
        named = one.input
        unsettled = self._unsettled[named]
        if not unsettled or self._waiting[named] < self._most_events_in_batch(named):
            return True
        is_worth_it = one.order == NONE or (one.is_full and named in self._seconds)
        return unsettled <= one.quantity and is_worth_it

    def _most_events_in_batch(self, named: Input) -> int:
        """Returns the number of events that a batch may collect from several polls of an input."""
        most_seconds, most_events = MOST_SECONDS, self._most_events()
        if most_events > MOST_EVENTS:
            most_seconds = MOST_SECONDS_OF_JOB
        seconds = self._seconds.get(named, _UNKNOWN_SECONDS)
        if self.is_parallel and (side_by_side := self._parallel.of(named)) is not None:
            most_seconds *= side_by_side.limit
        return int(min(most_events, most_seconds / max(seconds, 1e-6)))

    def _most_events(self) -> int:
        """Returns the number of events of a batch. A Spark job may have more while nothing else waits."""
        if self._pipeline.tasks_stay:
            return MOST_EVENTS
        waiting = islice((number for number in self._waiting.values() if number > 0), 2)
        return MOST_EVENTS if len(list(waiting)) > 1 else MOST_EVENTS_OF_JOB

    def is_settled(self, named: Input) -> bool:
        """Whether an input has no unsettled events."""
        return not self._unsettled[named]

    def next_sequence(self, cycle: int) -> int | None:
        """Returns the number of the next claim of a cycle. None if no poll continues the cycle."""
        known = self._cycles.get(cycle)
        if known is None or known.has_begun or known.size >= self._most_events():
            return None
        return known.next_sequence

    def add(self, claims: Sequence[Claim], ids: Mapping[int, str], wanted: Sequence[Claim]) -> None:
        """Adds claims to the schedule.

        Args:
            claims: of one cycle, in the order of their numbers, at least one.
            ids: their duplicate keys by sequence. Empty if duplicates are not eliminated.
            wanted: the claims among them that are to run. Of copies the first one runs first.
        """
        known = self._cycles.setdefault(claims[0].cycle, _Cycle())
        known.size += len(claims)
        known.next_sequence = max(known.next_sequence, claims[-1].sequence + 1)
        known.unsettled += len(claims)
        known.ids.update(ids)
        self._unsettled.update(map(_input, claims))
        for claim in wanted:
            key = ids.get(claim.sequence)
            if key is not None:
                copies = self._copies.setdefault(key, [])
                copies.append(claim)
                if len(copies) > 1:
                    continue
            self._wait(claim)

    def next_batch(self, cores: int, most: int | None = None) -> Batch | None:
        """Returns the batch to run next and marks the batch as running. Returns None if every claim waits.

        Args:
            cores: tasks that can run at the same time.
            most: batches that run at the same time, those of events side by side left out. None = any number.
        """
        if not self._order_groups:
            return None
        running = self.running
        if self.is_parallel:
            if (batch := self._next_side_by_side()) is not None:
                return batch
            running = [one for one in running if one.side_by_side is None]
        if most is not None and len(running) >= most:
            return None
        return self._next_for_tasks(max(1, cores - sum([batch.tasks for batch in running])), cores)

    def _next_side_by_side(self) -> Batch | None:
        """Returns the next batch of events with ``parallel``, if one may begin."""
        found: list[tuple[Hashable, deque[Claim]]] = []
        side_by_side, cycle, asks = None, 0, False
        for key, order_group in self._order_groups.items():
            first = order_group[0]
            if key in self._busy or (one := self._side_by_side(first)) is None:
                continue
            if side_by_side is None and self._free(one) > 0:
                side_by_side, cycle, asks = one, first.cycle, bool(self._by_value) and self._asks_keys(first)
            if self._by_value and self._asks_keys(first) != asks:
                continue
            if one is side_by_side and first.cycle == cycle:
                found.append((key, order_group))
        if side_by_side is None:
            return None
        inputs = {group[0].input for _, group in found}
        slots, each = side_by_side.share(
            self._free(side_by_side),
            sum([self._waiting[one] for one in inputs]),
            max([self._seconds.get(one, _UNKNOWN_SECONDS) for one in inputs]),
        )
        taken, left = [], slots
        for key, _ in found:
            claims = self._take(key, cycle, each if _is_ordered(key) else each * left)
            taken.append((key, claims))
            left -= 1 if _is_ordered(key) else -(-len(claims) // each)
            if left <= 0:
                break
        return self._begin(cycle, taken, slots, side_by_side)

    def _free(self, one: SideBySide) -> int:
        return one.limit - sum([batch.tasks for batch in self.running if batch.side_by_side is one])

    def _side_by_side(self, claim: Claim) -> SideBySide | None:
        """Returns what an event runs beside. None = nothing, or it runs alone."""
        one = self._parallel.of(claim.input)
        return None if one is None or claim.sequence in self._cycles[claim.cycle].attempts else one

    def _next_for_tasks(self, free: int, cores: int) -> Batch | None:
        """Returns the next batch of events that run one after the other in a task.

        Args:
            free: tasks without a batch, at least 1.
        """
        found: list[Hashable] = []
        cycle, work, events, slow, asks = 0, 0.0, 0, None, False
        in_order = in_all = most = self._most_events()
        # On a single core all events wait for each other anyway. So a destination that is not known shares
        # its batch with the quick ones, and all of them get as many rounds of the poll.
        unknown = self._unknown() if cores == 1 else 0
        for key, order_group in self._order_groups.items():
            first = order_group[0]
            if key in self._busy or (self.is_parallel and self._side_by_side(first) is not None):
                continue
            if not found:
                cycle, asks = first.cycle, bool(self._by_value) and self._asks_keys(first)
                if first.sequence in self._cycles[cycle].attempts:
                    return self._begin(cycle, [(key, [order_group.popleft()])], 1)
            elif first.cycle != cycle or first.sequence in self._cycles[cycle].attempts:
                continue
            if self._by_value and self._asks_keys(first) != asks:
                continue
            seconds = self._seconds.get(first.input, _UNKNOWN_SECONDS)
            if unknown and first.input not in self._seconds:
                seconds = 0.0
            is_slow = self._waiting[first.input] * seconds > MOST_SECONDS
            if not found and is_slow:
                slow, in_order = first.input, self._slice(first.input)
                in_all = min(most, in_order * free)
            elif not found and unknown:
                in_order = max(1, _FIRST_EVENTS // unknown)
            elif found and first.input != slow and (is_slow or slow is not None):
                continue  # a slow destination shares its batch with no other destination
            number = min(len(order_group), in_order if unknown or _is_ordered(key) else in_all)
            if found and (events + number > in_all or (slow is None and work > MOST_SECONDS * cores)):
                break
            found.append(key)
            work += number * seconds
            events += number
        if not found:
            return None
        order_groups = [
            (key, self._take(key, cycle, in_order if unknown or _is_ordered(key) else in_all))
            for key in found
        ]
        each = _TASK_SECONDS if self._pipeline.tasks_stay else _TASK_SECONDS_OF_JOB
        return self._begin(cycle, order_groups, max(1, min(free, int(work / each))))

    def _unknown(self) -> int:
        """Returns the number of order groups that may begin and have a destination that is not known."""
        unknown = 0
        for key, group in self._order_groups.items():
            if key not in self._busy and group[0].input not in self._seconds:
                unknown += 1
        return unknown

    def _slice(self, named: Input | None) -> int:
        """Returns the number of events of a slow input for one task of a batch.

        Such a batch ends within about a second, so that newer events get their turn. An unknown input is
        tried with a few events.
        """
        seconds = self._seconds.get(named)
        if seconds is None:
            return _FIRST_EVENTS
        return min(self._most_events(), max(1, int(_SLICE_SECONDS / seconds)))

    def _take(self, key: Hashable, cycle: int, limit: int) -> list[Claim]:
        """Removes and returns the claims of an order group and cycle, up to one that runs alone.

        Those whose keys have to be found are for themselves.
        """
        order_group, attempts = self._order_groups[key], self._cycles[cycle].attempts
        by_value = self._by_value
        if len(order_group) <= limit and order_group[-1].cycle == cycle and not (attempts or by_value):
            claims = list(order_group)
            order_group.clear()
            return claims
        claims = []
        asks = bool(by_value) and self._asks_keys(order_group[0])
        while order_group and len(claims) < limit and order_group[0].cycle == cycle:
            if order_group[0].sequence in attempts:
                break
            if by_value and self._asks_keys(order_group[0]) != asks:
                break
            claims.append(order_group.popleft())
        return claims

    def _begin(
        self,
        cycle: int,
        order_groups: list[tuple[Hashable, list[Claim]]],
        tasks: int,
        side_by_side: SideBySide | None = None,
    ) -> Batch:
        known = self._cycles[cycle]
        known.has_begun = True
        ordered: list[list[Claim]] = []
        keys: set[Hashable] = set()
        untouched = False
        for key, claims in order_groups:
            rest = self._order_groups.pop(key)
            if rest:
                self._order_groups[key] = rest  # behind the others
            self._waiting.subtract(Counter(map(_input, claims)))
            if _is_ordered(key):
                ordered.append(claims)
                keys.add(key)
            else:
                ordered.extend([claim] for claim in claims)
            if self._untouched:
                untouched = untouched or any((cycle, claim.sequence) in self._untouched for claim in claims)
        attempts = {}
        if known.attempts:
            numbers = [claim.sequence for _, claims in order_groups for claim in claims]
            attempts = {number: known.attempts[number] for number in numbers if number in known.attempts}
        if side_by_side is not None:
            tasks = min(tasks, len(ordered))
        batch = Batch(cycle, ordered, tasks, keys, attempts, known.ids, untouched, side_by_side)
        if self._by_value:
            batch.asks_keys, batch.values = self._asks_keys(batch.claims[0]), known.values
        self._busy |= keys
        self.running.append(batch)
        return batch

    def take_ended(
        self,
        batch: Batch,
        outcomes: Mapping[int, Outcome],
        attempts: Mapping[int, int],
        again: Iterable[int],
        *,
        is_untouched: bool = False,
        ends_poll: bool = False,
        waits: Collection[int] = (),
    ) -> EndedClaims:
        """Removes a batch whose job has ended, and returns the claims to settle.

        Args:
            outcomes: of the events, by sequence.
            attempts: number of deliveries or conversions that ended a worker, by sequence, for events without
                an outcome.
            again: sequences that run again.
            is_untouched: no event was touched.
            ends_poll: nothing runs again, and all waiting claims go back.
            waits: sequences that wait for another claim (:meth:`hold`).
        """
        self.running.remove(batch)
        self._busy -= batch.keys
        known = self._cycles[batch.cycle]
        known.attempts.update(attempts)
        ended_claims = EndedClaims()
        wanted = set() if ends_poll else set(again)
        repeated, stopped = self._sort_ended(batch, outcomes, wanted, waits, ended_claims)
        if batch.asks_keys and stopped:  # what comes before a claim that goes back runs
            self._cancel_groups(stopped, ended_claims)
        if repeated:
            behind = set() if batch.asks_keys else stopped
            self._repeat(repeated, behind, ended_claims, is_untouched=is_untouched)
        if ends_poll:
            self._cancel_all(ended_claims)
        if stopped and not batch.asks_keys:
            self._cancel_groups(stopped, ended_claims)
        if self._copies:
            self._release_copies(ended_claims, stopped)
        return ended_claims

    def _sort_ended(
        self,
        batch: Batch,
        outcomes: Mapping[int, Outcome],
        wanted: Set[int],
        waits: Collection[int],
        ended_claims: EndedClaims,
    ) -> tuple[list[Claim], set[Hashable]]:
        """Adds the claims of a batch that leave. Returns those that run again, and the keys that stop."""
        repeated: list[Claim] = []
        stopped: set[Hashable] = set()
        for claim in batch.claims:
            outcome = outcomes.get(claim.sequence)
            if outcome is not None:
                ended_claims.decided.append((claim, outcome))
                if outcome.kind in (OutcomeKind.ROLLED_BACK, OutcomeKind.LATER):
                    stopped.add(self._key(claim))
            elif claim.sequence in waits:
                continue
            elif claim.sequence in wanted and not (batch.asks_keys and self._is_behind(claim, stopped)):
                repeated.append(claim)
            else:
                stopped.add(self._key(claim))
                self._return(claim, ended_claims)
        return repeated, stopped

    def cancel(self) -> EndedClaims:
        """Returns all waiting claims for going back, because nothing more may begin."""
        ended_claims = EndedClaims()
        self._cancel_all(ended_claims)
        self._release_copies(ended_claims, set())
        return ended_claims

    def remove_settled(self, ended_claims: EndedClaims) -> list[int]:
        """Removes settled claims, and returns the cycles that have no more claims."""
        ended: list[int] = []
        claims = ended_claims.claims
        self._unsettled.subtract(Counter(map(_input, claims)))
        numbers = Counter(map(_cycle, claims))
        if self._untouched:
            self._untouched.difference_update([(claim.cycle, claim.sequence) for claim in claims])
        for cycle, number in numbers.items():
            known = self._cycles[cycle]
            known.unsettled -= number
            if not known.unsettled:
                ended.append(cycle)
                del self._cycles[cycle]
            elif known.attempts:
                for claim in claims:
                    if claim.cycle == cycle:
                        known.attempts.pop(claim.sequence, None)
        return ended

    # -- inside ------------------------------------------------------------------------------------

    def _wait(self, claim: Claim) -> None:
        key = self._key(claim)
        order_group = self._order_groups.get(key)
        if order_group is None:
            order_group = self._order_groups[key] = deque()
        order_group.append(claim)
        self._waiting[claim.input] += 1

    def _repeat(
        self, claims: list[Claim], stopped: set[Hashable], ended_claims: EndedClaims, *, is_untouched: bool
    ) -> None:
        """Puts claims in front of their order groups. Claims that run alone come first."""
        attempts = self._cycles[claims[0].cycle].attempts if claims else {}
        claims.sort(key=lambda claim: (claim.sequence not in attempts, claim.sequence))
        for claim in reversed(claims):
            key = self._key(claim)
            if _is_ordered(key) and key in stopped:
                self._return(claim, ended_claims)
                continue
            if is_untouched:
                self._untouched.add((claim.cycle, claim.sequence))
            self._order_groups.setdefault(key, deque()).appendleft(claim)
            self._waiting[claim.input] += 1

    def _return(self, claim: Claim, ended_claims: EndedClaims) -> None:
        ended_claims.returned.append((claim, self._cycles[claim.cycle].attempts.get(claim.sequence, 0)))

    def _cancel_all(self, ended_claims: EndedClaims) -> None:
        for key in list(self._order_groups):
            self._cancel_group(key, ended_claims)
        for copies in self._copies.values():
            for claim in copies[1:]:
                self._return(claim, ended_claims)
            del copies[1:]

    def _is_behind(self, claim: Claim, stopped: Collection[Hashable]) -> bool:
        """Whether a claim of a batch is behind one of its key that goes back."""
        return bool(stopped) and _is_ordered(key := self._key(claim)) and key in stopped

    def _cancel_groups(self, stopped: Iterable[Hashable], ended_claims: EndedClaims) -> None:
        for key in stopped:
            if _is_ordered(key):
                self._cancel_group(key, ended_claims)

    def _cancel_group(self, key: Hashable, ended_claims: EndedClaims) -> None:
        for claim in self._order_groups.pop(key, ()):
            self._waiting[claim.input] -= 1
            self._return(claim, ended_claims)

    def _release_copies(self, ended_claims: EndedClaims, stopped: set[Hashable]) -> None:
        """Decides on the copies that waited for leaving claims."""
        if not self._copies:
            return
        for claim, outcome in list(ended_claims.decided):
            for waiting in self._pop_waiting(claim):
                if outcome.comes_again:
                    self._return(waiting, ended_claims)
                else:
                    self.freed.append(waiting)
            copies = self._pop_copies(claim)
            key = self.id_of(claim) if copies else None
            if key is None:
                continue
            if outcome.kind == OutcomeKind.PUBLISHED:
                ended_claims.decided.extend((copy, DUPLICATE) for copy in copies)
            elif outcome.comes_again or self._key(copies[0]) in stopped:
                for copy in copies:
                    self._return(copy, ended_claims)
            else:
                self._copies[key] = copies
                self._wait(copies[0])
        for claim, _ in ended_claims.returned:  # grows meanwhile
            for copy in (*self._pop_waiting(claim), *self._pop_copies(claim)):
                self._return(copy, ended_claims)

    def _pop_waiting(self, claim: Claim) -> list[Claim]:
        """Removes and returns the claims that wait for a key by values of a leaving claim."""
        if not self._by_value:
            return []
        records = self._cycles[claim.cycle].values.get(claim.sequence, ())
        keys = dict.fromkeys([one.key for one in records])
        held = [key for key in keys if self._copies.get(key, (None,))[0] is claim]
        return [waiting for key in held for waiting in self._copies.pop(key)[1:]]

    def _pop_copies(self, claim: Claim) -> list[Claim]:
        """Removes and returns the copies that wait for a leaving claim. A waiting copy itself has none."""
        key = self.id_of(claim)
        if key is None or self._copies.get(key, (None,))[0] is not claim:
            return []
        return self._copies.pop(key)[1:]


_input: Final = attrgetter("input")
_cycle: Final = attrgetter("cycle")


def _is_ordered(key: Hashable) -> bool:
    return not (isinstance(key, tuple) and key[0] is None)
