"""The ``dropbox`` provider: queues are directories under a root that every client sees."""

from __future__ import annotations

import os

from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.notes import BatchNote, ClientNote, ClientState, WaitingNote
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.subscription import TopicSubscription
from connector.state.directory import FOLDERS, StateDirectory
from connector.stores.dropbox import codec, files
from connector.stores.dropbox.client_context import ClientContext
from connector.stores.dropbox.clients import ClientDetails, OwnClient, declare_dead, list_clients
from connector.stores.dropbox.committer import Committer
from connector.stores.dropbox.file_names import FileNames
from connector.stores.dropbox.headers import HeaderStore
from connector.stores.dropbox.layout import QueueFolders, RootLayout
from connector.stores.dropbox.monitoring import look_at_waiting, open_batches
from connector.stores.dropbox.pruning import RootPruner
from connector.stores.dropbox.registry import DropboxRegistry
from connector.stores.dropbox.root import Root
from connector.stores.dropbox.store import DropboxStore
from connector.stores.dropbox.transaction_log import published_keys
from connector.stores.dropbox.waiter import DropboxWatch
from connector.stores.engine.connection import CAPABILITIES, LocalConnection


class DropboxProvider(AdapterProvider):
    """Queues and topics as directories under one root that every client sees.

    Args:
        root: the directory, or a :class:`~connector.stores.dropbox.root.Root` with the record of a
            deployment, which needs no ``create``.
        create: whether the first connection may make the root, and gives the root an id
            (:class:`~connector.stores.dropbox.root.Root`). Otherwise a root that is missing or empty is an
            error.
        incoming: name of the level between a queue and its folders. Empty = none.
        outgoing: the level for sent messages, for a partner that has the two levels the other way round. Both
            are empty, or neither (ValueError). None = as ``incoming``.
        durable: sync sent messages before they are visible, and sync commit records.
        keep_processed: seconds that ``processed/`` and ``expired/`` keep a file. None = for ever.
        redelivery_limit: deliveries of one message by all clients, before the message goes to ``error/`` of
            the queue. None or 0 = no limit.
        lease: seconds after which a client that holds its lock but does not run counts as dead. For file
            systems whose locks cannot be trusted. None = only locks count. Adapters are excepted.
    """

    capabilities = CAPABILITIES

    def __init__(
        self,
        root: str | os.PathLike[str] | Root,
        *,
        create: bool = False,
        incoming: str = "incoming",
        outgoing: str | None = None,
        durable: bool = True,
        keep_processed: float | None = 7 * 86400.0,
        redelivery_limit: int | None = None,
        lease: float | None = None,
    ) -> None:
        if outgoing is not None and (incoming == "") != (outgoing == ""):
            raise ValueError(f"incoming {incoming!r} and outgoing {outgoing!r}: expected both empty, or none")
        self.root = root if isinstance(root, Root) else Root(root, create=create)
        self.layout = RootLayout(self.root.path, incoming, outgoing)
        self.durable = durable
        self.keep_processed = keep_processed
        self.redelivery_limit = redelivery_limit
        self.lease = lease

    def state(self, application: str) -> StateDirectory:
        self.root.enter()
        self.layout.prepare()
        return self.existing_state(application)

    def existing_state(self, application: str) -> StateDirectory:
        directory = self.layout.application(application)
        return StateDirectory(
            directory, folder=_instance_folder, keys_of=published_keys, durable=self.durable
        )

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> LocalConnection:
        self.root.enter()
        self.layout.prepare()
        return self._open(ClientDetails.here(application, instance, origin or client_id), client_id)

    def folders(self, destination: Destination) -> QueueFolders:
        """Returns the folders of a destination, for tests that put files there. Makes missing folders.

        Raises:
            ProviderError: they cannot be made.
        """
        self.root.enter()
        self.layout.prepare()
        return self.layout.ensure(destination)

    def clients(self) -> list[ClientNote]:
        """Returns the clients that have a file under the root, the oldest first."""
        return list_clients(self.layout.clients)

    def declare_dead(self, client_id: str) -> ClientState | None:
        return declare_dead(self.layout.clients, client_id)

    def batches(self, in_progress: Destination | None) -> list[BatchNote]:
        return open_batches(self.layout, HeaderStore(self.layout.headers, "", sync=False), in_progress)

    def waiting(self, source: Destination | TopicSubscription) -> WaitingNote:
        return look_at_waiting(self.layout, source)

    def check(self) -> bool:
        return self.root.check()

    def disk(self) -> str:
        return self.root.path

    def existing(self) -> LocalConnection:
        if not self.check():
            raise ProviderError(f"there is no root {self.root.path} yet; run or send makes it")
        return self._open(None)

    def _open(self, details: ClientDetails | None, client_id: str = "") -> LocalConnection:
        """Opens a connection. Without ``details`` the connection only looks."""
        layout = self.layout
        client = OwnClient(layout.clients, details, self.lease) if details is not None else None
        own = client.client_id if client is not None else ""
        application = details.application if details is not None else ""
        headers = HeaderStore(layout.headers, own, sync=self.durable)
        window = None
        if application:
            window = self.existing_state(application).published
            files.make_directory(window)
        committer = Committer(layout, headers, own, durable=self.durable, window=window, client=client)
        keep = self.keep_processed != 0
        context = ClientContext(
            layout, headers, FileNames(headers, own), committer, own, self.durable, keep, client
        )
        shared = layout.application(application) if application else ""
        store = DropboxStore(context, RootPruner(layout, headers, self.keep_processed, shared))
        registry = DropboxRegistry(context, self.lease, store.end)
        watch = DropboxWatch(store.directories, store.set_return_listener)
        limit = self.redelivery_limit or None
        return LocalConnection(store, registry, watch, limit=limit, client_id=client_id, lots=True)


def _instance_folder(instance: str) -> str:
    """Returns the folder of an instance. The name differs from every folder name of the state."""
    name = codec.encode_field(instance)
    return name if name not in FOLDERS else f"%{ord(name[0]):02X}{name[1:]}"
