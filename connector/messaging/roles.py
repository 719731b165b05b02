"""The roles of a client of a provider: take, settle, look, subscribe, recover.

A :class:`~connector.messaging.provider.Connection` has all roles. A session on a connection of a broker has
those of a :class:`~connector.messaging.provider.SessionClient`. A function asks for the role that it uses.

A provider inherits from the roles that it has, and implements all their methods.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from connector.messaging.access import AccessSpec
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.lot import LotTaking
from connector.messaging.message import Message
from connector.messaging.notes import OwnerNote
from connector.messaging.polling import Poller, Waiter
from connector.messaging.retention import Pruned, Retention
from connector.messaging.settlement import GroupSettlement, Prepared, Settlement
from connector.messaging.subscription import DestinationInfo, SubscriptionInfo, TopicSubscription


class ProviderClient(Protocol):
    """What every client of a provider is. The base of the roles."""

    client_id: str
    """Names this client in claims. Unique for every start of every process. Not the client id of JMS."""

    @abstractmethod
    def check(self) -> None:
        """Checks that the provider is still there. Cheap, called whenever no message waits.

        Raises:
            ProviderError: the provider is out of reach.
        """

    @abstractmethod
    def access(self) -> AccessSpec:
        """Returns the recipe by which a task reads the claims of this client and prepares messages."""

    @abstractmethod
    def close(self) -> None:
        """Ends the connection with all its pollers and temporary destinations.

        The caller has settled or given back the claims before: this method gives nothing back. A claim that
        is still open waits for a client that starts and takes over (:meth:`Recovering.leftovers`). If that
        client does not settle the claim, the message comes again, counted as one more delivery. Without the
        capability ``takeover`` the message comes back at once.
        """

    @abstractmethod
    def abandon(self) -> None:
        """Ends the connection as a crash would. The claims wait for a client that takes over.

        Without the capability ``takeover`` the claims come back at once.
        """


class Receiving(ProviderClient, Protocol):
    """Claims messages by pollers, and waits for messages."""

    @abstractmethod
    def poller(
        self,
        source: Destination | TopicSubscription,
        in_progress: Destination | None = None,
        *,
        selector: str = "",
        by_group: bool = False,
    ) -> Poller:
        """Returns a poller of a queue or a subscription.

        A subscription is made, or attached to, by the rules of Qpid JMS.

        A message in an in-progress destination is taken from there as any other one, but only if it has no
        owner (:meth:`Looking.owners`). A broker's poller of an adapter is excepted: it takes all.

        A message holds its group (JMSXGroupID) in the queue or subscription that it was claimed from: as long
        as a client owns the message, and while the message waits in an in-progress destination
        (:attr:`Claim.waits`). A dead client owns its claims until another client has settled, left or adopted
        them.

        Args:
            source: a queue, a virtual destination that is not ``PROCESSING``, or a subscription.
            in_progress: the queue that a claim moves the message to. This and ``source`` are two whole
                queues. None = the claimed message stays.
            selector: text of a message selector, for a queue. Empty = all messages. Other messages stay. The
                selector is evaluated before a message is taken, without the body. A subscription has its own
                selector.
            by_group: claim no message of a group that a message of another client, or of nobody, holds. Such
                messages stay, and do not count as waiting. A message that another client is about to take
                stays before its group: later messages of the group stay, too. No effect at a provider that
                does not know the groups of other clients.

        Raises:
            CapabilityError: the provider cannot poll ``source``, or ``in_progress`` is a topic, a virtual
                destination or ``source`` itself.
            SelectorError: the selector, or that of the subscription, is not valid.
            SubscriptionError: another subscription, or a consumer, is in the way.
            ProviderError: the poller or the subscription cannot be made.
        """

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Waits ``seconds`` at most until a message may have arrived for a poller of this connection."""

    @abstractmethod
    def wake(self) -> None:
        """Makes the current wait, or else the next wait, return at once. From any thread, repeatable.

        This concerns :meth:`wait` and :meth:`Waiter.wait`. The waiting thread sees everything that another
        thread has changed before this call. Several calls before one wait count as one call. Never raises.
        Does nothing after :meth:`close`.
        """


class Taking(Receiving, Protocol):
    """Also takes lots, and takes for an adapter and for an operator."""

    @abstractmethod
    def waiter(self) -> Waiter | None:
        """Returns the waiter, always the same object. None if the provider cannot report arrivals."""

    @abstractmethod
    def picker(self, queue: Destination, wanted: Callable[[Message], bool]) -> Poller:
        """Returns a poller for an operator: it takes the messages that ``wanted`` picks, and no others.

        It takes no message that has an owner (:meth:`Looking.owners`). No message is put aside: an expired
        message is taken, too. A broker's poller takes no message that comes after this call.

        Args:
            queue: a queue, or a virtual destination that is not ``PROCESSING``.
            wanted: says by headers and properties whether a message is taken. Called at any time, more than
                once for a message. Claims of a broker may include another message with the id of a message
                that was picked.

        Raises:
            CapabilityError: the provider cannot do this, or not with ``queue``.
            UnknownDestination: there is no such queue. Some brokers make it instead.
            ProviderError: the poller cannot be made.
        """

    @property
    @abstractmethod
    def lots(self) -> LotTaking:
        """The lots of this client.

        Raises:
            CapabilityError: the provider has no lots.
            ProviderError: the connection has ended.
        """


class Settling(ProviderClient, Protocol):
    """Settles claims and sends messages."""

    @property
    @abstractmethod
    def sent_ids(self) -> str:
        """A LIKE pattern, escape character ``\\``, of the JMSMessageIDs of all messages sent by this client.

        The ids contain the id of the client. The pattern matches every message that the connection sends or
        prepares, with or without the leading ``ID:``. That includes messages of an access on another machine.
        The pattern matches no message of another client. So a client takes only the replies to its own
        requests by the selector ``JMSCorrelationID LIKE '...' ESCAPE '\\'``. The pattern has no quotation
        mark.

        Raises:
            CapabilityError: without the capability ``chooses_ids``, except of a session, where it is empty.
        """

    @abstractmethod
    def settle(
        self,
        settlements: Sequence[Settlement | GroupSettlement],
        sends: Sequence[Prepared] = (),
        discards: Sequence[Prepared] = (),
        *,
        fenced: bool = False,
    ) -> None:
        """Settles all, or none: one commit record, synced once, then rolled forward.

        With the capability ``transactions`` the claims of one poller and cycle are one transaction. The
        settlements name all claims of a transaction. Either none of them is given back, or all are. All are
        given back by a rollback: then nothing is copied or sent, and the count and the properties of the
        settlements are not kept. Several transactions in one call are committed one after the other. A
        refused message rolls its transaction back: TransactionRefused, and its claims are lost.

        Messages prepared for a temporary destination that has ended are dropped with that destination. They
        do not stop the settlement.

        Args:
            settlements: of claims. Each claim is in one of them.
            sends, discards: prepared messages that belong to no claim. An access that still has to sync a
                discarded message is told by :meth:`~connector.messaging.access.MessageAccess.discard`. A
                discarded message that is gone is skipped. By value there is nothing to discard.
            fenced: check first that every claim still belongs to this client.

        Raises:
            SettlementOpen: only at a broker. A message has not come, a destination takes nothing now, or the
                broker refuses a message for good. The caller settles the same claims again, and nothing has
                gone back. Those that are refused for good are settled in another way.
            ClaimLost: nothing has happened. A claim does not belong to this client any more (``fenced``, or
                the only claim). Or a message to be sent was sent or discarded before, which cannot be found
                out by value.
            SettlementError: nothing has happened, because the error came before the commit point. The text
                names the destination that cannot be written and the remedy, or says that the connection has
                ended.
            ProviderError: the error came after the commit point. The client that recovers finishes the
                settlement. Or the connection to a broker broke in the commit, and the outcome is unknown:
                messages that were not committed come again.
        """

    @abstractmethod
    def send(self, destination: Destination, messages: Iterable[Message]) -> list[str]:
        """Sends messages, all visible or none, durable first. Returns their ids.

        Each message gets an id, which is set in the message, and a delivery count of 1. A property
        ``JMSXDeliveryCount`` of the sender is dropped (JMS 2.0, 3.5.9). A local provider drops all properties
        ``JMSX...`` that are not of senders (:data:`.message.OF_SENDERS`). The same holds for
        :meth:`~connector.messaging.access.MessageAccess.prepare`, which sets no id by value.

        A broker's client sends a time to live (JMS 2.0, 3.4.9). Then the expiration may become later, by at
        most the duration of the call, and is set in the message.

        Raises:
            ValueError: a message is not valid (:meth:`Message.check`). Nothing was sent.
            ProviderError: nothing was sent.
        """


class Subscribing(ProviderClient, Protocol):
    """Ends durable subscriptions. Makes and ends temporary destinations.

    A subscription begins with its first poller (:meth:`Receiving.poller`).
    """

    @abstractmethod
    def unsubscribe(self, name: str, client_id: str = "") -> SubscriptionInfo:
        """Removes a durable subscription, shared or not, with all messages, also those put aside.

        Returns:
            the subscription as it was at its end. A warning in the log gives the numbers of messages.

        Raises:
            SubscriptionError: there is no subscription of this name, or it has a consumer or an
                unacknowledged message.
        """

    @abstractmethod
    def temporary(self, kind: str) -> Destination:
        """Makes a temporary ``queue`` or ``topic``, which ends with this connection.

        Any client may send to the destination.

        After a crash of this client no client sends to the destination or consumes from it any more. The
        destination stays visible until a client takes over.

        Raises:
            CapabilityError: the provider has no temporary destinations.
        """

    @abstractmethod
    def delete_temporary(self, destination: Destination) -> None:
        """Ends a temporary destination of this connection, with all messages in it.

        Claimed messages of the destination go, too: they cannot be read or settled any more. A poller of
        another connection raises ProviderError from then on. The end of the connection has the same effect.

        Raises:
            DestinationError: the destination is not temporary, belongs to another connection, or has ended.
            SubscriptionError: the destination has a consumer, of this connection or another of its origin.
        """


class Browsing(ProviderClient, Protocol):
    """Reads messages and takes none."""

    @abstractmethod
    def browse(
        self,
        destination: Destination,
        unreadable: Callable[[Message, str], object] | None = None,
        *,
        delayed: bool = False,
        ids: Collection[str] | None = None,
    ) -> Iterator[Message]:
        """Yields waiting and claimed messages, in the order in which they would be taken.

        Claimed messages are missing without the capability ``shows_all``.

        A message that was claimed from a virtual destination is in progress in the queue. The message is
        seen, and counted, in the queue and in ``~PROCESSING``, but in no other virtual destination.

        Args:
            unreadable: called with each message that cannot be read, and with the reason. A message that has
                lost headers is also returned. A message whose body cannot be read is not returned.
            delayed: yield the delayed messages instead, whose
                :attr:`~connector.messaging.message.Message.delivery_time` has not come. None without the
                capability ``delays``.
            ids: yield only the messages that have one of these JMSMessageIDs, or were sent for such a
                message, in any order. With or without ``ID:``. A message that was sent for others names them
                in ``connector_event_id``. Where many messages wait, this is quicker. A provider of files
                also finds the names of files. None = all messages.

        Raises:
            UnknownDestination: there is no such destination. Raised by the call, not by the first message.
        """


class Looking(Browsing, Protocol):
    """Also sees what there is, and who owns it."""

    @abstractmethod
    def owners(self, queue: Destination) -> Mapping[str, Sequence[OwnerNote]]:
        """Returns the owners of the messages in a queue, by JMSMessageID: one for each message that has one.

        An owner is another client that has claimed the message, from the queue or into it as an in-progress
        destination, or a lot. The client lives, or nobody has taken over from it yet: its tasks may still
        run. So no operator gets the message. A message that is in doubt, or that waits
        (:attr:`Claim.waits`), has no owner. A broker does not tell what it has lent.

        Args:
            queue: a queue. Empty if there is none.

        Raises:
            ProviderError: the provider cannot be read.
        """

    @abstractmethod
    def names(self) -> Sequence[Destination]:
        """Returns all queues and topics, also temporary ones, by kind and name. No virtual destinations."""

    @abstractmethod
    def destinations(self) -> Sequence[DestinationInfo]:
        """Returns queues and topics, by kind and name: no virtual ones, temporary ones of this client."""

    @abstractmethod
    def subscriptions(self) -> Sequence[SubscriptionInfo]:
        """Returns all subscriptions of every client, by topic, name and client id.

        Returns none if a broker does not tell. The same holds for :meth:`names` and :meth:`destinations`, but
        for the queues that lots were taken from.
        """


class Recovering(Settling, Protocol):
    """Takes over from dead clients, and removes what is over."""

    @abstractmethod
    def leftovers(self, in_progress: Destination | None, *, at_start: bool) -> Iterator[Leftover]:
        """Yields the dead clients that this client takes over from, after finishing their committed records.

        These are dead clients that are no adapter, or of this client's application. Each of them belongs to
        this client until it is forgotten or released, or until this connection ends. Yields none without the
        capability ``takeover``.

        Args:
            in_progress: the in-progress destination of this adapter, if any.
            at_start: also yield clients of which only claims are left. An example is a client that was closed
                with open claims.

        Raises:
            ProviderError: a committed record cannot be finished.
        """

    @abstractmethod
    def find_unowned(self, in_progress: Destination) -> Sequence[Claim]:
        """Returns messages in an in-progress destination that no known client owns, also those that wait.

        A message that does not name its original queue belongs to the in-progress destination itself.
        """

    @abstractmethod
    def adopt(self, claim: Claim, cycle: int, sequence: int) -> Claim | None:
        """Claims a message that lies in an in-progress destination without a living owner.

        Returns None if the message is gone.

        Without the capability ``in_progress``, this method, :meth:`leave_unowned` and :meth:`find_unowned`
        find nothing.

        The message counts as delivered once more, because it may have been delivered. A message that waits
        (:attr:`Claim.waits`), or that :meth:`leave_unowned` has counted, is not counted again.

        Raises:
            SettlementOpen: a broker does not give the message, and has not said that it is gone.
            ProviderError: the message cannot be taken.
        """

    @abstractmethod
    def leave_unowned(self, claim: Claim) -> None:
        """Leaves a dead client's message in an in-progress destination, without an owner.

        The message counts as delivered once more, because it may have been delivered. A client that moves the
        message back sees this count. A message that waits, or was left before, does not count again. A
        message that is gone is skipped.

        Raises:
            ProviderError: the message cannot be renamed.
        """

    @abstractmethod
    def prune(self, retentions: Sequence[Retention] = (), *, seconds: float = 0.5) -> Pruned:
        """Removes messages whose retention is over. A copy that a client has claimed stays.

        The provider decides how often it really looks.

        Args:
            retentions: of queues that have copies of an adapter. A client that is no adapter removes none.
            seconds: time limit, approximate.
        """


class Leftover(Protocol):
    """A dead client with open claims. Held by one client until it is forgotten or released."""

    client_id: str
    application: str
    instance: str
    declared_dead: bool
    """Whether an operator has declared the client dead. Then the wait for its tasks has a limit."""
    claims: Sequence[Claim]
    """The open claims, in the order in which they were taken."""

    @abstractmethod
    def forget(self) -> None:
        """Removes the last traces of the dead client.

        If a claim is still not settled, the message comes again, as one more delivery. A message in an
        in-progress destination stays there without an owner.
        """

    @abstractmethod
    def release(self) -> None:
        """Leaves the dead client to the next client that looks."""
