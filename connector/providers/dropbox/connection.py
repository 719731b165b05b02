"""The ``dropbox`` provider and its connection (see :mod:`connector.messaging.provider`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from connector.errors import ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.notes import BatchNote, ClientNote, ClientState, WaitingNote
from connector.messaging.provider import (
    Capabilities,
    Claim,
    DestinationInfo,
    GroupSettlement,
    Prepared,
    Pruned,
    Retention,
    Settlement,
    SubscriptionInfo,
    TopicSubscription,
)
from connector.messaging.selector import Selector
from connector.providers.dropbox import codec
from connector.providers.dropbox.access import DropboxAccessSpec
from connector.providers.dropbox.browsing import Browser
from connector.providers.dropbox.claims import DropboxClaim, Owner, owned_name
from connector.providers.dropbox.client_ids import hold
from connector.providers.dropbox.clients import ClientInfo, ClientLock, declare_dead, is_alive, list_clients
from connector.providers.dropbox.committer import Committer
from connector.providers.dropbox.distribution import Distributor
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import Layout, QueueFolders
from connector.providers.dropbox.lease import Pulse
from connector.providers.dropbox.log import published_keys
from connector.providers.dropbox.looking import look_at_waiting, open_batches
from connector.providers.dropbox.marks import Mark
from connector.providers.dropbox.poller import QueuePoller
from connector.providers.dropbox.pollers import Pollers
from connector.providers.dropbox.pruning import Pruner
from connector.providers.dropbox.recovery import DropboxLeftover, find_leftovers, unowned_claims
from connector.providers.dropbox.root import Root
from connector.providers.dropbox.sending import Sender
from connector.providers.dropbox.settlement import Settler
from connector.providers.dropbox.subscriptions import SubscriptionStore
from connector.providers.dropbox.temporary import Temporaries
from connector.providers.dropbox.waiter import Waiter
from connector.state.directory import FOLDERS, StateDirectory


class DropboxProvider:
    """Queues and topics as directories under one root that every client sees.

    Args:
        root: the shared directory.
        create: whether the first connection may make the root, and gives it an id
            (:class:`~connector.providers.dropbox.root.Root`). Otherwise a root that is missing or empty is an
            error.
        record: file in which a deployment records its roots; None = there is no deployment.
        incoming: name of the level between a queue and its folders; empty = none.
        outgoing: the same for what is sent, for an exchange with a partner who has it the other way round,
            and empty (ValueError) only where ``incoming`` is too; None = as ``incoming``.
        durable: sync what is sent before it is visible, and commit records.
        keep_processed: seconds that ``processed/`` and ``expired/`` keep a file; None = for ever.
        redelivery_limit: deliveries of one message by anybody, then its queue's ``error/``; None or 0 = any.
        lease: seconds after which a client that holds its lock but does not run counts as dead, for file
            systems whose locks cannot be trusted; None = the locks say it all. Adapters are excepted.
    """

    capabilities = Capabilities(
        topics=True, selectors=True, temporary_destinations=True, virtual_destinations=True
    )

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        create: bool = False,
        record: str | os.PathLike[str] | None = None,
        incoming: str = "incoming",
        outgoing: str | None = None,
        durable: bool = True,
        keep_processed: float | None = 7 * 86400.0,
        redelivery_limit: int | None = None,
        lease: float | None = None,
    ) -> None:
        if outgoing is not None and (incoming == "") != (outgoing == ""):
            raise ValueError(f"incoming {incoming!r} and outgoing {outgoing!r}: both are empty, or neither")
        self.root = Root(root, create=create, record=record)
        self.layout = Layout(root, incoming, outgoing)
        self.durable = durable
        self.keep_processed = keep_processed
        self.redelivery_limit = redelivery_limit
        self.lease = lease

    def state(self, application: str) -> StateDirectory:
        """See :meth:`connector.messaging.provider.Provider.state`."""
        self.root.enter()
        self.layout.prepare()
        return self.existing_state(application)

    def existing_state(self, application: str) -> StateDirectory:
        """As :meth:`state`, to look only: it makes nothing."""
        directory = self.layout.application(application)
        return StateDirectory(directory, folder=_instance_folder, keys_of=published_keys)

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> DropboxConnection:
        """See :meth:`connector.messaging.provider.Provider.connect`."""
        self.root.enter()
        self.layout.prepare()
        info = ClientInfo.here(application, instance, origin or client_id)
        connection = DropboxConnection(self, info)
        if client_id:
            try:
                connection.hold(client_id)
            except BaseException:
                connection.close()
                raise
        return connection

    def folders(self, destination: Destination) -> QueueFolders:
        """The folders of a destination, for tests that put files there; made when missing.

        Raises:
            ProviderError: they cannot be made.
        """
        self.root.enter()
        self.layout.prepare()
        return self.layout.ensure(destination)

    def clients(self) -> list[ClientNote]:
        """The clients that have a mark under the root, the oldest first."""
        return list_clients(self.layout.clients)

    def declare_dead(self, client_id: str) -> ClientState | None:
        """Marks a client whose lock never comes free as dead; its process may be there all the same.

        Returns:
            its state before: only one that was alive is changed. None = there is no such client.

        Raises:
            ProviderError: it cannot be marked.
        """
        return declare_dead(self.layout.clients, client_id)

    def batches(self, in_progress: Destination | None) -> list[BatchNote]:
        """The open claims of all clients, by client and batch.

        Raises:
            ProviderError: this user may not look.
        """
        return open_batches(self.layout, HeaderStore(self.layout.headers, "", sync=False), in_progress)

    def waiting(self, source: Destination | TopicSubscription) -> WaitingNote:
        """What waits in a queue or a subscription; nothing where there is none.

        Raises:
            ProviderError: this user may not look.
        """
        return look_at_waiting(self.layout, source)

    def check(self) -> bool:
        """Whether the root is there; False where the first connection makes it.

        Raises:
            ProviderError: the root is missing, empty or another one, and no connection would make it.
        """
        return self.root.check()

    def existing(self) -> DropboxConnection:
        """A connection that only looks: it makes nothing, so the root must be there.

        Raises:
            ProviderError: the root is missing, empty or another one.
        """
        if not self.check():
            raise ProviderError(f"there is no root {self.root.path} yet; run or send makes it")
        return DropboxConnection(self, None)


class DropboxConnection:
    """One client of one root (see :class:`connector.messaging.provider.Connection`)."""

    def __init__(self, provider: DropboxProvider, info: ClientInfo | None) -> None:
        self._provider = provider
        self.layout = layout = provider.layout
        self._lock = ClientLock(layout.clients, info) if info is not None else None
        self._info = self._lock.info if self._lock else ClientInfo()
        self.client_id = self._lock.client_id if self._lock else ""
        self._application = self._info.application
        self._pulse = None
        if self._lock is not None:
            self._pulse = Pulse(self._lock, provider.lease)
        durable, keep = provider.durable, provider.keep_processed != 0
        self._headers = HeaderStore(layout.headers, self.client_id, sync=durable)
        window = None
        if self._application:
            window = provider.existing_state(self._application).published
            os.makedirs(window, exist_ok=True)
        self._committer = Committer(
            layout, self._headers, self.client_id, durable=durable, window=window, pulse=self._pulse
        )
        self._store = SubscriptionStore(
            layout, self._headers, self.client_id, self._info, self._is_alive, durable=durable
        )
        self._distributor = Distributor(
            layout,
            self._headers,
            self._store,
            self.client_id,
            self._info.origin,
            durable=durable,
            keep=keep,
        )
        self._settler = Settler(layout, self._headers, self._committer, self._distributor, keep=keep)
        self._sender = Sender(
            layout, self._headers, self.client_id, self._committer, self._distributor, durable=durable
        )
        self._browser = Browser(layout, self._headers, self._store, self.client_id)
        self._temporaries = Temporaries(layout, self._headers, self.client_id, self._info, self._is_alive)
        self._pruner = Pruner(
            layout,
            self._headers,
            provider.keep_processed,
            layout.application(self._application) if self._application else "",
        )
        self._held: Mark | None = None
        self._pollers = Pollers(
            layout,
            self._headers,
            self.client_id,
            self._store,
            self._distributor,
            self._committer,
            self._temporaries,
            limit=provider.redelivery_limit or None,
            keep=keep,
            pulse=self._pulse,
        )
        self._leftovers: list[DropboxLeftover] = []
        self._closed = False
        self._ending = threading.RLock()

    def hold(self, client_id: str) -> None:
        """Takes a client id of JMS for the life of this connection.

        Raises:
            ClientIdError: somebody holds it.
        """
        self._held = hold(self.layout, client_id, self.client_id, self._info, self._is_alive)

    def _is_alive(self, client_id: str) -> bool:
        return is_alive(self.layout.clients, client_id, self.client_id, self._provider.lease)

    def _check_open(self, error: type[ProviderError] = ProviderError) -> None:
        """Raises ``error`` where this connection has ended."""
        if self._closed:
            raise error(f"the connection {self.client_id} is closed, nothing was done: connect anew")

    @property
    def sent_ids(self) -> str:
        """See :meth:`connector.messaging.provider.Connection.sent_ids`; ids are ``TIME-CLIENT-NUMBER``."""
        return f"%-{self.client_id}-%"  # of letters and digits: there is nothing to escape

    # -- taking ------------------------------------------------------------------------------------

    def poller(
        self,
        source: Destination | TopicSubscription,
        in_progress: Destination | None = None,
        *,
        selector: Selector | None = None,
    ) -> QueuePoller:
        """See :meth:`connector.messaging.provider.Connection.poller`."""
        self._check_open()
        return self._pollers.make(source, in_progress, selector)

    def wait(self, seconds: float) -> None:
        """See :meth:`connector.messaging.provider.Connection.wait`."""
        self._pollers.wait(seconds)

    def waiter(self) -> Waiter | None:
        """See :meth:`connector.messaging.provider.Connection.waiter`."""
        self._check_open()
        waiter = self._pollers.waiter()
        if waiter is not None:
            self._settler.returns = waiter.returns
        return waiter

    def wake(self) -> None:
        """See :meth:`connector.messaging.provider.Connection.wake`."""
        self._pollers.wake()

    def check(self) -> None:
        """See :meth:`connector.messaging.provider.Connection.check`: a root that is gone looks drained."""
        self._check_open()
        if self._pulse is not None:
            self._pulse.assert_ours()
        if not os.path.exists(os.path.join(self.layout.clients, self.client_id)):
            raise ProviderError(
                f"the root {self.layout.root} is not the one that this adapter uses any more "
                "(moved, removed or not mounted); bring it back"
            )

    def adopt(self, claim: Claim, cycle: int, sequence: int) -> DropboxClaim | None:
        """Takes over a leftover of an in-progress destination; None where somebody else did.

        Raises:
            ProviderError: it cannot be renamed.
        """
        self._check_open()
        assert isinstance(claim, DropboxClaim)
        owner = Owner(self.client_id, cycle, sequence)
        name = self._deliver_once_more(claim, lambda counted: owned_name(counted, owner, claim.destination))
        if name is None:
            return None
        path = f"{claim.path.rpartition('/')[0]}/{name}"
        return DropboxClaim(self.layout, self._headers, claim.home, name, path, cycle, sequence, owner)

    def leave(self, claim: Claim) -> None:
        """See :meth:`connector.messaging.provider.Connection.leave`."""
        self._check_open()
        assert isinstance(claim, DropboxClaim)
        self._deliver_once_more(claim, lambda counted: codec.without_properties(counted, (codec.OWNER,)))

    def _deliver_once_more(self, claim: DropboxClaim, rename: Callable[[str], str]) -> str | None:
        """Renames a claim in its folder, its deliveries one more; None where it is gone.

        One that was left without an owner has been counted already, and one that waits was not delivered.
        """
        is_counted = claim.owner is None and claim.delivery_count > 0
        more = 0 if is_counted or claim.waits else 1
        counted = codec.with_delivery_count(claim.full_name, claim.delivery_count + 1 + more)
        name = claim.name
        try:
            name = self._headers.fit(rename(counted))
            path = f"{claim.path.rpartition('/')[0]}/{name}"
            os.rename(self.layout.absolute(claim.path), self.layout.absolute(path))
        except FileNotFoundError:
            self._headers.remove(name, keep=claim.name)
            return None
        except OSError as error:
            raise ProviderError(f"cannot take over {claim.path}: {error.strerror}") from error
        self._headers.remove(claim.name, keep=name)
        return name

    # -- settling ----------------------------------------------------------------------------------

    def settle(
        self,
        settlements: Sequence[Settlement | GroupSettlement],
        sends: Sequence[Prepared] = (),
        discards: Sequence[Prepared] = (),
        *,
        fenced: bool = False,
    ) -> None:
        """See :meth:`connector.messaging.provider.Connection.settle`."""
        self._check_open(SettlementError)
        if self._pulse is not None:
            self._pulse.check()
        self._settler.settle(settlements, sends, discards, fenced=fenced)
        for settlement in settlements:
            if isinstance(settlement, Settlement) and settlement.give_back:
                self._pollers.look_again()
                break

    def access(self) -> DropboxAccessSpec:
        self._check_open()
        return DropboxAccessSpec(
            self.layout.root,
            self.layout.incoming,
            self.layout.outgoing,
            self.client_id,
            self._provider.durable,
        )

    # -- recovery ----------------------------------------------------------------------------------

    def leftovers(self, in_progress: Destination | None, *, at_start: bool) -> Iterator[DropboxLeftover]:
        """See :meth:`connector.messaging.provider.Connection.leftovers`."""
        self._check_open()
        return self._find_leftovers(in_progress, at_start=at_start)

    def _find_leftovers(
        self, in_progress: Destination | None, *, at_start: bool
    ) -> Iterator[DropboxLeftover]:
        """As :meth:`leftovers`, and remembers them."""
        for leftover in find_leftovers(
            self.layout,
            self._headers,
            self._committer,
            self._store,
            own=self.client_id,
            application=self._application,
            in_progress=in_progress,
            at_start=at_start,
            lease=self._provider.lease,
        ):
            self._leftovers = [*(one for one in self._leftovers if one.is_held), leftover]
            yield leftover

    def unowned(self, in_progress: Destination) -> list[DropboxClaim]:
        """See :meth:`connector.messaging.provider.Connection.unowned`."""
        self._check_open()
        return unowned_claims(self.layout, self._headers, in_progress)

    def prune(self, retentions: Sequence[Retention] = (), *, seconds: float = 0.5) -> Pruned:
        """See :meth:`connector.messaging.provider.Connection.prune`."""
        self._check_open()
        return self._pruner.step(retentions, seconds)

    # -- sending and looking -----------------------------------------------------------------------

    def send(self, destination: Destination, messages: Iterable[Message]) -> list[str]:
        """See :meth:`connector.messaging.provider.Connection.send`."""
        self._check_open()
        return self._sender.send(destination, messages)

    def browse(
        self, destination: Destination, unreadable: Callable[[Message, str], object] | None = None
    ) -> Iterator[Message]:
        """See :meth:`connector.messaging.provider.Connection.browse`."""
        self._check_open()
        return self._browser.browse(destination, unreadable)

    def names(self) -> list[Destination]:
        """See :meth:`connector.messaging.provider.Connection.names`."""
        self._check_open()
        return self._browser.names()

    def destinations(self) -> list[DestinationInfo]:
        """See :meth:`connector.messaging.provider.Connection.destinations`."""
        self._check_open()
        return self._browser.destinations()

    def subscriptions(self) -> list[SubscriptionInfo]:
        """See :meth:`connector.messaging.provider.Connection.subscriptions`."""
        self._check_open()
        return self._browser.subscriptions()

    def unsubscribe(self, name: str, client_id: str = "") -> SubscriptionInfo:
        """See :meth:`connector.messaging.provider.Connection.unsubscribe`."""
        self._check_open()
        return self._store.unsubscribe(name, client_id)

    def temporary(self, kind: str) -> Destination:
        """See :meth:`connector.messaging.provider.Connection.temporary`."""
        self._check_open()
        return self._temporaries.make(kind)

    def delete_temporary(self, destination: Destination) -> None:
        """See :meth:`connector.messaging.provider.Connection.delete_temporary`."""
        self._check_open()
        self._temporaries.end(destination)

    # -- ending ------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the connection; everything must be settled or given back. Repeatable."""
        with self._ending:
            if self._closed:
                return
            self._closed = True
            try:
                self._release_leftovers()
                self._pollers.close()
                if self._lock is not None and os.path.isdir(self.layout.clients):
                    self._temporaries.end_all()
            finally:
                if self._held is not None:
                    self._held.close()
                if self._pulse is not None:
                    self._pulse.stop()
                if self._lock is not None:
                    self._lock.close()

    def _release_leftovers(self) -> None:
        """Leaves to the next client what this one has taken over and not dealt with."""
        for leftover in self._leftovers:
            leftover.release()

    def abandon(self) -> None:
        """Ends the connection with claims still open: whoever recovers next deals with them."""
        with self._ending:
            self._closed = True
            self._release_leftovers()
            self._pollers.abandon()
            if self._held is not None:
                self._held.abandon()
            if self._pulse is not None:
                self._pulse.stop()
            if self._lock is not None:
                self._lock.abandon()


def _instance_folder(instance: str) -> str:
    """The folder of an instance; one that is called like a folder of the state gets another name."""
    name = codec.encode_field(instance)
    return name if name not in FOLDERS else f"%{ord(name[0]):02X}{name[1:]}"
