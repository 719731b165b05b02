"""What holds at the end of a world, whatever has died where.

* Each message is in exactly one place, and once.
* A process is called again only if a death came between its begin and the ``done`` of its event, or because
  its event comes again later. The count of the delivery then says that this may be a repetition. Two copies
  of a message have a count each, so another instance may deliver the second one first.
* A message that an event sends, a row that it writes and its reply are there exactly once.
* The order of the destination or of the group is kept.
* A copy of a published message is not published again, nor is a message with its duplicate key.
* An event has the same id at each of its calls, and no other event has that id.
* Nothing is left behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.crashing.scenario import MANY, Scenario, Sent

_PLACES: Final = ("archive", "error", "unsubscribed", "b-archive", "b-error", "b-unsubscribed")
_OF_TASKS: Final = ("begin", "deliver", "transaction.returned", "transaction.committed", "done", "prepare")
"""Places where the thread of an event dies. At the fake of a broker others are for a moment behind it."""


@dataclass
class Deliveries:
    """The log of a world, read line by line. Breaks of a promise are in ``faults``.

    Args:
        scenario: of the world.
        sent: all messages by number.
    """

    scenario: Scenario
    sent: Mapping[int, Sent]
    faults: list[str] = field(default_factory=list)
    begun: Counter[tuple[str, str]] = field(default_factory=Counter)
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    ids: dict[int, str] = field(default_factory=dict)
    """The ids of the events, by number."""
    numbers: dict[str, int] = field(default_factory=dict)
    repeated: int = 0
    interrupted: Counter[int] = field(default_factory=Counter)
    """How often a death came while a message was at work."""
    unseen: int = 0
    """How often a death may have come while a message was at work that no call has told of.

    Its batch runs in a thread of its own, so the place of the death does not tell.
    """

    def read(self, lines: Sequence[str]) -> None:
        """Reads the whole log."""
        living = ""
        at_work: dict[str, int] = {}
        died_at: dict[str, int] = {}
        open_calls: dict[str, set[tuple[str, str, int]]] = {}
        may_repeat: set[tuple[str, str, int]] = set()
        known: dict[tuple[str, str, int], int] = {}
        newest: dict[str, int] = {}
        for text in lines:
            line, word, *rest = text.split(" ")
            process = line.partition(".")[0]
            if self.scenario.parallel == 1:
                line = process  # the thread of its events does not matter
            if word == "life":
                living = process
                died_at.pop(process, None)  # the number of a process may come again
            elif word == "death":
                number = died_at[process] = at_work.pop(line, 0)
                is_sure = number and (self.scenario.store != "broker" or rest[0] in _OF_TASKS)
                if is_sure:
                    self.interrupted[number] += 1  # otherwise the journal may have got its end in time
                if not is_sure or self.scenario.parallelism > 1:
                    self.unseen += 1
                for other in [one for one in at_work if one.startswith(f"{process}.")]:
                    del at_work[other]
                    self.unseen += 1  # perhaps its journal has the end
                for other in [one for one in open_calls if one.partition(".")[0] == process]:
                    may_repeat |= open_calls.pop(other)
            elif word == "done":
                open_calls.pop(line, None)
                at_work.pop(line, None)
            elif word == "end":
                self.ended[rest[0], rest[1]] += 1
            elif word in ("begin", "post"):
                subscription, key = rest[:2]
                count, retries = (int(rest[2]), int(rest[3])) if word == "begin" else (0, 0)
                if word == "post":
                    line = process = living  # there is no neighbour where there are hooks
                number = int(key.partition("-")[0])
                if at_work.get(line) != number:
                    open_calls.pop(line, None)  # of an event without a journal
                at_work[line] = number
                call = (subscription, key, retries)
                if call in known:
                    self.repeated += 1
                    if call not in may_repeat:
                        self.faults.append(f"{subscription} was called again for {key} without need")
                    elif count <= known[call] and word == "begin" and not self._has_counts(number):
                        self.faults.append(f"{key} repeated with delivery_count {count}")
                may_repeat.discard(call)
                known[call] = count
                if process not in died_at:
                    open_calls.setdefault(line, set()).add(call)
                else:  # another thread came so far before the process ended, or the server of the hook
                    may_repeat.add(call)
                    if self.scenario.parallel == 1:
                        self.interrupted[number] += died_at[process] != number
                        died_at[process] = number
                    else:
                        self.unseen += 1
                self.begun[subscription, key] += 1
                if word == "begin":
                    self._check_id(number, rest[4].partition("#")[0])
                least = 0 if self._has_counts(number) else self.interrupted[number]
                if count <= least - (process in died_at) and word == "begin":
                    self.faults.append(
                        f"{key} has delivery_count {count} after {self.interrupted[number]} interruptions"
                    )
                self._check_order(number, newest)

    def _check_id(self, number: int, identity: str) -> None:
        is_one = not (self.scenario.keyed and self.sent[number].copies > 1)
        if self.ids.setdefault(number, identity) != identity and is_one:
            self.faults.append(f"{number} has the ids {self.ids[number]} and {identity}")
        if self.numbers.setdefault(identity, number) != number:
            self.faults.append(f"{number} and {self.numbers[identity]} have the id {identity}")

    def _has_counts(self, number: int) -> bool:
        """Whether copies of a message, each with a count of its own, may be at work one after the other."""
        return self.sent[number].copies > 1 and (self.scenario.neighbour or self.scenario.keyed)

    def _check_order(self, number: int, newest: dict[str, int]) -> None:
        message = self.sent[number]
        order = self.scenario.order
        if order == "none" or (self.scenario.store == "broker" and self.scenario.in_progress):
            return  # a broker puts what is moved back behind what waits
        line = message.destination if order == "destination" else f"{message.destination} {message.group}"
        if newest.get(line, 0) > number:
            self.faults.append(f"{number} was delivered after {newest[line]} of the same {order}")
        newest[line] = max(newest.get(line, 0), number)


def judge(
    scenario: Scenario, sent: Sequence[Sent], lines: Sequence[str], counts: Mapping[str, Any]
) -> tuple[list[str], int]:
    """Returns what does not hold, and how many calls were repeated.

    Args:
        scenario: of the world.
        sent: all messages.
        lines: of the log of deliveries.
        counts: the keys of the objects by place, after everything was drained.
    """
    deliveries = Deliveries(scenario, {one.number: one for one in sent})
    deliveries.read(lines)
    faults = deliveries.faults
    known = {one.number for one in sent}
    for place in _PLACES:
        strangers = {key for key in counts[place] if int(key.partition("-")[0]) not in known}
        faults += [f"{place} has what nobody sent: {key}" for key in strangers]
    for one in sent:
        faults += _judge_message(scenario, one, deliveries, counts)
    faults += [f"left behind: {left}" for left in counts["left"]]
    return faults, deliveries.repeated


def _judge_message(
    scenario: Scenario, one: Sent, deliveries: Deliveries, counts: Mapping[str, Any]
) -> Iterator[str]:
    first = f"{one.number}-1"
    found = {place: counts[place].get(first, 0) for place in _PLACES if counts[place].get(first)}
    has_own = scenario.own and one.destination == "queue://b"
    expected, own = _place_of(scenario, one), "b-" if has_own else ""
    interrupted = deliveries.interrupted[one.number] + deliveries.unseen
    is_exhausted = scenario.attempts != MANY and interrupted >= scenario.attempts + has_own
    place = "error" if is_exhausted and found == {f"{own}error": one.copies} else expected
    if found != {own + place: one.copies}:
        yield f"message {one.number} {one.name!r} x {one.copies} is in {found}, not in {own}{place}"
        return
    for key in one.keys(scenario):
        yield from _judge_effects(scenario, one, key, place, deliveries, counts)
    if "answer" in scenario.sinks and one.destination.startswith("queue:"):
        replies = counts["replies"].get(str(one.number), 0)
        keys = one.keys(scenario)  # each is answered, and a message that reaches no process is refused
        wanted = range(1, len(keys) + 2) if is_exhausted else (len(keys) or 1,)
        if replies not in wanted:
            yield f"message {one.number} {one.name!r} in {place} has {replies} replies"
    if one.destination.startswith("topic:"):
        for key in one.keys(scenario) or [first]:
            if counts["audit"].get(key, 0) != 1:
                yield f"the other subscription has {key} {counts['audit'].get(key, 0)} times"


def _place_of(scenario: Scenario, one: Sent) -> str:
    if one.name == "broken":
        return "error"
    if one.name == "unwanted":
        return "unsubscribed"
    return "error" if one.name == "fail" and "store" in scenario.sinks else "archive"


def _judge_effects(
    scenario: Scenario,
    one: Sent,
    key: str,
    place: str,
    deliveries: Deliveries,
    counts: Mapping[str, Any],
) -> Iterator[str]:
    is_published = place == "archive"
    for sink, where in (("copy", "out"), ("news", "news")):
        if sink in scenario.sinks and counts[where].get(key, 0) != is_published:
            yield f"{where} has {key} {counts[where].get(key, 0)} times, and it is in {place}"
    for sink, where in (("book", "booking"), ("rows", "line")):
        if sink in scenario.sinks:
            number = counts[where].get(key, 0)
            if number > 1 or (is_published and number != 1):
                yield f"{where} has {number} rows of {key}, which is in {place}"
            if sink == "book" and counts["booked"].get(key, 0) != number:
                yield f"{counts['booked'].get(key, 0)} messages were sent with {number} rows of {key}"
    if "send" in scenario.sinks:
        sent = {counts[where].get(key, 0) for where in ("sent", "sent-too")}
        if len(sent) > 1 or max(sent) > 1 or (is_published and sent != {1}):
            yield f"{key}, which is in {place}, was sent {sent} times"
    for sink in ("store", "answer", "ask", "hook", "send"):
        if sink in scenario.sinks and is_published and not deliveries.begun[sink, key]:
            yield f"{key} is in {place}, and {sink} was never called"
    if "ask" in scenario.sinks:
        asked, begun = counts["asked"].get(key, 0), deliveries.begun["ask", key]
        ended = deliveries.ended["ask", key]
        if not ended <= asked <= begun:
            yield f"{asked} requests for {key} after {begun} calls, of which {ended} ended"
