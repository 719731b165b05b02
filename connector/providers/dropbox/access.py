"""The part of the provider that a Spark task needs: read a claimed file, write a prepared one."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import time
from dataclasses import dataclass
from typing import Final

from connector.errors import MalformedData, ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Prepared
from connector.providers.dropbox import codec, files
from connector.providers.dropbox.claims import ORIGIN, TAG, in_progress_origin, waits
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import Layout
from connector.providers.dropbox.temporary import check_alive

PREPARED: Final = "prepared"


@dataclass(frozen=True, slots=True)
class DropboxAccessSpec:
    """See :class:`connector.messaging.provider.AccessSpec`.

    Args:
        root, incoming, outgoing: of the provider.
        client_id: owner of what is prepared, so that its recovery finds it.
        durable: whether prepared messages are synced.
    """

    root: str
    incoming: str
    outgoing: str
    client_id: str
    durable: bool

    def open(self) -> DropboxAccess:
        return DropboxAccess(self)


class DropboxAccess:
    """See :class:`connector.messaging.provider.MessageAccess`."""

    def __init__(self, spec: DropboxAccessSpec) -> None:
        self._spec = spec
        self._layout = Layout(spec.root, spec.incoming, spec.outgoing)
        # several accesses of one client write sidecars, tasks on other machines too: no key may meet another
        self._headers = HeaderStore(
            self._layout.headers, f"{spec.client_id}-{secrets.token_hex(6)}", sync=spec.durable
        )
        self._unsynced: dict[str, None] = {}
        self._durable = spec.durable
        self._client_id = spec.client_id
        self._tag = f"{TAG}{spec.client_id}-0-{PREPARED}"
        self._micros = 0
        self._prefix = self._layout.root + "/"

    def check(self) -> None:
        """See :meth:`connector.messaging.provider.MessageAccess.check`."""
        mark = os.path.join(self._layout.clients, self._spec.client_id)
        if not os.path.exists(mark):
            raise ProviderError(
                f"{socket.gethostname()} does not see the root {self._layout.root} that the adapter uses "
                f"(there is no {mark} here); mount it there under the same path"
            )
        if not os.access(self._layout.adapters, os.W_OK | os.X_OK):
            raise ProviderError(f"{socket.gethostname()} may not write {self._layout.adapters}")

    def load(self, reference: str, max_body: int) -> Message:
        """See :meth:`connector.messaging.provider.MessageAccess.load`."""
        path = self._prefix + reference
        claimed = reference.rpartition("/")[2]
        name, tag, _ = claimed.rpartition(TAG)
        full = self._headers.expand(name if tag else claimed)
        if not tag:  # claimed into an in-progress destination: owner and origin are not the message's
            full = without_owner(full)
        message, _ = codec.decode(full)
        try:
            message.body, status = files.read_regular(path, max_body)
        except FileNotFoundError:
            raise LookupError(f"{reference} is gone") from None
        except PermissionError:  # its sender's mistake: it must not keep what is behind it from being read
            raise MalformedData(
                "the message may not be read: permission denied; its sender has to let this user read it "
                "(umask, group); then it can be moved back to where it came from"
            ) from None
        except OSError as error:
            raise ProviderError(f"cannot read {path}: {error.strerror}") from error
        if not message.timestamp:
            message.timestamp = status.st_mtime_ns // 1_000_000
        return message

    def prepare(self, destination: Destination, message: Message, key: str) -> Prepared:
        """See :meth:`connector.messaging.provider.MessageAccess.prepare`."""
        now = time.time_ns() // 1000
        self._micros = now if now > self._micros else self._micros + 1  # ids sort as they were made
        # the same key names the same file, so that a second attempt replaces the first
        identity = hashlib.blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        message.message_id = f"ID:{self._micros:016d}-{self._client_id}-{identity}"
        folders = self._layout.outbox(destination)
        if folders.whole:
            check_alive(self._layout, destination)
        working = f"{identity}{self._tag}"
        try:
            name = self._headers.fit(codec.encode_new(message))
            self._layout.write(folders, f"{folders.working}/{working}", message.body, replace=True)
        except OSError as error:
            raise ProviderError(
                f"cannot write a message for {destination}: {error.strerror}"
                + (f": {error.filename!r}" if error.filename else "")
            ) from error
        if self._durable:
            self._unsynced[f"{folders.working}/{working}"] = None
        return Prepared(
            (f"{folders.relative_working}/{working}", f"{folders.relative_target}/{name}"), destination
        )

    def discard(self, prepared: Prepared) -> None:
        """See :meth:`connector.messaging.provider.MessageAccess.discard`."""
        path = self._layout.absolute(prepared.handle[0])
        files.remove(path)
        self._headers.remove(prepared.handle[1].rpartition("/")[2])
        self._unsynced.pop(path, None)

    def sync(self) -> None:
        """See :meth:`connector.messaging.provider.MessageAccess.sync`; a file that is gone is an error.

        But one for a temporary destination goes with that, which may end at any moment.
        """
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
                        f"cannot make a prepared message durable: {error.strerror}"
                    ) from error
                paths = lasting

    def _may_end(self, path: str) -> bool:
        return self._layout.may_end(self._layout.relative(path))


def without_owner(name: str, *, keep_origin: bool = False) -> str:
    """The name of a message as it was before an in-progress destination took it."""
    if codec.OWNER not in name:
        return name
    owner, _ = in_progress_origin(name)
    if owner is None and not waits(name):
        raise MalformedData("the file name has an owner that cannot be read")
    return codec.without_properties(name, (codec.OWNER,) if keep_origin else (codec.OWNER, ORIGIN))
