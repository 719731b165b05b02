"""The contract of the history: what happened to each event and request of an application.

Each instance appends rows, and any process reads them. A row stands for one message, or for many messages
with equal outcomes. The readers cope with rows that tell too much:

* An instance appends a row before the commit that the row tells of. If the instance dies in between, its heir
  appends another row of the same client, batch and message. The last of these rows counts.
* The last rows before a crash may be missing where :meth:`History.append` says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from connector.messaging.message import FILE_NAME, Message

Note = str | list[Any]
"""What was read in a message: keys, JMSCorrelationID, ``connector_event_id``, file name, in this order.

Trailing values that are missing are left out, others are None. Several keys, or ids of one event, are a list.
If the message has one key and nothing else, the note is that key.
"""
NO_NOTES: Final[Mapping[int, Note]] = {}
EVENT_ID: Final = "connector_event_id"
"""The property of a sent message with the id of the event that the message came from."""
RECOVERY: Final = "recovery"
"""Who has written the rows of a dead client."""


class HistoryRow(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What happened to one message, or alike to several.

    Args:
        time: in seconds since 1970.
        what: an outcome such as ``published``, or what an operator or a request did.
        ids: JMSMessageIDs.
        instance: that has done this. Empty = another program.
        client, batch: of the claims. Empty and 0 for anything but events.
        destination: that the messages came from, or of a request.
        kind, reason, place, subscription: why an event was not published.
        to: the destination of the copies, or of messages that an operator has moved.
        sent: destinations of messages that subscriptions have sent.
        by: who has done this. :data:`RECOVERY` = another client than that of the claims.
        due: when the messages come again, in milliseconds since 1970.
        delivered: subscriptions that have confirmed an event that was not published, or not yet.
        sequences: of the claims, one for each id, or empty.
        notes: one for each id, or empty.
    """

    time: float
    what: str
    ids: Sequence[str]
    instance: str = ""
    client: str = ""
    batch: int = 0
    destination: str = ""
    object: str = ""
    verb: str = ""
    kind: str = ""
    reason: str = ""
    place: str = ""
    subscription: str = ""
    to: str = ""
    sent: Sequence[str] = ()
    by: str = ""
    due: int = 0
    delivered: Sequence[str] = ()
    sequences: Sequence[int] = ()
    notes: Sequence[Note | None] = ()


class History(Protocol):
    """The history of an application, as one instance or another program writes and reads it. For one thread.

    The suite in ``tests/provider_suite/state.py`` of the repository tests an implementation.
    """

    def append(self, rows: Sequence[HistoryRow], *, synced: bool = False) -> None:
        """Appends rows. Readers see them at once, also if this process is killed.

        Args:
            synced: whether a power cut after the next commit of this process must not lose the rows. The
                provider may be one that promises less.

        Raises:
            ProviderError: not all rows can be written.
        """

    def find(self, texts: Iterable[str] | None, since: float = 0.0) -> Iterator[HistoryRow]:
        """Yields the rows in which an id or a text of a note equals one of ``texts``.

        A row with such a text elsewhere may be among them. Rows of one instance come in the order in which
        they were appended, days in their order.

        Args:
            texts: to look for. None = all rows.
            since: no earlier rows, in seconds since 1970.

        Raises:
            ProviderError: the rows cannot be read.
        """

    def prune(self, before: float) -> None:
        """Removes rows. Rows of the day of ``before`` and of later days stay.

        Args:
            before: in seconds since 1970.

        Raises:
            ProviderError: the rows cannot be removed.
        """


def write_row(row: HistoryRow) -> bytes:
    """Returns a row as one line of JSON. Lone surrogates are escaped."""
    try:
        return _ENCODER.encode(row)
    except UnicodeEncodeError:  # an id from a file name that is not UTF-8
        return _ENCODER.encode(_plain(msgspec.to_builtins(row)))


def read_row(line: bytes) -> HistoryRow | None:
    """Undoes :func:`write_row`. None for a line that was not written to its end."""
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def pattern_of(text: str) -> bytes:
    """Returns the bytes in a row of :func:`write_row` with ``text`` as an id or in a note."""
    return _ENCODER.encode(plain_text(text))


def plain_text(text: str) -> str:
    """Returns a text as rows hold it."""
    return text.encode("utf-8", "backslashreplace").decode()


def file_name(message: Message) -> str:
    """Returns the name of the file that a message came in, as rows hold it. Empty = it came in none."""
    name = message.properties.get(FILE_NAME) if message.properties else None
    return plain_text(name) if isinstance(name, str) else ""


def origins_of(event_id: object) -> tuple[str, ...]:
    """Returns the ids of the event that a sent message names: of the record, and of the whole message."""
    if not isinstance(event_id, str) or not event_id:
        return ()
    message_id, mark, number = event_id.rpartition("#")
    return (event_id, message_id) if mark and number.isdecimal() else (event_id,)


def about(messages: Iterable[Message], ids: Collection[str]) -> Iterator[Message]:
    """Yields the messages that have one of some ids, were sent for such a message, or came in such a file.

    Args:
        messages: of a queue.
        ids: JMSMessageIDs as the history has them, with or without ``ID:``, and names of files.
    """
    wanted = {one.removeprefix("ID:") for one in ids} - {""}
    for message in messages:
        named = (
            plain_text(message.message_id or ""),
            file_name(message),
            *origins_of(message.properties.get(EVENT_ID)),
        )
        if any(one.removeprefix("ID:") in wanted for one in named):
            yield message


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(HistoryRow)
