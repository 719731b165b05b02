"""Writes what becomes of events into the history."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from connector import faults
from connector.errors import ProviderError
from connector.events.outcome import Outcome
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.history import NO_NOTES, RECOVERY, History, HistoryRow, Note
from connector.status import OutcomeKind

_log: Final = logging.getLogger("connector.events")
_WARNING_SECONDS: Final = 60.0

Told = tuple[Outcome, Sequence[Claim], Sequence[str]]
"""An outcome of claims of one destination and cycle, and their message ids."""

UNTOUCHED: Final = Outcome(OutcomeKind.GIVEN_BACK)


class EventHistory:
    """Appends the outcomes of the events of one connection.

    A history that cannot be written holds up no event.

    Args:
        history: of the application. None = nothing is written.
        instance, client_id: of this adapter.
        copies: the destinations of copies by outcome.
        comes_first: whether the rows are written before the commit, because recovery would repeat them. A
            broker has no recovery of this kind.
    """

    def __init__(
        self,
        history: History | None,
        instance: str,
        client_id: str,
        copies: Mapping[OutcomeKind, Destination | None],
        *,
        comes_first: bool = True,
    ) -> None:
        self._history = history
        self._instance = instance
        self._client_id = client_id
        self._copies = copies
        self.comes_first = comes_first
        self._notes: dict[int, dict[int, Note]] = {}
        self._quiet_until = 0.0

    def note(self, cycle: int, notes: Mapping[int, Note]) -> None:
        """Keeps the notes of a job, by sequence, until the outcomes are written."""
        if notes and self._history is not None:
            self._notes.setdefault(cycle, {}).update(notes)

    def forget(self, cycles: Iterable[int]) -> None:
        """Forgets the notes of ended cycles."""
        for cycle in cycles:
            self._notes.pop(cycle, None)

    def append(self, told: Iterable[Told], singles: Iterable[tuple[Claim, Outcome, str]]) -> None:
        """Appends the outcomes of one commit.

        Args:
            told: outcomes that many events share.
            singles: claims with outcome and message id.
        """
        if self._history is not None:
            now = time.time()
            rows = [
                self._row(one, now, self._client_id, self._notes.get(one[1][0].cycle, NO_NOTES))
                for one in (*told, *_alike(singles))
            ]
            self._write(rows)

    def take_back(self, claims: Sequence[Claim], reason: str) -> None:
        """Appends that a commit was refused, which replaces the outcomes of :meth:`append`.

        The events are in doubt until recovery decides. It does not if somebody has taken their messages.

        Args:
            claims: of the commit.
            reason: why the commit was refused.
        """
        outcome = Outcome(OutcomeKind.IN_DOUBT, reason=f"the commit was refused: {reason}")
        self.append((), [(claim, outcome, claim.message_id) for claim in claims])

    def append_recovered(
        self,
        client_id: str,
        singles: Iterable[tuple[Claim, Outcome, str]],
        notes: Mapping[int, Mapping[int, Note]],
    ) -> None:
        """Appends the outcomes of a dead client's events, which replace those that the client has appended.

        Args:
            client_id: of the dead client.
            singles: as in :meth:`append`.
            notes: by cycle and sequence.
        """
        if self._history is not None:
            now = time.time()
            rows = [
                self._row(one, now, client_id, notes.get(one[1][0].cycle, NO_NOTES), by=RECOVERY)
                for one in _alike(singles)
            ]
            self._write(rows)

    def prune(self, keep: float) -> None:
        """Removes rows that are older than ``keep`` seconds."""
        if self._history is not None:
            try:
                self._history.prune(time.time() - keep)
            except ProviderError as error:
                self._warn(error)

    def _write(self, rows: Sequence[HistoryRow]) -> None:
        if rows and self._history is not None:
            try:
                self._history.append(rows, synced=self.comes_first)
            except ProviderError as error:
                self._warn(error)
            faults.point("history")

    def _row(
        self, told: Told, now: float, client_id: str, notes: Mapping[int, Note], *, by: str = ""
    ) -> HistoryRow:
        outcome, claims, ids = told
        copy_to = self._copies.get(outcome.kind)
        of_events = [notes.get(claim.sequence) for claim in claims] if notes else []
        return HistoryRow(
            time=now,
            what=outcome.kind,
            ids=ids,
            instance=self._instance,
            client=client_id,
            batch=claims[0].cycle,
            destination=str(claims[0].destination),
            object=outcome.object or "",
            verb=outcome.verb or "",
            kind=outcome.reason_kind,
            reason="; ".join(filter(None, (outcome.reason, outcome.unanswered))),
            place=outcome.place,
            subscription=outcome.subscription,
            to=str(copy_to) if copy_to is not None else "",
            sent=_sent(outcome),
            by=by,
            due=outcome.due,
            delivered=() if outcome.kind == OutcomeKind.PUBLISHED else outcome.delivered,
            sequences=[claim.sequence for claim in claims],
            notes=of_events if any(of_events) else (),
        )

    def _warn(self, error: ProviderError) -> None:
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _WARNING_SECONDS
            _log.warning("the history cannot be written", extra={"reason": str(error)})


def _sent(outcome: Outcome) -> tuple[str, ...]:
    """Returns the destinations of the messages that an outcome sends."""
    return tuple(sorted({str(packed[1]) for packed in outcome.sends})) if outcome.sends else ()


def _alike(singles: Iterable[tuple[Claim, Outcome, str]]) -> list[Told]:
    """Collects events whose rows say the same."""
    found: dict[tuple[object, ...], tuple[Outcome, list[Claim], list[str]]] = {}
    for claim, outcome, identity in singles:
        what = outcome.kind, outcome.object, outcome.verb, outcome.reason, outcome.due, outcome.delivered
        where = outcome.reason_kind, outcome.place, outcome.subscription, _sent(outcome), outcome.unanswered
        key = claim.cycle, claim.destination, what, where
        _, claims, ids = found.setdefault(key, (outcome, [], []))
        claims.append(claim)
        ids.append(identity)
    return list(found.values())
