"""The commit queue: shows which transaction of a session was the last to be committed.

Each transaction sends a small message with the client and the number of its cycle, and consumes the message
of the transaction before. The answer to a commit may be lost. Then the message in the queue says that the
commit has happened.

The queue also has the id of the state directory, which all instances of an application share.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Set
from typing import Final

from connector.brokers.engine.broker import BrokerConnection, BrokerReceiver, BrokerSession
from connector.brokers.engine.silence import ANSWER, LOOK, SHORT_LOOK
from connector.errors import CapabilityError, UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.message import Message

_CLIENT: Final = "connector_client"
_SESSION: Final = "connector_session"
_CYCLE: Final = "connector_cycle"
DIRECTORY: Final = "connector_directory"
"""Property with the id of the state directory."""
_LIMIT: Final = 1 << 16
_MOST: Final = 1000


class CommitMarker:
    """Marks the commits of one session.

    A takeover needs the mark of a transaction until the journal of its cycle is gone.

    Args:
        name: of the session, unique for the client.
        journals: the cycles with a journal.
        ended: called when the session ends cleanly, before the last message is gone.
    """

    is_closed = False
    """Whether the session has ended in order."""

    def __init__(
        self,
        session: BrokerSession,
        queue: Destination,
        client_id: str,
        name: str,
        journals: Set[int] = frozenset(),
        ended: Callable[[], None] | None = None,
    ) -> None:
        self._session = session
        self._queue = queue
        self._client_id = client_id
        self._selector = f"{_selector(client_id)} AND {_SESSION} = '{name}'"
        self._name = name
        self._receiver: BrokerReceiver | None = None
        self._late = self._missing = 0
        """Messages of earlier commits that have not come: at the last commit, and in the open transaction."""
        self._is_silent = False
        self._journals = journals
        self._ended = ended
        self._cycle = 0
        """Of the last mark, unless it marks a move. What was moved comes again."""
        self._leave: Callable[[], None] | None = None

    def begin(self) -> None:
        """Commits a first message. From then on, the queue shows no message while a transaction is open.

        Raises:
            ProviderError: the commit queue cannot be used.
        """
        self.mark(0)
        self._session.commit()

    def mark(self, cycle: int) -> None:
        """Adds the message of a cycle to the open transaction, and consumes the one before.

        While the queue is silent, it shows both later, and both tell the truth.

        Raises:
            ProviderError: the commit queue cannot be used.
        """
        self.consume()
        self.send(cycle)

    def consume(self) -> bool:
        """Consumes the message of the commit before, in the open transaction. Returns whether it has come.

        Raises:
            ProviderError: the commit queue cannot be used.
        """
        if self._receiver is None:
            return True
        wanted = self._late + 1
        found = self._receiver.receive(SHORT_LOOK if self._is_silent else LOOK, wanted)
        self._missing, self._is_silent = wanted - len(found), not found
        return not self._missing

    def is_shown(self, connection: BrokerConnection) -> bool:
        """Whether the queue shows a message of this session. Otherwise somebody may have removed the message.

        Raises:
            ProviderError: the commit queue cannot be browsed.
        """
        return any(_browse(connection, self._queue, self._selector))

    def drop(self) -> None:
        """Ends the session, which has no open transaction, without its last message."""
        self.is_closed = True
        if self._ended is not None:
            self._ended()
        self._session.close()

    def send(self, cycle: int) -> None:
        """Adds the message of a cycle to the open transaction.

        Raises:
            ProviderError: the commit queue cannot be used.
        """
        message = Message(b"", "M")
        message.set_property(_CLIENT, self._client_id)
        message.set_property(_SESSION, self._name)
        message.set_property(_CYCLE, cycle, "long")
        self._session.send(self._queue, message)
        self._cycle = cycle
        self._late, self._missing = self._missing, 0
        if self._receiver is None:
            self._receiver = self._session.receiver(self._queue, self._selector, _LIMIT)

    @property
    def is_needed(self) -> bool:
        """Whether the journal of the last cycle is still there."""
        return self._cycle in self._journals

    def note_move(self) -> None:
        """Notes that the open transaction moves its messages."""
        self._cycle = 0

    def leave(self, close: Callable[[], None]) -> None:
        """Ends the session when nobody needs its mark any more.

        Args:
            close: ends the session, with :meth:`close`.
        """
        self._leave = close

    def look(self) -> None:
        """Ends the session that was left, if nobody needs its mark any more."""
        if self._leave is not None and not self.is_needed:
            self._leave()

    def close(self) -> None:
        """Removes the last message. Only after the last transaction.

        A message that does not come stays for the client that removes the marks of ended clients.

        Raises:
            ProviderError: the commit queue cannot be used.
        """
        self.is_closed = True
        if self._receiver is None:
            return
        if self._ended is not None:
            self._ended()
        if self._receiver.receive(LOOK, _MOST):
            self._session.commit()
        self._receiver.close()


def committed_cycles(connection: BrokerConnection, queue: Destination, client_id: str) -> set[int]:
    """Returns the cycles of a client whose commits are the last of their sessions.

    Raises:
        ProviderError: the commit queue cannot be browsed.
    """
    marks = _marks(connection, queue, client_id)
    cycles = (message.properties.get(_CYCLE) for message in marks)
    return {cycle for cycle in cycles if isinstance(cycle, int)}  # any client may send to the queue


def settled_sessions(connection: BrokerConnection, queue: Destination, client_id: str) -> set[str]:
    """Returns the names of the sessions of a client that have no open transaction.

    Args:
        client_id: of a client whose sessions have begun with :meth:`CommitMarker.begin`.

    Raises:
        ProviderError: the commit queue cannot be browsed.
    """
    marks = _marks(connection, queue, client_id)
    return {str(message.properties[_SESSION]) for message in marks if _SESSION in message.properties}


def marked_clients(connection: BrokerConnection, queue: Destination) -> set[str]:
    """Returns the clients with messages in the commit queue, living and dead ones.

    Raises:
        ProviderError: the commit queue cannot be browsed.
    """
    found = _browse(connection, queue, f"{_CLIENT} IS NOT NULL")
    return {str(message.properties[_CLIENT]) for message in found if _CLIENT in message.properties}


def remove_markers(connection: BrokerConnection, queue: Destination, client_id: str) -> bool:
    """Removes the messages of a dead client from the commit queue. Returns whether all of them have come.

    Raises:
        ProviderError: the commit queue cannot be used.
    """
    number = len(_marks(connection, queue, client_id))
    if not number:
        return True
    session = connection.session()
    try:
        receiver = session.receiver(queue, _selector(client_id), _LIMIT)
        while number > 0 and (found := receiver.receive(0.0, number)):
            number -= len(found)
        session.commit()
        return number <= 0
    finally:
        session.close()


def announce(connection: BrokerConnection, queue: Destination, directory: str) -> None:
    """Tells the other instances the id of the state directory, which all of them share.

    Raises:
        CapabilityError: another instance uses another directory.
        ProviderError: the commit queue cannot be used.
    """
    if directory in _announcements(connection, queue, directory):
        return
    session = connection.session()
    try:
        message = Message(b"", "M")
        message.set_property(DIRECTORY, directory)
        session.send(queue, message)
        session.commit()
        try:
            _announcements(connection, queue, directory)
        except CapabilityError as error:  # two instances have begun at the same time
            own = f"{DIRECTORY} = {quote(directory)}"
            if session.receiver(queue, own, _LIMIT).receive(ANSWER):
                session.commit()
                raise
            raise CapabilityError(
                f"{error}. The mark of this directory could not be removed, because the broker is silent: "
                f"{_command(queue, 1, own)}"
            ) from None
    finally:
        session.close()


def _announcements(connection: BrokerConnection, queue: Destination, directory: str) -> set[str]:
    found = _browse(connection, queue, f"{DIRECTORY} IS NOT NULL")
    known = {str(message.properties[DIRECTORY]) for message in found if DIRECTORY in message.properties}
    others = sorted(known - {directory})
    if others:
        selector = f"{DIRECTORY} IN ({', '.join(map(quote, others))})"
        raise CapabilityError(
            f"another instance uses another state directory, so events may be published twice: set "
            f"state.directory to one directory that all instances share. If the other directory is gone for "
            f"ever, stop all instances and remove its mark: {_command(queue, len(found), selector)}"
        )
    return known


def _command(queue: Destination, number: int, selector: str) -> str:
    """Returns the command that removes messages from the commit queue."""
    return f"connector receive {shlex.quote(str(queue))} --count {number} --selector {shlex.quote(selector)}"


def _marks(connection: BrokerConnection, queue: Destination, client_id: str) -> list[Message]:
    return _browse(connection, queue, _selector(client_id))


def _browse(connection: BrokerConnection, queue: Destination, selector: str) -> list[Message]:
    try:
        return list(connection.browse(queue, selector))
    except UnknownDestination:
        return []


def _selector(client_id: str) -> str:
    return f"{_CLIENT} = {quote(client_id)}"


def quote(text: str) -> str:
    """Returns a text as a literal of a selector. Any client may have chosen the text."""
    return "'" + text.replace("'", "''") + "'"
