"""Finds subscriptions whose messages come back to them, step after step, in an endless loop.

A message that a subscription sends to an input is another step if its object, verb or rule is another.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from connector.businessobjects.definition import Definitions
from connector.businessobjects.rules import JMS_TYPE, StaticMetaObject
from connector.config.model import AdapterFile
from connector.config.subscription_reading import ReadEntry
from connector.declare.input_entry import InputEntry
from connector.declare.problem_reporter import ProblemReporter
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
        is_sure: whether every message goes this way.
    """

    to: Step
    place: int
    is_sure: bool


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
        arrows = {step: list(self._arrows(step)) for step in self._steps()}
        told: set[int] = set()
        for is_sure in (True, False):
            for step in arrows:
                way = _way_back(step, arrows, is_sure=is_sure)
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

    def _arrows(self, step: Step) -> Iterator[_Arrow]:
        entry = self._entries[step.entry]
        for place, taken in self._inputs:
            if not entry.may_send_to(taken.destination):
                continue
            is_fixed = entry.sends_to is not None and taken.selector is None
            pairs, is_known = self._pairs_read(step, entry, taken)
            for index, other in self._entries.items():
                for name, verb in pairs:
                    wants = other.verbs is None or verb in other.verbs
                    if wants and fnmatch.fnmatchcase(name, other.object):
                        yield _Arrow(Step(index, name, verb), place, is_fixed and is_known)

    def _pairs_read(
        self, step: Step, entry: SinkEntry, taken: InputEntry
    ) -> tuple[set[tuple[str, str]], bool]:
        """Returns the objects and verbs that a sent message can mean, and whether it surely means them.

        A sink that sends another object than the one that it takes changes only this method.
        """
        sent = (step.object, step.verb)
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
        possible = {
            (rule.object, rule.verb)
            for rule in static.rules
            if rule.input_destination in (None, taken.destination)
            and (not is_known or rule.input_format in (None, message_format))
        }
        return {sent, *possible}, False


def _way_back(start: Step, arrows: Mapping[Step, Sequence[_Arrow]], *, is_sure: bool) -> tuple[_Arrow, ...]:
    """Returns the shortest way from a step back to itself. Empty = there is none.

    Args:
        is_sure: whether only sure ways count.
    """
    ways: list[tuple[_Arrow, ...]] = [()]
    seen: set[Step] = set()
    for way in ways:
        for arrow in arrows.get(way[-1].to if way else start, ()):
            if arrow.to in seen or (is_sure and not arrow.is_sure):
                continue
            if arrow.to == start:
                return (*way, arrow)
            seen.add(arrow.to)
            ways.append((*way, arrow))
    return ()
