"""Well: whether failures, ages, disk and processes of an application are within their limits.

The reasons are one document. Status, ``/health/well``, the console and the metrics are views of it.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from connector.declare.value_types import write_duration
from connector.operate.health_section import Health
from connector.text.iso_time import iso_time

_SHOWN: Final = 1000
"""Characters of the text of a reason."""
PAGE: Final = "docs/how-to/runbook.md"


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """The recent work of an instance.

    Args:
        runs: whether a process holds the name now.
        workers_died: worker processes of the last 5 minutes.
        idle: seconds since the last good poll, beyond the usual pause. None = no poll is due.
        obstacle: why the instance cannot work now. Empty = it can.
        closed: why no message of an input can be taken, by destination.
        left_open: why events of dead instances cannot be settled, by input.
    """

    name: str
    runs: bool = True
    workers_died: int = 0
    idle: float | None = None
    obstacle: str = ""
    closed: Mapping[str, str] = field(default_factory=dict)
    left_open: Mapping[str, str] = field(default_factory=dict)


class Share(NamedTuple):
    """The events of an input, or the deliveries of a subscription, in the last 5 minutes.

    Args:
        number: of those that were published or have failed.
        last_failure: the reason of the last failure, with its line of code.
        since: the minute of the first failure, in seconds since 1970. None = none has failed.
    """

    number: int
    failed: int
    last_failure: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """The state of an application.

    Args:
        provider: why the provider cannot be used. Empty = it can.
        provider_name: what a reason calls it.
        disk: why nothing may be claimed. Empty = the disk has room.
        path: on that disk.
        databases: why a database cannot be used, by its name. The text names the database.
        polls: whether there are inputs, so that instances have to run.
        instances: those that run, or have worked in the last 5 minutes.
        in_doubt: ids of messages that may or may not have been published, and wait for an operator.
        in_progress: the InProgressDestination, where they are.
        inputs, subscriptions: their shares of failures, by name.
        errors: the ErrorDestination, for reasons.
        error_waiting: messages there. None = unknown.
        error_growth: messages that the ErrorDestination has gained in 5 minutes. None = unknown.
        ages: seconds that the oldest message of an input has waited, by input. Without paused inputs.
        resting: the last failure of each subscription that rests, and when it began, by name.
        failing: the last failure of each subscription whose events come again later, the time of the first
            one, and their number, by name.
        stopped: why the load of a subscription has stopped, by name.
        now: seconds since 1970.
    """

    provider: str = ""
    provider_name: str = ""
    disk: str = ""
    path: str = ""
    databases: Mapping[str, str] = field(default_factory=dict)
    polls: bool = True
    instances: Sequence[InstanceFacts] = ()
    in_doubt: Sequence[str] = ()
    in_progress: str = ""
    inputs: Mapping[str, Share] = field(default_factory=dict)
    subscriptions: Mapping[str, Share] = field(default_factory=dict)
    errors: str = ""
    error_waiting: int | None = None
    error_growth: int | None = None
    ages: Mapping[str, float] = field(default_factory=dict)
    resting: Mapping[str, tuple[str, float | None]] = field(default_factory=dict)
    failing: Mapping[str, tuple[str, float, int]] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)
    now: float = field(default_factory=time.time)


class UnwellKind(StrEnum):
    """The kind of a reason. ``docs/how-to/runbook.md`` says for each what it means and what to do."""

    PROVIDER = "provider"
    """The provider cannot be used."""
    DISK = "disk"
    """The disk has too little room, or is read-only, so nothing is claimed."""
    DATABASE = "database"
    """A database of the configuration cannot be used."""
    INSTANCES = "instances"
    """Fewer instances run than ``health.instances``."""
    INSTANCE = "instance"
    """A running instance cannot work."""
    INPUT = "input"
    """Nothing can be claimed from an input."""
    TAKEOVER = "takeover"
    """Events of a dead instance cannot be settled."""
    IN_DOUBT = "in_doubt"
    """Messages may or may not have been published, and wait for an operator."""
    FAILURES = "failures"
    """More events fail than ``health.failed_share``."""
    WORKERS = "workers"
    """More workers died than ``health.workers_died``."""
    POLLS = "polls"
    """An instance has had no good poll for longer than ``health.last_good_poll``."""
    WAITING = "waiting"
    """A message has waited for longer than ``health.oldest_waiting``."""
    ERROR_WAITING = "error_waiting"
    """More messages are in the error destinations than ``health.error_waiting``."""
    ERROR_GROWTH = "error_growth"
    """The error destinations have gained more messages than ``health.error_growth``."""
    RESTING = "resting"
    """A subscription rests, while events may wait for it."""
    FAILING = "failing"
    """The last call of a subscription has failed, and its events come again later."""
    LOAD = "load"
    """The load of a subscription has stopped."""
    STATUS = "status"
    """The status cannot be read."""


_COMMANDS: Final = {
    UnwellKind.PROVIDER: "connector check --connect",
    UnwellKind.DISK: "df -h {}",
    UnwellKind.DATABASE: "connector check --connect",
    UnwellKind.INSTANCES: "connector run",
    UnwellKind.INSTANCE: "connector check --connect",
    UnwellKind.INPUT: "connector queues",
    UnwellKind.TAKEOVER: "connector takeover",
    UnwellKind.IN_DOUBT: "connector browse {}",
    UnwellKind.FAILURES: "connector errors",
    UnwellKind.WORKERS: "connector errors",
    UnwellKind.POLLS: "connector status",
    UnwellKind.WAITING: "connector browse {}",
    UnwellKind.ERROR_WAITING: "connector errors",
    UnwellKind.ERROR_GROWTH: "connector errors",
    UnwellKind.RESTING: "connector resume {}",
    UnwellKind.FAILING: "connector status",
    UnwellKind.LOAD: "connector status",
    UnwellKind.STATUS: "connector check --connect",
}
"""The command that helps first. Braces stand for the subject."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an application is not well.

    Args:
        subject: what is sick: an input, a subscription, an instance, a disk, a database.
        text: in one line. It may hold values of messages, so that only who may read sees it.
        since: seconds since 1970. None = not known.
        count: of the events, messages or processes that the reason is about.
    """

    kind: UnwellKind
    subject: str
    text: str
    since: float | None = None
    count: int = 1

    @property
    def key(self) -> tuple[str, str]:
        """The kind and the subject."""
        return self.kind.value, self.subject

    @property
    def next(self) -> tuple[str, str]:
        """The command that helps first, and the place on the page that says more."""
        command = _COMMANDS[self.kind].format(shlex.quote(self.subject))
        return command, f"{PAGE}#{self.kind}"

    def to_json(self, *, with_text: bool = True) -> dict[str, Any]:
        """Returns the values for JSON."""
        values = {
            "kind": self.kind.value,
            "subject": self.subject,
            "since": None if self.since is None else iso_time(self.since),
            "count": self.count,
            "text": self.text,
            "next": list(self.next),
        }
        return values if with_text else {key: one for key, one in values.items() if key != "text"}


def well(facts: Facts, limits: Health) -> list[Reason]:
    """Returns why an application is not well. Empty = it is well. A paused input is no reason."""
    kind = UnwellKind
    if facts.provider:
        text = f"the provider cannot be used: {facts.provider}"
        return [_reason(kind.PROVIDER, facts.provider_name, text)]
    reasons = []
    if facts.disk:
        reasons.append(_reason(kind.DISK, facts.path, f"nothing is claimed: {facts.disk}"))
    for name, problem in sorted(facts.databases.items()):
        reasons.append(_reason(kind.DATABASE, name, problem))
    running = sum(one.runs for one in facts.instances)
    if facts.polls and running < limits.instances:
        found = "no instance runs" if not running else f"{_count(running, 'instance')} running"
        text = f"{found}, expected {limits.instances} (health.instances)"
        reasons.append(_reason(kind.INSTANCES, "instances", text, count=limits.instances - running))
    for one in facts.instances:
        reasons += _of_instance(one, limits, facts.now)
    if facts.in_doubt:
        number_in_doubt = len(facts.in_doubt)
        some = ", ".join(facts.in_doubt[:5]) + ", ..." * (number_in_doubt > 5)
        text = f"{_count(number_in_doubt, 'message')} in {facts.in_progress} may or may not have been "
        text += f"published ({some})"
        reasons.append(_reason(kind.IN_DOUBT, facts.in_progress, text, count=number_in_doubt))
    reasons += _of_shares(facts, limits)
    for name, age in facts.ages.items():
        if limits.oldest_waiting is not None and age > limits.oldest_waiting:
            text = f"{name}: the oldest message has waited {age:,.0f} s, more than "
            text += f"{write_duration(limits.oldest_waiting)} (health.oldest_waiting)"
            reasons.append(_reason(kind.WAITING, name, text, facts.now - age))
    number, limit = facts.error_waiting, limits.error_waiting
    if number is not None and limit is not None and number >= max(limit, 1):
        text = (
            f"the error destination has {_count(number, 'message')}, {limit:,} or more (health.error_waiting)"
        )
        reasons.append(_reason(kind.ERROR_WAITING, facts.errors, text, count=number))
    number, limit = facts.error_growth, limits.error_growth
    if number is not None and limit is not None and number > limit:
        text = f"the error destination has gained {_count(number, 'message')}, more than {limit:,} "
        text += "(health.error_growth)"
        reasons.append(_reason(kind.ERROR_GROWTH, facts.errors, text, count=number))
    for name, (failure, since) in sorted(facts.resting.items()):
        reasons.append(_reason(kind.RESTING, name, f"{name} rests: {failure}", since))
    for name, (failure, first, number) in sorted(facts.failing.items()):
        text = f"{name} fails, and its events come again later: {failure}"
        reasons.append(_reason(kind.FAILING, name, text, first, number))
    for name, failure in sorted(facts.stopped.items()):
        reasons.append(_reason(kind.LOAD, name, f"the load of {name} has stopped: {failure}"))
    return reasons


def notices(facts: Facts, limits: Health) -> list[Reason]:
    """Returns what somebody should look at although the application is well."""
    number, limit = facts.error_waiting, limits.error_waiting
    if not number or (limit is not None and number >= limit):
        return []
    text = f"{_count(number, 'message')} {'wait' if number > 1 else 'waits'} in {facts.errors}"
    return [_reason(UnwellKind.ERROR_WAITING, facts.errors, text, count=number)]


def _of_shares(facts: Facts, limits: Health) -> Iterator[Reason]:
    """Yields the inputs whose events fail, then the subscriptions whose failures no such input explains."""
    told = 0
    for shares, noun in ((facts.inputs, "event"), (facts.subscriptions, "delivery")):
        least = max(limits.failed_least, told + 1)
        for name, one in sorted(shares.items()):
            if one.failed >= least and one.failed > limits.failed_share * one.number:
                text = f"{name}: {one.failed:,} of {_count(one.number, noun)} failed in 5 minutes, more than "
                text += f"{limits.failed_share:.0%} (health.failed_share), the last one: {one.last_failure}"
                yield _reason(UnwellKind.FAILURES, name, text, one.since, one.failed)
                told += one.failed


def _of_instance(one: InstanceFacts, limits: Health, now: float) -> Iterator[Reason]:
    kind = UnwellKind
    if one.runs and one.obstacle:
        yield _reason(kind.INSTANCE, one.name, f"{one.name}: it cannot work now: {one.obstacle}")
    for name, why in one.closed.items():
        yield _reason(kind.INPUT, name, f"{one.name}: nothing can be claimed from {name}: {why}")
    for name, why in one.left_open.items():
        text = f"{one.name}: events of a dead instance from {name} cannot be settled: {why}"
        yield _reason(kind.TAKEOVER, name, text)
    if limits.workers_died is not None and one.workers_died > limits.workers_died:
        text = f"{one.name}: {_count(one.workers_died, 'worker')} died in 5 minutes, more than "
        text += f"{limits.workers_died:,} (health.workers_died)"
        yield _reason(kind.WORKERS, one.name, text, count=one.workers_died)
    limit, idle = limits.last_good_poll, one.idle
    if one.runs and idle is not None and limit is not None and idle > limit:
        text = f"{one.name}: no good poll for {idle:,.0f} s, more than "
        text += f"{write_duration(limit)} (health.last_good_poll)"
        yield _reason(kind.POLLS, one.name, text, now - idle)


def _reason(kind: UnwellKind, subject: str, text: str, since: float | None = None, count: int = 1) -> Reason:
    line = " ".join(text.split())
    return Reason(kind, subject, line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}...", since, count)


def _count(number: int, noun: str) -> str:
    plural = f"{noun.removesuffix('y')}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
