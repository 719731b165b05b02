"""The ``dropbox`` provider and its connection (see :mod:`connector.messaging.provider`)."""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from connector.core.state import order_key
from connector.errors import (
    CapabilityError,
    MalformedData,
    ProviderError,
    SettlementError,
    UnknownDestination,
)
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Capabilities, Claim, Prepared, Settlement, TopicSubscription
from connector.messaging.selector import Selector
from connector.providers.dropbox import codec, files
from connector.providers.dropbox.access import DropboxAccessSpec, without_owner
from connector.providers.dropbox.claims import DropboxClaim, Owner, QueuePoller, owned_name, split_tag
from connector.providers.dropbox.clients import ClientInfo, ClientLock, lock
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import Layout, QueueFolders
from connector.providers.dropbox.listing import rank
from connector.providers.dropbox.log import Move, published_keys
from connector.providers.dropbox.recovery import DropboxLeftover, find_leftovers, unowned_claims
from connector.providers.dropbox.settlement import Settler
from connector.state.instances import InstanceLock

_PRUNE_INTERVAL: Final = 3600.0
_NO_LIMIT: Final = 1 << 62
_WINDOW: Final = "published"
_STATE_FOLDERS: Final = (_WINDOW, "in-flight")


class DropboxProvider:
    """Queues as directories under one root that every client sees.

    Args:
        root: the shared directory; made when missing.
        incoming: name of the level between a queue and its folders.
        durable: sync what is sent before it is visible, and commit records.
        keep_processed: seconds that ``processed/`` and ``expired/`` keep a file; None = for ever.
        redelivery_limit: deliveries of one message by anybody, then its queue's ``error/``; None = no limit.
    """

    capabilities = Capabilities()

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        incoming: str = "incoming",
        durable: bool = True,
        keep_processed: float | None = 7 * 86400.0,
        redelivery_limit: int | None = None,
    ) -> None:
        self.layout = Layout(root, incoming)
        self.durable = durable
        self.keep_processed = keep_processed
        self.redelivery_limit = redelivery_limit
        self._seen = False

    def instance(self, application: str, wanted: str | None) -> InstanceLock:
        """The name of this instance of an adapter, held until closed.

        Raises:
            ProviderError: the configured name is taken, or the root cannot be used.
        """
        self.layout.prepare()
        self._seen = True
        return InstanceLock(self.layout.application(application), wanted, _instance_folder, lock)

    def connect(self, application: str = "", instance: str = "") -> DropboxConnection:
        """A connection of its own, with a client id of its own.

        Raises:
            ProviderError: the root cannot be used.
        """
        if self._seen and not os.path.isdir(self.layout.clients):
            # a new root in its place would look drained, and be in the way of the old one's return
            raise ProviderError(
                f"the root {self.layout.root} is gone (moved, removed or not mounted); bring it back"
            )
        self.layout.prepare()
        return DropboxConnection(self, ClientInfo.here(application, instance))

    def existing(self) -> DropboxConnection:
        """A connection that only looks: it makes nothing, so the root must be there.

        Raises:
            ProviderError: there is no such root.
        """
        if not os.path.isdir(self.layout.root):
            raise ProviderError(f"there is no root {self.layout.root}; run or send makes it")
        return DropboxConnection(self, None)


class DropboxConnection:
    """One client of one root (see :class:`connector.messaging.provider.Connection`)."""

    def __init__(self, provider: DropboxProvider, info: ClientInfo | None) -> None:
        self._provider = provider
        self.layout = provider.layout
        self._lock = ClientLock(self.layout.clients, info) if info is not None else None
        self.client_id = self._lock.client_id if self._lock else ""
        self._application = info.application if info else ""
        self._headers = HeaderStore(self.layout.headers, self.client_id, sync=provider.durable)
        window = None
        if self._application:
            window = self.window_directory
            os.makedirs(window, exist_ok=True)
        self._settler = Settler(
            self.layout,
            self._headers,
            self.client_id,
            durable=provider.durable,
            window=window,
            keep=provider.keep_processed != 0,
        )
        self._pollers: list[QueuePoller] = []
        self._micros = 0
        self._numbers = itertools.count(1)

    # -- what an adapter keeps beside its messages -------------------------------------------------

    @property
    def state_directory(self) -> str:
        """State that the instances of one ApplicationName share."""
        return self.layout.application(self._application)

    @property
    def window_directory(self) -> str:
        """Finished commit records with published ids: the duplicate window."""
        return os.path.join(self.state_directory, _WINDOW)

    @staticmethod
    def published_keys(record: bytes) -> list[str]:
        """The duplicate keys in a finished commit record, in their order."""
        return published_keys(record)

    def journal_directory(self, client_id: str, instance: str) -> str:
        """Where the tasks of one client keep their outcome journals."""
        return os.path.join(self.state_directory, _instance_folder(instance), client_id)

    # -- taking ------------------------------------------------------------------------------------

    def poller(
        self,
        source: Destination | TopicSubscription,
        in_progress: Destination | None = None,
        *,
        selector: Selector | None = None,
    ) -> QueuePoller:
        """Takes from a queue; with ``in_progress`` the claim is the move to that queue.

        Raises:
            CapabilityError: a topic.
            ProviderError: the folders of the queue cannot be made.
        """
        if not isinstance(source, Destination) or not source.is_queue or source.view or selector:
            raise CapabilityError(f"{source}: this version polls queues only")
        poller = QueuePoller(
            self.layout,
            self._headers,
            self.client_id,
            source,
            in_progress,
            limit=self._provider.redelivery_limit or _NO_LIMIT,
            keep=self._provider.keep_processed != 0,
        )
        self._pollers.append(poller)
        return poller

    def check(self) -> None:
        """See :meth:`connector.messaging.provider.Connection.check`: a root that is gone looks drained."""
        if not os.path.exists(os.path.join(self.layout.clients, self.client_id)):
            raise ProviderError(
                f"the root {self.layout.root} is not the one that this adapter uses any more "
                "(moved, removed or not mounted); bring it back"
            )

    def adopt(self, claim: Claim, cycle: int, sequence: int) -> DropboxClaim | None:
        """Takes over a leftover of an in-progress destination; None where somebody else did.

        Whether it was delivered is in doubt, so it counts as one more delivery.

        Raises:
            ProviderError: it cannot be renamed.
        """
        assert isinstance(claim, DropboxClaim)
        folder = claim.path.rpartition("/")[0]
        owner = Owner(self.client_id, cycle, sequence)
        counted = codec.with_delivery_count(claim.full_name, claim.delivery_count + 2)
        try:
            name = self._headers.fit(owned_name(counted, owner, claim.destination))
            path = f"{folder}/{name}"
            os.rename(self.layout.absolute(claim.path), self.layout.absolute(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ProviderError(f"cannot take over {claim.path}: {error.strerror}") from error
        self._headers.remove(claim.name)
        return DropboxClaim(self.layout, self._headers, claim.home, name, path, cycle, sequence, owner)

    # -- settling ----------------------------------------------------------------------------------

    def settle(
        self,
        settlements: Sequence[Settlement],
        sends: Sequence[Prepared] = (),
        discards: Sequence[Prepared] = (),
    ) -> None:
        """See :meth:`connector.messaging.provider.Connection.settle`."""
        self._settler.settle(settlements, sends, discards)
        if any(settlement.give_back for settlement in settlements):
            for poller in self._pollers:
                poller.look_again()

    def access(self) -> DropboxAccessSpec:
        return DropboxAccessSpec(
            self.layout.root, self.layout.incoming, self.client_id, self._provider.durable
        )

    # -- recovery ----------------------------------------------------------------------------------

    def leftovers(self, in_progress: Destination | None, *, at_start: bool) -> Iterator[DropboxLeftover]:
        """See :meth:`connector.messaging.provider.Connection.leftovers`."""
        return find_leftovers(
            self.layout,
            self._headers,
            self._settler,
            own=self.client_id,
            application=self._application,
            in_progress=in_progress,
            at_start=at_start,
        )

    def unowned(self, in_progress: Destination) -> list[DropboxClaim]:
        """See :meth:`connector.messaging.provider.Connection.unowned`."""
        return unowned_claims(self.layout, self._headers, in_progress)

    def prune(self) -> int:
        """Removes what ``keep_processed`` no longer keeps; returns how many files.

        Every hour at most, whoever of all clients asks; more often where little is kept.
        """
        keep = self._provider.keep_processed
        if keep is None or not self._is_due(min(_PRUNE_INTERVAL, keep / 4)):
            return 0
        removed = 0
        limit = time.time() - keep
        for destination in self.layout.queues():
            folders = self.layout.queue(destination)
            for folder in (folders.processed, folders.expired):
                removed += self._prune_folder(folder, limit)
        return removed

    def _is_due(self, interval: float) -> bool:
        """Whether ``interval`` seconds have passed since anybody was told so."""
        mark = os.path.join(os.path.dirname(self.layout.clients), "pruned")
        try:
            if time.time() - os.stat(mark).st_mtime < interval:
                return False
        except FileNotFoundError:
            pass
        try:
            with open(mark, "wb"):
                os.utime(mark)
        except OSError:
            return False
        return True

    def _prune_folder(self, folder: str, limit: float) -> int:
        removed = 0
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if (
                        entry.is_file(follow_symlinks=False)
                        and entry.stat(follow_symlinks=False).st_ctime < limit
                    ):
                        self._headers.remove(entry.name)
                        files.remove(entry.path)
                        removed += 1
        except OSError:
            pass  # what cannot be removed now is removed another time
        return removed

    # -- sending and looking -----------------------------------------------------------------------

    def send(self, destination: Destination, messages: Iterable[Message]) -> list[str]:
        """See :meth:`connector.messaging.provider.Connection.send`."""
        if not destination.is_queue:
            raise CapabilityError(f"{destination}: this version sends to queues only")
        folders = self.layout.queue(destination)
        if not (os.path.isdir(folders.working) and os.path.isdir(folders.target)):
            self.layout.make(folders)
        ids: list[str] = []
        names: list[str] = []
        written: list[str] = []
        try:
            try:
                for message in messages:
                    message.message_id = self._new_id()
                    names.append(self._headers.fit(codec.encode(message)))
                    working = (
                        f"{folders.working}/{self.client_id}-{next(self._numbers)}~@{self.client_id}-0-0"
                    )
                    written.append(working)
                    files.write_new(working, message.body, sync=False)
                    ids.append(message.message_id)
                if self._provider.durable:
                    files.sync_files(written)
            except BaseException:
                self._unmake(written, names)
                raise
            try:
                self._make_visible(folders, written, names)
            except (OSError, SettlementError):
                self._unmake(written, names)
                raise
            if self._provider.durable and len(written) == 1:  # several: the commit has done it
                files.sync_directory(folders.target)
        except (OSError, SettlementError) as failure:
            error = failure if isinstance(failure, OSError) else failure.__cause__
            what = f"{error.strerror}: {error.filename!r}" if isinstance(error, OSError) else str(failure)
            raise ProviderError(f"cannot send to {destination}: {what}; nothing was sent") from failure
        return ids

    def _make_visible(self, folders: QueueFolders, written: Sequence[str], names: Sequence[str]) -> None:
        """One message is one rename, several are one commit record."""
        if len(written) == 1:
            os.rename(written[0], f"{folders.target}/{names[0]}")
        elif written:
            relative = self.layout.relative
            self._settler.commit(
                [
                    Move("sent", relative(working), relative(f"{folders.target}/{name}"))
                    for working, name in zip(written, names, strict=True)
                ]
            )

    def _unmake(self, written: Sequence[str], names: Sequence[str]) -> None:
        """Removes messages that were not sent, and their sidecars."""
        for path in written:
            files.remove(path)
        for name in names:
            self._headers.remove(name)

    def _new_id(self) -> str:
        """Sorts by time, also within this client, and names the client (design, section 5)."""
        self._micros = max(self._micros + 1, time.time_ns() // 1000)
        return f"ID:{self._micros:016d}-{self.client_id}-{next(self._numbers)}"

    def browse(self, destination: Destination) -> Iterator[Message]:
        """See :meth:`connector.messaging.provider.Connection.browse`."""
        if not destination.is_queue or not self.layout.exists(destination):
            raise UnknownDestination(
                f"there is no {destination} under {self.layout.root}"
                + (
                    f"; there are {', '.join(str(d) for d in self.layout.queues())}"
                    if self.layout.queues()
                    else ""
                )
            )
        folders = self.layout.queue(destination)
        found = []
        for folder in (folders.target, folders.processing):
            for name in _names(folder):
                seen = self._look(folder, name)
                if seen is not None:
                    key, message = seen
                    message.destination = str(destination)
                    found.append((key, f"{folder}/{name}", message))
        found.sort(key=lambda entry: entry[0])
        for _, path, message in found:
            try:
                message.body, _ = files.read_regular(path, _NO_LIMIT)
            except (OSError, MalformedData):
                continue  # taken meanwhile, or no message
            yield message

    def _look(self, folder: str, name: str) -> tuple[tuple[int, int, str], Message] | None:
        """Place in the order of taking and headers of a file; None where it is gone or no message."""
        short = split_tag(name)[0]
        try:
            status = os.lstat(f"{folder}/{name}")
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        try:
            full = without_owner(self._headers.expand(short), keep_origin=True)
        except MalformedData:
            full = short
        message, _ = codec.decode(full, readable_only=True)
        if not message.timestamp:
            message.timestamp = status.st_mtime_ns // 1_000_000
        priority, age = rank(short)
        return order_key(priority, status.st_mtime_ns // 1000 if age is None else age, short), message

    def close(self) -> None:
        """Ends the connection; everything must be settled or given back."""
        if self._lock is not None:
            self._lock.close()

    def abandon(self) -> None:
        """Ends the connection with claims still open: whoever recovers next deals with them."""
        if self._lock is not None:
            self._lock.abandon()


def _instance_folder(instance: str) -> str:
    """The folder of an instance; one that is called like a folder of the state gets another name."""
    name = codec.encode_field(instance)
    return name if name not in _STATE_FOLDERS else f"%{ord(name[0]):02X}{name[1:]}"


def _names(folder: str) -> list[str]:
    """Names that may be messages; none where a foreign program has not made the folder.

    Raises:
        ProviderError: the folder cannot be read.
    """
    try:
        return [name for name in os.listdir(folder) if not name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ProviderError(
            f"cannot read {folder}: {error.strerror}; give this user the right to read it"
        ) from error
