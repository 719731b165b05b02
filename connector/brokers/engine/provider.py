"""A provider on a broker client (see :mod:`connector.messaging.provider`)."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from connector.brokers.engine.broker import BrokerClient
from connector.brokers.engine.connection import RemoteConnection
from connector.brokers.engine.held import HeldMessages
from connector.brokers.engine.in_progress import InProgress
from connector.brokers.engine.later import LaterMessages
from connector.brokers.engine.lot_names import LotNames
from connector.brokers.engine.lots import RemoteLots
from connector.brokers.engine.once import RemoteOnce, sent_queue, try_sent_queue
from connector.brokers.engine.settler import TransactionSettler
from connector.brokers.engine.shortage import MemoryShortage
from connector.brokers.engine.state import RemoteState
from connector.brokers.engine.transaction_limits import TransactionLimits
from connector.errors import ConnectorError
from connector.messaging.destination import Destination
from connector.messaging.provider import Capabilities
from connector.messaging.provider_kind import AdapterProvider, Finding

COMMIT_QUEUE: Final = "connector.{application}.commits"
HELD_QUEUE: Final = "connector.{application}.held"
LATER_QUEUE: Final = "connector.{application}.later"
LOT_QUEUE: Final = "connector.{application}.lots"
LOT_QUEUE_OF_PROGRAMS: Final = "connector.lots"
_LIMITS: Final = TransactionLimits()


class RemoteProvider(AdapterProvider):
    """Queues and topics of a broker. A subclass makes the broker client.

    Args:
        state_directory: for journals, published ids and instance locks.
        commit_queue: name of the queue that shows which transactions were committed, ``{application}``
            replaced. None = commits are not marked. Then a commit whose answer is lost may be repeated.
    """

    capabilities = Capabilities(
        topics=True,
        selectors=True,
        temporary_destinations=True,
        takeover=False,
        transactions=True,
        shows_all=False,
        shares_client_ids=False,
        chooses_ids=False,
        delays=True,
        retries_later=True,
        lots=True,
        own_names=True,
        sends_once=True,
    )

    def __init__(
        self,
        state_directory: str | os.PathLike[str],
        limits: TransactionLimits = _LIMITS,
        commit_queue: str | None = COMMIT_QUEUE,
    ) -> None:
        self._state_directory = os.path.abspath(state_directory)
        self.limits = limits
        self._commit_queue_name = commit_queue
        self._shortage = MemoryShortage()

    @abstractmethod
    def client(self) -> BrokerClient:
        """Returns the client of the broker.

        Raises:
            ProviderError, CapabilityError: the client cannot be made.
        """

    def state(self, application: str) -> RemoteState:
        return RemoteState(self._state_directory, application)

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> RemoteConnection:
        commit_queue = self._commit_queue(application) if application else None
        connection = RemoteConnection(self.client().connect(client_id), self.limits, commit_queue)
        connection.directory = self._state_directory
        connection.shortage = self._shortage
        connection.once = RemoteOnce(connection.broker, self._state_directory, connection.client_id)
        if application:
            connection.broker.application = application
            connection.state = state = self.state(application)
            connection.later = LaterMessages(connection.broker, _queue(LATER_QUEUE, application))
            connection.in_progress = InProgress(
                connection.broker,
                state,
                connection.client_id,
                instance,
                commit_queue,
                self.limits.redelivery_limit,
                connection.later,
            )
            if self.limits.redelivery_limit is not None:
                queue = _queue(HELD_QUEUE, application)
                connection.held = HeldMessages(connection.broker, queue, self.limits.redelivery_limit)
        connection.settler = TransactionSettler(
            connection.client_id,
            connection.open_sessions,
            connection.probe,
            commit_queue,
            connection.state,
            connection.held,
        )
        lot_queue = LOT_QUEUE.replace("{application}", application) if application else LOT_QUEUE_OF_PROGRAMS
        connection.own_lots = RemoteLots(
            connection,
            LotNames(self._state_directory, connection.client_id, lot_queue),
            self.limits,
            connection.later,
        )
        return connection

    def connect_operator(self, application: str) -> RemoteConnection:
        connection = self.connect()
        connection.later = LaterMessages(connection.broker, _queue(LATER_QUEUE, application))
        return connection

    def delayed_queues(self, application: str) -> Sequence[Destination]:
        return _queue(LATER_QUEUE, application), _queue(HELD_QUEUE, application)

    def survey_once(self, application: str) -> Sequence[Finding]:
        name = f"queue {sent_queue(application)}, for messages that are sent once"
        connection = self.client().connect("")
        try:
            try_sent_queue(connection, application)
        except ConnectorError as error:
            return [Finding(name, False, str(error), needed=True)]
        finally:
            connection.close()
        return [Finding(name, True, "", needed=True)]

    def _commit_queue(self, application: str) -> Destination | None:
        """Returns the commit queue of an application. None = commits are not marked."""
        if self._commit_queue_name is None:
            return None
        return _queue(self._commit_queue_name, application)


def _queue(name: str, application: str) -> Destination:
    return Destination("queue", name.replace("{application}", application))
