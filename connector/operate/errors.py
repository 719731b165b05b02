"""Groups of the messages in an error queue. Messages that failed for alike reasons are one group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from connector.messaging.message import Message
from connector.operate.reasons import group_id
from connector.text.alike import mask

_MOST_GROUPS: Final = 10_000
_MOST_NAMES: Final = 20
"""Objects or origins that a group names."""
_MOST_CHARACTERS: Final = 200
"""Of a name, because a sender may decide about it."""
_MOST_TEXT: Final = 1000
_FURTHER: Final = "further reasons"


_Reason = tuple[str, str, str, str]


@dataclass(slots=True)
class ErrorGroup:
    """Messages that failed for alike reasons.

    Args:
        group: the id (:func:`connector.operate.reasons.group_id`). Empty = the rest, if there are very many
            groups.
        kind, place, subscription: of the reasons. Empty = a copy of an earlier version, or none.
        text: the last reason, whole.
    """

    group: str
    kind: str
    place: str
    subscription: str
    text: str
    count: int = 0
    first: str = ""
    """The earliest time of failure, ISO 8601. Empty = unknown."""
    last: str = ""
    objects: set[str] = field(default_factory=set)
    origins: set[str] = field(default_factory=set)
    sample: str = ""
    """The id of a message."""

    def add(self, message: Message) -> None:
        """Counts a message."""
        self.count += 1
        self.sample = self.sample or message.message_id or ""
        time = text_of(message, "connector_time")
        if time >= self.last and self.group:
            self.text = text_of(message, "connector_reason")[:_MOST_TEXT]
        if time:
            self.first = min(self.first or time, time)
            self.last = max(self.last, time)
        for names, name in (
            (self.objects, text_of(message, "connector_object")),
            (self.origins, text_of(message, "connector_origin_destination")),
        ):
            if name and len(names) < _MOST_NAMES:
                names.add(name[:_MOST_CHARACTERS])

    def document(self) -> dict[str, Any]:
        """Returns the document of ``connector errors --json``."""
        return {
            "group": self.group,
            "kind": self.kind or None,
            "text": self.text,
            "place": self.place or None,
            "subscription": self.subscription or None,
            "count": self.count,
            "first": self.first or None,
            "last": self.last or None,
            "objects": sorted(self.objects),
            "origins": sorted(self.origins),
            "sample": self.sample or None,
        }


def error_groups(messages: Iterable[Message]) -> list[ErrorGroup]:
    """Returns the groups of messages, the largest group first."""
    groups: dict[str, ErrorGroup] = {}
    for message in messages:
        kind, place, subscription, key = _reason_of(message)
        group = groups.get(key)
        if group is None:
            if len(groups) < _MOST_GROUPS:
                group = groups[key] = ErrorGroup(key, kind, place, subscription, "")
            else:
                group = groups.setdefault("", ErrorGroup("", "", "", "", _FURTHER))
        group.add(message)
    return sorted(groups.values(), key=lambda one: (-one.count, one.group))


def group_of(message: Message) -> str:
    """Returns the id of the group of a message."""
    return _reason_of(message)[-1]


def text_of(message: Message, name: str) -> str:
    """Returns a property of a copy. Empty if it is missing or no text: any client may send to the queue."""
    value = message.properties.get(name)
    return value if isinstance(value, str) else ""


def _reason_of(message: Message) -> _Reason:
    return _reason(
        text_of(message, "connector_kind"),
        text_of(message, "connector_place"),
        text_of(message, "connector_subscription"),
        text_of(message, "connector_reason"),
    )


@lru_cache(maxsize=1000)
def _reason(kind: str, place: str, subscription: str, text: str) -> _Reason:
    """Returns kind, place and subscription of a reason, and the id of the group of alike reasons."""
    key = group_id(kind, place, subscription, mask(text.removesuffix(f" ({place})")))
    return kind[:_MOST_CHARACTERS], place[:_MOST_CHARACTERS], subscription[:_MOST_CHARACTERS], key
