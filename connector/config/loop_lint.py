"""Finds subscriptions whose messages come back to them, step after step, in an endless loop.

A message that a subscription sends to an input is another step if its object, verb or rule is another.
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from connector.businessobjects.definition import Definitions
from connector.businessobjects.rules import JMS_TYPE, StaticMetaObject
from connector.config.model import AdapterFile
from connector.config.subscription_reading import ReadEntry
from connector.declare.input_entry import InputEntry
from connector.declare.problem_reporter import ProblemReporter
from connector.messaging.destination import Destination
from connector.sinks.mapped_entry import MappedEntry
from connector.sinks.subscription_model import PreparedEntry, SinkEntry

_INPUTS: Final = ("connector", "InputDestination")


class Step(NamedTuple):
    """An object that a subscription takes and sends on.

    Args:
        entry: the index of the subscription in the file.
    """

    entry: int
    object: str
    verb: str


class _Arrow(NamedTuple):
    """From a step to one that takes what the step has sent.

    Args:
        place: the index of the input in between.
    """

    to: Step
    place: int


class LoopCheck:
    """The steps of a deployment, and the ways between them.

    Args:
        static: the rules. None = there are none.
        inputs: with their indexes in the file.
    """

    def __init__(
        self,
        file: AdapterFile,
        entries: Sequence[ReadEntry],
        static: StaticMetaObject | None,
        definitions: Definitions,
        inputs: Sequence[tuple[int, InputEntry]],
    ) -> None:
        self._format_property = file.connector.message_format_property
        self._static = static
        self._by_keys: dict[tuple[Destination, str | None, bool], set[tuple[str, str]]] = {}
        self._definitions = definitions
        # an input with no_local leaves out the messages of this adapter
        self._inputs = [(index, entry) for index, entry in inputs if not entry.no_local]
        self._entries = {
            one.index: one.entry
            for one in entries
            if isinstance(one.entry, SinkEntry)
            and any(one.entry.may_send_to(entry.destination) for _, entry in self._inputs)
        }

    def report(self, reporter: ProblemReporter, keys: Mapping[int, str]) -> None:
        """Reports each loop once: a mistake if it is sure, a warning if it is only possible.

        Args:
            keys: of the sinks, by the indexes of the subscriptions.
        """
        told: set[int] = set()
        for is_sure in (True, False):
            arrows = functools.cache(functools.partial(self._arrows, is_sure=is_sure))
            for step in self._steps():
                way = () if step.entry in told else _way_back(step, arrows)
                if not way or told.intersection(arrow.to.entry for arrow in way):
                    continue
                told.update(arrow.to.entry for arrow in way)
                self._add(step, way, reporter, keys[step.entry], is_sure=is_sure)

    def _add(
        self, step: Step, way: Sequence[_Arrow], reporter: ProblemReporter, key: str, *, is_sure: bool
    ) -> None:
        line = reporter.position(*_INPUTS, way[0].place).line
        destination = next(entry.destination for index, entry in self._inputs if index == way[0].place)
        found = f"{destination} is the InputDestination too (line {line}): "
        found += f"what is sent there for {step.object}.{step.verb} "
        between = "" if len(way) == 1 else f", after {len(way)} steps"
        found += f"{'would' if is_sure else 'may'} be taken again{between}, in an endless loop"
        reporter.add(
            ("subscriptions", step.entry, key),
            found,
            "a destination of its own, or a rule, a verb or an object of its own for what is taken there",
            warning=not is_sure,
        )

    def _steps(self) -> Iterator[Step]:
        for index, entry in self._entries.items():
            for name, definition in self._definitions.items():
                for verb in definition.verbs if fnmatch.fnmatchcase(name, entry.object) else ():
                    if entry.verbs is None or verb in entry.verbs:
                        yield Step(index, name, verb)

    def _arrows(self, step: Step, *, is_sure: bool) -> list[_Arrow]:
        """Returns the ways from a step to the next ones.

        Args:
            is_sure: whether only ways count that every message goes.
        """
        entry = self._entries[step.entry]
        found: list[_Arrow] = []
        for place, taken in self._inputs:
            if not entry.may_send_to(taken.destination):
                continue
            is_fixed = entry.sends_to is not None and taken.selector is None
            pairs, is_known = self._pairs_read(step, entry, taken)
            if is_sure and not (is_fixed and is_known):
                continue
            for index, other in self._entries.items():
                found += [
                    _Arrow(Step(index, name, verb), place)
                    for name, verb in pairs
                    if (other.verbs is None or verb in other.verbs)
                    and fnmatch.fnmatchcase(name, other.object)
                ]
        return found

    def _pairs_read(
        self, step: Step, entry: SinkEntry, taken: InputEntry
    ) -> tuple[set[tuple[str, str]], bool]:
        """Returns the objects and verbs that a sent message can mean, and whether it surely means them."""
        sent = (step.object, step.verb)
        if isinstance(entry, MappedEntry) and entry.map is not None:
            sent = (entry.map.target or step.object, entry.map.verb or step.verb)
        static = self._static
        if static is None:
            return {sent}, True
        message_format = entry.format if isinstance(entry, PreparedEntry) else None
        if message_format is None:
            message_format = static.properties(*sent).get("OutputFormat")
        is_known = message_format is not None or self._format_property == JMS_TYPE
        if is_known and not static.has_conditions(message_format, taken.destination):
            rule = static.only_match(message_format, taken.destination)
            return {sent if rule is None else (rule.object, rule.verb)}, True
        return {sent, *self._possible(taken.destination, message_format, is_known=is_known)}, False

    def _possible(
        self, destination: Destination, message_format: str | None, *, is_known: bool
    ) -> set[tuple[str, str]]:
        """Returns the objects and verbs of the rules that may match a message of an input."""
        key = destination, message_format, is_known
        if key not in self._by_keys and self._static is not None:
            self._by_keys[key] = {
                (rule.object, rule.verb)
                for rule in self._static.rules
                if rule.input_destination in (None, destination)
                and (not is_known or rule.input_format in (None, message_format))
            }
        return self._by_keys.get(key, set())


def _way_back(start: Step, arrows: Callable[[Step], Sequence[_Arrow]]) -> tuple[_Arrow, ...]:
    """Returns the shortest way from a step back to itself. Empty = there is none."""
    ways: list[tuple[_Arrow, ...]] = [()]
    seen: set[Step] = set()
    for way in ways:
        for arrow in arrows(way[-1].to if way else start):
            if arrow.to in seen:
                continue
            if arrow.to == start:
                return (*way, arrow)
            seen.add(arrow.to)
            ways.append((*way, arrow))
    return ()
