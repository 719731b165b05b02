"""The contracts of a store: what holds messages under a local provider.

The engine of this package knows the rules of messaging: subscriptions, selectors, expiry, the redelivery
limit, temporary and virtual destinations, takeover. A store knows none of them. It is told what to do with
a message, and it keeps every promise about crashes, other processes and durability.

There are four contracts. :class:`Store` holds the messages as one client sees them. :class:`TaskStore` is the
part that a task needs, in whatever process it runs. :class:`~connector.core.local.registry.Registry` knows
the clients and keeps small records. :class:`Watch` waits for messages.

A store, its registry and its watch are made for one client, together: the watch knows the readers. One
thread uses them. But any thread may close the connection, at any moment. So a second thread may call
:meth:`Watch.wake`, :meth:`Reader.close`, :meth:`Store.drop` and everything of the registry while the first is
in a call. A lock around each call is enough. After ``Registry.end`` every call raises ProviderError, and
no message is claimed any more. Other clients are used by other threads, and by other processes where the
store can be reached from there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from connector.core.local.changes import Change, Edit
from connector.core.local.channel import Channel, Owner
from connector.core.local.claims import LocalClaim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Waiter
from connector.messaging.retention import Pruned, Retention


class Counts(NamedTuple):
    """Numbers of messages in a channel.

    Args:
        waiting, claimed: for delivery; ``claimed`` counts what was claimed from the other parts, too.
        expired, error: put aside.
        processed: settled without a copy, where the store keeps such messages.
    """

    waiting: int = 0
    claimed: int = 0
    expired: int = 0
    error: int = 0
    processed: int = 0


class Verdict(Enum):
    """What the engine says of a message before it is taken."""

    TAKE = "take"
    LEAVE = "leave"
    """It stays. A reader asks again only when the message changes or expires."""
    EXPIRED = "expired"
    """The store moves it to :attr:`Part.EXPIRED`, unchanged. A store may also drop it."""
    EXHAUSTED = "exhausted"
    """The store moves it to :attr:`Part.ERROR`, edited by :func:`.headers.counted_anew`."""


class Judge(Protocol):
    """Decides about messages of one reader, by their headers.

    A store may decide by the attributes in its own language where the answer is the same. In this order:

    * EXPIRED: not ``is_view``, and ``0 < expiration <= now``.
    * EXHAUSTED: not ``is_view``, and ``delivery_count > limit``. The count is 1 at the first delivery.
    * LEAVE: ``selects``, and the selector rejects the message. Only the judge can tell.
    * TAKE: all others.
    """

    limit: int | None
    """Deliveries begun after which a message is EXHAUSTED; None = never."""
    selects: bool
    """Whether it may answer LEAVE."""
    selector: str
    """Text of the message selector; empty where there is none that has a text."""
    is_view: bool
    """Whether the reader is one of a virtual destination. Then the answer is TAKE or LEAVE."""

    def __call__(self, headers: Message, now: int) -> Verdict:
        """The verdict about a message.

        Args:
            headers: headers and properties.
            now: the store's clock, in milliseconds since 1970.
        """


class Reader(Protocol):
    """Takes from one part of one channel, highest priority first, then oldest."""

    expired: int
    """Messages that this reader has put aside as EXPIRED."""

    def claim(self, cycle: int, numbers: range) -> list[LocalClaim]:
        """Claims up to ``len(numbers)`` messages; the i-th has the sequence ``numbers[i]``.

        Never waits for a message. Where the channel has ended, nothing is claimed. A failure after the first
        claim ends the list.

        Raises:
            ProviderError: the channel cannot be read.
        """

    def has_news(self) -> bool:
        """Whether :meth:`claim` may find something: False after it found nothing, until something comes.

        That includes what the client itself has given back. True where the channel has ended.
        """

    def close(self) -> None:
        """Takes no more. Repeatable, from any thread."""


Unreadable = Callable[[Message, str], object]
"""Called with a message that cannot be read, and with the reason."""


class Store(Protocol):
    """Channels and their messages, as one client sees them."""

    title: str
    """The store in error texts: ``memory``, or the path of a root."""
    has_foreign: bool
    """Whether other programs put messages into the channel of a topic itself. The engine distributes them."""

    def destinations(self) -> Sequence[Destination]:
        """All queues and topics, in any order."""

    def has(self, channel: Channel) -> bool:
        """Whether there is such a channel; of a topic without a subscription, whether the topic is known."""

    def create(self, channel: Channel) -> None:
        """Makes a queue, or makes a topic known; nothing where it is there.

        Raises:
            ProviderError: it cannot be made.
        """

    def drop(self, channel: Channel, *, claimed: bool) -> None:
        """Removes a channel with its parts and what waits in them. The record of a subscription goes with it.

        Args:
            channel: a queue, a subscription, or a topic without any. One that is gone is passed over.
            claimed: claims of it end, too. Else they can be settled, and one that is given back goes. A store
                may keep a channel that has claims, emptied, until it is dropped again.
        """

    def empty(self, channel: Channel) -> None:
        """Removes what waits in a channel for delivery."""

    def count(self, channel: Channel) -> Counts:
        """The numbers of a channel; zeros where there is none."""

    def scan(
        self, channel: Channel, *, waiting: bool, claimed: bool, unreadable: Unreadable | None
    ) -> Iterator[Message]:
        """The messages that lie in one part of a channel, in the order of taking, with their bodies.

        A message that was claimed into an in-progress destination lies there. It has the property
        ``connector_origin_destination``. Who looks may be slow: messages may come and go meanwhile.

        Args:
            channel: with its part.
            waiting: those that wait.
            claimed: those that are claimed, from whatever part of the channel.
            unreadable: see :meth:`connector.messaging.provider.Connection.browse`.
        """

    def lying(self, channel: Channel) -> Sequence[LocalClaim]:
        """All messages that lie in an in-progress destination, whoever has put them there.

        All are :attr:`~LocalClaim.in_progress`. One that nobody has claimed there has no owner. It goes back
        to :func:`.headers.origin_queue`, where it names one.
        """

    def reader(
        self, channel: Channel, judge: Judge, into: Channel | None, destination: Destination
    ) -> Reader:
        """What takes from a channel.

        Args:
            channel: with its part. It was made before. Where it has ended meanwhile, it is not made anew.
            judge: asked before a message is taken.
            into: the channel that a message is moved to in the same step (in-progress destination).
            destination: of the claims.
        """

    def put(self, messages: Sequence[tuple[Message, Sequence[Channel]]]) -> None:
        """Sends messages, all visible or none, durable first. A queue that is not there is made.

        A channel that can end (:attr:`Channel.can_end`) is never made by a message.

        Args:
            messages: all for one destination, each with the channels that get it. One without any goes, and
                so does the copy for a subscription that is gone. Message id, time and delivery count are
                set. They are the sender's, who may change them afterwards.

        Raises:
            UnknownDestination: the queue is a temporary one that has ended (:func:`.client.has_ended`).
            ProviderError: nothing was sent.
        """

    def prepared(self, handle: Any) -> Message | None:
        """The headers of a prepared message; None where it is gone."""

    def check_writable(self, destination: Destination) -> None:
        """Whether messages can be moved to a destination; makes it where it is not there.

        Raises:
            ProviderError: they cannot; the text says why and what to do.
        """

    def apply(self, changes: Sequence[Change], *, fenced: bool) -> None:
        """Makes all changes, or none, in one durable step.

        Args:
            changes: of claims of this client, or of one that it takes over from. A claim is lost once
                somebody has settled it, given it back, or owned or finished it since. Unless ``fenced``,
                what is lost is passed over.
            fenced: no claim may be lost.

        Raises:
            ClaimLost: a claim is lost (``fenced``), or a message that is to be sent is gone; nothing has
                happened.
            SettlementError: before the commit point; nothing has happened.
            ProviderError: after it; whoever recovers finishes it.
        """

    def own(self, claim: LocalClaim, owner: Owner | None, edit: Edit) -> LocalClaim | None:
        """Gives a message in an in-progress destination another owner. None where the claim is lost.

        It is :attr:`~LocalClaim.in_progress` from then on, and does not wait.

        Args:
            claim: as :meth:`claims` or :meth:`lying` gave it. Its home and its destination may be others:
                the message has these from then on.
            owner: this client; None = nobody.
            edit: of the message.

        Raises:
            ProviderError: it cannot be changed.
        """

    def claims(
        self, client_ids: Collection[str], in_progress: Channel | None
    ) -> Mapping[str, Sequence[LocalClaim]]:
        """The claims of clients, each in the order in which they were taken. One without any may be missing.

        Args:
            client_ids: whose.
            in_progress: those that lie there, too. Those in any other in-progress destination are left out.
        """

    def finish(self, client_id: str) -> None:
        """Finishes what a dead client has committed, and undoes what it was about to commit.

        Its prepared messages stay until :meth:`forget`. Whoever had its claims until then has lost them: a
        process that was taken for dead settles none.

        Raises:
            ProviderError: a commit cannot be finished; somebody tries again.
        """

    def forget(self, client_id: str) -> None:
        """Removes the messages that a client has prepared and not sent."""

    def prune(self, retentions: Sequence[Retention], seconds: float) -> Pruned:
        """See :meth:`connector.messaging.provider.Connection.prune`; only adapters name retentions."""

    def tasks(self) -> TaskStoreSpec:
        """What a task needs to read the claims of this client and to prepare messages for it."""


class TaskStoreSpec(Protocol):
    """Picklable recipe for :class:`TaskStore`."""

    def open(self) -> TaskStore:
        """The store for the process that calls.

        Raises:
            CapabilityError: the messages cannot be reached from this process.
            ProviderError: the store is gone.
        """


class TaskStore(Protocol):
    """A store as a task sees it, for one thread. Nobody closes it: what it has open goes with the object."""

    client_id: str
    """The client that the task works for."""

    def check(self) -> None:
        """Whether this process sees what the driver sees.

        Raises:
            ProviderError: it does not; names the machine.
        """

    def is_there(self, destination: Destination, owner: str) -> bool:
        """Whether a temporary destination has not ended, and the client that owns it lives.

        The engine asks before :meth:`prepare`.
        """

    def read(self, reference: Any, max_body: int) -> Message:
        """See :meth:`connector.messaging.provider.MessageAccess.load`."""

    def prepare(self, destination: Destination, message: Message, key: str) -> Any:
        """Keeps a message where nobody takes it; returns its handle. The same key again replaces it.

        It need not be written before :meth:`sync`: nothing is sent that was not synced.

        Args:
            destination: decides where it is kept; nothing is sent.
            message: with its id and its time. It is the sender's, who may change it afterwards.
            key: of letters and digits, unique within the client.

        Raises:
            ProviderError: it cannot be written, or the destination is refused.
        """

    def discard(self, handle: Any) -> None:
        """Removes a prepared message; one that is gone is passed over."""

    def sync(self) -> None:
        """See :meth:`connector.messaging.provider.MessageAccess.sync`.

        Raises:
            ProviderError: also where somebody has forgotten the client: nobody would remove the messages.
        """


class Watch(Waiter, Protocol):
    """Waits for messages that the open readers of a client may take."""

    @property
    def can_tell(self) -> bool:
        """Whether :meth:`begin` and :meth:`wait` work; else the connection has no waiter."""

    def pause(self, has_news: Callable[[], bool], seconds: float) -> None:
        """Waits until ``has_news``, :meth:`wake` or the end of the client; ``seconds`` at most."""

    def wake(self) -> None:
        """See :meth:`connector.messaging.provider.Connection.wake`."""

    def end(self) -> None:
        """The client ends: nobody waits any more. Comes before ``Registry.end``."""
