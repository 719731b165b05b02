"""What must hold after chaos, whatever provider has the messages.

The checker gets what was sent, which processes were called, and where each message is in the end. It knows
messages by their ids.

* Each message is in each of its places once, and nowhere else.
* A process is called again only if the worker of the call before was killed before it had recorded its end.
  The count of the delivery says that this may be a repetition.
* No request gets the answer to another one.
* Nothing waits, and nothing is with the dead letters.
"""

from __future__ import annotations

import math
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

_SHOWN: Final = 20
"""Most faults of a figure that a report lists."""
_RECORDING: Final = 5.0
"""Seconds from the end of a call until a worker has recorded the end for certain, on a busy machine."""


class Kind(NamedTuple):
    """What becomes of a message.

    Args:
        places: each has one copy in the end.
        calls: process -> number of its tries.
        expires: whether the message may expire instead, as a request does.
    """

    places: Sequence[str] = ()
    calls: Mapping[str, int] = {}
    expires: bool = False


class Sent(NamedTuple):
    """A message that was sent.

    Args:
        kind: of the message.
        is_certain: False = its sender does not know whether the provider has got the message.
    """

    kind: Kind
    is_certain: bool = True


class Call(NamedTuple):
    """A call of a process.

    Args:
        message: the id of the message.
        process: the name of the process.
        tries: number of the tries before this one. They do not count as repetitions.
        delivery: what the process was told as the number of this delivery.
        worker: the name of the worker, which delivers one event after the other.
        begun, ended: times by one clock for all workers. Infinity = the call has no end.
    """

    message: str
    process: str
    tries: int
    delivery: int
    worker: str
    begun: float
    ended: float = math.inf


@dataclass(frozen=True, slots=True)
class Found:
    """What there is in the end.

    Args:
        sent: id -> the message.
        calls: of all processes, in any order.
        killed: worker -> the time of its death. Only those that were killed.
        places: name -> the ids of its messages. These are the places that kinds name.
        waiting: the same of places in which nothing may be left.
        failed: the same of places for events that have failed.
        dead: the same of places where the provider puts messages aside.
        expired: the same of places for messages that have expired.
        left: whatever else is left behind, as texts.
        wrong: wrong answers to requests, as texts.
        errors: unexpected errors, as texts.
    """

    sent: Mapping[str, Sent]
    calls: Sequence[Call]
    killed: Mapping[str, float]
    places: Mapping[str, Sequence[str]]
    waiting: Mapping[str, Sequence[str]] = field(default_factory=dict)
    failed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dead: Mapping[str, Sequence[str]] = field(default_factory=dict)
    expired: Mapping[str, Sequence[str]] = field(default_factory=dict)
    left: Sequence[str] = ()
    wrong: Sequence[str] = ()
    errors: Sequence[str] = ()


Faults = Mapping[str, Sequence[str]]
"""Name of a figure -> its faults as texts, which begin with the id of the message."""


def check(found: Found) -> Faults:
    """Returns the faults by figure. Each figure is there, also without a fault."""
    return {
        "lost": list(_lost(found)),
        "doubled": list(_doubled(found)),
        "called too often": [text for text in _repetitions(found) if text],
        "repeated without saying so": list(_unmarked(found.calls)),
        "stranded": [*_ids_in(found.waiting), *found.left],
        "failed": list(_ids_in(found.failed)),
        "dead letters": [*_ids_in(found.dead), *_expired(found)],
        "wrong answers": list(found.wrong),
        "unexpected errors": list(found.errors),
    }


def report(found: Found, faults: Faults) -> str:
    """Returns a table of the figures, and the faults behind it."""
    certain = sum(one.is_certain for one in found.sent.values())
    rows: list[tuple[str, int]] = [
        ("messages", len(found.sent)),
        ("of them sent for certain", certain),
        ("calls", len(found.calls)),
        ("of them repeated, as kills allow", _repetitions(found).count("")),
        *((name, len(texts)) for name, texts in faults.items()),
    ]
    lines = [f"{name:<36}{number:>8}" for name, number in rows]
    for name, texts in faults.items():
        lines += [f"{name}: {text}" for text in texts[:_SHOWN]]
        if len(texts) > _SHOWN:
            lines.append(f"{name}: and {len(texts) - _SHOWN} more")
    return "\n".join(lines)


def _repetitions(found: Found) -> list[str]:
    """Returns what is wrong about each repeated call. Empty = nothing.

    A repetition is right if the call before was the last one of its worker, which was killed before it had
    recorded the end of that call.
    """
    last: dict[str, Call] = {}
    by_try: defaultdict[tuple[str, str, int], list[Call]] = defaultdict(list)
    for call in _in_order(found.calls):
        last[call.worker] = call
        by_try[call[:3]].append(call)
    texts = []
    for before, call in (pair for calls in by_try.values() for pair in pairwise(calls)):
        killed = found.killed.get(before.worker, math.inf)
        is_last = last[before.worker] is before
        if is_last and killed < math.inf and killed - before.ended < _RECORDING:
            texts.append("")
        else:
            texts.append(
                f"{call.message}: {call.process} was called by {before.worker} at {before.begun:.3f}, and "
                f"again by {call.worker} at {call.begun:.3f} as delivery {call.delivery}"
            )
    return texts


def _in_order(calls: Iterable[Call]) -> list[Call]:
    return sorted(calls, key=operator.attrgetter("begun"))


def _unmarked(calls: Iterable[Call]) -> Iterator[str]:
    counts: defaultdict[tuple[str, str, int], list[int]] = defaultdict(list)
    for call in _in_order(calls):
        counts[call[:3]].append(call.delivery)
    for (message, process, _), numbers in counts.items():
        if numbers != sorted(set(numbers)):
            yield f"{message}: {process} was told the deliveries {numbers}"


def _lost(found: Found) -> Iterator[str]:
    """A message that is somewhere else is not lost. Another figure has it."""
    elsewhere = {
        one
        for places in (found.waiting, found.failed, found.dead, found.expired)
        for ids in places.values()
        for one in ids
    }
    called = {call.message for call in found.calls}
    tries: Counter[tuple[str, str]] = Counter(
        (message, process) for message, process, _ in {call[:3] for call in found.calls}
    )
    inside = {place: set(ids) for place, ids in found.places.items()}
    for message, sent in found.sent.items():
        missing = [place for place in sent.kind.places if message not in inside[place]]
        has_ended = len(missing) < len(sent.kind.places)
        is_known = not sent.kind.expires and (sent.is_certain or message in called)
        if missing and message not in elsewhere and (has_ended or is_known):
            yield f"{message}: not in {', '.join(missing)}"
        if has_ended:
            for process, number in sent.kind.calls.items():
                if tries[message, process] < number:
                    yield f"{message}: {process} was called {tries[message, process]} times, not {number}"


def _doubled(found: Found) -> Iterator[str]:
    for place, ids in found.places.items():
        for message, number in Counter(ids).items():
            if message not in found.sent or place not in found.sent[message].kind.places:
                yield f"{message}: in {place}, and nobody sent it there"
            elif number > 1:
                yield f"{message}: in {place} {number} times"


def _expired(found: Found) -> Iterator[str]:
    for place, ids in found.expired.items():
        for message in ids:
            if message not in found.sent or not found.sent[message].kind.expires:
                yield f"{message}: in {place}"


def _ids_in(places: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for place, ids in places.items():
        yield from (f"{message}: in {place}" for message in ids)
