"""What a task notes about each event for the history: keys, correlation id, and the event before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from connector.businessobjects.keys import key_names, key_text, keys_of
from connector.events.publish import MatchedObject
from connector.messaging.history import EVENT_ID, Note, origins_of
from connector.messaging.message import Message

_MOST_KEYS: Final = 1000


class Notes:
    """Makes the notes of a task.

    Args:
        keys: whether notes have the keys of objects.
    """

    def __init__(self, *, keys: bool) -> None:
        self._has_keys = keys
        self._only_key: dict[str, str | None] = {}
        """The key attribute by object. None = the object has no key, or several."""

    def of(self, message: Message, objects: Sequence[MatchedObject] = ()) -> Note | None:
        """Returns the note of a message. None = there is nothing to note.

        Args:
            message: headers and properties.
            objects: of the message. Empty if there are none.
        """
        keys = self._keys_of(objects) if objects and self._has_keys else None
        properties = message.properties
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
                value = bo[name]
                return None if value is None else key_text(value)
        keys = (key for one in objects for key in keys_of(one.bo))
        return list(islice(keys, _MOST_KEYS)) or None
