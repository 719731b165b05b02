"""Messages as rows of the tables: claims, channels, and the changes of a copy."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, insert

from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message, PropertyValue, natural_type
from connector.stores.engine.changes import Edit
from connector.stores.engine.channel import Channel, Owner, Part
from connector.stores.engine.claims import LocalClaim
from connector.stores.sql.json_columns import write_json
from connector.stores.sql.message_columns import HEADERS, read_message
from connector.stores.sql.schema import message as messages

Patch = Mapping[str, PropertyValue | None]
"""Properties of one copy that replace the properties of its message. None removes a property."""

Pair = tuple[int, int]
"""The ``id`` and the ``version`` of a reference."""


class SqlClaim(LocalClaim):
    """A claim, or a message that an operation only looks at. A later change makes another version.

    Args:
        row: of :func:`.statements.select_claims`.
        source: the destination that the message was taken from. None = the destination in the row.
    """

    __slots__ = ("patch",)

    def __init__(self, row: Any, source: Destination | None = None) -> None:
        patch = row.properties
        self.patch: Patch | None = patch if isinstance(patch, dict) else None
        owner = Owner(row.owner, row.cycle, row.sequence) if row.owner else None
        home = channel_of(row.channel, row.part) if row.home is None else channel_of(row.home, row.home_part)
        if source is None and row.taken_from is not None:
            source = parse_destination(row.taken_from)
        super().__init__(
            (row.id, row.version),
            read_message(row),
            home,
            owner,
            source,
            in_progress=row.home is not None,
            waits=row.waits,
        )

    @property
    def headers_now(self) -> Message:
        """Headers and properties, for reading only."""
        return self._message


def channel_name(channel: Channel) -> str:
    """Returns the name of a channel: ``queue://orders``, or ``topic://prices;KEY`` for a subscription."""
    where = str(channel.destination)
    return f"{where};{channel.subscription}" if channel.subscription else where


@functools.lru_cache(maxsize=1024)
def channel_of(name: str, part: str) -> Channel:
    """Returns the channel of a name (:func:`channel_name`). The name of a destination has no semicolon."""
    where, _, subscription = name.partition(";")
    return Channel(parse_destination(where), subscription, Part(part))


def patch_after(claim: SqlClaim, edit: Edit) -> Patch | None:
    """Returns the patch of a copy after an edit."""
    patch = dict(claim.patch or {})
    present = claim.headers_now.properties
    for name in edit.dropped:
        if name in present:
            patch[name] = None
    patch.update(edit.properties)
    return patch or None


def write_patch(patch: Patch | None) -> str | None:
    return write_json(patch) if patch else None


def write_key(key: str) -> bytes:
    """Returns a published key as bytes. The key may have undecodable bytes."""
    return key.encode("utf-8", "surrogateescape")


def write_message(message: Message) -> dict[str, Any]:
    headers = {}
    for field, (name, default) in HEADERS.items():
        value = getattr(message, field)
        if value != default:
            headers[name] = value
    properties, types = message.properties, {}
    for name, kind in message.property_types.items():
        value = properties[name]
        if isinstance(value, float) and not math.isfinite(value):
            properties = {**properties, name: str(value)}
            types[name] = kind
        elif kind != natural_type(value):
            types[name] = kind
    return {
        "headers": headers,
        "properties": properties,
        "property_types": types or None,
        "body": message.body,
    }


def write_reference(message: Message) -> dict[str, Any]:
    """Returns the columns of the reference of a new message."""
    return {
        "priority": message.priority,
        "expiration": message.expiration,
        "due": message.delivery_time or None,
        "delivery_count": message.delivery_count - 1,
    }


_INSERT: Final = insert(messages).returning(messages.c.id, sort_by_parameter_order=True)


def add_messages(connection: Connection, stored: Sequence[Message]) -> list[int]:
    """Stores headers and bodies. Returns the numbers in the same order."""
    rows = [write_message(message) for message in stored]
    return list(connection.execute(_INSERT, rows).scalars()) if rows else []
