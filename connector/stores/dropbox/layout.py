"""The paths under the root (DropboxMQ, "The Root").

::

    <root>/<queue>/incoming/{working,target,processing,processed,expired,error,delayed}
    <root>/topic-root/<a>/<b>/.incoming/{the same}                      the topic a.b
    <root>/topic-root/<a>/<b>/.subscriptions/<name>.<client id>/{the same, consumers, subscription.json}
    <root>/dropboxmq/root-id                       tells this root from every other root
    <root>/dropboxmq/clients/<client>              a living client holds a lock on its file
    <root>/dropboxmq/client-ids/<client id>/       the holders of a client id of JMS
    <root>/dropboxmq/lots/<name>/{lot.json,owners} the last lot of a name, and the locked file of its owner
    <root>/dropboxmq/headers/<key>                 headers too long for a file name
    <root>/dropboxmq/transaction/{associated,committing,committed}
    <root>/dropboxmq/adapter/<ApplicationName>/    journals and duplicate window of one adapter
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from connector import own_files
from connector.errors import DestinationError, ProviderError, ProviderMisconfigured, UnknownDestination
from connector.messaging.destination import RESERVED, Destination, parse_destination
from connector.stores.dropbox import files
from connector.stores.dropbox.codec import OWN, encode_field
from connector.stores.dropbox.root import FRESH, OWN_DIRECTORY, root_gone_error
from connector.stores.engine.channel import owner_in

WORKING: Final = "working"
"""The folder of messages that are not sent yet."""
FOLDERS: Final = (WORKING, "target", "processing", "processed", "expired", "error", files.DELAYED)
TOPIC_ROOT: Final = "topic-root"
TOPIC_INCOMING: Final = ".incoming"
SUBSCRIPTIONS: Final = ".subscriptions"
CONSUMERS: Final = "consumers"
"""The folder of the locked files of consumers, in a subscription or a temporary queue."""

VIEW_LETTERS: Final = {"e": "EXPIRED", "o": "RECOVER-ERROR", "j": "REJECT-ERROR"}
"""The letters of virtual destinations in the tags of claims."""


@dataclass(frozen=True, slots=True)
class QueueFolders:
    """The folders of a queue, a topic or a subscription. Paths have no slash at the end.

    Args:
        destination: the queue or topic. For a subscription its topic.
        text: begins the duplicate keys of the messages.
        working, target, processing, processed, expired, error, delayed: absolute.
        relative_working, relative_target, relative_processed, relative_delayed: relative to the root.
        view: letter of a virtual destination, in the tags of its claims. Empty for others.
        requeues: a message settled without a copy always goes to ``processed`` as a new message.
        copy_tag: property that tells a copy from copies of other subscriptions, which may be the same file.
        owner_created: only the owner makes these folders, all at once. If they are missing, the subscription
            or the temporary destination has ended.
    """

    destination: Destination
    text: str
    base: str
    working: str
    target: str
    processing: str
    processed: str
    expired: str
    error: str
    delayed: str
    relative_working: str
    relative_target: str
    relative_processed: str
    relative_delayed: str
    view: str = ""
    requeues: bool = False
    copy_tag: str = ""
    owner_created: bool = False


class RootLayout:
    """Paths under one root.

    Args:
        incoming: name of the level between a queue and its folders. Empty = no such level.
        outgoing: the level for sent messages, if that is another directory. None = as ``incoming``.
    """

    def __init__(
        self, root: str | os.PathLike[str], incoming: str = "incoming", outgoing: str | None = None
    ) -> None:
        self.root = os.path.abspath(os.fspath(root))
        self.incoming = incoming
        self.outgoing = incoming if outgoing is None else outgoing
        own = os.path.join(self.root, OWN_DIRECTORY)
        self.clients = os.path.join(own, "clients")
        self.client_ids = os.path.join(own, "client-ids")
        self.lots = os.path.join(own, "lots")
        self.headers = os.path.join(own, "headers")
        transaction = os.path.join(own, "transaction")
        self.associated = os.path.join(transaction, "associated")
        self.committing = os.path.join(transaction, "committing")
        self.committed = os.path.join(transaction, "committed")
        self.adapters = os.path.join(own, "adapter")
        self.lock = os.path.join(own, "subscriptions.lock")
        self.topic_root = os.path.join(self.root, TOPIC_ROOT)
        self._queues: dict[Destination, QueueFolders] = {}
        self._outboxes: dict[Destination, QueueFolders] = {}
        self._subscriptions: dict[str, QueueFolders] = {}
        self._ensured: set[Destination] = set()

    def prepare(self) -> None:
        """Makes the directories of the protocol, but never the root.

        Raises:
            ProviderError: they cannot be made or written. The text names the path and the remedy.
        """
        try:
            for path in (
                os.path.dirname(self.clients),
                os.path.dirname(self.committed),
                self.clients,
                self.client_ids,
                self.headers,
                self.associated,
                self.committing,
                self.committed,
                self.adapters,
            ):
                if not os.path.isdir(path):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(path, own_files.DIRECTORY)
                    files.sync_earlier(os.path.dirname(path))
        except OSError as error:
            raise ProviderError(
                f"the root {self.root} cannot be used: {error.strerror}: {error.filename}; "
                "make the directory, or give this user the right to write it"
            ) from error
        if not os.access(self.clients, os.W_OK | os.X_OK):
            raise ProviderMisconfigured(
                f"the root {self.root} cannot be written (read-only, or owned by another user); "
                f"give this user the right to write {self.clients}"
            )

    # -- the folders of one destination ------------------------------------------------------------

    def queue(self, destination: Destination) -> QueueFolders:
        """Returns the folders of a destination, existing or not.

        For a topic those before the distribution.
        """
        folders = self._queues.get(destination)
        if folders is None:
            if destination.view:
                folders = _view(self.queue(destination.base), destination)
            else:
                folders = self._folders(destination, self._base(destination, self.incoming))
            self._queues[destination] = folders
        return folders

    def outbox(self, destination: Destination) -> QueueFolders:
        """Returns the folders into which messages to a destination are put, existing or not.

        Raises:
            DestinationError: the destination is virtual.
        """
        folders = self._outboxes.get(destination)
        if folders is None:
            if destination.view:
                raise DestinationError(
                    f"nothing can be sent to {destination}: it is a view of {destination.base}; send to that"
                )
            if destination.is_queue and self.outgoing != self.incoming:
                folders = self._folders(destination, self._base(destination, self.outgoing))
            else:
                folders = self.queue(destination)
            self._outboxes[destination] = folders
        return folders

    def subscription(self, topic: Destination, name: str) -> QueueFolders:
        """Returns the folders of the subscription of a topic that has the directory ``name``."""
        base = os.path.join(self.subscriptions(topic), name)
        folders = self._subscriptions.get(base)
        if folders is None:
            digest = hashlib.blake2b(self.relative(base).encode("utf-8", "surrogateescape"), digest_size=5)
            folders = replace(
                self._folders(topic, base),
                text=f"{topic}|{name}",
                copy_tag=f"{OWN}copyS={digest.hexdigest()}",
                owner_created=True,
            )
            self._subscriptions[base] = folders
        return folders

    def subscriptions(self, topic: Destination) -> str:
        return os.path.join(self._topic(topic), SUBSCRIPTIONS)

    def directory(self, destination: Destination) -> str:
        """Returns the directory with all files of a queue or topic."""
        return os.path.join(self.root, destination.name) if destination.is_queue else self._topic(destination)

    def _topic(self, topic: Destination) -> str:
        return os.path.join(self.topic_root, *topic.name.split("."))

    def _base(self, destination: Destination, level: str) -> str:
        level = level if destination.is_queue else TOPIC_INCOMING
        return os.path.join(self.directory(destination), level).rstrip("/")

    def _folders(self, destination: Destination, base: str) -> QueueFolders:
        working, target, processing, processed, expired, error, delayed = (
            f"{base}/{folder}" for folder in FOLDERS
        )
        return QueueFolders(
            destination,
            str(destination),
            base,
            working,
            target,
            processing,
            processed,
            expired,
            error,
            delayed,
            relative_working=self.relative(working),
            relative_target=self.relative(target),
            relative_processed=self.relative(processed),
            relative_delayed=self.relative(delayed),
            owner_created=owner_in(destination.name) is not None,
        )

    # -- making them -------------------------------------------------------------------------------

    def ensure(self, destination: Destination) -> QueueFolders:
        """Returns the folders of a destination. Makes missing folders.

        Raises:
            UnknownDestination: the destination is temporary and has ended.
            ProviderError: they cannot be made.
        """
        folders = self.queue(destination)
        if destination not in self._ensured:
            self.make(folders)
            if not folders.owner_created:
                self._ensured.add(destination)
        return folders

    def write(self, folders: QueueFolders, path: str, body: bytes, *, replace: bool = False) -> None:
        """Writes a file in ``working/``. Makes missing folders.

        Raises:
            OSError: the file cannot be written.
            As :meth:`make`.
        """
        try:
            files.write_new(path, body, sync=False, replace=replace)
        except FileNotFoundError:
            self.make(folders)
            files.write_new(path, body, sync=False, replace=replace)

    def make(self, folders: QueueFolders) -> None:
        """Makes missing folders.

        Raises:
            UnknownDestination: the temporary destination or the subscription has ended.
            ProviderError: the folders cannot be made.
        """
        self._require_root()
        if folders.owner_created and not os.path.isdir(folders.base):
            what = "the subscription" if folders.copy_tag else "the temporary destination"
            raise UnknownDestination(f"{what} {folders.text} has ended")
        self.make_new(folders)

    def make_new(self, folders: QueueFolders) -> None:
        """Makes folders, also those that only their owner may make.

        Raises:
            ProviderError: they cannot be made, or the root is gone.
        """
        self._require_root()
        try:
            files.make_directory(folders.base)
            is_made = False
            # The target comes first: a takeover looks for files of a killed client in queues with a target.
            for folder in ("target", *FOLDERS):
                path = os.path.join(folders.base, folder)
                if not os.path.isdir(path):
                    own_files.make_directories(path)
                    is_made = True
            if is_made:
                files.sync_earlier(folders.base)
        except OSError as error:
            raise ProviderError(
                f"the folders of {folders.destination} cannot be made: {error.strerror}: {error.filename}; "
                "remove what stands in the way, or give this user the right to write there"
            ) from error

    def make_parent(self, path: str) -> bool:
        """Makes the folder that a file is to be moved to. False if its subscription or destination has ended.

        Raises:
            OSError: the folder cannot be made.
            ProviderError: the root is gone.
        """
        folder = os.path.dirname(path)
        if not self.may_end(self.relative(folder)):
            self._require_root()
            files.make_directory(folder)
            return True
        try:
            os.mkdir(folder, own_files.DIRECTORY)
            files.sync_earlier(os.path.dirname(folder))
        except FileExistsError:
            return True
        except FileNotFoundError:
            return False
        return True

    def _require_root(self) -> None:
        """Raises ProviderError if the root is gone.

        A new root in its place would look drained, and would stop the return of the old root.
        """
        if not os.path.isdir(self.clients):
            raise root_gone_error(self.root, "is gone")

    @staticmethod
    def may_end(relative: str) -> bool:
        """Whether a path is inside a subscription or a temporary destination."""
        if f"/{SUBSCRIPTIONS}/" in relative:
            return True
        return owner_in(relative.removeprefix(f"{TOPIC_ROOT}/").partition("/")[0]) is not None

    # -- what there is -----------------------------------------------------------------------------

    def exists(self, destination: Destination) -> bool:
        """Whether a queue, a topic or the queue of a virtual destination exists.

        Raises:
            ProviderError: this user may not look.
        """
        return files.is_directory(self.queue(destination.base).target)

    def queues(self) -> list[Destination]:
        """Returns the existing queues, by name.

        Raises:
            ProviderError: this user may not look.
        """
        found = []
        try:
            with os.scandir(self.root) as entries:
                names = sorted(entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise files.unreadable(self.root, error) from error
        for name in names:
            if name.startswith(".") or name in RESERVED or name == FRESH:
                continue
            try:
                destination = parse_destination(f"queue://{name}")
            except DestinationError:
                continue
            if self.exists(destination) or files.is_directory(self.outbox(destination).target):
                found.append(destination)
        return found

    def topics(self) -> list[Destination]:
        """Returns the existing topics, by name.

        Raises:
            ProviderError: this user may not look.
        """
        found = []
        for directory, names, _ in os.walk(self.topic_root, onerror=_require_absence):
            if directory != self.topic_root and (TOPIC_INCOMING in names or SUBSCRIPTIONS in names):
                try:
                    name = directory[len(self.topic_root) + 1 :].replace("/", ".")
                    found.append(parse_destination(f"topic://{name}"))
                except DestinationError:
                    pass
            names[:] = [name for name in names if "." not in name]
        return sorted(found)

    def subscriptions_of(self, topic: Destination) -> list[QueueFolders]:
        """Returns the existing subscriptions of a topic, by the names of their directories.

        Raises:
            ProviderError: this user may not look.
        """
        directory = self.subscriptions(topic)
        try:
            with os.scandir(directory) as entries:
                names = sorted(e.name for e in entries if e.name[0] != "." and e.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise files.unreadable(directory, error) from error
        return [self.subscription(topic, name) for name in names]

    def everywhere(self) -> Iterator[QueueFolders]:
        """Yields all folders of messages: queues, topics before distribution, subscriptions."""
        for destination in self.queues():
            yield self.queue(destination)
            if self.outgoing != self.incoming:
                yield self.outbox(destination)
        for topic in self.topics():
            yield self.queue(topic)
            yield from self.subscriptions_of(topic)

    def application(self, name: str) -> str:
        """Returns the directory of one adapter's state."""
        return os.path.join(self.adapters, encode_field(name))

    def relative(self, path: str) -> str:
        return path[len(self.root) + 1 :]

    def knows_client(self, client_id: str) -> bool:
        """Whether a client lives, or is dead and not forgotten yet."""
        return os.path.lexists(f"{self.clients}/{client_id}")

    def absolute(self, path: str) -> str:
        return f"{self.root}/{path}"


def _require_absence(error: OSError) -> None:
    """Raises ProviderError for a directory that exists and cannot be listed.

    Else a destination could be missed.
    """
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise files.unreadable(str(error.filename), error) from error


def _view(queue: QueueFolders, destination: Destination) -> QueueFolders:
    """Returns the folders of a virtual destination: its part of the queue, and the targets."""
    letters = {view: letter for letter, view in VIEW_LETTERS.items()}
    source = {"PROCESSING": queue.processing, "EXPIRED": queue.expired}.get(destination.view, queue.error)
    requeues = destination.view == "RECOVER-ERROR"
    prefix = len(queue.base) - len(queue.relative_target) + len("/target")
    return replace(
        queue,
        destination=destination,
        text=str(destination),
        target=source,
        processed=queue.target if requeues else queue.processed,
        relative_target=source[prefix:],
        relative_processed=queue.relative_target if requeues else queue.relative_processed,
        view=letters.get(destination.view, ""),
        requeues=requeues,
    )
