"""The activity of an instance: durations from tasks, and the counts of settled events."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from connector.events.hooks.event_hook import EventHook
from connector.events.hooks.task_hook import TaskHook
from connector.events.outcome import Outcome
from connector.events.run.publication import TaskEvent
from connector.events.settle.settling import Commit
from connector.events.summary import MAX_EVENTS, Summary
from connector.messaging.claim import Claim
from connector.operate.activity import Activity

ACTIVITY: Final = "activity"


class TaskActivity(TaskHook):
    """Keeps durations and tracebacks until the driver gets them with the answer of the task."""

    name = ACTIVITY

    def __init__(self) -> None:
        self._activity = Activity()

    def converted(self, event: TaskEvent, seconds: float) -> None:
        self._activity.conversions.add(event.objects[0].bo.type, seconds)

    def called(self, subscription: str, seconds: float) -> None:
        self._activity.deliveries.add(subscription, seconds)

    def not_delivered(self, subscription: str, reason: str) -> None:
        self._activity.failures.add(subscription, reason)

    def requested(self, object_name: str, status: str, seconds: float) -> None:
        self._activity.add_request(object_name, status, seconds)

    def add_traceback(self, subscription: str, place: str, text: str) -> None:
        """Keeps the traceback of a failure."""
        self._activity.tracebacks.add(subscription, place, text)

    def take(self) -> Mapping[str, Any]:
        return self._activity.take()


class OutcomeCounts(EventHook):
    """Counts the events of one connection into what the instance remembers.

    Args:
        summary: of the instance, with its activity.
    """

    def __init__(self, summary: Summary) -> None:
        self._summary = summary

    def told(self, cycle: int, told: Mapping[str, Any]) -> None:
        if rows := told.get(ACTIVITY):
            self._summary.activity.merge(rows)

    def settled(self, commit: Commit) -> None:
        for claim, outcome, identity, discarded in commit.settled:
            place = claim.cycle, claim.sequence
            name = str(claim.destination)
            self._summary.count_outcome(name, identity, outcome, discarded=discarded, taken=place)
        for group, outcome, identities in commit.alike:
            claims = group.claims
            newest = []
            for claim, identity in zip(claims[-MAX_EVENTS:], identities[-MAX_EVENTS:], strict=True):
                newest.append(((claim.cycle, claim.sequence), identity))
            name, discarded = str(claims[0].destination), group.copy_to is None
            self._summary.count_outcomes(name, newest, len(claims), outcome, discarded=discarded)
        self._count_batch(commit)

    def refused(self, commit: Commit, reason: str) -> None:
        self._count_batch(commit)

    def recovered(self, events: Sequence[tuple[Claim, Outcome, str, bool]]) -> None:
        for claim, outcome, identity, discarded in events:
            self._summary.count_outcome(str(claim.destination), identity, outcome, discarded=discarded)

    def in_doubt(self, events: Sequence[tuple[Claim, Outcome, str, bool]]) -> None:
        self.recovered(events)

    def taken_over(self, client_id: str) -> None:
        self._summary.activity.takeovers += 1

    def _count_batch(self, commit: Commit) -> None:
        if commit.began is not None:
            seconds = time.monotonic() - commit.began
            self._summary.activity.count_batch(seconds, commit.report.settled)
