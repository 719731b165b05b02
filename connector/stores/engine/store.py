"""The contracts of a store, which holds messages under a local provider.

The engine of this package knows the rules of messaging: subscriptions, selectors, expiry, the redelivery
limit, temporary and virtual destinations, takeover. A store knows none of these rules. The engine tells the
store what to do with a message. The store keeps all promises about crashes, other processes and durability.

There are four contracts. :class:`Store` holds the messages as one client sees them.
:class:`~connector.stores.engine.task_store.TaskStore` is the part for a task, in any process.
:class:`~connector.stores.engine.registry.Registry` knows the clients and keeps small records. :class:`Watch`
waits for messages.

A store, its registry and its watch are made together for one client, because the watch knows the readers. One
thread uses them. But any thread may close the connection, at any moment. So a second thread may call
:meth:`Watch.wake`, :meth:`Reader.close`, :meth:`Store.remove` and every method of the registry while the
first thread is in a call. A lock around each call is enough. After ``Registry.close`` every call raises
ProviderError, and no message is claimed any more. Other threads use other clients. Other processes use other
clients, too, if they can reach the store.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from connector.messaging.access import AccessSpec
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.once import OnceKey, SentOnce
from connector.messaging.polling import Waiter
from connector.messaging.retention import Pruned, Retention
from connector.stores.engine.changes import Change, Edit
from connector.stores.engine.channel import Channel, Owner
from connector.stores.engine.claims import LocalClaim, key_source


class Counts(NamedTuple):
    """Numbers of messages in a channel.

    Args:
        waiting, claimed: for delivery. ``claimed`` includes messages claimed from the other parts.
        delayed: that no reader has moved to the waiting messages since they were due.
        expired, error: put aside.
        processed: settled without a copy, if the store keeps such messages.
    """

    waiting: int = 0
    claimed: int = 0
    expired: int = 0
    error: int = 0
    processed: int = 0
    delayed: int = 0


class Verdict(Enum):
    """The decision of the engine about a message before it is taken."""

    TAKE = "take"
    LEAVE = "leave"
    """The message stays. A reader asks again only when the message changes or expires."""
    EXPIRED = "expired"
    """The store moves the message to :attr:`.channel.Part.EXPIRED`, unchanged, or drops the message."""
    EXHAUSTED = "exhausted"
    """The store moves the message to :attr:`.channel.Part.ERROR`: see :func:`.headers.edit_to_put_aside`."""


class Judge(Protocol):
    """Decides about messages of one reader, by their headers.

    A store may decide by the attributes, in its own language, if the answer is the same. In this order:

    * EXPIRED: not ``is_view``, and ``0 < expiration <= now``.
    * EXHAUSTED: not ``is_view``, and ``delivery_count > limit``. The count is 1 at the first delivery.
    * LEAVE: ``selects``, and the selector rejects the message. Only the judge can tell.
    * TAKE: all others.
    """

    limit: int | None
    """Deliveries begun after which a message is EXHAUSTED. None = never."""
    selects: bool
    """Whether LEAVE is a possible answer."""
    selector: str
    """Text of the message selector. Empty = no selector, or a selector without a text."""
    is_view: bool
    """Whether the reader reads a virtual destination. Then the answer is TAKE or LEAVE."""
    by_group: bool
    """Whether the reader leaves held groups (see :meth:`connector.messaging.roles.Receiving.poller`).

    The store decides, not the judge. A store that does not know the groups of other clients ignores it.
    """

    @abstractmethod
    def __call__(self, headers: Message, now: int) -> Verdict:
        """Returns the verdict about a message.

        Args:
            headers: headers and properties.
            now: the store's clock, in milliseconds since 1970.
        """


class Reader(Protocol):
    """Takes from one part of one channel: the highest priority first, then the oldest message.

    A message in an in-progress destination is taken only if no client that is known
    (:meth:`~connector.stores.engine.registry.Registry.find`) owns the message.

    Before a claim, a reader of the main part moves each message there that is due in
    :attr:`.channel.Part.DELAYED`. Such a message has the place that it would have without the delay. Messages
    that wait for a later time cost nothing.
    """

    expired: int
    """Messages that this reader has put aside as EXPIRED."""

    @property
    def obstacle(self) -> str:
        """Why no message can be taken now, although the store works. Empty = nothing is in the way."""
        return ""

    def set_min_age(self, seconds: float) -> None:
        """As :meth:`.Poller.set_min_age`. Messages of a store without foreign writers are always complete."""
        return

    def settles_in(self) -> float:
        """As :meth:`.Poller.settles_in`."""
        return math.inf

    @abstractmethod
    def claim(self, cycle: int, numbers: range) -> list[LocalClaim]:
        """Claims up to ``len(numbers)`` messages. The i-th claim has the sequence ``numbers[i]``.

        Never waits for a message. Claims nothing if the channel has ended. A failure after the first claim
        ends the list.

        Raises:
            ProviderError: the channel cannot be read.
        """

    @abstractmethod
    def has_news(self) -> bool:
        """Whether :meth:`claim` may find a message: False after it found none, until a message arrives.

        Messages that the client itself gives back count as well. True if the channel has ended, and if a
        delayed message is due.
        """

    @abstractmethod
    def due_in(self) -> float:
        """Returns the seconds until the next delayed message of the channel is due. Infinity = none waits."""

    @abstractmethod
    def close(self) -> None:
        """Ends the reader. Repeatable, from any thread."""


Unreadable = Callable[[Message, str], object]
"""Called with a message that cannot be read, and with the reason."""


class Store(Protocol):
    """Channels and their messages, as one client sees them."""

    title: str
    """The store in error texts: ``memory``, or the path of a root."""
    has_foreign: bool = False
    """Whether other programs put messages into the channel of a topic, which the engine then distributes."""

    @abstractmethod
    def destinations(self) -> Sequence[Destination]:
        """Returns all queues and topics, in any order."""

    @abstractmethod
    def has(self, channel: Channel) -> bool:
        """Whether the channel exists. For a topic without a subscription: whether the topic is known."""

    @abstractmethod
    def create(self, channel: Channel) -> None:
        """Makes a queue, or makes a topic known. Does nothing if the channel exists.

        Raises:
            ProviderError: the channel cannot be made.
        """

    @abstractmethod
    def remove(self, channel: Channel, *, claimed: bool) -> None:
        """Removes a channel with its parts, its waiting messages, and the record of a subscription.

        Args:
            channel: a queue, a subscription, or a topic without subscriptions. A channel that is gone is
                skipped.
            claimed: also end the claims of the channel. Otherwise they can be settled, and a message that is
                given back is removed. A store may keep a channel that has claims, emptied, until the next
                ``remove``.
        """

    @abstractmethod
    def empty(self, channel: Channel) -> None:
        """Removes the messages that wait for delivery in a channel, also delayed ones."""

    @abstractmethod
    def count(self, channel: Channel) -> Counts:
        """Returns the numbers of a channel. All are 0 if the channel is missing."""

    @abstractmethod
    def scan(
        self,
        channel: Channel,
        *,
        waiting: bool,
        claimed: bool,
        unreadable: Unreadable | None,
        ids: frozenset[str] | None = None,
    ) -> Iterator[Message]:
        """Yields the messages in one part of a channel, in the order of taking, with their bodies.

        A message that was claimed into an in-progress destination lies there. The message has the property
        ``connector_origin_destination``. The caller may be slow: messages may come and go meanwhile.

        Args:
            channel: with its part.
            waiting: yield waiting messages.
            claimed: yield claimed messages, claimed from any part of the channel.
            unreadable: see :meth:`connector.messaging.roles.Browsing.browse`.
            ids: only messages with one of these JMSMessageIDs, without ``ID:``, are needed, and messages that
                name one in a property. A store that finds them without reading all others saves the time.
                It may yield others, too.
        """

    def key_source(self, channel: Channel, destination: Destination) -> str:
        """Returns the text that begins the duplicate keys of the messages of a channel."""
        return key_source(channel, destination)

    @abstractmethod
    def in_progress_claims(self, channel: Channel) -> Sequence[LocalClaim]:
        """Returns all messages in an in-progress destination, of any origin.

        All are :attr:`~LocalClaim.in_progress`. A message that was not claimed there has no owner. Such a
        message goes back to :func:`.headers.origin_queue`, if that names a queue.
        """

    @abstractmethod
    def owners(self, channel: Channel) -> Iterator[tuple[str, str, float]]:
        """Yields each message that is claimed from a channel, or lies there in progress with an owner.

        Yields its JMSMessageID, the client id of its :class:`.channel.Owner`, and when it was claimed, in
        seconds since 1970. 0 = unknown.
        """

    @abstractmethod
    def reader(
        self,
        channel: Channel,
        judge: Judge,
        into: Channel | None,
        destination: Destination,
        lot: str = "",
    ) -> Reader:
        """Returns a reader of a channel.

        The claims of a lot are durable when :meth:`Reader.claim` returns. A crash leaves them as they are.
        :meth:`claims`, :meth:`finish` and :meth:`apply` treat the lot as a client that this client takes over
        from. :meth:`claims` leaves out the claims that a commit record of any client settles.

        Args:
            channel: with its part. Made before this call. A channel that has ended meanwhile is not made
                again.
            judge: asked before a message is taken.
            into: the channel that a message is moved to in the same step (in-progress destination).
            destination: of the claims.
            lot: the owner of the claims (:func:`.channel.lot_owner`), only with the capability ``lots``.
                Empty = this client.
        """

    @abstractmethod
    def put(self, messages: Sequence[tuple[Message, Sequence[Channel]]]) -> None:
        """Sends messages, all visible or none, durable first. Makes a queue that is missing.

        A message never makes a channel that can end (:attr:`Channel.can_end`).

        Args:
            messages: all for one destination, each with its target channels. A message without channels is
                dropped, and so is the copy for a subscription that is gone. Message id, time and delivery
                count are set. A message with a delivery time waits in :attr:`.channel.Part.DELAYED` of each
                channel. The messages belong to the sender, which may change them afterwards.

        Raises:
            UnknownDestination: the queue is temporary and has ended (:func:`.client.has_ended`).
            ProviderError: nothing was sent.
        """

    @abstractmethod
    def put_once(self, message: Message, channels: Sequence[Channel], once: OnceKey) -> SentOnce:
        """Sends a message as :meth:`put`, and remembers its key in the same durable step.

        Sends nothing if the key is remembered. Waits while another client uses the key. A key whose time is
        over counts as not remembered, and is removed some time later by other calls.

        Args:
            channels: of the message. Empty = the key is remembered, and the message is dropped.

        Raises:
            UnknownDestination: as :meth:`put`.
            ProviderError: nothing was sent. Or nobody knows: then the next call with the key finds it out.
        """

    @abstractmethod
    def find_sent(self, application: str, key: str) -> SentOnce | None:
        """As :meth:`connector.messaging.once.SendingOnce.find_sent`."""

    @abstractmethod
    def prepared(self, handle: Any) -> Message | None:
        """Returns the headers of a prepared message. None if the message is gone."""

    @abstractmethod
    def check_writable(self, destination: Destination) -> None:
        """Checks that messages can be moved to a destination. Makes a destination that is missing.

        Raises:
            ProviderError: they cannot. The text gives the cause and the remedy.
        """

    @abstractmethod
    def apply(self, changes: Sequence[Change], *, fenced: bool) -> None:
        """Makes all changes, or none, in one durable step.

        Args:
            changes: of claims of this client, or of a client that it takes over from. A claim is lost after
                any client has settled it, given it back, owned it, or finished its client. Unless ``fenced``,
                changes of lost claims are skipped.
            fenced: no claim may be lost.

        Raises:
            ClaimLost: nothing has happened. A claim is lost (``fenced``), or a message to be sent is gone.
            SettlementError: nothing has happened, because the error came before the commit point.
            ProviderError: the error came after the commit point. The client that recovers finishes the
                changes.
        """

    @abstractmethod
    def set_owner(self, claim: LocalClaim, owner: Owner | None, edit: Edit) -> LocalClaim | None:
        """Gives a message in an in-progress destination another owner. Returns None if the claim is lost.

        The message is then :attr:`~LocalClaim.in_progress`, and does not wait for its process. Without an
        owner it is NEW there: any reader takes it, and it names its :func:`~.headers.origin_queue`.

        Args:
            claim: as :meth:`claims` or :meth:`in_progress_claims` returned it. The home and the destination
                may differ: the message then has those of this claim.
            owner: this client. None = no owner.
            edit: of the message.

        Raises:
            ProviderError: the message cannot be changed.
        """

    @abstractmethod
    def claims(
        self, client_ids: Collection[str], in_progress: Channel | None
    ) -> Mapping[str, Sequence[LocalClaim]]:
        """Returns the claims of clients, each in the order of taking. A client without claims may be missing.

        Args:
            client_ids: of the clients.
            in_progress: include claims in this in-progress destination. Claims in any other in-progress
                destination are left out.
        """

    @abstractmethod
    def finish(self, client_id: str) -> None:
        """Finishes the commits of a dead client, and undoes a commit that it had only begun.

        The prepared messages of the client stay until :meth:`discard_prepared`. Every earlier claim of the
        client is lost: a process that was wrongly taken for dead settles none of them.

        Raises:
            ProviderError: a commit cannot be finished. A client tries again later.
        """

    @abstractmethod
    def discard_prepared(self, client_id: str) -> None:
        """Removes the messages that a client has prepared and not sent."""

    @abstractmethod
    def prune(self, retentions: Sequence[Retention], seconds: float) -> Pruned:
        """As :meth:`connector.messaging.roles.Recovering.prune`. Only adapters name retentions.

        If other programs take messages without the engine, this method also moves the delayed messages of all
        channels that are due to the main parts.
        """

    @abstractmethod
    def tasks(self) -> AccessSpec:
        """Returns the recipe of the :class:`~connector.stores.engine.task_store.TaskStore` of this client."""


class Watch(Waiter, Protocol):
    """Waits for messages that the open readers of a client may take.

    A delayed message that is due ends a wait within a second. A wait may also end when a message is delayed.
    """

    @property
    @abstractmethod
    def can_tell(self) -> bool:
        """Whether :meth:`begin` and :meth:`wait` work. If not, the connection has no waiter."""

    @abstractmethod
    def wait_for_news(self, has_news: Callable[[], bool], seconds: float) -> None:
        """Waits ``seconds`` at most until ``has_news``, :meth:`wake` or the end of the client."""

    @abstractmethod
    def wake(self) -> None:
        """As :meth:`connector.messaging.roles.Receiving.wake`."""

    @abstractmethod
    def close(self) -> None:
        """Ends all waits of the client. Called before ``Registry.close``."""
