"""Where everything lies under the root (seed 000 "The Root"; reference dropbox-and-core, 1.2).

::

    <root>/<queue>/incoming/{working,target,processing,processed,expired,error}
    <root>/dropboxmq/clients/<client>              a living client holds a lock on its file
    <root>/dropboxmq/headers/<key>                 headers too long for a file name
    <root>/dropboxmq/transaction/{associated,committing,committed}
    <root>/dropboxmq/adapter/<ApplicationName>/    journals and duplicate window of one adapter
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from connector.errors import DestinationError, ProviderError
from connector.messaging.destination import RESERVED, Destination, parse_destination
from connector.providers.dropbox.codec import encode_field

FOLDERS: Final = ("working", "target", "processing", "processed", "expired", "error")


@dataclass(frozen=True, slots=True)
class QueueFolders:
    """The folders of one queue, as paths without a slash at the end; absolute unless called relative."""

    destination: Destination
    text: str
    base: str
    working: str
    target: str
    processing: str
    processed: str
    expired: str
    error: str
    relative_target: str
    relative_processed: str


class Layout:
    """Paths under one root.

    Args:
        root: the directory that all clients share.
        incoming: name of the level between a queue and its folders; empty = no such level.
    """

    def __init__(self, root: str | os.PathLike[str], incoming: str = "incoming") -> None:
        self.root = os.path.abspath(os.fspath(root))
        self.incoming = incoming
        own = os.path.join(self.root, "dropboxmq")
        self.clients = os.path.join(own, "clients")
        self.headers = os.path.join(own, "headers")
        transaction = os.path.join(own, "transaction")
        self.associated = os.path.join(transaction, "associated")
        self.committing = os.path.join(transaction, "committing")
        self.committed = os.path.join(transaction, "committed")
        self.adapters = os.path.join(own, "adapter")
        self._queues: dict[Destination, QueueFolders] = {}
        self._ensured: set[Destination] = set()

    def prepare(self) -> None:
        """Makes the root and the protocol's own directories.

        Raises:
            ProviderError: it cannot be made or written; says which path and what to do.
        """
        try:
            for path in (
                self.clients,
                self.headers,
                self.associated,
                self.committing,
                self.committed,
                self.adapters,
            ):
                os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise ProviderError(
                f"the root {self.root} cannot be used: {error.strerror}: {error.filename}; "
                "make the directory, or give this user the right to write it"
            ) from error
        if not os.access(self.clients, os.W_OK | os.X_OK):
            raise ProviderError(
                f"the root {self.root} cannot be written (read-only, or owned by another user); "
                f"give this user the right to write {self.clients}"
            )

    def queue(self, destination: Destination) -> QueueFolders:
        """The folders of a queue, whether they exist or not."""
        folders = self._queues.get(destination)
        if folders is None:
            base = os.path.join(self.root, destination.name, self.incoming).rstrip("/")
            paths = {folder: os.path.join(base, folder) for folder in FOLDERS}
            folders = QueueFolders(
                destination,
                str(destination),
                base,
                **paths,
                relative_target=self.relative(paths["target"]),
                relative_processed=self.relative(paths["processed"]),
            )
            self._queues[destination] = folders
        return folders

    def ensure(self, destination: Destination) -> QueueFolders:
        """The folders of a queue, made when missing.

        Raises:
            ProviderError: they cannot be made.
        """
        folders = self.queue(destination)
        if destination not in self._ensured:
            self.make(folders)
            self._ensured.add(destination)
        return folders

    def make(self, folders: QueueFolders) -> None:
        """Makes the folders of a queue.

        Raises:
            ProviderError: they cannot be made.
        """
        if not os.path.isdir(self.clients):
            # a new root in its place would look drained, and be in the way of the old one's return
            raise ProviderError(
                f"the root {self.root} is gone (moved, removed or not mounted); bring it back"
            )
        try:
            for folder in FOLDERS:
                os.makedirs(os.path.join(folders.base, folder), exist_ok=True)
        except OSError as error:
            raise ProviderError(
                f"the folders of {folders.destination} cannot be made: {error.strerror}: {error.filename}; "
                "remove what stands in the way, or give this user the right to write there"
            ) from error

    def exists(self, destination: Destination) -> bool:
        return os.path.isdir(self.queue(destination).target)

    def queues(self) -> list[Destination]:
        """The queues that exist, by name."""
        found = []
        try:
            with os.scandir(self.root) as entries:
                names = sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []
        for name in names:
            if name.startswith(".") or name in RESERVED:
                continue
            try:
                destination = parse_destination(name)
            except DestinationError:
                continue
            if self.exists(destination):
                found.append(destination)
        return found

    def application(self, name: str) -> str:
        """The directory of one adapter's state."""
        return os.path.join(self.adapters, encode_field(name))

    def relative(self, path: str) -> str:
        return path[len(self.root) + 1 :]

    def absolute(self, path: str) -> str:
        return f"{self.root}/{path}"
