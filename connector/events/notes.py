"""What a task notes about each event for the history: keys, correlation id, and the event before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from connector.businessobjects.definition import Definition
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import SECRET
from connector.messaging.history import EVENT_ID, Note
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
        origin = message.properties.get(EVENT_ID)
        if isinstance(origin, str) and origin:
            return [None, message.correlation_id, origin]
        return [None, message.correlation_id] if message.correlation_id else None

    def with_keys(self, note: Note | None, objects: Iterable[BusinessObject]) -> Note | None:
        """Returns a note with the keys of the objects of a message."""
        if not self._has_keys:
            return note
        keys: list[str] = []
        for bo in objects:
            names = self._names.get(bo.type)
            if names is None:
                names = self._names[bo.type] = _key_names(bo.definition)
            for value in bo.values_of(names):
                if value is not None:
                    keys.append(value if type(value) is str else str(value))
            if len(keys) > _MOST_KEYS:
                break
        if not keys:
            return note
        if len(keys) == 1:
            key: Any = keys[0][:_LONGEST]
        else:
            key = [one[:_LONGEST] for one in keys[:_MOST_KEYS]]
        if note is None:
            return [key]
        note[0] = key
        return note


def _key_names(definition: Definition) -> tuple[str, ...]:
    """Returns the names of the key attributes that may be shown."""
    attributes = definition.attributes.values()
    return tuple(
        one.name
        for one in attributes
        if one.is_key and not (one.is_child or one.is_list or one.type == SECRET)
    )
