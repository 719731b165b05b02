"""Sends a failed message again with another body, in one commit with the end of the old message."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

from connector.core.takeover import try_take_over
from connector.errors import ConnectorError, MalformedData, UnknownDestination
from connector.messaging.bodies import decode_body
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.history import EVENT_ID
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.roles import Settling
from connector.messaging.settlement import HISTORY, Settlement
from connector.operate.own_history import OwnHistory
from connector.operate.replay import ArchiveOf, Discard, Replay, Stays, Target


class CannotCorrect(ConnectorError):
    """The message cannot be sent again with another body. The text says why. Nothing was changed."""


class Correction(Replay):
    """A replay with another body, which goes to a queue. The old message goes to the archive.

    Args:
        source, own, own_names: as of :class:`.replay.Replay`.
        archive_of: says which archive a message has. Without one it stays.
    """

    what = "corrected"

    def __init__(
        self, source: Destination, own: OwnHistory, archive_of: ArchiveOf, *, own_names: bool
    ) -> None:
        super().__init__(source, own=own, own_names=own_names)
        self._archive_of = archive_of

    def target(self, message: Message) -> Target | Stays:
        target = super().target(message)
        if isinstance(target, Stays):
            return target
        if self._archive_of(message) in (None, self._source):
            return Stays("the old ones have to be kept, and there is no ArchiveDestination for them")
        if target.subscription:
            return Stays(f"other subscriptions of the topic {target.destination} would get them, too")
        return target


def correct(
    provider: AdapterProvider,
    own: OwnHistory,
    source: Destination,
    identity: str,
    body: bytes,
    archive_of: ArchiveOf,
    by: str,
    note: Callable[[str, Destination, Destination], None],
) -> Destination:
    """Sends a message of a queue with another body to where it came from. Returns that queue.

    The old message goes to the archive. The new one has its headers and properties, and names the first id in
    ``connector_event_id``, so the history leads from one to the other.

    Args:
        identity: JMSMessageID. May lack its ``ID:``.
        body: new.
        note: called with the JMSMessageID, the queue and the archive before the commit.

    Raises:
        CannotCorrect: the message is not there, its origin is unknown or a topic, there is no archive, or the
            body is none for a message of this class.
        ProviderError: the provider failed.
    """
    replay = Correction(source, own, archive_of, own_names=provider.capabilities.own_names)
    with contextlib.closing(provider.connect_operator(own.application)) as connection:
        try_take_over(connection, at_start=True)  # of an earlier call that was killed
        with _claimed(connection, source, identity) as claim:
            access = connection.access().open()
            old = access.load(claim.reference, 1 << 62)
            origin = _origin(old, replay)
            _check_body(old.message_class, body)
            prepared = access.prepare(
                origin, _corrected(old, claim.message_id, body, replay), f"{claim.reference}|correct"
            )
            access.write()
            access.sync()
            archive = archive_of(old)
            assert archive is not None, "without an archive the message stays"
            note(claim.message_id, origin, archive)
            discard = Discard(archive_of, by, f"corrected, and sent to {origin}")
            settlement = Settlement(claim, archive, discard.properties(old), sends=(prepared,))
            connection.settle([settlement], fenced=True)
    return origin


@contextlib.contextmanager
def _claimed(connection: Connection, source: Destination, identity: str) -> Iterator[Claim]:
    """Claims a message of a queue. Gives it back if the block fails.

    Raises:
        CannotCorrect: the message is not there.
    """
    names = (identity, f"ID:{identity}")
    try:
        picker = connection.picker(source, lambda message: message.message_id in names)
    except UnknownDestination:
        raise CannotCorrect(f"there is no {source}") from None
    with contextlib.closing(picker):
        claims = picker.claim(1, range(1))
        if not claims:
            owners = connection.owners(source)
            if notes := next(filter(None, map(owners.get, names)), None):
                raise CannotCorrect(f"{identity} is {notes[0]}")
            raise CannotCorrect(f"{identity} is not in {source} any more")
        (claim,) = claims
        try:
            yield claim
        except BaseException:
            _give_back(connection, Settlement(claim, give_back=True, delivery_count=claim.delivery_count))
            raise


def _origin(message: Message, replay: Replay) -> Destination:
    """Returns the queue to which a replay would send a message."""
    target = replay.target(message)
    if isinstance(target, Stays):
        raise CannotCorrect(f"such messages cannot go back: {target.reason}")
    assert target.destination is not None, "a replay discards nothing"
    return target.destination


def _check_body(message_class: str, body: bytes) -> None:
    if message_class == "M":
        raise CannotCorrect("a message of class M has no body")
    try:
        decode_body(message_class, body)
    except MalformedData as error:
        raise CannotCorrect(str(error)) from None


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


def _give_back(connection: Settling, settlement: Settlement) -> None:
    with contextlib.suppress(ConnectorError):  # at a broker the message is back already
        connection.settle([settlement])
