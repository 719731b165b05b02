"""Messages that are sent once by key at a broker.

The keys are files in the state directory, which all instances share. A queue of the application holds one
*mark*: a small message that names what was sent last. Each transaction that sends a message takes the mark
and puts a new one there. So nobody gets the mark while such a transaction is open.

A note of the message is written before its commit, and becomes the file of its key after it. If nobody saw
the answer to the commit, the next client takes the mark. The mark names the note, or the message was not
sent. While the broker gives no mark, nobody knows, and nothing is sent.

Without a note no commit is on its way. So a mark that is gone is replaced then: marks of an earlier *chain*
that come back say nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from typing import Final

from connector import faults
from connector.brokers.engine.access import sendable
from connector.brokers.engine.broker import BrokerConnection, BrokerSession
from connector.brokers.engine.broker_client import send_in
from connector.brokers.engine.commits import DIRECTORY, quote
from connector.brokers.engine.silence import LOOK, SHORT_LOOK
from connector.brokers.engine.state import RemoteState
from connector.errors import ProviderError, TransactionRolledBack
from connector.messaging.destination import Destination
from connector.messaging.history import KEY
from connector.messaging.message import Message
from connector.messaging.once import OnceKey, SentOnce
from connector.state.sent_keys import KeyNote, SentKeyFiles

SENT_QUEUE: Final = "connector.{application}.sent"
_CHAIN: Final = "connector_sent_chain"
_NOTE: Final = "connector_sent_note"
_CHAIN_FILE: Final = "chain"
_LIMIT: Final = 1 << 16
_MOST: Final = 100


class _MarkMissing(ProviderError):
    """The broker has given no mark."""


class RemoteOnce:
    """Sends messages once by key, as one client.

    Args:
        directory: of the state of all applications.
        client_id: unique for every start of every process.
    """

    def __init__(self, connection: BrokerConnection, directory: str, client_id: str) -> None:
        self._connection = connection
        self._directory = directory
        self._client_id = client_id
        self._numbers = itertools.count(1)

    def send(self, destination: Destination, message: Message, once: OnceKey) -> SentOnce:
        """As :meth:`connector.messaging.once.SendingOnce.send_once`."""
        state = RemoteState(self._directory, once.application)
        keys = _keys(state)
        with keys.using():
            self._settle_notes(keys, state)
            found = keys.find(once.key)
            if found is not None:
                return found
            try:
                identity = self._send(keys, state, destination, message, once)
            except _MarkMissing:
                self._begin_chain(keys, state)
                identity = self._send(keys, state, destination, message, once)
            keys.prune()
        return SentOnce(identity, is_new=True, fingerprint=once.fingerprint)

    def find(self, application: str, key: str) -> SentOnce | None:
        """As :meth:`connector.messaging.once.SendingOnce.find_sent`."""
        state = RemoteState(self._directory, application)
        keys = _keys(state)
        if not keys.exists():
            return None
        with keys.using():
            self._settle_notes(keys, state)
            return keys.find(key)

    def _send(
        self,
        keys: SentKeyFiles,
        state: RemoteState,
        destination: Destination,
        message: Message,
        once: OnceKey,
    ) -> str:
        """Sends a message and a mark in one transaction, and keeps the key. Returns the id of the message."""
        chain = _read_chain(keys)
        name = f"{self._client_id}-{next(self._numbers)}"
        with contextlib.closing(self._connection.session()) as session:
            # What the broker refuses, it refuses before the mark is taken: a rollback counts as a delivery.
            identity = send_in(session, destination, once.mark(message))
            session.post(sent_queue(once.application), _mark(state, chain, name, once.key))
            session.check_sends()
            self._take_mark(session, once.application, chain)
            note = keys.note(name, once, identity, chain=chain)
            faults.point("once.noted")
            try:
                faults.point("once.uncommitted")
                session.commit()
            except TransactionRolledBack:
                os.unlink(note.path)
                raise
        faults.point("once.committed")
        keys.keep(note)
        return identity

    def _take_mark(self, session: BrokerSession, application: str, chain: str) -> Message:
        """Receives the mark of a chain in the open transaction.

        Raises:
            _MarkMissing: nobody gets the mark now, or it is gone.
            ProviderError: the broker does not answer.
        """
        if not chain:
            raise _MarkMissing("there is no mark yet")
        receiver = session.receiver(sent_queue(application), f"{_CHAIN} = {quote(chain)}", _LIMIT)
        found = receiver.receive(LOOK) or receiver.receive(0.0)
        receiver.close()
        if not found:
            raise _MarkMissing(f"the broker gives no message of {sent_queue(application)}")
        return found[0].message

    def _begin_chain(self, keys: SentKeyFiles, state: RemoteState) -> None:
        """Begins a chain with its first mark, and removes marks of earlier chains.

        No commit is on its way.
        """
        chain, queue = secrets.token_hex(8), sent_queue(state.application)
        with contextlib.closing(self._connection.session()) as session:
            session.post(queue, _mark(state, chain))
            session.check_sends()
            others = f"{DIRECTORY} = {quote(state.identity())} AND {_CHAIN} <> {quote(chain)}"
            receiver = session.receiver(queue, others, _LIMIT)
            receiver.receive(SHORT_LOOK, _MOST)
            receiver.close()
            session.commit()
        path = keys.path(_CHAIN_FILE)
        with open(f"{path}.new", "w", encoding="ascii") as file:
            file.write(chain)
        os.rename(f"{path}.new", path)

    def _settle_notes(self, keys: SentKeyFiles, state: RemoteState) -> None:
        """Finds out which messages were sent whose notes others have left.

        Raises:
            ProviderError: the broker does not tell.
        """
        for note in keys.left():
            try:
                is_sent = self._is_sent(state, note)
            except _MarkMissing as error:
                raise ProviderError(
                    f"{error}, so nobody knows yet whether the message with the key {note.values['key']!r} "
                    "was sent: a transaction of a client that has ended is open. Try again later. If "
                    f"somebody has emptied the queue, remove {note.path}; that message is then sent again"
                ) from error
            if is_sent:
                keys.keep(note)
            else:
                os.unlink(note.path)

    def _is_sent(self, state: RemoteState, note: KeyNote) -> bool:
        """Asks the mark whether the message of a note was sent. The mark gets a new count of deliveries."""
        with contextlib.closing(self._connection.session()) as session:
            mark = self._take_mark(session, state.application, note.values["chain"])
            session.post(sent_queue(state.application), sendable(mark))
            session.check_sends()
            session.commit()
        return mark.properties.get(_NOTE) == note.name


def try_sent_queue(connection: BrokerConnection, application: str) -> None:
    """Sends to the queue of the marks of an application and receives from it, and rolls back.

    Raises:
        ProviderError: the queue cannot be used.
    """
    queue = sent_queue(application)
    with contextlib.closing(connection.session()) as session:
        session.post(queue, Message(b"", "M"))
        session.check_sends()
        session.receiver(queue, f"{_CHAIN} = ''", _LIMIT).close()
        session.rollback()


def sent_queue(application: str) -> Destination:
    """Returns the queue of the marks of an application."""
    return Destination("queue", SENT_QUEUE.replace("{application}", application))


def _keys(state: RemoteState) -> SentKeyFiles:
    return SentKeyFiles(state.path, durable=True)


def _read_chain(keys: SentKeyFiles) -> str:
    """Returns the present chain. Empty = none has begun."""
    try:
        with open(keys.path(_CHAIN_FILE), encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _mark(state: RemoteState, chain: str, note: str = "", key: str = "") -> Message:
    """Returns a mark.

    Args:
        note, key: of the message that its transaction sends. Empty = none.
    """
    mark = Message(b"", "M")
    mark.set_property(DIRECTORY, state.identity())
    mark.set_property(_CHAIN, chain)
    if note:
        mark.set_property(_NOTE, note)
        mark.set_property(KEY, key)
    return mark
