"""The part of the provider that a Spark task needs: reads claimed files, writes prepared files."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from typing import Final

from connector.errors import MalformedData, ProviderError, remedy
from connector.messaging.access import AccessSpec
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.state.locked_file import is_held
from connector.stores.dropbox import codec, files
from connector.stores.dropbox.claims import TAG, in_progress_origin, waits
from connector.stores.dropbox.delayed import due_and_name, place_of, room_for
from connector.stores.dropbox.headers import HeaderStore, keys_of
from connector.stores.dropbox.layout import SUBSCRIPTIONS, RootLayout
from connector.stores.dropbox.prepared_files import prepared_name
from connector.stores.engine.headers import ORIGIN
from connector.stores.engine.task_store import TaskStore

PREPARED: Final = "prepared"


@dataclass(frozen=True, slots=True)
class DropboxTaskSpec(AccessSpec):
    """The recipe of a root in a task.

    Args:
        client_id: owner of prepared messages, so that a recovery finds them.
    """

    root: str
    incoming: str
    outgoing: str
    client_id: str
    durable: bool

    def open(self) -> DropboxTaskStore:
        return DropboxTaskStore(self)


class DropboxTaskStore(TaskStore):
    def __init__(self, spec: DropboxTaskSpec) -> None:
        self._spec = spec
        self._layout = RootLayout(spec.root, spec.incoming, spec.outgoing)
        # Several accesses of one client write sidecars, also on other machines. So each access has unique
        # keys.
        self._headers = HeaderStore(
            self._layout.headers, f"{spec.client_id}-{secrets.token_hex(6)}", sync=spec.durable
        )
        self._unsynced: dict[str, None] = {}
        self._durable = spec.durable
        self.client_id = spec.client_id
        self._tag = f"{TAG}{spec.client_id}-0-{PREPARED}"
        self._prefix = self._layout.root + "/"

    def check(self) -> None:
        mark = os.path.join(self._layout.clients, self._spec.client_id)
        if not os.path.exists(mark):
            raise ProviderError(
                f"{socket.gethostname()} does not see the root {self._layout.root} that the adapter uses "
                f"(there is no {mark} here); mount it there under the same path"
            )
        if not os.access(self._layout.adapters, os.W_OK | os.X_OK):
            raise ProviderError(f"{socket.gethostname()} may not write {self._layout.adapters}")

    def load(self, reference: str, max_body: int) -> Message:
        path = self._prefix + reference
        claimed = reference.rpartition("/")[2]
        name, tag, _ = claimed.rpartition(TAG)
        full = self._headers.expand(name if tag else claimed)
        if not tag:  # claimed into an in-progress destination: owner and origin do not belong to the message
            full = without_owner(full)
        message, _ = codec.decode(full)
        try:
            message.body, status = files.read_regular(path, max_body)
        except FileNotFoundError:
            raise LookupError(f"{reference} is gone") from None
        except PermissionError:  # the sender's mistake, which must not stop the messages behind it
            raise MalformedData(
                "the message may not be read: permission denied; its sender has to let this user read it "
                "(umask, group); then it can be moved back to where it came from"
            ) from None
        except OSError as error:
            if files.is_of_one_file(error, self._layout.clients):
                raise MalformedData(f"the message cannot be read: {error.strerror}: {path}") from None
            raise ProviderError(f"cannot read {path}: {error.strerror}") from error
        if not message.timestamp:
            message.timestamp = status.st_mtime_ns // 1_000_000
        return message

    def identity(self, reference: str, message: Message) -> str:
        # A name may be used again for another file, and the subscriptions of a topic may share a file.
        try:
            status = os.lstat(self._prefix + reference)
        except FileNotFoundError:
            raise LookupError(f"{reference} is gone") from None
        _, _, inside = reference.partition(f"/{SUBSCRIPTIONS}/")
        subscription = inside.partition("/")[0]
        return f"{message.message_id}|{status.st_ino}:{status.st_mtime_ns}|{subscription}"

    def is_there(self, destination: Destination, owner: str) -> bool:
        base = self._layout.outbox(destination).base
        return os.path.isdir(base) and is_held(os.path.join(self._layout.clients, owner))

    def keep(self, destination: Destination, message: Message, key: str) -> tuple[str, str]:
        folders = self._layout.outbox(destination)
        working = f"{prepared_name(key, message.body)}{self._tag}"  # the same key names the same file
        due = message.delivery_time
        try:
            name = codec.encode(message)
            self._layout.write(folders, f"{folders.working}/{working}", message.body, replace=True)
            name = self._headers.fit(name, f"{folders.working}/{working}", room_for(due))
        except OSError as error:
            raise ProviderError(
                f"cannot write a message for {destination}: {error.strerror}"
                + (f": {error.filename!r}" if error.filename else "")
                + remedy(error)
            ) from error
        if self._durable:
            self._unsynced[f"{folders.working}/{working}"] = None
        return f"{folders.relative_working}/{working}", place_of(folders, name, due)

    def remove(self, handle: tuple[str, str]) -> None:
        path = self._layout.absolute(handle[0])
        files.remove(path)
        self._headers.remove(keys_of(due_and_name(handle[1])[1]))
        self._unsynced.pop(path, None)

    def write(self) -> None:
        """Does nothing: a prepared message is a file at once."""

    def sync(self) -> None:
        # A missing file is an error. But a file for a temporary destination goes with the destination.
        unsynced, self._unsynced = self._unsynced, {}
        paths = list(unsynced)
        while True:
            try:
                files.sync_files(paths)
                return
            except OSError as error:
                lasting = [path for path in paths if os.path.exists(path) or not self._may_end(path)]
                if len(lasting) == len(paths):
                    raise ProviderError(
                        f"cannot make a prepared message durable: {error.strerror}{remedy(error)}"
                    ) from error
                paths = lasting

    def _may_end(self, path: str) -> bool:
        return self._layout.may_end(self._layout.relative(path))


def without_owner(name: str, *, keep_origin: bool = False) -> str:
    """Returns the name of a message as it was before an in-progress destination took it."""
    if codec.OWNER not in name:
        return name
    owner, _ = in_progress_origin(name)
    if owner is None and not waits(name):
        raise MalformedData("the file name has an owner that cannot be read")
    return codec.without_properties(name, (codec.OWNER,) if keep_origin else (codec.OWNER, ORIGIN))
