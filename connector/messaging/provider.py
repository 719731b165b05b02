"""The contract between a provider and the rest of the adapter.

A provider is where messages live. It hands them out by *claiming*: a claim belongs to one client, until
:meth:`Connection.settle` settles it. One commit settles all claims of a batch.

A local provider stores the messages itself. A claim survives a crash of its client and names it, so that any
other client can tell a dead client's claims from a neighbour's, and takes over.

A remote provider lends messages from a broker to a connection. What the connection has not settled comes back
by itself when the connection ends. Nobody takes over. The commit is a transaction of the broker. Most brokers
give back all messages of a transaction or none, and count that as a delivery of each. The provider keeps that
from whoever uses it: :meth:`Connection.settle` says how. The capabilities ``takeover``, ``by_value``,
``in_progress`` and ``shows_all`` name what a remote provider does otherwise.

Two halves. The :class:`Connection` lives in the driver. :class:`MessageAccess` is what a Spark
task needs: it is made from a picklable :class:`AccessSpec`, opens no connection that outlives the
task's process, and only reads claimed messages and prepares new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.retention import Pruned, Retention
from connector.messaging.settlement import GroupSettlement, Prepared, Settlement
from connector.messaging.subscription import DestinationInfo, SubscriptionInfo, TopicSubscription
from connector.state.store import StateStore


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a provider is able to do. Asking for more is an error at start.

    Args:
        topics, selectors, temporary_destinations: as their names say; topics include every kind of
            subscription.
        reliable: persistent messages survive a crash of every process.
        virtual_destinations: ``orders~EXPIRED`` and the like.
        takeover: claims outlive their client, and another client takes over from a dead one. Otherwise they
            come back when their connection ends, each with one delivery more, and there are no leftovers.
        by_value: a claim and a prepared message carry the whole message, in
            :attr:`~connector.messaging.claim.Claim.reference` and
            :attr:`~connector.messaging.settlement.Prepared.handle`. They can be read and sent whatever has
            become of the message. What is prepared gets its id when it is sent.
        in_progress: taking can be a move to an in-progress destination.
        shows_all: messages that are claimed can be browsed, and a poller counts those that have expired.
            Otherwise the broker shows those that wait, and puts expired ones aside itself.
    """

    topics: bool = False
    selectors: bool = False
    temporary_destinations: bool = False
    reliable: bool = True
    virtual_destinations: bool = False
    takeover: bool = True
    by_value: bool = False
    in_progress: bool = True
    shows_all: bool = True


class Poller(Protocol):
    """Claims messages of one destination, highest priority first, then oldest.

    A provider's class inherits from this one, and so has :meth:`take`.
    """

    destination: Destination
    expired: int
    """Messages found expired since the poller was made; 0 without ``shows_all``.

    A message that has expired, or was delivered too often, is put aside before a selector is asked.
    """

    def claim(self, cycle: int, numbers: range) -> Sequence[Claim]:
        """Claims up to ``len(numbers)`` messages. Never blocks.

        A failure after the first claim ends the list, because those claims are this client's. The next call
        raises the failure and claims nothing.

        Args:
            cycle: the cycle of the claims.
            numbers: the first claim gets the first number as its sequence, the second claim the second
                number, and so on. The numbers rise. A connection uses a pair of cycle and number once.

        Returns:
            the claims in the order of their numbers. Fewer than asked for only where nothing more waits, or
            after a failure; empty where nothing waits.

        Raises:
            ProviderError: the destination cannot be read, or the poller is closed.
        """

    def take(self, cycle: int, sequence: int) -> Claim | None:
        """Claims one message, as :meth:`claim`; None where nothing waits."""
        claims = self.claim(cycle, range(sequence, sequence + 1))
        return claims[0] if claims else None

    def close(self) -> None:
        """Takes no more. A consumer leaves its subscription; one that is not durable ends with its last.

        Whoever asks for that subscription afterwards gets nothing that waited in it before. What was claimed
        then may come again.

        Repeatable. Claims taken before stay claims, to be settled or given back first where they are of a
        subscription that ends.
        """


class Waiter(Protocol):
    """Tells that messages have come for the pollers of a connection. For the thread of that connection.

    Whoever polls calls :meth:`begin`, polls, and then waits. A message that comes after :meth:`begin` may be
    told although the poll has taken it. One may also come untold: whoever waits polls from time to time all
    the same. What the connection itself gives back is not told.
    """

    def begin(self) -> bool:
        """A poll begins: what has come until now is told no more, because the poll sees it.

        Returns:
            whether all is watched that the pollers take from; False where something can only be polled.
        """

    def wait(self, seconds: float) -> bool:
        """Waits until a message has come, or :meth:`Connection.wake` ends the wait; ``seconds`` at most.

        Returns:
            whether a message has come since :meth:`begin`. Also True where the connection has ended.
        """


class Connection(Protocol):
    """A provider as one client sees it. For one thread, except :meth:`close` and :meth:`wake`.

    A topic has no messages of its own: what is sent to it is there for every subscription that it has at
    that moment, for all of them or none, and for nobody where it has none. What was prepared is sent when it
    is settled: the subscriptions, their selectors and no-local count as they are then, not as they were when
    it was prepared.

    A connection ends with :meth:`close` or :meth:`abandon`. Then these two and :meth:`wake` do nothing, a
    wait returns at once, and :meth:`Waiter.begin` says False. Every other method raises ProviderError, and
    :meth:`settle` SettlementError, because nothing has happened. So does :meth:`Poller.claim`.
    """

    client_id: str
    """Names this client in claims; unique for every start of every process. Not the client id of JMS."""

    @property
    def sent_ids(self) -> str:
        """A LIKE pattern, escape character ``\\``, of the JMSMessageIDs of all messages sent by this client.

        The ids carry the client's: whatever the connection sends or prepares, an access of it on another
        machine too, matches, with or without the leading ``ID:``; nothing that another client sends does.
        So who awaits replies takes those to its own requests, and no neighbour's, by the selector
        ``JMSCorrelationID LIKE '...' ESCAPE '\\'``. It has no quotation mark.
        """

    def poller(
        self,
        source: Destination | TopicSubscription,
        in_progress: Destination | None = None,
        *,
        selector: str = "",
    ) -> Poller:
        """Takes from a queue, or from a subscription, which is made or attached to by the rules of Qpid JMS.

        Args:
            source: a queue, a virtual destination that is not ``PROCESSING``, or a subscription.
            in_progress: taking is the move there. It and ``source`` are two whole queues. None = the claimed
                message stays where it is.
            selector: text of a message selector, for a queue; empty = all messages. The others stay. It is
                asked before a message is taken, without its body. A subscription has its own.

        Raises:
            CapabilityError: the provider cannot poll it, or ``in_progress`` is a topic, a virtual destination
                or ``source`` itself.
            SelectorError: the selector, or that of the subscription, is not valid.
            SubscriptionError: another subscription, or a consumer of it, is in the way.
            ProviderError: it cannot be made.
        """

    def unsubscribe(self, name: str, client_id: str = "") -> SubscriptionInfo:
        """Removes a durable subscription, shared or not, with its messages, put aside ones included.

        Returns:
            It as it was at its end; a warning in the log says what it kept.

        Raises:
            SubscriptionError: there is none of this name, it has a consumer, or a message of it is not
                acknowledged yet.
        """

    def subscriptions(self) -> Sequence[SubscriptionInfo]:
        """All subscriptions, of every client, by topic, name and client id.

        Of a remote provider this, :meth:`names` and :meth:`destinations` are what its broker tells.
        """

    def names(self) -> Sequence[Destination]:
        """All queues and topics, by kind and name; no virtual ones. Temporary ones are among them."""

    def destinations(self) -> Sequence[DestinationInfo]:
        """All queues and topics, by kind and name; no virtual ones, temporary ones of this client only."""

    def temporary(self, kind: str) -> Destination:
        """A new ``queue`` or ``topic`` that anybody may send to, and that ends with this connection.

        Where that dies, nobody sends to it or consumes from it any more. What can be seen of it goes when
        somebody takes over.

        Raises:
            CapabilityError: the provider has none.
        """

    def delete_temporary(self, destination: Destination) -> None:
        """Ends a temporary destination of this connection, with its messages.

        A message of it that is claimed goes, too: it cannot be read or settled any more. A poller of another
        connection raises ProviderError from then on. So it is when the connection ends.

        Raises:
            DestinationError: it is none, somebody else's, or has ended.
            SubscriptionError: it has a consumer, of this connection or another of its origin.
        """

    def wait(self, seconds: float) -> None:
        """Waits until something may have come for a poller of this connection; ``seconds`` at most."""

    def waiter(self) -> Waiter | None:
        """What tells that messages have come; always the same one. None where the provider cannot tell."""

    def wake(self) -> None:
        """Lets a wait return at once: the one under way, or else the next. From any thread, repeatable.

        That is :meth:`wait` or :meth:`Waiter.wait`. So what another thread has changed before is seen by
        whoever waits. Several before one wait are one. Never raises; after :meth:`close` it does nothing.
        """

    def check(self) -> None:
        """Whether the provider is still there; cheap, asked whenever nothing waits.

        Raises:
            ProviderError: it is out of reach.
        """

    def adopt(self, claim: Claim, cycle: int, sequence: int) -> Claim | None:
        """Claims a message of an in-progress destination that has no living owner; None where it is gone.

        This one, :meth:`leave` and :meth:`unowned` find nothing without the capability ``in_progress``.

        It counts as delivered once more, because it may have been. One that waits (:attr:`Claim.waits`), or
        that was counted when it was left there, does not.

        Raises:
            ProviderError: it cannot be taken.
        """

    def leave(self, claim: Claim) -> None:
        """Lets a dead client's message in an in-progress destination lie there, without an owner.

        It counts as delivered once more, because it may have been: whoever moves it back is told so. One that
        waits, or was left before, does not. One that is gone is passed over.

        Raises:
            ProviderError: it cannot be renamed.
        """

    def settle(
        self,
        settlements: Sequence[Settlement | GroupSettlement],
        sends: Sequence[Prepared] = (),
        discards: Sequence[Prepared] = (),
        *,
        fenced: bool = False,
    ) -> None:
        """Settles all, or none: one commit record, synced once, then rolled forward.

        At a broker it is one transaction. What becomes of some claims neither ends the others nor counts as a
        delivery of them. Where the broker cannot give back one message of a transaction, the provider commits
        the others first and rolls back the rest. For that it may have to receive messages again. A claim is
        lost where a neighbour receives its message in between, or where the message expires then.

        What was prepared for a temporary destination that has ended goes with that, and keeps nobody.

        Args:
            settlements: of claims, each of which is in one of them. A broker has the least to do where they
                are all claims of a cycle and none is given back.
            sends, discards: prepared messages that belong to no claim. An access that still has to sync
                what is discarded is told by :meth:`MessageAccess.discard`. One that is gone is passed over.
                By value, nothing is there to be discarded.
            fenced: look first whether every claim is still this client's.

        Raises:
            ClaimLost: a claim is not (``fenced``, or there is but one), or a message that is to be sent was
                sent or discarded before, which nobody can tell by value; nothing has happened.
            SettlementError: before the commit point, nothing has happened; the text says which
                destination cannot be written and what to do, or that the connection has ended.
            ProviderError: after the commit point; whoever recovers finishes it. Or the connection to a broker
                broke in the commit, and nobody knows: what was not committed comes again.
        """

    def send(self, destination: Destination, messages: Iterable[Message]) -> list[str]:
        """Sends messages, all visible or none, durable first. Returns their ids.

        Each message gets its id, which is set in it, and a delivery count of 1, whatever it has. A property
        ``JMSXDeliveryCount`` of the sender is dropped (JMS 2.0, 3.5.9). :meth:`MessageAccess.prepare` does
        the same, but sets no id by value.

        Raises:
            ValueError: a message is not valid (:meth:`Message.check`); nothing was sent.
            ProviderError: nothing was sent.
        """

    def browse(
        self, destination: Destination, unreadable: Callable[[Message, str], object] | None = None
    ) -> Iterator[Message]:
        """Messages that wait or are claimed, in the order in which they would be taken.

        Those that are claimed are missing without the capability ``shows_all``.

        A message that was claimed from a virtual destination is in progress in its queue: it is seen, and
        counted, there and in ``~PROCESSING``, but in no other virtual destination.

        Args:
            unreadable: called with each message that cannot be read, and with the reason. A message that has
                lost headers is also returned; one whose body cannot be read is not.

        Raises:
            UnknownDestination: there is no such destination; at the call, not at the first message.
        """

    def access(self) -> AccessSpec:
        """What a task needs to read the claims of this client and to prepare messages for it."""

    def leftovers(self, in_progress: Destination | None, *, at_start: bool) -> Iterator[Leftover]:
        """The dead clients that this one takes over from; their committed records are finished first.

        They are those that are no adapter, and those of its own application. Each is this client's until it
        is forgotten or released, or until this connection ends. None without the capability ``takeover``.

        Args:
            in_progress: the in-progress destination of this adapter, where it has one.
            at_start: also clients of which only claims are left, as of one that was closed with claims open.

        Raises:
            ProviderError: a committed record cannot be finished.
        """

    def unowned(self, in_progress: Destination) -> Sequence[Claim]:
        """Messages in an in-progress destination that no known client owns, those that wait among them.

        One that does not say which queue it came from is of the in-progress destination itself.
        """

    def prune(self, retentions: Sequence[Retention] = (), *, seconds: float = 0.5) -> Pruned:
        """Removes what is kept no longer. A copy that somebody has claimed stays.

        How often it really looks is the provider's affair.

        Args:
            retentions: of queues that have copies of an adapter. A client that is no adapter removes none.
            seconds: that it may take, about.
        """

    def close(self) -> None:
        """Ends the connection with its pollers and its temporary destinations.

        Whoever closes it has settled its claims, or given them back: nothing is given back here. A claim
        that is open all the same waits for a client that takes over at its start (:meth:`leftovers`). Where
        that client does not settle it, it comes again, counted as one more delivery. Without the capability
        ``takeover`` it comes back at once.
        """

    def abandon(self) -> None:
        """Ends the connection as the death of its process would: what it has waits for whoever takes over.

        Without the capability ``takeover`` its claims come back at once.
        """


class Provider(Protocol):
    """Where messages live. Made from the ``provider:`` block; connects to nothing yet.

    Picklable: a worker that makes requests of its own connects with it.
    """

    capabilities: Capabilities

    def state(self, application: str) -> StateStore:
        """What the instances of an adapter keep beside messages.

        Its window has the published keys of every settlement of that application.

        Raises:
            ProviderError: the provider is out of reach.
        """

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> Connection:
        """A connection with a mark of its own, so that its claims are told from a neighbour's.

        Args:
            application, instance: name an adapter; its instances share subscriptions and client id.
            client_id: of JMS, held as long as the connection lives; empty = none.
            origin: whose messages are *local* for ``no_local``: connections of equal origin. Empty = the
                client id, else this connection alone.

        Raises:
            ClientIdError: another connection holds the client id (that of an adapter: one that is none
                of its instances).
            ProviderError: the provider is out of reach.
        """


class Leftover(Protocol):
    """What one dead client has left. Nobody else takes over from it until it is forgotten or released."""

    client_id: str
    application: str
    instance: str
    declared_dead: bool
    """Whether an operator says that it is dead: then its tasks are not waited for without end."""

    @property
    def claims(self) -> Sequence[Claim]:
        """Its open claims, in the order in which they were taken."""

    def forget(self) -> None:
        """All is dealt with; nothing of it is kept.

        A claim that is not settled all the same comes again, as one more delivery. One in an in-progress
        destination stays there without an owner.
        """

    def release(self) -> None:
        """Leaves it to whoever looks next."""


class AccessSpec(Protocol):
    """Picklable recipe for :class:`MessageAccess`."""

    def open(self) -> MessageAccess:
        """The access, for the process that calls; several of one client do not disturb each other.

        Raises:
            CapabilityError: the messages cannot be reached from this process.
            ProviderError: the provider is gone.
        """


class MessageAccess(Protocol):
    """A provider as a Spark task sees it."""

    def check(self) -> None:
        """Whether this machine sees what the driver sees.

        Raises:
            ProviderError: it does not; names the machine.
        """

    def load(self, reference: Any, max_body: int) -> Message:
        """Reads a claimed message. Its ``destination`` is None: the claim has it.

        Raises:
            MalformedData: it is larger than ``max_body`` bytes, or not a message after all.
            LookupError: it is gone; somebody else has settled it. Never by value.
            ProviderError: it cannot be read now.
        """

    def prepare(self, destination: Destination, message: Message, key: str) -> Prepared:
        """Makes a message without sending it; the same ``key`` again, for that destination, replaces it.

        By value nothing is written. Then the settlement shows whether the destination takes the message.

        Raises:
            ValueError: the message is not valid (:meth:`Message.check`).
            ProviderError: it cannot be written.
        """

    def discard(self, prepared: Prepared) -> None:
        """Removes a prepared message that will not be sent, or forgets one that a settlement has removed."""

    def sync(self) -> None:
        """Makes all that was prepared durable; once at the end of a task, or before a commit.

        Raises:
            ProviderError: it cannot, and will not by asking again: none of it may be committed.
        """
