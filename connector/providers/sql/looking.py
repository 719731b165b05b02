"""What an operator asks while others work. Makes nothing."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from sqlalchemy import func, literal_column, select, true, update
from sqlalchemy.exc import OperationalError

from connector.core.local.channel import Channel, Part
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.notes import BatchNote, ClientNote, ClientState, WaitingNote
from connector.messaging.subscription import TopicSubscription
from connector.providers.sql.database import DatabaseClient
from connector.providers.sql.dialects import IDLE_SECONDS, claim_columns
from connector.providers.sql.liveness import Marks
from connector.providers.sql.messages import SqlClaim, channel_name
from connector.providers.sql.registry import subscription_key
from connector.providers.sql.schema import NOBODY, is_claimed, message, reference
from connector.providers.sql.schema import client as clients

_JOINED = reference.join(message, message.c.id == reference.c.message)
_PATIENCE: Final = 5.0
"""Seconds for which an operator waits for a client in the middle of a claim."""
_LOCK_NOT_AVAILABLE: Final = "55P03"
_PARTS = {"EXPIRED": Part.EXPIRED, "RECOVER-ERROR": Part.ERROR, "REJECT-ERROR": Part.ERROR}


def list_clients(db: DatabaseClient, marks: Marks) -> list[ClientNote]:
    """The clients that have a row, the oldest first."""
    return [
        ClientNote(row.id, row.application, row.instance, row.host, row.pid, row.since, _state_of(row, marks))
        for row in db.rows(select(clients).order_by(clients.c.since))
    ]


def _state_of(row: Any, marks: Marks) -> ClientState:
    if row.declared_dead:
        return ClientState.DECLARED_DEAD
    return ClientState.ALIVE if marks.is_alive(row.id) else ClientState.DEAD


def declare_dead(db: DatabaseClient, marks: Marks, client_id: str) -> ClientState | None:
    """See :meth:`connector.messaging.provider_kind.AdapterProvider.declare_dead`.

    Whoever takes over gives its claims a new version, so that it can settle none of them.
    """
    with db.transaction() as connection:
        which = clients.c.id == client_id
        row = connection.execute(select(clients).where(which)).one_or_none()
        if row is None:
            return None
        state = _state_of(row, marks)
        if state is ClientState.ALIVE:
            if connection.dialect.name == "postgresql":
                connection.execute(select(func.set_config("lock_timeout", f"{_PATIENCE}s", true())))
            try:
                connection.execute(update(clients).where(which).values(declared_dead=True))
            except OperationalError as error:
                if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                    raise
                raise ProviderError(
                    f"client {client_id} is in the middle of a claim: it claims now, or its process is "
                    f"stopped. The server ends such a claim after {IDLE_SECONDS} s: try again then"
                ) from error
        return state


def open_batches(db: DatabaseClient, in_progress: Destination | None) -> list[BatchNote]:
    """The open claims of all clients, by client and batch."""
    place = "" if in_progress is None else str(in_progress)
    where = is_claimed() & (reference.c.owner != NOBODY)
    where &= reference.c.home.is_(None) | (reference.c.channel == place)
    columns = select(*claim_columns(None)).select_from(_JOINED).where(where)
    rows = db.rows(columns.order_by(reference.c.owner, reference.c.cycle, reference.c.sequence))
    return [
        BatchNote(client_id, cycle, 0.0, {row.sequence: SqlClaim(row) for row in batch})
        for (client_id, cycle), batch in groupby(rows, key=lambda row: (row.owner, row.cycle))
    ]


def look_at_waiting(db: DatabaseClient, source: Destination | TopicSubscription) -> WaitingNote:
    """What waits in a queue, a virtual destination or a subscription."""
    if isinstance(source, TopicSubscription):
        channel = Channel(source.topic, subscription_key(source, ""))
    else:
        channel = Channel(source.base, part=_PARTS.get(source.view, Part.MAIN))
    where = (
        reference.c.channel == channel_name(channel),
        reference.c.part == channel.part.value,
        reference.c.state == literal_column("'NEW'"),
    )
    first = select(func.count(), func.min(reference.c.id)).where(*where)
    number, oldest = db.rows(first)[0]
    if not number:
        return WaitingNote(0, None)
    headers = db.first(select(message.c.headers).select_from(_JOINED).where(reference.c.id == oldest))
    sent = (headers or {}).get("JMSTimestamp")
    return WaitingNote(number, sent / 1000 if sent else None)
