"""The clients of a root, and their shared records: :class:`connector.stores.engine.registry.Registry`."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final

from connector import own_files
from connector.errors import ProviderError, remedy
from connector.messaging.destination import Destination
from connector.messaging.subscription import TopicSubscription
from connector.state.locked_file import LockedFile, exclusive, list_files, look
from connector.stores.dropbox import files
from connector.stores.dropbox.claims import remove_messages
from connector.stores.dropbox.client_context import ClientContext
from connector.stores.dropbox.clients import ClientDetails, dead_clients, find_alive, remove_dead
from connector.stores.dropbox.codec import NAME_MAX, encode_field
from connector.stores.dropbox.forgotten_state import remove_forgotten_state
from connector.stores.dropbox.layout import CONSUMERS, RootLayout
from connector.stores.dropbox.lot_files import OWNERS, read_lots, write_lot
from connector.stores.dropbox.open_claims import claims_by_owner
from connector.stores.dropbox.prepared_files import owners_of_prepared
from connector.stores.dropbox.subscription_files import (
    DELETED,
    NEW,
    directory_name,
    find_subscription,
    read_subscription,
    without_bad_selector,
    write_subscription,
)
from connector.stores.engine.channel import Channel, lot_owner
from connector.stores.engine.client import CLIENT_ID, CONSUMER, LOT, LOT_OWNER, SUBSCRIPTION
from connector.stores.engine.registry import ClientInfo, DeadClient, Record, Registry

_FRESH_NS: Final = 10_000_000
"""A directory changed so recently may change again without a new time stamp (coarse kernel clocks)."""


def client_info(client_id: str, details: ClientDetails) -> ClientInfo:
    """Returns a client in the form of the engine."""
    return ClientInfo(
        client_id,
        details.application,
        details.instance,
        details.origin,
        details.declared_dead,
        who=f"process {details.pid} on {details.host}",
        since=details.started,
    )


class DropboxDead(DeadClient):
    def __init__(self, registry: DropboxRegistry, info: ClientInfo, file: LockedFile | None) -> None:
        self.info = info
        self._registry = registry
        self._file = file

    def remove(self) -> None:
        if self._file is not None:
            remove_dead(self._file)
        self._registry.sweep()

    def release(self) -> None:
        if self._file is not None:
            self._file.abandon()


class DropboxRegistry(Registry):
    """The clients of a root, and the records that they share.

    Args:
        lease: seconds after which a client that does not run counts as dead. None = never.
        end: removes the prepared messages of the client.
    """

    def __init__(
        self,
        context: ClientContext,
        lease: float | None,
        end: Callable[[], None],
    ) -> None:
        self._details = ClientDetails() if context.client is None else context.client.details
        self.info = client_info(context.client_id, self._details)
        self._context = context
        self._layout: RootLayout = context.layout
        self._lease = lease
        self._end = end
        self._numbers = itertools.count(1)
        self._held: dict[tuple[str, Channel | str, str], LockedFile] = {}
        self._known: dict[Destination, tuple[int, Sequence[Record]]] = {}
        self._lock = threading.RLock()
        self._depth = 0

    def check(self) -> None:
        if self._context.client is not None:
            self._context.client.check()
        # a root that is gone looks drained
        if not os.path.exists(os.path.join(self._layout.clients, self._context.client_id)):
            raise ProviderError(
                f"the root {self._layout.root} is not the one that this adapter uses any more "
                "(moved, removed or not mounted): mount it again, or move it back"
            )

    def find_alive(self, client_id: str) -> ClientInfo | None:
        if client_id == self._context.client_id:
            return self.info
        details = find_alive(self._layout.clients, client_id, self._context.client_id, self._lease)
        return None if details is None else client_info(client_id, details)

    def find(self, client_id: str) -> ClientInfo | None:
        if not self._layout.knows_client(client_id):
            return None
        found = look(os.path.join(self._layout.clients, client_id))
        return client_info(client_id, ClientDetails.parse(b"" if found is None else found.content))

    def dead(self, *, at_start: bool) -> Iterator[DropboxDead]:
        for file in dead_clients(self._layout.clients, self._context.client_id, self._lease):
            info = client_info(os.path.basename(file.path), ClientDetails.parse(file.read()))
            yield DropboxDead(self, info, file)
        if at_start:
            for client_id in self._unknown():
                yield DropboxDead(self, ClientInfo(client_id, is_known=False), None)
            remove_forgotten_state(self._layout)

    def _unknown(self) -> list[str]:
        """Returns the clients whose file was removed, but not their claims, commits or prepared messages."""
        names = sorted({*os.listdir(self._layout.committing), *os.listdir(self._layout.associated)})
        claims = claims_by_owner(self._layout, self._context.headers, None, None)
        prepared = owners_of_prepared(self._layout)
        known = list_files(self._layout.clients)  # after the names: a client has its file before a record
        known += [lot_owner(one.data["sequence_id"]) for one in read_lots(self._layout)]  # after the claims
        return sorted(({name.partition("-")[0] for name in names} | set(claims) | prepared).difference(known))

    # -- records -----------------------------------------------------------------------------------

    def lock(self) -> AbstractContextManager[object]:
        return self._locked()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            if self._depth:
                yield
                return
            with contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(exclusive(self._layout.lock))
                except OSError as error:
                    raise ProviderError(
                        f"cannot lock {self._layout.lock}: {error.strerror}{remedy(error)}"
                    ) from error
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1

    def records(self, kind: str, of: Channel | str) -> Sequence[Record]:
        if kind == SUBSCRIPTION:
            assert isinstance(of, Channel)
            return self._subscriptions(of.destination)
        if kind == LOT:
            return read_lots(self._layout)
        return list(self._held_records(kind, of))

    def _held_records(self, kind: str, of: Channel | str) -> Iterator[Record]:
        """Yields the records whose files are held. Under the lock also removes the files of dead clients."""
        directory = self._directory(kind, of)
        try:
            names = list_files(directory)
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in names:
            path = os.path.join(directory, name)
            owner = name.partition("-")[0]
            found = look(path)
            if found is not None and found.is_held and self.find_alive(owner):
                yield Record(kind, of, name, owner=client_info(owner, ClientDetails.parse(found.content)))
            elif found is not None and self._depth:
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def _subscriptions(self, topic: Destination) -> Sequence[Record]:
        directory = self._layout.subscriptions(topic)
        try:
            changed = os.stat(directory).st_mtime_ns
        except FileNotFoundError:
            return ()
        known = self._known.get(topic)
        if known is not None and known[0] == changed:
            return known[1]
        is_fresh = time.time_ns() - changed < _FRESH_NS
        found = tuple(
            without_bad_selector(record, folders.base)
            for folders in self._layout.subscriptions_of(topic)
            if (record := read_subscription(topic, folders)) is not None
        )
        if not is_fresh:
            self._known[topic] = changed, found
        return found

    def _directory(self, kind: str, of: Channel | str) -> str:
        """Returns the directory of the locked files of one kind."""
        if kind == CLIENT_ID:
            assert isinstance(of, str)
            return os.path.join(self._layout.client_ids, _folder_name(of))
        if kind == LOT_OWNER:
            assert isinstance(of, str)
            return os.path.join(self._layout.lots, _folder_name(of), OWNERS)
        assert kind == CONSUMER
        assert isinstance(of, Channel)
        if of.subscription:
            base = self._layout.subscription(of.destination, of.subscription).base
        else:
            base = self._layout.queue(of.destination).base
        return os.path.join(base, CONSUMERS)

    def subscription(self, client_id: str, name: str, *, durable: bool) -> Record | None:
        return find_subscription(self._layout, client_id, name, durable=durable)

    def subscription_key(self, details: TopicSubscription, unique: str) -> str:
        return directory_name(details, unique)

    def write(self, record: Record) -> None:
        if record.kind == SUBSCRIPTION:
            assert isinstance(record.of, Channel)
            unique = f"{self._context.client_id}-{next(self._numbers)}"
            write_subscription(self._layout, record, unique, durable=self._context.durable)
            self._known.pop(record.of.destination, None)
            return
        if record.kind == LOT:
            folder = os.path.join(self._layout.lots, _folder_name(record.key))
            write_lot(folder, record, sync=self._context.durable and record.durable)
            return
        directory = self._directory(record.kind, record.of)
        path = os.path.join(directory, f"{self._context.client_id}-{next(self._numbers)}")
        try:
            if record.kind == LOT_OWNER:
                own_files.make_directories(os.path.dirname(directory))
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory, own_files.DIRECTORY)
            file = LockedFile.hold(path, self._details.to_json())
        except OSError as error:
            raise ProviderError(f"cannot write {path}: {error.strerror}{remedy(error)}") from error
        if file is None:
            raise ProviderError(f"cannot hold {path}: another program has removed the file")
        self._held[record.kind, record.of, record.key] = file

    def remove(self, record: Record) -> None:
        file = self._held.pop((record.kind, record.of, record.key), None)
        if file is not None:
            file.remove()

    def sweep(self) -> None:
        """Removes the remains of clients that died while making or removing a subscription or destination."""
        with self._locked():
            for topic in self._layout.topics():
                self._sweep_hidden(self._layout.subscriptions(topic), (NEW, DELETED))
            for directory in (self._layout.root, self._layout.topic_root):
                self._sweep_hidden(directory, (DELETED,))

    def _sweep_hidden(self, directory: str, prefixes: Sequence[str]) -> None:
        for name in files.names_in(directory):
            for prefix in prefixes:
                if name.startswith(prefix):
                    owner = name[len(prefix) :].removeprefix("temporary-").partition("-")[0]
                    if owner == self._context.client_id or not self.find_alive(owner):
                        remove_messages(self._context.headers, os.path.join(directory, name))

    # -- the end -----------------------------------------------------------------------------------

    def close(self, *, abandoned: bool) -> None:
        while self._held:
            _, file = self._held.popitem()  # another thread may make a file meanwhile
            if abandoned:
                file.abandon()
            else:
                file.remove()
        client = self._context.client
        if client is None:
            return
        if not abandoned:
            try:
                self._end()
            except (OSError, ProviderError):  # another client removes them
                abandoned = True
        if abandoned:
            client.abandon()
        else:
            client.close()


def _folder_name(text: str) -> str:
    """Returns the name of a folder for a client id of JMS, or for the name of a lot."""
    folder = encode_field(text)
    if len(folder) > NAME_MAX:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16)
        folder = f"~{digest.hexdigest()}"
    return folder
