"""The life of events and requests, read from the history, and the places where their messages are now."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from connector.errors import UnknownDestination
from connector.messaging.destination import Destination, known_destination
from connector.messaging.history import RECOVERY, History, HistoryRow, Note, plain_text
from connector.messaging.roles import Browsing
from connector.text.iso_time import iso_time

REPLAYED: Final = "replayed"
REPLAYED_AGAIN: Final = "replayed again"
MOVED: Final = "moved"
DISCARDED: Final = "discarded"
IN_PROGRESS: Final = "in progress"
DELAYED: Final = "delayed"
NO_STATES: Final[Mapping[Destination, str]] = {}

COPY_KEYS: Final = {"failed": "ErrorDestination", "unsubscribed": "UnsubscribedDestination"}
"""From an outcome to the key that says where its copies go."""
_MOST_IDS: Final = 1000
"""Most messages that one life follows."""
_PROCESSING: Final = "PROCESSING"
_FIELDS: Final = (
    *("destination", "object", "verb", "kind", "reason", "place", "subscription", "to", "sent", "by", "due"),
    "delivered",
)


class LifeEvent(NamedTuple):
    """What happened to one message.

    Args:
        sequence: of the claim. None = the row is about no claims.
        origins: ids of the event that the message came from.
        file_name: of the file that the message came in. Empty = it came in none.
    """

    id: str
    row: HistoryRow
    sequence: int | None
    keys: tuple[str, ...]
    correlation_id: str
    origins: tuple[str, ...]
    file_name: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Returns the event as ``connector history --json`` writes it, without what is unknown."""
        row = self.row
        found: dict[str, Any] = {
            "time": iso_time(row.time),
            "instance": row.instance,
            "what": row.what,
            "id": self.id,
        }
        for name in _FIELDS:
            if value := getattr(row, name):
                found[name] = value if isinstance(value, str | int) else list(value)
        if row.due:
            found["due"] = iso_time(row.due / 1000)
        if self.correlation_id:
            found["correlation_id"] = self.correlation_id
        if self.file_name:
            found["file_name"] = self.file_name
        if self.keys:
            found["keys"] = list(self.keys)
        return found


class Life(NamedTuple):
    """The life of one message, and of the messages that its events have sent.

    Args:
        events: the oldest first.
    """

    id: str
    events: Sequence[LifeEvent]

    @property
    def ids(self) -> set[str]:
        return {self.id, *(event.id for event in self.events)}

    def destinations(self) -> list[Destination]:
        """Returns the queues that the rows name."""
        texts = [text for one in self.events for text in (one.row.destination, one.row.to, *one.row.sent)]
        found = [known_destination(text) for text in dict.fromkeys(texts) if text]
        return [one.base for one in found if one.is_queue]

    @property
    def came_from(self) -> list[str]:
        """The ids of the messages for which this message was sent. Empty = it came from outside."""
        found = [one.origins[-1] for one in self.events if one.id == self.id and one.origins]
        return [one for one in dict.fromkeys(found) if one != self.id]

    @property
    def why_gone(self) -> str:
        """Why the message is in no queue although it was not published. Empty = another reason."""
        last = next((one.row for one in reversed(self.events) if one.id == self.id), None)
        key = COPY_KEYS.get(last.what) if last is not None and not last.to else None
        return f"there was no {key}, so it was settled without a copy" if key else ""

    def as_dict(self, now: Sequence[dict[str, str]]) -> dict[str, Any]:
        """Returns the document of ``connector history``.

        Args:
            now: of :func:`find_now`.
        """
        found: dict[str, Any] = {"id": self.id, "now": list(now)}
        if self.came_from:
            found["came_from"] = self.came_from
        if not now and self.why_gone:
            found["why_gone"] = self.why_gone
        return {**found, "events": [one.as_dict() for one in self.events]}


def read_life(history: History, identity: str, since: float = 0.0) -> Life:
    """Returns the life of a message, and of the messages that came from it.

    Args:
        since: no earlier events, in seconds since 1970.

    Raises:
        ProviderError: the history cannot be read.
    """
    known: dict[str, None] = {plain_text(identity): None}
    new = list(known)
    rows: list[LifeEvent] = []
    while new:
        wanted, new = set(new), []
        for one in _events(history.find(wanted, since)):
            comes_from = not wanted.isdisjoint(one.origins)
            if one.id in wanted:
                rows.append(one)
            elif comes_from and one.id not in known and len(known) < _MOST_IDS:
                known[one.id] = None
                new.append(one.id)
    return Life(plain_text(identity), _in_order(rows))


def find_named(history: History, named: str, since: float = 0.0) -> list[str]:
    """Returns an id, and the ids of the messages that came in files of this name, the first one first.

    Raises:
        ProviderError: the history cannot be read.
    """
    return [named] if named.startswith("ID:") else [named, *find_ids(history, file_name=named, since=since)]


def find_ids(
    history: History,
    *,
    correlation_id: str | None = None,
    key: str | None = None,
    file_name: str | None = None,
    since: float = 0.0,
) -> list[str]:
    """Returns the ids of messages with a JMSCorrelationID, a key or a file, the first one first.

    Raises:
        ProviderError: the history cannot be read.
    """
    texts = [plain_text(one) for one in (correlation_id, key, file_name) if one is not None]
    found: dict[str, None] = {}
    for event in _events(history.find(texts, since)):
        if correlation_id is not None and event.correlation_id != texts[0]:
            continue
        if file_name is not None and event.file_name != texts[-1]:
            continue
        if key is None or texts[correlation_id is not None] in event.keys:
            found[event.id] = None
    return list(found)


def read_all(history: History, since: float) -> list[LifeEvent]:
    """Returns all events since a time, the oldest first.

    Raises:
        ProviderError: the history cannot be read.
    """
    return _in_order(_events(history.find(None, since)))


def read_last(history: History, since: float, most: int) -> list[LifeEvent]:
    """Returns the last events since a time, the oldest first.

    Raises:
        ProviderError: the history cannot be read.
    """
    rows = heapq.nlargest(most, history.find(None, since), key=lambda one: one.time)
    return _in_order(_events(rows))[-most:]


def note_action(
    history: History, what: str, ids: Sequence[str], *, by: str, why: str = "", origin: str = "", to: str = ""
) -> None:
    """Appends what an operator has done with messages.

    Args:
        what: :data:`REPLAYED`, :data:`MOVED` or :data:`DISCARDED`.
        ids: JMSMessageIDs.
        by: who.

    Raises:
        ProviderError: the row cannot be written.
    """
    row = HistoryRow(time=time.time(), what=what, ids=ids, by=by, reason=why, destination=origin, to=to)
    history.append([row], synced=True)


def find_now(
    connection: Browsing,
    ids: set[str],
    destinations: Iterable[Destination],
    *,
    shows_all: bool,
    states: Mapping[Destination, str] = NO_STATES,
) -> list[dict[str, str]]:
    """Returns where messages are now, and messages that were sent for them.

    Args:
        connection: only looks.
        ids: JMSMessageIDs.
        destinations: queues to look at. Missing ones hold no message.
        shows_all: whether the provider shows claimed and delayed messages.
        states: of the messages that wait in queues of the adapter's own.

    Returns:
        rows with ``id``, ``destination`` and ``state``: ``waiting``, ``in progress`` or ``delayed``.

    Raises:
        ProviderError: a queue cannot be read.
    """
    found = []
    for destination in dict.fromkeys(destinations):
        at_work = Destination(destination.kind, f"{destination.name}~{_PROCESSING}")
        claimed = set(_matching(connection, at_work, ids)) if shows_all else set()
        for identity in _matching(connection, destination, ids):
            state = IN_PROGRESS if identity in claimed else states.get(destination, "waiting")
            found.append({"id": identity, "destination": str(destination), "state": state})
        if shows_all:
            for identity in _matching(connection, destination, ids, delayed=True):
                found.append({"id": identity, "destination": str(destination), "state": DELAYED})
    return found


def _matching(
    connection: Browsing, destination: Destination, ids: set[str], *, delayed: bool = False
) -> Iterator[str]:
    try:
        for message in connection.browse(destination, ids=ids, delayed=delayed):
            yield plain_text(message.message_id or "")
    except UnknownDestination:
        return


def _events(rows: Iterable[HistoryRow]) -> Iterator[LifeEvent]:
    for row in rows:
        notes = row.notes or [None] * len(row.ids)
        sequences: Sequence[int | None] = row.sequences or [None] * len(row.ids)
        for identity, note, sequence in zip(row.ids, notes, sequences, strict=True):
            yield LifeEvent(identity, row, sequence, *_read_note(note))


def _read_note(note: Note | None) -> tuple[tuple[str, ...], str, tuple[str, ...], str]:
    if note is None:
        return (), "", (), ""
    if isinstance(note, str):
        return (note,), "", (), ""
    keys, correlation_id, origin, file_name = [*note, None, None, None, None][:4]
    of_keys = (keys,) if isinstance(keys, str) else tuple(keys or ())
    origins = (origin,) if isinstance(origin, str) else tuple(origin or ())
    return of_keys, correlation_id or "", origins, file_name or ""


def _in_order(events: Iterable[LifeEvent]) -> list[LifeEvent]:
    """Returns the events in the order of time, each once. What recovery has written replaces other rows."""
    found: dict[object, LifeEvent] = {}
    ordered = sorted(events, key=lambda one: (one.row.by == RECOVERY, one.row.time))
    for number, event in enumerate(ordered):
        row = event.row
        key = number if event.sequence is None else (row.client, row.batch, event.sequence)
        before = found.get(key)
        if before is None or before.row.what != row.what:
            found[key] = event
    return sorted(found.values(), key=lambda one: one.row.time)
