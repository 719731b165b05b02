"""The states that a crash can leave of a recorded run.

* *Killed*: after each operation everything that was done is there.
* *Power lost*: what was not synced may be missing. One operation is missing, or two, or all of them.

Three tables say what a missing name takes with it, and what a sync makes durable:

* *journaled*: as ext3, ext4 and XFS. All names of the file system have one order. A sync takes the earlier
  changes of all names with it. The product relies on this where it knows the file system.
* *ordered*: a directory keeps the order of its names, and no other order is kept.
* *unordered*: each name stands for itself.

In the last two a sync reaches only what POSIX promises: the content of a file, or the names in a directory.
In all of them a rename is atomic, and a file that was moved twice was moved once before. The content of a
file has no order but its own.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.crash_states.disk import LOSSES_OF_DATA, Loss, disk_after
from tests.crash_states.operations import OF_DATA, OF_NAMES, Kind, Nodes, Recording

KILLED: Final = "killed"
JOURNALED: Final = "one missing, journaled"
ORDERED: Final = "one missing, ordered"
UNORDERED: Final = "one missing, unordered"
PAIR: Final = "two missing"
ALL: Final = "all missing"
KINDS: Final = (KILLED, JOURNALED, ORDERED, UNORDERED, PAIR, ALL)
_ALL_NAMES: Final = "all names"
_UNSEEN: Final = frozenset((Kind.SYNC, Kind.TOUCH))
"""Operations after which a killed process leaves what was there before."""
_LOSABLE: Final = OF_NAMES | OF_DATA
_NEVER: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class State:
    """What a crash leaves.

    Args:
        kind: of :data:`KINDS`.
        end: number of operations before the crash.
        lost: what is not on the disk, by the place of the operation.
    """

    kind: str
    end: int
    lost: tuple[tuple[int, Loss], ...] = ()

    @property
    def is_killed(self) -> bool:
        return self.kind == KILLED

    def disk(self, recording: Recording) -> Nodes:
        return disk_after(recording, self.end, dict(self.lost))

    def facts(self, recording: Recording) -> list[tuple[object, ...]]:
        """What the world outside has seen before the crash."""
        made = recording.operations[: self.end]
        return [*recording.facts, *(one.fact for one in made if one.kind is Kind.MARK), ("crash", self.kind)]

    def text(self, recording: Recording) -> str:
        """Tells a reader the last operation and the missing operations."""
        last = recording.operations[self.end - 1].text if self.end else "nothing"
        lines = [f"{self.kind}, after operation {self.end}: {last}"]
        lines += [
            f"  {loss.value}: {place + 1}: {recording.operations[place].text}" for place, loss in self.lost
        ]
        return "\n".join(lines)


@dataclass(slots=True)
class _Table:
    """When operations become durable, and what a missing operation takes with it.

    Args:
        before: for each operation, the operations that are on the disk if it is.
        durable: for each operation, the place of the sync that makes it durable.
    """

    before: list[tuple[int, ...]] = field(default_factory=list)
    durable: list[int] = field(default_factory=list)
    _gone: dict[int, list[int]] = field(default_factory=dict)

    def missing(self, place: int, end: int) -> list[int]:
        """Returns an operation, and what is missing with it before the end."""
        if place not in self._gone:
            gone = {place}
            for later in range(place + 1, len(self.before)):
                if not gone.isdisjoint(self.before[later]):
                    gone.add(later)
            self._gone[place] = sorted(gone)
        return self._gone[place][: bisect_left(self._gone[place], end)]


def _table(recording: Recording, kind: str) -> _Table:
    table = _Table()
    last: dict[object, int] = {}
    """The last operation of each thing that keeps an order."""
    waiting: dict[int, list[int]] = {}
    """The operations that a sync of an inode makes durable."""
    for place, one in enumerate(recording.operations):
        before: set[int] = set()
        table.durable.append(_NEVER)
        if one.kind in OF_NAMES:
            made = (one.target, one.new) if one.kind is Kind.RENAME else (one.parent, one.name)
            if one.kind in (Kind.RENAME, Kind.REMOVE):
                before.add(last.get((one.parent, one.name), -1))  # what has made the name that it takes
            in_order: tuple[object, ...] = one.directories if kind == ORDERED else ()
            if kind == JOURNALED:
                in_order = (_ALL_NAMES,)
                waiting.setdefault(one.node, []).append(place)  # a sync of the file takes its name along
            before.update(last.get(thing, -1) for thing in in_order)
            last.update(dict.fromkeys((*in_order, made), place))
            for directory in one.directories:
                waiting.setdefault(directory, []).append(place)
        elif one.kind in OF_DATA:
            if kind != UNORDERED:
                before.add(last.get(("data", one.node), -1))
            last["data", one.node] = place
            waiting.setdefault(one.node, []).append(place)
            if kind == JOURNALED and _ALL_NAMES in last:  # a new size is in the journal behind these names
                waiting[one.node].append(last[_ALL_NAMES])
        elif one.kind is Kind.SYNC:
            open_ = waiting.pop(one.node, [])
            while open_:
                done = open_.pop()
                if table.durable[done] == _NEVER:
                    table.durable[done] = place
                    open_ += table.before[done]
        table.before.append(tuple(before - {-1}))
    return table


class States:
    """The states of a recording.

    Args:
        recording: of a run.
        tables: the tables of a loss of power: kinds of :data:`KINDS`. Empty = the power is never lost.
    """

    def __init__(self, recording: Recording, tables: Sequence[str]) -> None:
        self.recording = recording
        self._ends = [place + 1 for place, one in enumerate(recording.operations) if one.kind not in _UNSEEN]
        """Where a crash leaves something else than a moment before."""
        self._tables = {kind: _table(recording, kind) for kind in tables}

    def killed(self) -> list[State]:
        """Returns a state after each operation, and one before the first."""
        return [State(KILLED, end) for end in [0, *self._ends]]

    def _volatile(self, kind: str, end: int) -> list[int]:
        operations, durable = self.recording.operations, self._tables[kind].durable
        return [place for place in range(end) if durable[place] >= end and operations[place].kind in _LOSABLE]

    def _losses_of(self, place: int) -> Sequence[Loss]:
        is_write = self.recording.operations[place].kind is Kind.WRITE
        return LOSSES_OF_DATA if is_write else (Loss.MISSING,)

    def _lose(self, kind: str, place: int, end: int, loss: Loss) -> dict[int, Loss]:
        """Returns what is missing with an operation. A half of a write has no more behind it."""
        operations = self.recording.operations
        later = Loss.ZEROS if loss is Loss.ZEROS else Loss.MISSING
        found = {
            one: later if operations[one].kind is Kind.WRITE else Loss.MISSING
            for one in self._tables[kind].missing(place, end)
        }
        return {**found, place: loss}

    def singles(self, kind: str) -> Iterator[State]:
        """Yields each state in which one operation is missing, by one of the tables."""
        seen: set[tuple[int, frozenset[tuple[int, Loss]]]] = set()
        for end in self._ends:
            for place in self._volatile(kind, end):
                for loss in self._losses_of(place):
                    lost = self._lose(kind, place, end, loss)
                    state = State(kind, end, tuple(sorted(lost.items(), key=lambda one: one[0])))
                    key = self._key(state)
                    if key not in seen:
                        seen.add(key)
                        yield state

    def _key(self, state: State) -> tuple[int, frozenset[tuple[int, Loss]]]:
        """Returns what tells two states apart: crashes one after the other may leave the same disk."""
        lost = dict(state.lost)
        end = state.end
        operations = self.recording.operations
        while end and (lost.get(end - 1) is Loss.MISSING or operations[end - 1].kind in _UNSEEN):
            end -= 1
        return end, frozenset((place, loss) for place, loss in lost.items() if place < end)

    def all_missing(self) -> Iterator[State]:
        """Yields each state in which nothing is there that was not synced."""
        table = list(self._tables)[-1]
        for end in self._ends:
            for loss in (Loss.MISSING, Loss.ZEROS):
                operations = self.recording.operations
                lost = {
                    place: loss if operations[place].kind is Kind.WRITE else Loss.MISSING
                    for place in self._volatile(table, end)
                }
                if lost and (loss is Loss.MISSING or Loss.ZEROS in lost.values()):
                    yield State(ALL, end, tuple(lost.items()))

    def pairs(self, chance: random.Random, number: int) -> list[State]:
        """Returns states in which two operations are missing, chosen by chance."""
        found: dict[object, State] = {}
        for _ in range(4 * number):
            if len(found) >= number or not self._ends:
                break
            kind = chance.choice(list(self._tables))
            end = chance.choice(self._ends)
            volatile = self._volatile(kind, end)
            if len(volatile) < 2:
                continue
            lost: dict[int, Loss] = {}
            for place in chance.sample(volatile, 2):
                lost |= self._lose(kind, place, end, chance.choice(self._losses_of(place)))
            state = State(PAIR, end, tuple(sorted(lost.items(), key=lambda one: one[0])))
            found[self._key(state)] = state
        return list(found.values())

    def choose(self, chance: random.Random, number: int) -> list[State]:
        """Returns states of all kinds by chance, about ``number``."""
        if not self._tables:
            return _some(chance, self.killed(), number)
        parts = number / 20
        one = round(9 * parts / len(self._tables))
        chosen = _some(chance, self.killed(), round(4 * parts))
        for kind in self._tables:
            chosen += _some(chance, list(self.singles(kind)), one)
        chosen += _some(chance, list(self.all_missing()), round(2 * parts))
        return chosen + self.pairs(chance, round(5 * parts))


def _some(chance: random.Random, states: list[State], number: int) -> list[State]:
    number = max(1, number)
    return chance.sample(states, number) if number < len(states) else states
