"""What a task notes about each event for the history: keys, correlation id, and the event before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from connector.businessobjects.definition import Definition
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import SECRET
from connector.messaging.history import EVENT_ID, Note, origins_of
from connector.messaging.message import Message

_MOST_KEYS: Final = 1000
_LONGEST: Final = 200
"""Characters of a key."""


class Notes:
    """Makes the notes of a task.

    Args:
        keys: whether notes have the keys of objects.
    """

    def __init__(self, *, keys: bool) -> None:
        self._has_keys = keys
        self._names: dict[str, tuple[str, ...]] = {}

    def of_message(self, message: Message) -> Note | None:
        """Returns the note of a message before its conversion. None = there is nothing to note."""
        correlation_id = message.correlation_id
        if origins := origins_of(message.properties.get(EVENT_ID)):
            return [None, correlation_id, origins]
        return [None, correlation_id] if correlation_id else None

    def with_keys(self, note: Note | None, objects: Sequence[BusinessObject]) -> Note | None:
        """Returns the note of a message with the keys of its objects."""
        if not self._has_keys:
            return note
        first = objects[0]
        names = self._names.get(first.type)
        if names is None:
            names = self._names[first.type] = _key_names(first.definition)
        keys: Any = None
        if len(objects) == 1 and len(names) == 1:
            value = first[names[0]]
            if value is not None:
                keys = (value if type(value) is str else str(value))[:_LONGEST]
        else:
            keys = list(islice(self._keys(objects), _MOST_KEYS))
        if not keys:
            return note
        if note is None:
            return keys if type(keys) is str else [keys]
        return [keys, *note[1:]]

    def _keys(self, objects: Iterable[BusinessObject]) -> Iterator[str]:
        for bo in objects:
            values = bo.values_of(_key_names(bo.definition))
            yield from (str(value)[:_LONGEST] for value in values if value is not None)


def _key_names(definition: Definition) -> tuple[str, ...]:
    """Returns the names of the key attributes that may be shown."""
    attributes = definition.attributes.values()
    return tuple(
        one.name
        for one in attributes
        if one.is_key and not (one.is_child or one.is_list or one.type == SECRET)
    )
