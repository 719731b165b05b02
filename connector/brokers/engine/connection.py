"""A connection to a broker, by the contract of :mod:`connector.messaging.provider`.

The claims of one source and one cycle are one transaction of the broker. A settlement settles or gives back
all claims of the transactions that it names.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial

from connector.brokers.engine.access import RemoteAccess, post_prepared
from connector.brokers.engine.arrivals import RemoteArrivals
from connector.brokers.engine.broker import BrokerConnection, BrokerSession
from connector.brokers.engine.broker_client import BrokerClientConnection
from connector.brokers.engine.claims import LentClaim, input_name
from connector.brokers.engine.commits import (
    CommitMarker,
    announce,
    committed_cycles,
    marked_clients,
    remove_markers,
)
from connector.brokers.engine.delays import check_delays
from connector.brokers.engine.held import HeldInput, HeldMessages
from connector.brokers.engine.in_progress import InProgress
from connector.brokers.engine.later import LaterMessages
from connector.brokers.engine.later_input import LaterInput
from connector.brokers.engine.lots import RemoteLots
from connector.brokers.engine.news import ReceiverNews
from connector.brokers.engine.once import RemoteOnce
from connector.brokers.engine.owners import MAY_BE_OWNED, Owners, unowned
from connector.brokers.engine.picker import RemotePicker
from connector.brokers.engine.poller import RemotePoller
from connector.brokers.engine.probe import Probe
from connector.brokers.engine.progress_claim import ProgressClaim
from connector.brokers.engine.pruning import CopyPruner
from connector.brokers.engine.session import LendingSession, SessionSource
from connector.brokers.engine.session_connection import SessionConnection
from connector.brokers.engine.settler import TransactionSettler
from connector.brokers.engine.shortage import MemoryShortage
from connector.brokers.engine.silence import CLOSE
from connector.brokers.engine.state import RemoteState
from connector.brokers.engine.transaction_limits import TransactionLimits
from connector.brokers.engine.waiter import RemoteWaiter
from connector.errors import CapabilityError, ProviderError, SettlementError, UnknownDestination
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.notes import OwnerNote
from connector.messaging.once import OnceKey, SentOnce
from connector.messaging.provider import TransactionalConnection
from connector.messaging.retention import Pruned, Retention
from connector.messaging.roles import Leftover
from connector.messaging.selector import selector_text
from connector.messaging.settlement import GroupSettlement, Prepared, Settlement, one_by_one
from connector.messaging.subscription import DestinationInfo, SubscriptionInfo, TopicSubscription

Move = Callable[[LendingSession, Sequence[LentClaim]], Sequence[LentClaim]]
"""Moves claims of a transaction. Returns the claims of their copies."""


class RemoteConnection(BrokerClientConnection, TransactionalConnection):
    """A client of a broker.

    Args:
        broker: for this object only.
        commit_queue: shows which transactions were committed. None = commits are not marked.
    """

    own_lots: RemoteLots
    """The lots, as this client claims them. Set by the provider."""
    directory: str
    """Of the state of all applications. Set by the provider."""
    once: RemoteOnce
    """Sends messages once by key. Set by the provider."""
    settler: TransactionSettler
    """Settles the transactions of this client. Set by the provider."""
    shortage: MemoryShortage
    """Of the provider, which sets it."""

    def __init__(
        self,
        broker: BrokerConnection,
        limits: TransactionLimits,
        commit_queue: Destination | None = None,
    ) -> None:
        self.client_id = f"b{secrets.token_hex(6)}"
        self._pollers: set[RemotePoller] = set()
        self._silent: list[str] = []
        """The names of inputs that had received nothing when the memory was used up, or empty texts."""
        self._leaving: list[LendingSession] = []
        self._markers: list[CommitMarker] = []
        self._journals: set[int] = set()
        """The cycles whose marks a takeover needs."""
        super().__init__(broker)
        self._limits = limits
        self.state: RemoteState | None = None
        """The state of the adapter. None = this client is no adapter."""
        self._commit_queue = commit_queue
        self.marks_commits = commit_queue is not None
        self._session_numbers = itertools.count(1)
        self.in_progress: InProgress | None = None
        """The messages in progress. None = this client is no adapter."""
        self.held: HeldMessages | None = None
        """The held messages. None = this client is no adapter, or the broker has no limit of deliveries."""
        self.later: LaterMessages | None = None
        """The messages that come again later. None = this client is no adapter."""
        self._news = ReceiverNews(broker)
        self._waiter = RemoteWaiter(self._listening_sessions, self._until_due, self._news)
        self._pruner = CopyPruner(broker)
        self.probe = Probe(broker)

    @property
    def sent_ids(self) -> str:
        raise CapabilityError("a broker's client chooses the ids of its messages")

    # -- claiming ------------------------------------------------------------------------------------

    def poller(
        self,
        source: Destination | TopicSubscription,
        in_progress: Destination | None = None,
        *,
        selector: str = "",
        by_group: bool = False,
    ) -> RemotePoller:
        if self.state is None and isinstance(source, Destination) and source not in self.temporaries:
            selector = unowned(selector_text(selector)) if source.is_queue else selector
        return self._poller(source, in_progress, selector)

    def _poller(
        self,
        source: Destination | TopicSubscription,
        in_progress: Destination | None = None,
        selector: str = "",
    ) -> RemotePoller:
        """Returns a poller that also takes messages that a client has in progress."""
        self.check()
        if in_progress is not None:
            self._begin_progress(source, in_progress)
        if isinstance(source, Destination) and source.view:
            raise CapabilityError(f"cannot poll {source}: a broker has no virtual destinations")
        make = partial(self._session, source, self._marker if in_progress is None else self._progress_marker)
        lasts = isinstance(source, Destination) or source.durable
        poller = RemotePoller(
            self,
            source,
            partial(make, source, selector_text(selector)),
            *self._moves(in_progress),
            None if self.held is None else HeldInput(self.held, source, make),
            None if self.later is None else LaterInput(self.later, source, make),
            self.shortage if lasts and self.state is not None else None,
        )
        if not isinstance(source, Destination):
            poller.subscription = source.name
        self._pollers.add(poller)
        return poller

    def _session(
        self,
        source: Destination | TopicSubscription,
        marker: Callable[[BrokerSession], CommitMarker | None],
        queue: Destination | TopicSubscription,
        selector: str,
    ) -> LendingSession:
        """Returns a session that receives messages of an input from a queue or a subscription."""
        return LendingSession(
            self.broker,
            SessionSource(queue, selector, source),
            self._limits,
            marker,
            parks=self.state is not None,
            later=self.later,
            news=self._news,
        )

    def _moves(self, in_progress: Destination | None) -> tuple[Move | None, Callable[[], None] | None]:
        """Returns what moves claims to an in-progress destination, and what checks that it takes them."""
        progress = self.in_progress
        if in_progress is None or progress is None:
            return None, None
        return (
            lambda session, claims: progress.move(session, claims, in_progress),
            lambda: progress.check_moves(in_progress),
        )

    def picker(self, queue: Destination, wanted: Callable[[Message], bool]) -> RemotePicker:
        self.check()
        if not queue.is_queue or queue.view:
            raise CapabilityError(f"cannot pick messages of {queue}: name a whole queue")
        owners = Owners(self.directory)
        messages = owners.without(self.broker.browse(queue, ""))
        return RemotePicker(
            queue,
            messages,
            wanted,
            lambda text: self._poller(queue, selector=owners.selector(text)),
            lambda text: any(owners.without(self.broker.browse(queue, text))),
        )

    def owners(self, queue: Destination) -> dict[str, list[OwnerNote]]:
        self.check()
        owners = Owners(self.directory)
        try:
            return owners.notes(self.broker.browse(queue, MAY_BE_OWNED))
        except UnknownDestination:
            return {}

    def _begin_progress(self, source: Destination | TopicSubscription, in_progress: Destination) -> None:
        for one in (source, in_progress):
            if not isinstance(one, Destination) or not one.is_queue or one.view or source == in_progress:
                raise CapabilityError(
                    f"cannot move messages from {source} to {in_progress}: both have to be whole queues"
                )
        if self.in_progress is None:
            raise CapabilityError(f"only an adapter moves messages to {in_progress}")
        self.in_progress.begin(in_progress)

    def _listening_sessions(self) -> list[LendingSession]:
        found = [poller.listening_session() for poller in list(self._pollers)]
        return [session for session in found if session is not None]

    def _until_due(self) -> float:
        """Returns the seconds until a poller has a message that comes again later."""
        if self.later is None:
            return math.inf
        self.later.look()
        return min((poller.until_due for poller in list(self._pollers)), default=math.inf)

    def leave(self, poller: RemotePoller) -> None:
        """Forgets a closed poller. Its open transactions can still be settled."""
        self._pollers.discard(poller)
        if self.broker.shortage:
            self._silent.append(poller.silent_name)
        self._leaving += [session for session in poller.sessions if session.claims]

    def _progress_marker(self, session: BrokerSession) -> CommitMarker | None:
        assert self.in_progress is not None
        return self.in_progress.marker(session)

    def _marker(self, session: BrokerSession) -> CommitMarker | None:
        if self._commit_queue is None:
            return None
        name = str(next(self._session_numbers))
        marker = CommitMarker(session, self._commit_queue, self.client_id, name, self._journals)
        self._markers = [one for one in self._markers if not one.is_closed] + [marker]
        return marker

    def note_journal(self, cycle: int) -> None:
        self._journals.add(cycle)

    def forget(self, cycles: Set[int]) -> None:
        self._journals -= cycles
        for marker in self._markers:
            marker.look()

    # -- settling ------------------------------------------------------------------------------------

    def settle(
        self,
        settlements: Sequence[Settlement | GroupSettlement],
        sends: Sequence[Prepared] = (),
        discards: Sequence[Prepared] = (),
        *,
        fenced: bool = False,
    ) -> None:
        if self._ended:
            raise SettlementError("nothing was settled: the connection is closed")
        singles = one_by_one(settlements)
        moved = [one for one in singles if one.claim.in_progress]
        if moved and self.in_progress is not None:
            self.in_progress.settler.settle(moved, sends)
            singles, sends = [one for one in singles if not one.claim.in_progress], ()
        if not self.settler.settle(singles, sends, fenced=fenced):
            self._send_alone(sends)

    def send_once(self, destination: Destination, message: Message, once: OnceKey) -> SentOnce:
        self.check()
        once.check()
        self.check_message(message)
        return self.once.send(destination, message, once)

    def find_sent(self, application: str, key: str) -> SentOnce | None:
        self.check()
        return self.once.find(application, key)

    def session_connection(self) -> SessionConnection:
        self.check()
        name = f"{self.client_id}-{next(self._session_numbers)}"
        return SessionConnection(self.broker, name, limit=self._limits.max_body)

    def arrivals(self, max_body: int) -> RemoteArrivals:
        self.check()
        return RemoteArrivals(self.broker, self.client_id, max_body)

    def hold(self, claims: Sequence[Claim]) -> bool:
        return self.settler.hold(claims)

    def refuses(self, destination: Destination, *, asks: bool = True) -> bool:
        return self.probe.refuses(destination, asks=asks)

    def check_delays(self) -> None:
        self.check()
        check_delays(self.broker)

    def open_sessions(self) -> list[LendingSession]:
        """Returns the sessions with an open transaction."""
        self._leaving = [session for session in self._leaving if session.claims]
        pollers = list(self._pollers)  # another thread may close the connection meanwhile
        ours = [session for poller in pollers for session in poller.sessions if session.claims]
        return ours + self._leaving

    def _send_alone(self, sends: Sequence[Prepared]) -> None:
        for prepared in sends:
            session = self.sending_session()
            post_prepared(self.broker, session, prepared)
            session.commit()

    def announce(self, in_progress: Destination | None) -> None:
        self.check()
        assert self.state is not None and self.in_progress is not None
        self.state.check_mode(self.client_id, in_progress)
        if in_progress is not None:
            self.in_progress.check(in_progress)
        if self._commit_queue is not None:
            announce(self.broker, self._commit_queue, self.state.identity())
        if in_progress is not None:
            self.in_progress.remove_strange_markers()

    def committed_cycles(self, client_id: str) -> set[int]:
        self.check()
        if self._commit_queue is None:
            return set()
        return committed_cycles(self.broker, self._commit_queue, client_id)

    def marked_clients(self) -> set[str]:
        self.check()
        return set() if self._commit_queue is None else marked_clients(self.broker, self._commit_queue)

    def remove_markers(self, client_id: str) -> None:
        self.check()
        if self._commit_queue is not None:
            remove_markers(self.broker, self._commit_queue, client_id)

    def _delayed(self, destination: Destination) -> Iterator[Message]:
        if self.later is None:
            return super()._delayed(destination)
        return self.later.browse(input_name(destination))

    def names(self) -> list[Destination]:
        self.check()
        return []

    def subscriptions(self) -> list[SubscriptionInfo]:
        self.check()
        return []

    @property
    def lots(self) -> RemoteLots:
        self.check()
        return self.own_lots

    def destinations(self) -> list[DestinationInfo]:
        self.check()
        found = []
        for queue, lots in sorted(self.own_lots.information().items()):
            waiting = 0
            with contextlib.suppress(UnknownDestination):  # some brokers remove an empty queue
                waiting = sum(1 for _ in self.browse(queue))
            in_progress = sum(lot.messages for lot in lots)
            found.append(DestinationInfo(queue, waiting, in_progress, lots=lots))
        return found

    # -- copies --------------------------------------------------------------------------------------

    def prune(self, retentions: Sequence[Retention] = (), *, seconds: float = 0.5) -> Pruned:
        self.check()
        if self.state is None:
            return Pruned()
        return self._pruner.prune(retentions, seconds)

    # -- waiting -------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        self._waiter.wait(seconds)

    def waiter(self) -> RemoteWaiter:
        if self._ended:
            raise ProviderError("the connection is closed")
        return self._waiter  # also of a failed connection: the next claim raises the error

    def wake(self) -> None:
        self._waiter.wake()

    def access(self) -> RemoteAccess:
        self.check()
        return RemoteAccess()

    # -- recovery: the broker gives the messages of a dead client back -----------------------------------

    def adopt(self, claim: Claim, cycle: int, sequence: int) -> Claim | None:
        self.check()
        if self.in_progress is None or not isinstance(claim, ProgressClaim):
            return None
        self.in_progress.begin(claim.queue)
        return self.in_progress.adopt(claim, cycle, sequence)

    def leave_unowned(self, claim: Claim) -> None:
        self.check()
        if self.in_progress is not None and isinstance(claim, ProgressClaim):
            self.in_progress.leave(claim)

    def leftovers(self, in_progress: Destination | None, *, at_start: bool) -> Iterator[Leftover]:
        self.check()
        if self.in_progress is None or in_progress is None:
            return iter(())
        return self.in_progress.leftovers(in_progress)

    def find_unowned(self, in_progress: Destination) -> Sequence[Claim]:
        self.check()
        return [] if self.in_progress is None else self.in_progress.find_unowned(in_progress)

    def close(self) -> None:
        self._close(keeps_marks=False)

    def abandon(self) -> None:
        self._close(keeps_marks=True)

    def _close(self, *, keeps_marks: bool) -> None:
        if self._ended:
            return
        self._ended = True
        self._waiter.close()
        if self.broker.shortage:
            silent = filter(None, [*self._silent, *(one.silent_name for one in list(self._pollers))])
            self.shortage.note(list(silent), self.broker.shortage)
        sessions = [session for poller in list(self._pollers) for session in poller.sessions]
        late = threading.Timer(CLOSE, self.broker.close)  # a silent broker lets each session wait
        late.daemon = True
        late.start()
        for session in (*sessions, *self._leaving):
            session.close(keeps_mark=keeps_marks)
        late.cancel()
        self._pollers.clear()
        self.own_lots.names.close()
        if self.state is not None:
            self.state.hold_pending(self.client_id)
        if self.in_progress is not None:
            self.in_progress.close(is_clean=not keeps_marks)
        if self._sending is not None:
            self._sending.close()
        self.broker.close()
