"""The contract between a provider and the rest of the adapter.

A provider holds messages. Clients get messages by *claiming*. A claim belongs to one client until
:meth:`.roles.Settling.settle` settles the claim. One commit settles all claims of a batch.

A local provider stores the messages itself. A claim survives a crash of the client and names the client. So
others can tell that the client is dead, and take over.

A remote provider lends messages from a broker to a connection. Messages that the connection has not settled
come back when the connection ends. No client takes over. The commit is a transaction of the broker. Most
brokers give back all messages of a transaction or none, and count that as a delivery of each message. The
capabilities ``takeover``, ``transactions``, ``in_progress`` and ``shows_all`` name these differences.

A local provider hands messages over by reference, a remote provider *by value*: a claim and a prepared
message carry the whole message, in :attr:`~connector.messaging.claim.Claim.reference` and
:attr:`~connector.messaging.settlement.Prepared.handle`. They can be read and sent even if the message itself
is gone. A message prepared by value gets an id when it is sent. The client library of a broker may also fetch
waiting messages *ahead*, before the poller claims them. No other poller or browser sees these messages, and
no other cycle of the same poller gets them, until they are claimed and given back, or the poller is closed.
The broker may count a delivery of each. The provider limits their number.

The contract has two halves. The driver has the :class:`Connection`, which makes pollers and a waiter
(:mod:`connector.messaging.polling`). A Spark task has a
:class:`~connector.messaging.access.MessageAccess`, made from a picklable
:class:`~connector.messaging.access.AccessSpec`. The access opens no connection that outlives the task's
process. The access only reads claimed messages and prepares new messages.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.once import SendingOnce
from connector.messaging.polling import Arrivals
from connector.messaging.roles import Browsing, Looking, Receiving, Recovering, Settling, Subscribing, Taking
from connector.messaging.state_store import StateStore


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a provider. A configuration that needs more is an error at start.

    Args:
        topics, selectors, temporary_destinations: as their names say. Topics include every kind of
            subscription.
        reliable: persistent messages survive a crash of every process.
        virtual_destinations: destinations such as ``orders~EXPIRED``.
        takeover: claims outlive their client, and another client takes over from a dead client. Otherwise
            claims come back when their connection ends, each with one delivery more, and there are no
            leftovers.
        in_progress: a claim can move the message to an in-progress destination.
        transactions: the claims of one poller and cycle are one transaction of a broker. They are settled
            together, or all are given back (:meth:`.roles.Settling.settle`). A message that comes again is as
            its sender made it: the broker forgets counts and properties of a settlement that gives back. The
            adapter keeps them in its own state.
        shows_all: claimed messages can be browsed, and a poller counts expired messages. Otherwise the broker
            shows only waiting messages, and puts expired messages aside itself.
        shares_client_ids: the instances of an adapter have one client id, and so its subscriptions. Otherwise
            a client id belongs to one connection, and instances share a subscription without a client id.
        shares_subscriptions: several connections can use one subscription.
        chooses_ids: the ids of one client have a pattern (:attr:`.roles.Settling.sent_ids`). Otherwise the
            client library of a broker chooses them when it sends.
        delays: a message waits until its :attr:`~connector.messaging.message.Message.delivery_time`. A
            remote provider tries that before the first such message, and raises CapabilityError if the broker
            does not keep the time.
        retries_later: a message that is given back waits until
            :attr:`~connector.messaging.settlement.Settlement.due`.
        lots: durable claims of many messages under a name and a number (:attr:`.roles.Taking.lots`).
        own_names: names of destinations are those of a server, which are not the names of directories
            (:func:`~connector.messaging.destination.parse_destination`). As
            :attr:`~connector.messaging.provider_kind.ProviderKind.own_names`.
        min_age: others may write a message in place, so that a poller can wait until it is complete
            (:meth:`.Poller.set_min_age`).
        sends_once: a message is sent once by key (:meth:`.once.SendingOnce.send_once`).
    """

    topics: bool = False
    selectors: bool = False
    temporary_destinations: bool = False
    reliable: bool = True
    virtual_destinations: bool = False
    takeover: bool = True
    transactions: bool = False
    in_progress: bool = True
    shows_all: bool = True
    shares_client_ids: bool = True
    shares_subscriptions: bool = True
    chooses_ids: bool = True
    delays: bool = False
    retries_later: bool = False
    lots: bool = False
    own_names: bool = False
    min_age: bool = False
    sends_once: bool = False


class SessionClient(Receiving, Settling, Browsing, Subscribing, Protocol):
    """What a session of a program needs."""


class Connection(Taking, Recovering, Settling, SendingOnce, Looking, Subscribing, Protocol):
    """The view of one client on a provider. For one thread, except :meth:`close` and :meth:`wake`.

    A topic holds no messages itself. A message sent to a topic goes to every subscription of the topic at
    that moment, to all of them or none. Without a subscription the message goes to nobody. A prepared message
    is sent by the settlement. The subscriptions, their selectors and no-local count as they are at the
    settlement, not as they were at the preparation.

    A connection ends with :meth:`close` or :meth:`abandon`. Then these two and :meth:`wake` do nothing, a
    wait returns at once, and :meth:`Waiter.begin` returns False. Every other method raises ProviderError, and
    so does :meth:`Poller.claim`. :meth:`settle` raises SettlementError, because nothing has happened.
    """


class TransactionalConnection(Connection, Protocol):
    """A connection with the capability ``transactions``.

    The settlement of a transaction also marks its cycle at the broker. So another client can tell whether a
    commit has happened whose answer was lost.
    """

    marks_commits: bool
    """Whether commits are marked. Otherwise nobody can tell, and a committed event may run again."""

    @abstractmethod
    def session_connection(self) -> SessionClient:
        """Returns the connection of a transacted session of its own, on this connection of the broker.

        What the session sends is sent when it is prepared, and gets its id, but nobody sees it before the
        settlement. The new connection ends with this one.

        Raises:
            ProviderError: the connection has failed.
        """

    @abstractmethod
    def arrivals(self, max_body: int) -> Arrivals:
        """Returns a new transaction into which the broker pushes messages.

        Args:
            max_body: bytes of a body. A larger body is not read.

        Raises:
            ProviderError: the connection has failed.
        """

    @abstractmethod
    def hold(self, claims: Sequence[Claim]) -> bool:
        """Moves the messages of a transaction to a queue of the adapter, if the broker soon puts one aside.

        The poller of their input takes them from there first. A claim is then lost. Its message comes again,
        with the same identity. :meth:`settle` does the same instead of a rollback.

        Args:
            claims: of one transaction, which is not settled.

        Returns:
            whether the transaction has ended.

        Raises:
            ProviderError: the connection has failed.
        """

    @abstractmethod
    def note_journal(self, cycle: int) -> None:
        """Notes that a transaction has a journal. The mark of its commit stays until :meth:`forget`."""

    @abstractmethod
    def forget(self, cycles: Set[int]) -> None:
        """Notes that the journals of ended transactions are gone. Nobody needs the marks of their commits.

        Args:
            cycles: of the transactions.
        """

    @abstractmethod
    def refuses(self, destination: Destination, *, asks: bool = True) -> bool:
        """Whether a destination took nothing when it was asked last, with an empty message.

        Args:
            destination: of :attr:`.TransactionRefused.destinations`.
            asks: whether to ask again. The call waits for the answer only shortly.
        """

    @abstractmethod
    def check_delays(self) -> None:
        """Tries whether the broker keeps a delivery delay, unless it has kept one on this connection.

        Raises:
            CapabilityError: the broker does not keep the delay, or the delay cannot be measured.
            ProviderError: the connection has failed.
        """

    @abstractmethod
    def announce(self, in_progress: Destination | None) -> None:
        """Tells the other instances of the application which state they share, before anything is claimed.

        If commits are not marked, only messages in progress tell it.

        Args:
            in_progress: InProgressDestination, or None.

        Raises:
            CapabilityError: another instance uses another state. Or it has left what only an adapter with an
                InProgressDestination settles, or only an adapter without.
            ProviderError: the state or the broker cannot be used.
        """

    @abstractmethod
    def committed_cycles(self, client_id: str) -> Set[int]:
        """Returns the last committed cycles of an ended client, one for each of its sources.

        Raises:
            ProviderError: the broker cannot tell.
        """

    @abstractmethod
    def marked_clients(self) -> Set[str]:
        """Returns the clients with marks, living and ended ones.

        Raises:
            ProviderError: the broker cannot tell.
        """

    @abstractmethod
    def remove_markers(self, client_id: str) -> None:
        """Removes the marks of an ended client.

        Raises:
            ProviderError: the marks cannot be removed.
        """


class Provider(Protocol):
    """The system that holds messages. Made from the ``provider:`` block. Connects to nothing yet.

    Picklable: a worker that makes requests connects with it.
    """

    capabilities: Capabilities

    @abstractmethod
    def state(self, application: str) -> StateStore:
        """Returns the store for records that the instances of an adapter keep beside messages.

        The window of the store has the published keys of every settlement of that application.

        Raises:
            ProviderError: the provider is out of reach.
        """

    @abstractmethod
    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> Connection:
        """Opens a connection. The claims of one connection can be told from those of any other connection.

        Args:
            application, instance: name an adapter. The instances of an adapter share subscriptions and client
                id.
            client_id: of JMS, held as long as the connection lives. Empty = none.
            origin: the messages of connections with an equal origin are *local* to each other, for
                ``no_local``. Empty = the client id, or without a client id this connection alone.

        Raises:
            ClientIdError: another connection holds the client id. An adapter shares its client id with its
                own instances.
            ProviderError: the provider is out of reach. A service waits for it.
            ProviderMisconfigured: the configuration is wrong, for example the password. The start ends.
        """
