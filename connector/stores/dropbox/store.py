"""The store of the ``dropbox`` provider (see :class:`connector.stores.engine.store.Store`)."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import math
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from connector.errors import (
    MalformedData,
    ProviderError,
    UnknownDestination,
)
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.once import OnceKey, SentOnce
from connector.messaging.retention import Pruned, Retention
from connector.stores.dropbox import codec, files
from connector.stores.dropbox.changes import Changes
from connector.stores.dropbox.claims import (
    DropboxClaim,
    name_with_owner,
    owner_text,
    remove_messages,
    split_tag,
)
from connector.stores.dropbox.client_context import ClientContext
from connector.stores.dropbox.delayed import DelayedFiles, due_and_name
from connector.stores.dropbox.fan_out import FanOutFiles
from connector.stores.dropbox.headers import without
from connector.stores.dropbox.layout import QueueFolders
from connector.stores.dropbox.open_claims import claimed_at, claims_by_owner, in_progress_claims, owned_claims
from connector.stores.dropbox.prepared_files import remove_prepared
from connector.stores.dropbox.pruning import RootPruner
from connector.stores.dropbox.reader import DropboxReader
from connector.stores.dropbox.scan_order import scan_order
from connector.stores.dropbox.sending import MessageSender
from connector.stores.dropbox.subscription_files import DELETED
from connector.stores.dropbox.tasks import DropboxTaskSpec, without_owner
from connector.stores.engine.changes import Change, Edit, GivenBack
from connector.stores.engine.channel import Channel, Owner, Part
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.store import Counts, Judge, Store, Unreadable

_log: Final = logging.getLogger("connector.dropbox")
_NO_LIMIT: Final = 1 << 62
_VIEWS: Final = {Part.EXPIRED: "EXPIRED", Part.ERROR: "REJECT-ERROR"}


class DropboxStore(Store):
    """The messages of a root."""

    has_foreign = True

    def __init__(self, context: ClientContext, pruner: RootPruner) -> None:
        self.title = context.layout.root
        self.context = context
        self.layout = context.layout
        self.headers = context.headers
        fan_out = FanOutFiles(context.layout, context.headers, durable=context.durable)
        self.changes = Changes(context, fan_out)
        self._sender = MessageSender(context, fan_out)
        self._pruner = pruner
        self._readers: list[DropboxReader] = []
        self._numbers = itertools.count(1)
        self._has_tasks = False

    # -- channels ----------------------------------------------------------------------------------

    def destinations(self) -> list[Destination]:
        return [*self.layout.queues(), *self.layout.topics()]

    def has(self, channel: Channel) -> bool:
        if channel.subscription:
            return os.path.isdir(self._folders(channel).base)
        return self.layout.exists(channel.destination)

    def create(self, channel: Channel) -> None:
        folders = self.layout.queue(channel.destination)
        if not folders.owner_created:
            self.layout.ensure(channel.destination)
            return
        self.layout.make_new(folders)
        outbox = self.layout.outbox(channel.destination)
        if not os.path.isdir(outbox.base):
            self.layout.make_new(outbox)

    def remove(self, channel: Channel, *, claimed: bool) -> None:
        if not channel.subscription:
            path = self.layout.directory(channel.destination)
        else:
            folders = self._folders(channel)
            path = folders.base
            if not claimed and any(split_tag(name)[1] for name in files.names_in(folders.processing)):
                self.empty(channel)
                return
        hidden = self._hide(path)
        remove_messages(self.headers, hidden)

    def _hide(self, path: str) -> str:
        """Gives a directory a hidden name, so that no client sees it any more. Returns the name.

        Raises:
            ProviderError: the directory cannot be renamed.
        """
        hidden = os.path.join(
            os.path.dirname(path), f"{DELETED}{self.context.client_id}-{next(self._numbers)}"
        )
        try:
            os.rename(path, hidden)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise ProviderError(f"cannot remove {path}: {error.strerror}") from error
        return hidden

    def empty(self, channel: Channel) -> None:
        folders = self._folders(channel)
        for folder in (folders.target, folders.delayed):
            for name in files.names_in(folder):
                path = f"{folder}/{name}"
                keys = self.headers.keys_of_file(due_and_name(path)[1], path)
                files.remove(path)
                self.headers.remove(keys)

    def count(self, channel: Channel) -> Counts:
        folders = self._folders(channel)
        return Counts(
            files.count(folders.target),
            files.count(folders.processing),
            files.count(folders.expired),
            files.count(folders.error),
            files.count(folders.processed),
            files.count(folders.delayed),
        )

    def _folders(self, channel: Channel) -> QueueFolders:
        if channel.subscription:
            folders = self.layout.subscription(channel.destination, channel.subscription)
        else:
            folders = self.layout.queue(channel.destination)
        if channel.part is Part.DELAYED:
            return replace(folders, target=folders.delayed)
        if channel.subscription or channel.part is Part.MAIN:
            return folders
        return self.layout.queue(Destination("queue", f"{channel.destination.name}~{_VIEWS[channel.part]}"))

    # -- looking -----------------------------------------------------------------------------------

    def key_source(self, channel: Channel, destination: Destination) -> str:
        return self._folders(channel).text

    def scan(
        self,
        channel: Channel,
        *,
        waiting: bool,
        claimed: bool,
        unreadable: Unreadable | None,
        ids: frozenset[str] | None = None,
    ) -> Iterator[Message]:
        folders = self._folders(channel)
        wanted = (*([folders.target] if waiting else ()), *([folders.processing] if claimed else ()))
        found = heapq.merge(*(scan_order(folder, ids) for folder in wanted))
        for _, folder, name in found:
            seen = self._look(folder, name)
            if seen is None:
                continue
            message, lost = seen
            path, reason = f"{folder}/{name}", ""
            try:
                message.body, _ = files.read_regular(path, _NO_LIMIT)
            except (FileNotFoundError, MalformedData):
                continue  # taken meanwhile, or no message
            except OSError as error:
                reason = f"{error.strerror}: {path}"
            if unreadable is not None and (reason or lost):
                unreadable(message, reason or lost)
            if not reason:
                yield message

    def _look(self, folder: str, name: str) -> tuple[Message, str] | None:
        """Returns the headers of a file, and why headers are lost.

        None if the file is gone or no message.
        """
        due, short = due_and_name(f"{folder}/{name}")
        short = split_tag(short)[0]
        try:
            status = os.lstat(f"{folder}/{name}")
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        full, lost = short, ""
        try:
            full, lost = self.headers.look(short)
            full = without_owner(full, keep_origin=True)
        except (MalformedData, ProviderError) as error:
            lost = lost or str(error)
        try:
            message, _ = codec.decode(full)
        except MalformedData as error:
            lost = lost or str(error)
            message, _ = codec.decode(full, readable_only=True)
        if not message.timestamp:
            message.timestamp = status.st_mtime_ns // 1_000_000
        if due:
            message.delivery_time = due
        return message, lost

    def in_progress_claims(self, channel: Channel) -> list[LocalClaim]:
        return list(in_progress_claims(self.layout, self.headers, channel.destination))

    def owners(self, channel: Channel) -> Iterator[tuple[str, str, float]]:
        for claim in owned_claims(self.layout, self.headers, self._folders(channel)):
            if claim.owner is not None:
                yield claim.message_id, claim.owner.client_id, claimed_at(self.layout, claim)

    # -- taking ------------------------------------------------------------------------------------

    def reader(
        self, channel: Channel, judge: Judge, into: Channel | None, destination: Destination, lot: str = ""
    ) -> DropboxReader:
        folders = self._folders(channel) if channel.subscription else self.layout.queue(destination)
        moved_to = self.layout.queue(into.destination) if into is not None else None
        reader = DropboxReader(self.context, channel, folders, judge, moved_to, self._remove_reader, lot)
        self._readers.append(reader)
        return reader

    def _remove_reader(self, reader: DropboxReader) -> None:
        with contextlib.suppress(ValueError):  # two threads may close the reader
            self._readers.remove(reader)

    def directories(self) -> Iterator[str]:
        """Yields the directories in which messages for the open readers arrive."""
        for reader in tuple(self._readers):
            yield from reader.directories

    def looks_again(self, directory: str) -> bool:
        """Whether all readers of a directory wait for a second look at a file, and so look again anyway."""
        readers = [one for one in tuple(self._readers) if directory in one.directories]
        return bool(readers) and all(one.settles_in() < math.inf for one in readers)

    def set_return_listener(self, returns: Callable[[str], object]) -> None:
        """Sets a function that gets the future path of each message that is given back."""
        self.changes.returns = returns

    def set_owner(self, claim: LocalClaim, owner: Owner | None, edit: Edit) -> DropboxClaim | None:
        assert isinstance(claim, DropboxClaim)
        name = claim.full_name
        if edit.deliveries is not None:
            name = codec.with_delivery_count(name, edit.deliveries + 1)
        if owner is not None:
            name = name_with_owner(name, owner_text(*owner), claim.destination)
        else:
            name = codec.without_properties(name, (codec.OWNER,))
        fitted = claim.name
        try:
            fitted = self.headers.fit(name, claim.file)
            path = f"{claim.path.rpartition('/')[0]}/{fitted}"
            os.rename(claim.file, self.layout.absolute(path))
        except FileNotFoundError:
            self.headers.remove(without(fitted, claim.name))
            return None
        except OSError as error:
            self.headers.remove(without(fitted, claim.name))
            if files.is_stuck(error, self.layout.clients):
                extra = {"file": ascii(claim.file), "reason": error.strerror}
                _log.warning("a message cannot be taken now and stays in its directory", extra=extra)
                return None
            raise ProviderError(f"cannot take over {claim.path}: {error.strerror}") from error
        moved = self.layout.absolute(path)
        gone = self.headers.keys_of_file(claim.name, moved, fitted)
        self.headers.remove(gone, after=os.path.dirname(moved))
        where = self.layout, self.headers, claim.folders, claim.home
        return DropboxClaim(*where, fitted, path, owner, in_progress=True)

    # -- sending -----------------------------------------------------------------------------------

    def put(self, messages: Sequence[tuple[Message, Sequence[Channel]]]) -> None:
        self._sender.put(messages)

    def put_once(self, message: Message, channels: Sequence[Channel], once: OnceKey) -> SentOnce:
        return self._sender.put_once(message, channels, once)

    def find_sent(self, application: str, key: str) -> SentOnce | None:
        return self._sender.find_sent(application, key)

    # -- settling ----------------------------------------------------------------------------------

    def prepared(self, handle: tuple[str, str]) -> Message | None:
        if not self.changes.is_prepared(handle[0]):
            self.context.committer.assert_ours()
            return None
        return codec.decode(self.headers.full(due_and_name(handle[1])[1]), readable_only=True)[0]

    def check_writable(self, destination: Destination) -> None:
        folders = self.layout.outbox(destination)
        if not os.path.isdir(folders.target):
            try:
                self.layout.make(folders)
            except (ProviderError, UnknownDestination) as error:
                raise ProviderError(f"{destination} cannot be written: {error}") from error
        if not os.access(folders.target, os.W_OK | os.X_OK):
            raise ProviderError(
                f"{destination} cannot be written: {folders.target}: permission denied; give this user the "
                "right to write there"
            )

    def apply(self, changes: Sequence[Change], *, fenced: bool) -> None:
        if self.context.client is not None:
            self.context.client.check_soon()
        self.changes.apply(changes, fenced=fenced)
        for change in changes:
            if isinstance(change, GivenBack):
                self.refresh()
                break

    def refresh(self) -> None:
        """Makes every reader see messages that came back."""
        for reader in tuple(self._readers):
            reader.refresh()

    # -- recovery ----------------------------------------------------------------------------------

    def claims(
        self, client_ids: Collection[str], in_progress: Channel | None
    ) -> Mapping[str, Sequence[LocalClaim]]:
        queue = in_progress.destination if in_progress is not None else None
        return claims_by_owner(self.layout, self.headers, client_ids, queue)

    def finish(self, client_id: str) -> None:
        prefix = f"{client_id}-"
        # Uncommitted records first. If a late owner commits meanwhile, the loop below sees that record.
        for name in os.listdir(self.layout.associated):
            if name.startswith(prefix):
                files.remove(os.path.join(self.layout.associated, name))
        for name in sorted(os.listdir(self.layout.committing)):
            if name.startswith(prefix):
                _log.info("finishing a commit record of a dead client", extra={"record": name})
                self.context.committer.finish_record(os.path.join(self.layout.committing, name))

    def discard_prepared(self, client_id: str) -> None:
        remove_prepared(self.layout, client_id)

    def end(self) -> None:
        """Removes the prepared messages of this client, which ends. Its tasks have ended."""
        if self._has_tasks:
            remove_prepared(self.layout, self.context.client_id)

    def prune(self, retentions: Sequence[Retention], seconds: float) -> Pruned:
        with contextlib.suppress(ProviderError):  # they are left for another time
            self.context.committer.finish_left()
        for folders in self.layout.everywhere():
            DelayedFiles(folders, self.layout, self.headers).move_due()
        return self._pruner.step(retentions, seconds)

    def tasks(self) -> DropboxTaskSpec:
        layout, context = self.layout, self.context
        self._has_tasks = True
        return DropboxTaskSpec(
            layout.root, layout.incoming, layout.outgoing, context.client_id, context.durable
        )
