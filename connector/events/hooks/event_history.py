"""The history: what tasks note of events, and the rows of what became of the events."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from connector import faults
from connector.businessobjects.keys import LONGEST_KEY, key_names, key_text, keys_of
from connector.errors import ProviderError
from connector.events.hooks.event_hook import EventHook, Single
from connector.events.hooks.task_hook import TaskHook
from connector.events.outcome import Outcome
from connector.events.run.publication import MatchedObject, TaskEvent
from connector.events.settle.settling import Commit
from connector.messaging.claim import Claim
from connector.messaging.copy_destinations import CopyDestinations
from connector.messaging.history import (
    EVENT_ID,
    NO_NOTES,
    RECOVERY,
    History,
    HistoryRow,
    Note,
    file_name,
    origins_of,
)
from connector.messaging.message import FILE_NAME, Message
from connector.status import OutcomeKind

_log: Final = logging.getLogger("connector.events")
NOTES: Final = "notes"
_WARNING_SECONDS: Final = 60.0

Told = tuple[Outcome, Sequence[Claim], Sequence[str]]
"""An outcome of claims of one input and cycle, and their message ids."""


class HistoryWriter(EventHook):
    """Appends the outcomes of the events of one connection.

    A history that cannot be written holds up no event.

    Args:
        instance, client_id: of this adapter.
        keep: seconds after which rows are removed.
        synced: whether a power cut after the next commit must not lose the rows.
    """

    def __init__(
        self,
        history: History,
        instance: str,
        client_id: str,
        copies: CopyDestinations,
        keep: float = 0.0,
        *,
        synced: bool = True,
    ) -> None:
        self._history = history
        self._instance = instance
        self._client_id = client_id
        self._copies = copies
        self._keep = keep
        self._synced = synced
        self._notes: dict[int, dict[int, Note]] = {}
        self._quiet_until = 0.0

    def told(self, cycle: int, told: Mapping[str, Any]) -> None:
        """Keeps the notes of a task until the outcomes are written."""
        if notes := told.get(NOTES):
            self._notes.setdefault(cycle, {}).update(zip(*notes, strict=True))

    def ended(self, cycles: Sequence[int]) -> None:
        for cycle in cycles:
            self._notes.pop(cycle, None)

    def append(self, told: Iterable[Told], singles: Iterable[Single]) -> None:
        """Appends the outcomes of one commit.

        Args:
            told: outcomes that many events share.
            singles: claims with outcome and message id.
        """
        now = time.time()
        rows = []
        for one in (*told, *_alike(singles)) if singles else told:
            notes = self._notes.get(one[1][0].cycle, NO_NOTES)
            rows.append(self._row(one, now, self._client_id, notes))
        self._write(rows)

    def recovering(
        self, client_id: str, events: Iterable[Single], notes: Mapping[int, Mapping[int, Note]]
    ) -> None:
        """Appends rows that replace those of the dead client."""
        now = time.time()
        rows = [
            self._row(one, now, client_id, notes.get(one[1][0].cycle, NO_NOTES), by=RECOVERY)
            for one in _alike(events)
        ]
        self._write(rows)

    def idle(self) -> None:
        try:
            self._history.prune(time.time() - self._keep)
        except ProviderError as error:
            self._warn(error)

    def _append_commit(self, commit: Commit) -> None:
        self.append([(outcome, group.claims, ids) for group, outcome, ids in commit.alike], commit.singles)

    def _write(self, rows: Sequence[HistoryRow]) -> None:
        if rows:
            try:
                self._history.append(rows, synced=self._synced)
            except ProviderError as error:
                self._warn(error)
            faults.point("history")

    def _row(
        self, told: Told, now: float, client_id: str, notes: Mapping[int, Note], *, by: str = ""
    ) -> HistoryRow:
        outcome, claims, ids = told
        copy_to = self._copies.of(outcome.kind, claims[0].input)
        sequences = [claim.sequence for claim in claims]
        of_events = list(map(notes.get, sequences)) if notes else [None] * len(claims)
        if None in of_events:  # no task has read these
            pairs = zip(of_events, claims, strict=True)
            of_events = [_note_of(claim) if note is None else note for note, claim in pairs]
        return HistoryRow(
            time=now,
            ids=ids,
            instance=self._instance,
            client=client_id,
            batch=claims[0].cycle,
            destination=str(claims[0].destination),
            to=str(copy_to) if copy_to is not None else "",
            by=by,
            sequences=sequences,
            notes=of_events if any(of_events) else (),
            **outcome.row(),
        )

    def _warn(self, error: ProviderError) -> None:
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _WARNING_SECONDS
            _log.warning("the history cannot be written", extra={"reason": str(error)})


class EventHistory(HistoryWriter):
    """Appends rows before the commit. After a crash in between, recovery appends them again."""

    settling = HistoryWriter._append_commit

    def refused(self, commit: Commit, reason: str) -> None:
        """Appends that the events are in doubt until recovery decides.

        It does not if somebody has taken their messages.
        """
        outcome = Outcome(OutcomeKind.IN_DOUBT, reason=f"the commit was refused: {reason}")
        self.append((), [(claim, outcome, claim.message_id) for claim, _ in commit.claims.decided])


class LateEventHistory(HistoryWriter):
    """Appends rows after the commit. At a broker nobody repeats those of a commit that has not happened."""

    settled = HistoryWriter._append_commit


def _alike(singles: Iterable[Single]) -> list[Told]:
    """Collects events whose rows say the same."""
    found: dict[tuple[object, ...], tuple[Outcome, list[Claim], list[str]]] = {}
    for claim, outcome, identity in singles:
        key = claim.cycle, claim.destination, claim.input, *outcome.row().values()
        _, claims, ids = found.setdefault(key, (outcome, [], []))
        claims.append(claim)
        ids.append(identity)
    return list(found.values())


def _note_of(claim: Claim) -> Note | None:
    """Returns a note with the name of the file of a claim. None = the message came in none."""
    name = claim.file_name
    return [None, None, None, name] if name else None


_MOST_KEYS: Final = 1000


class TaskNotes(TaskHook):
    """Makes the notes of a task.

    Args:
        keys: whether notes have the keys of objects.
    """

    name = NOTES

    def __init__(self, *, keys: bool) -> None:
        self._has_keys = keys
        self._only_key: dict[str, str | None] = {}
        """The key attribute by object. None = the object has no key, or several."""
        self._notes: dict[int, Note] = {}

    def abandoned(self) -> None:
        self._notes = {}

    def converted(self, event: TaskEvent, seconds: float) -> None:
        assert event.message is not None
        event.note = self._note(event.message, event.objects)

    def not_converted(self, event: TaskEvent, error: BaseException) -> None:
        assert event.message is not None
        event.note = self._note(event.message)

    def ended(self, event: TaskEvent) -> None:
        if event.note is not None:
            self._notes[event.sequence] = event.note

    def take(self) -> Any:
        notes, self._notes = self._notes, {}
        return pack_notes(notes) if notes else None

    def _note(self, message: Message, objects: Sequence[MatchedObject] = ()) -> Note | None:
        """Returns the note of a message. None = there is nothing to note.

        Args:
            message: headers and properties.
            objects: of the message. Empty if there are none.
        """
        keys = self._keys_of(objects) if objects and self._has_keys else None
        properties = message.properties
        if properties and FILE_NAME in properties:
            origins = origins_of(properties.get(EVENT_ID))
            return [keys, message.correlation_id, origins, file_name(message)]
        if properties and EVENT_ID in properties and (origins := origins_of(properties[EVENT_ID])):
            return [keys, message.correlation_id, origins]
        if message.correlation_id:
            return [keys, message.correlation_id]
        return keys if keys is None or type(keys) is str else [keys]

    def _keys_of(self, objects: Sequence[MatchedObject]) -> str | list[str] | None:
        """Returns the keys of objects, at most 1000. None = no key is set."""
        if len(objects) == 1:
            bo = objects[0].bo
            try:
                name = self._only_key[bo.type]
            except KeyError:
                names = key_names(bo)
                name = self._only_key[bo.type] = names[0] if len(names) == 1 else None
            if name is not None:
                value = bo.value(name)
                is_key = value is None or (type(value) is str and len(value) <= LONGEST_KEY)
                return value if is_key else key_text(value)
        keys = (key for one in objects for key in keys_of(one.bo))
        return list(islice(keys, _MOST_KEYS)) or None


def pack_notes(notes: Mapping[int, Note]) -> list[list[Any]]:
    """Returns notes by sequence as JSON has them."""
    return [list(notes), list(notes.values())]
