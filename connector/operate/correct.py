"""Sends a failed message again with another body, in one commit with the end of the old message."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable

from connector.core.takeover import try_take_over
from connector.errors import ConnectorError, UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.history import EVENT_ID
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.settlement import HISTORY, Settlement
from connector.operate.own_history import OwnHistory
from connector.operate.replay import Discard, Replay, Stays


class CannotCorrect(ConnectorError):
    """The message cannot be sent again with another body. The text says why. Nothing was changed."""


def correct(
    provider: AdapterProvider,
    own: OwnHistory,
    source: Destination,
    identity: str,
    body: bytes,
    archive: Destination | None,
    by: str,
    note: Callable[[Destination], None],
) -> Destination:
    """Sends a message of a queue with another body to where it came from. Returns that queue.

    The old message goes to the archive. The new one has its headers and properties, and names the first id in
    ``connector_event_id``, so the history leads from one to the other.

    Args:
        provider: of the adapter.
        own: says whether the history of the message counts.
        source: the queue with the message.
        identity: JMSMessageID.
        body: new.
        archive: gets the old message.
        by: the operator.
        note: called with the queue before the commit.

    Raises:
        CannotCorrect: the message is not there, or its origin is unknown or a topic, or there is no archive.
        ProviderError: the provider failed.
    """
    if archive is None or archive == source:
        raise CannotCorrect("the old message has to be kept: there is no ArchiveDestination for it")
    replay = Replay(source, own=own, own_names=provider.capabilities.own_names)
    with contextlib.closing(provider.connect_operator(own.application)) as connection:
        try_take_over(connection, at_start=True)  # of an earlier call that was killed
        try:
            picker = connection.picker(source, lambda message: message.message_id == identity)
        except UnknownDestination:
            raise CannotCorrect(f"there is no {source}") from None
        with contextlib.closing(picker):
            claims = picker.claim(1, range(1))
            if not claims:
                if notes := connection.owners(source).get(identity):
                    raise CannotCorrect(f"{identity} is {notes[0]}")
                raise CannotCorrect(f"{identity} is not in {source} any more")
            (claim,) = claims
            try:
                access = connection.access().open()
                old = access.load(claim.reference, 1 << 62)
                origin = _origin(old, replay)
                prepared = access.prepare(
                    origin, _corrected(old, identity, body, replay), f"{claim.reference}|correct"
                )
                access.write()
                access.sync()
                note(origin)
                discard = Discard(archive, by, f"corrected, and sent to {origin}")
                settlement = Settlement(claim, archive, discard.properties(old), sends=(prepared,))
                connection.settle([settlement], fenced=True)
            except BaseException:
                _give_back(connection, Settlement(claim, give_back=True, delivery_count=claim.delivery_count))
                raise
    return origin


def _origin(message: Message, replay: Replay) -> Destination:
    """Returns the queue to which a replay would send a message."""
    target = replay.target(message)
    if isinstance(target, Stays):
        raise CannotCorrect(f"such messages cannot go back: {target.reason}")
    if target.subscription or target.destination is None:
        raise CannotCorrect(
            f"other subscriptions of the topic {target.destination} would get the message, too"
        )
    return target.destination


def _corrected(old: Message, identity: str, body: bytes, replay: Replay) -> Message:
    kept = {name: value for name, value in old.properties.items() if name not in HISTORY}
    new = dataclasses.replace(
        old,
        body=body,
        message_id=None,
        delivery_count=0,
        properties=kept,
        property_types={name: old.property_types[name] for name in kept},
    )
    for name, value in replay.properties(old).items():  # who has confirmed is not called again
        new.set_property(name, value)
    if EVENT_ID not in kept:
        new.set_property(EVENT_ID, identity)
    return new


def _give_back(connection: Connection, settlement: Settlement) -> None:
    with contextlib.suppress(ConnectorError):  # at a broker the message is back already
        connection.settle([settlement])
