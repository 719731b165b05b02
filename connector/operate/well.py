"""Well: whether failures, ages, disk and processes of an application are within their limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from connector.declare.value_types import write_duration
from connector.operate.health_section import Health
from connector.text.alike import mask

_SHOWN: Final = 200
"""Characters of a reason that are shown."""


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """The recent work of an instance.

    Args:
        runs: whether a process holds the name now.
        published, failed: events of the last 5 minutes.
        last_failure: the reason of the last failed event. Empty = there is none.
        workers_died: worker processes of the last 5 minutes.
        idle: seconds since the last good poll, beyond the usual pause. None = no poll is due.
        obstacle: why the instance cannot work now. Empty = it can.
        last_kind: of the reason of the last failed event, and the line of code. Empty = unknown.
        closed: why no message of an input can be taken, by destination.
        left_open: why events of dead instances cannot be settled, by input.
    """

    name: str
    runs: bool = True
    published: int = 0
    failed: int = 0
    last_failure: str = ""
    workers_died: int = 0
    idle: float | None = None
    obstacle: str = ""
    last_kind: str = ""
    closed: Mapping[str, str] = field(default_factory=dict)
    left_open: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """The state of an application.

    Args:
        provider: why the provider cannot be used. Empty = it can.
        disk: why nothing may be claimed. Empty = the disk has room.
        databases: why a database cannot be used, by its name. The text names the database.
        polls: whether there are inputs, so that instances have to run.
        instances: those that run, or have worked in the last 5 minutes.
        error_waiting: messages in the ErrorDestination. None = unknown.
        error_growth: messages that the ErrorDestination has gained in 5 minutes. None = unknown.
        ages: seconds that the oldest message of an input has waited, by input. Without paused inputs.
        resting: the last failure of each subscription that rests, by name.
        stopped: why the load of a subscription has stopped, by name.
    """

    provider: str = ""
    disk: str = ""
    databases: Mapping[str, str] = field(default_factory=dict)
    polls: bool = True
    instances: Sequence[InstanceFacts] = ()
    error_waiting: int | None = None
    error_growth: int | None = None
    ages: Mapping[str, float] = field(default_factory=dict)
    resting: Mapping[str, str] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)


class Reason(NamedTuple):
    """Why an application is not well.

    Args:
        short: without texts of failures, which may hold values of messages. Everybody may see it.
        text: with these texts, in which numbers, ids and quoted values are masked.
    """

    short: str
    text: str


def well(facts: Facts, limits: Health) -> list[Reason]:
    """Returns why an application is not well. Empty = it is well. A paused input is no reason."""
    if facts.provider:
        return [_failure("the provider cannot be used", _short(facts.provider))]
    reasons = [plain(f"nothing is claimed: {facts.disk}")] if facts.disk else []
    reasons += [
        Reason(f"the database {name} cannot be used", _short(problem))
        for name, problem in sorted(facts.databases.items())
    ]
    running = sum(one.runs for one in facts.instances)
    if facts.polls and running < limits.instances:
        found = "no instance runs" if not running else f"{_count(running, 'instance')} running"
        reasons.append(plain(f"{found}, expected {limits.instances} (health.instances)"))
    for one in facts.instances:
        reasons += _of_instance(one, limits)
    for name, age in facts.ages.items():
        if limits.oldest_waiting is not None and age > limits.oldest_waiting:
            found = f"{name}: the oldest message has waited {age:,.0f} s, more than "
            reasons.append(plain(f"{found}{write_duration(limits.oldest_waiting)} (health.oldest_waiting)"))
    for what, number, limit, key in (
        ("the error destination has", facts.error_waiting, limits.error_waiting, "error_waiting"),
        ("the error destination has gained", facts.error_growth, limits.error_growth, "error_growth"),
    ):
        if number is not None and limit is not None and number > limit:
            found = f"{what} {_count(number, 'message')}, more than {limit:,} (health.{key})"
            reasons.append(plain(found))
    for what, failures in (("{} rests", facts.resting), ("the load of {} has stopped", facts.stopped)):
        reasons += [
            _failure(what.format(name), _short(mask(text))) for name, text in sorted(failures.items())
        ]
    return reasons


def plain(text: str) -> Reason:
    """Returns a reason in words of our own."""
    return Reason(text, text)


def _failure(short: str, text: str) -> Reason:
    return Reason(short, f"{short}: {text}")


def _of_instance(one: InstanceFacts, limits: Health) -> Iterator[Reason]:
    if one.runs and one.obstacle:
        yield _failure(f"{one.name}: it cannot work now", _short(mask(one.obstacle)))
    for name, why in one.closed.items():
        yield _failure(f"{one.name}: nothing can be claimed from {name}", _short(why))
    for name, why in one.left_open.items():
        yield _failure(f"{one.name}: events of a dead instance from {name} cannot be settled", _short(why))
    total = one.published + one.failed
    if one.failed >= limits.failed_least and one.failed > limits.failed_share * total:
        found = (
            f"{one.name}: {one.failed:,} of {_count(total, 'event')} failed in 5 minutes, more than "
            f"{limits.failed_share:.0%} (health.failed_share)"
        )
        last = f", the last one: {one.last_kind}" if one.last_kind else ""
        yield Reason(f"{found}{last}", f"{found}, the last one: {_short(mask(one.last_failure))}")
    if limits.workers_died is not None and one.workers_died > limits.workers_died:
        yield plain(
            f"{one.name}: {_count(one.workers_died, 'worker')} died in 5 minutes, more than "
            f"{limits.workers_died:,} (health.workers_died)"
        )
    if (
        one.runs
        and one.idle is not None
        and limits.last_good_poll is not None
        and one.idle > limits.last_good_poll
    ):
        yield plain(
            f"{one.name}: no good poll for {one.idle:,.0f} s, more than "
            f"{write_duration(limits.last_good_poll)} (health.last_good_poll)"
        )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."
