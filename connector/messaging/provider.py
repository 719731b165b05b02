"""The contract between a provider and the rest of the adapter.

A provider holds messages. Clients get messages by *claiming*. A claim belongs to one client until
:meth:`Connection.settle` settles the claim. One commit settles all claims of a batch.

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

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from connector.errors import CapabilityError
from connector.messaging.access import AccessSpec
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.history import about
from connector.messaging.lot import Lot, LotInfo, LotPosition
from connector.messaging.message import Message
from connector.messaging.notes import OwnerNote
from connector.messaging.polling import Arrivals, Poller, Waiter
from connector.messaging.retention import Pruned, Retention
from connector.messaging.settlement import GroupSettlement, Prepared, Settlement
from connector.messaging.state_store import StateStore
from connector.messaging.subscription import DestinationInfo, SubscriptionInfo, TopicSubscription


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
            together, or all are given back (:meth:`Connection.settle`). A message that comes again is as its
            sender made it: the broker forgets counts and properties of a settlement that gives back. The
            adapter keeps them in its own state.
        shows_all: claimed messages can be browsed, and a poller counts expired messages. Otherwise the broker
            shows only waiting messages, and puts expired messages aside itself.
        shares_client_ids: the instances of an adapter have one client id, and so its subscriptions. Otherwise
            a client id belongs to one connection, and instances share a subscription without a client id.
        shares_subscriptions: several connections can use one subscription.
        chooses_ids: the ids of one client have a pattern (:attr:`Connection.sent_ids`). Otherwise the client
            library of a broker chooses them when it sends.
        delays: a message waits until its :attr:`~connector.messaging.message.Message.delivery_time`. A
            remote provider tries that before the first such message, and raises CapabilityError if the broker
            does not keep the time.
        retries_later: a message that is given back waits until
            :attr:`~connector.messaging.settlement.Settlement.due`.
        lots: durable claims of many messages under a name and a number (:meth:`Connection.claim_lot`).
        own_names: names of destinations are those of a server, which are not the names of directories
            (:func:`~connector.messaging.destination.parse_destination`). As
            :attr:`~connector.messaging.provider_kind.ProviderKind.own_names`.
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


class Connection(Protocol):
    """The view of one client on a provider. For one thread, except :meth:`close` and :meth:`wake`.

    A topic holds no messages itself. A message sent to a topic goes to every subscription of the topic at
    that moment, to all of them or none. Without a subscription the message goes to nobody. A prepared message
    is sent by the settlement. The subscriptions, their selectors and no-local count as they are at the
    settlement, not as they were at the preparation.

    A connection ends with :meth:`close` or :meth:`abandon`. Then these two and :meth:`wake` do nothing, a
    wait returns at once, and :meth:`Waiter.begin` returns False. Every other method raises ProviderError, and
    so does :meth:`Poller.claim`. :meth:`settle` raises SettlementError, because nothing has happened.
    """

    client_id: str
    """Names this client in claims. Unique for every start of every process. Not the client id of JMS."""

    @property
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

    # -- take ----------------------------------------------------------------------------------------

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
        owner (:meth:`owners`). A broker's poller of an adapter is excepted: it takes all.

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

    def picker(self, queue: Destination, wanted: Callable[[Message], bool]) -> Poller:
        """Returns a poller for an operator: it takes the messages that ``wanted`` picks, and no others.

        It takes no message that has an owner (:meth:`owners`). No message is put aside: an expired message is
        taken, too. A broker's poller takes no message that comes after this call.

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
        raise CapabilityError("the provider cannot pick messages")

    def wait(self, seconds: float) -> None:
        """Waits ``seconds`` at most until a message may have arrived for a poller of this connection."""

    def waiter(self) -> Waiter | None:
        """Returns the waiter, always the same object. None if the provider cannot report arrivals."""

    def wake(self) -> None:
        """Makes the current wait, or else the next wait, return at once. From any thread, repeatable.

        This concerns :meth:`wait` and :meth:`Waiter.wait`. The waiting thread sees everything that another
        thread has changed before this call. Several calls before one wait count as one call. Never raises.
        Does nothing after :meth:`close`.
        """

    # -- settle and send -----------------------------------------------------------------------------

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

    def access(self) -> AccessSpec:
        """Returns the recipe by which a task reads the claims of this client and prepares messages."""

    # -- lots ----------------------------------------------------------------------------------------

    def claim_lot(
        self,
        destination: Destination,
        name: str,
        limit: int,
        *,
        number: int | None = None,
        selector: str = "",
    ) -> Lot | None:
        """Returns the lot of a name that is not settled, or makes a new lot of waiting messages.

        The first call makes this connection the owner of the name, until the connection ends. The lot stays.
        No poller gets its messages, and who takes over from dead clients leaves them alone. The next owner of
        the name gets the same lot, with the same number and the same messages.

        Args:
            destination: a queue.
            name: of the lot, for example of the program that takes lots. One name is for one queue at a time.
            limit: the largest number of messages of a new lot, from 1. At a broker a lot also has no more
                messages than a transaction.
            number: return the lot of this number, and make no new one. None = any.
            selector: of the messages of a new lot. Empty = all messages.

        Returns:
            the lot. None = no message waits.

        Raises:
            LotError: another client owns the name. Or the name has a lot of another queue. Or a message of
                the lot is gone. Or the lot ``number`` is settled or does not exist.
            CapabilityError: the provider has no lots, or the destination is a topic, virtual or temporary.
            ValueError: the name is empty, or the limit is less than 1.
            SelectorError: the selector is wrong.
            ProviderError: the provider failed. A message that it has taken is in the next lot.
        """
        raise CapabilityError("the provider has no lots: use a poller")

    def lot_position(self, destination: Destination, name: str) -> LotPosition:
        """Returns the place of a name in its sequence, and begins the sequence if there is none.

        The connection becomes the owner of the name, as by :meth:`claim_lot`.

        Raises:
            LotError, CapabilityError, ProviderError: as :meth:`claim_lot`.
        """
        raise CapabilityError("the provider has no lots: use a poller")

    def give_back_lot(self, name: str) -> LotInfo:
        """Ends the lot of a name by hand: its messages wait again in their queue, as one more delivery.

        Returns:
            the lot as it was.

        Raises:
            LotError: the name has no lot that is not settled, or another client owns the name.
            CapabilityError: the provider has no lots.
            ProviderError: the messages cannot be given back.
        """
        raise CapabilityError("the provider has no lots")

    # -- look ----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Checks that the provider is still there. Cheap, called whenever no message waits.

        Raises:
            ProviderError: the provider is out of reach.
        """

    def browse(
        self,
        destination: Destination,
        unreadable: Callable[[Message, str], object] | None = None,
        *,
        delayed: bool = False,
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

        Raises:
            UnknownDestination: there is no such destination. Raised by the call, not by the first message.
        """

    def find(self, queue: Destination, ids: Collection[str], *, delayed: bool = False) -> Iterator[Message]:
        """Yields the messages of :meth:`browse` that have one of some ids, or were sent for such a message.

        A message that was sent for others names them in ``connector_event_id``. Where many messages wait,
        this is quicker than :meth:`browse`. The messages come in any order.

        Args:
            ids: JMSMessageIDs, with or without ``ID:``.
            delayed: as for :meth:`browse`.

        Raises:
            UnknownDestination: there is no such queue. Raised by the call, not by the first message.
        """
        return about(self.browse(queue, delayed=delayed), ids)

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
        return {}

    def names(self) -> Sequence[Destination]:
        """Returns all queues and topics, also temporary ones, by kind and name. No virtual destinations."""

    def destinations(self) -> Sequence[DestinationInfo]:
        """Returns queues and topics, by kind and name: no virtual ones, temporary ones of this client."""

    def subscriptions(self) -> Sequence[SubscriptionInfo]:
        """Returns all subscriptions of every client, by topic, name and client id.

        Returns none if a broker does not tell. The same holds for :meth:`names` and :meth:`destinations`, but
        for the queues that lots were taken from.
        """

    # -- subscriptions and destinations that end -----------------------------------------------------

    def unsubscribe(self, name: str, client_id: str = "") -> SubscriptionInfo:
        """Removes a durable subscription, shared or not, with all messages, also those put aside.

        Returns:
            the subscription as it was at its end. A warning in the log gives the numbers of messages.

        Raises:
            SubscriptionError: there is no subscription of this name, or it has a consumer or an
                unacknowledged message.
        """

    def temporary(self, kind: str) -> Destination:
        """Makes a temporary ``queue`` or ``topic``, which ends with this connection.

        Any client may send to the destination.

        After a crash of this client no client sends to the destination or consumes from it any more. The
        destination stays visible until a client takes over.

        Raises:
            CapabilityError: the provider has no temporary destinations.
        """

    def delete_temporary(self, destination: Destination) -> None:
        """Ends a temporary destination of this connection, with all messages in it.

        Claimed messages of the destination go, too: they cannot be read or settled any more. A poller of
        another connection raises ProviderError from then on. The end of the connection has the same effect.

        Raises:
            DestinationError: the destination is not temporary, belongs to another connection, or has ended.
            SubscriptionError: the destination has a consumer, of this connection or another of its origin.
        """

    # -- recover -------------------------------------------------------------------------------------

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

    def find_unowned(self, in_progress: Destination) -> Sequence[Claim]:
        """Returns messages in an in-progress destination that no known client owns, also those that wait.

        A message that does not name its original queue belongs to the in-progress destination itself.
        """

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

    def leave_unowned(self, claim: Claim) -> None:
        """Leaves a dead client's message in an in-progress destination, without an owner.

        The message counts as delivered once more, because it may have been delivered. A client that moves the
        message back sees this count. A message that waits, or was left before, does not count again. A
        message that is gone is skipped.

        Raises:
            ProviderError: the message cannot be renamed.
        """

    def prune(self, retentions: Sequence[Retention] = (), *, seconds: float = 0.5) -> Pruned:
        """Removes messages whose retention is over. A copy that a client has claimed stays.

        The provider decides how often it really looks.

        Args:
            retentions: of queues that have copies of an adapter. A client that is no adapter removes none.
            seconds: time limit, approximate.
        """

    # -- end -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the connection with all its pollers and temporary destinations.

        The caller has settled or given back the claims before: this method gives nothing back. A claim that
        is still open waits for a client that starts and takes over (:meth:`leftovers`). If that client does
        not settle the claim, the message comes again, counted as one more delivery. Without the capability
        ``takeover`` the message comes back at once.
        """

    def abandon(self) -> None:
        """Ends the connection as a crash would. The claims wait for a client that takes over.

        Without the capability ``takeover`` the claims come back at once.
        """


class TransactionalConnection(Connection, Protocol):
    """A connection with the capability ``transactions``.

    The settlement of a transaction also marks its cycle at the broker. So another client can tell whether a
    commit has happened whose answer was lost.
    """

    marks_commits: bool
    """Whether commits are marked. Otherwise nobody can tell, and a committed event may run again."""

    def session_connection(self) -> Connection:
        """Returns the connection of a transacted session of its own, on this connection of the broker.

        What the session sends is sent when it is prepared, and gets its id, but nobody sees it before the
        settlement. The new connection ends with this one.

        Raises:
            ProviderError: the connection has failed.
        """

    def arrivals(self, max_body: int) -> Arrivals:
        """Returns a new transaction into which the broker pushes messages.

        Args:
            max_body: bytes of a body. A larger body is not read.

        Raises:
            ProviderError: the connection has failed.
        """

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

    def note_journal(self, cycle: int) -> None:
        """Notes that a transaction has a journal. The mark of its commit stays until :meth:`forget`."""

    def forget(self, cycles: Set[int]) -> None:
        """Notes that the journals of ended transactions are gone. Nobody needs the marks of their commits.

        Args:
            cycles: of the transactions.
        """

    def refuses(self, destination: Destination, *, asks: bool = True) -> bool:
        """Whether a destination took nothing when it was asked last, with an empty message.

        Args:
            destination: of :attr:`.TransactionRefused.destinations`.
            asks: whether to ask again. The call waits for the answer only shortly.
        """

    def check_delays(self) -> None:
        """Tries whether the broker keeps a delivery delay, unless it has kept one on this connection.

        Raises:
            CapabilityError: the broker does not keep the delay, or the delay cannot be measured.
            ProviderError: the connection has failed.
        """

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

    def committed_cycles(self, client_id: str) -> Set[int]:
        """Returns the last committed cycles of an ended client, one for each of its sources.

        Raises:
            ProviderError: the broker cannot tell.
        """

    def marked_clients(self) -> Set[str]:
        """Returns the clients with marks, living and ended ones.

        Raises:
            ProviderError: the broker cannot tell.
        """

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

    def state(self, application: str) -> StateStore:
        """Returns the store for records that the instances of an adapter keep beside messages.

        The window of the store has the published keys of every settlement of that application.

        Raises:
            ProviderError: the provider is out of reach.
        """

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


class Leftover(Protocol):
    """A dead client with open claims. Held by one client until it is forgotten or released."""

    client_id: str
    application: str
    instance: str
    declared_dead: bool
    """Whether an operator has declared the client dead. Then the wait for its tasks has a limit."""
    claims: Sequence[Claim]
    """The open claims, in the order in which they were taken."""

    def forget(self) -> None:
        """Removes the last traces of the dead client.

        If a claim is still not settled, the message comes again, as one more delivery. A message in an
        in-progress destination stays there without an owner.
        """

    def release(self) -> None:
        """Leaves the dead client to the next client that looks."""
