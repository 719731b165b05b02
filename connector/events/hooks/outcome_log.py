"""Logs the events that were not published."""

from __future__ import annotations

from connector.events.hooks.event_hook import EventHook
from connector.events.hooks.grouped_log import GroupedLog
from connector.events.outcome import event_fields
from connector.events.settle.settling import Commit
from connector.operate.lives import COPY_KEYS
from connector.status import OutcomeKind


class OutcomeLog(EventHook):
    """Logs one line for each settled event that was not published.

    Args:
        lines: the log, which groups alike lines.
    """

    def __init__(self, lines: GroupedLog) -> None:
        self._lines = lines

    def not_published(self, commit: Commit) -> None:
        for claim, outcome, identity, discarded in commit.settled:
            if outcome.kind == OutcomeKind.LATER:
                if outcome.reason:  # not of an event that only waits for an earlier one
                    due = {"due": outcome.due, "retries": outcome.retries}
                    fields = event_fields(claim.cycle, claim, identity, outcome)
                    self._lines.warning("an event comes again later", extra={**fields, **due})
            elif outcome.kind not in (OutcomeKind.PUBLISHED, OutcomeKind.DUPLICATE):
                fields = event_fields(claim.cycle, claim, identity, outcome)
                if discarded:
                    fields["copy"] = f"none: there is no {COPY_KEYS[outcome.kind]}"
                self._lines.warning("an event was not published", extra=fields)
