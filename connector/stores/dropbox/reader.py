"""Takes messages from a folder: one rename for each message, without reading bodies."""

from __future__ import annotations

import errno
import math
import os
import time
from collections.abc import Callable, Sequence
from functools import partial

from connector import faults
from connector.errors import MalformedData, ProviderError
from connector.stores.dropbox import codec, files
from connector.stores.dropbox.claims import TAG, DropboxClaim, in_progress_origin, name_with_owner, owner_text
from connector.stores.dropbox.client_context import ClientContext
from connector.stores.dropbox.clients import base36
from connector.stores.dropbox.delayed import DelayedFiles
from connector.stores.dropbox.files import MANY, OpenFolders, rename_to_free_name
from connector.stores.dropbox.headers import without
from connector.stores.dropbox.layout import QueueFolders
from connector.stores.dropbox.listing import Listing
from connector.stores.engine.channel import Channel, Part
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.store import Judge, Reader, Verdict


class DropboxReader(Reader):
    """Takes files of one folder (see :class:`connector.stores.engine.store.Reader`).

    Args:
        folders: of the channel, or of the virtual destination that shows its part.
        closed: called once, when the reader is closed.
        owner: the lot that the claims belong to. Empty = they belong to the client.
    """

    def __init__(
        self,
        context: ClientContext,
        channel: Channel,
        folders: QueueFolders,
        judge: Judge,
        into: QueueFolders | None,
        closed: Callable[[DropboxReader], None],
        owner: str = "",
    ) -> None:
        self._on_close = closed
        self._layout = context.layout
        self._headers = context.headers
        self._names = context.names
        self._owner = owner or context.client_id
        self._has_lots = bool(owner)
        self._client = context.client
        self._keep = context.keep
        self._is_durable = context.durable
        self._judge = judge
        self._claimed = partial(DropboxClaim, context.layout, context.headers, folders, channel)
        self._folders = folders
        self._in_progress = into
        self._listing = Listing(folders.target)
        self._delayed: DelayedFiles | None = None
        if channel.part is Part.MAIN:
            self._delayed = DelayedFiles(folders, context.layout, context.headers)
        self._target = folders.target + "/"
        self._processing = folders.processing + "/"
        self._relative = context.layout.relative(self._processing)
        self._tag = f"{TAG}{self._owner}-"
        self._end_of_tag = f"-{folders.view}" if folders.view else ""
        self._is_topic = not channel.destination.is_queue and not channel.subscription
        self._closed = False
        self._opened: OpenFolders | None = None  # while many messages are claimed
        self._failure: ProviderError | None = None
        """The failure that has ended an earlier list of claims. The next call raises this failure."""
        self.expired = 0

    def claim(self, cycle: int, numbers: range) -> list[LocalClaim]:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._delayed is not None and self._delayed.move_due():
            self._listing.remove()
        claims: list[LocalClaim] = []
        opened = self._opened = OpenFolders("") if len(numbers) >= MANY else None
        try:
            for number in numbers:
                claim = self._next(cycle, number)
                if claim is None:
                    break
                claims.append(claim)
        except ProviderError as error:
            if not claims:
                raise
            self._failure = error
        finally:
            if opened is not None:
                opened.close()
            self._listing.end_claims(taken=bool(claims))
        if claims and self._has_lots and self._is_durable:
            files.sync_directory(self._folders.processing)
        return claims

    def _next(self, cycle: int, number: int) -> DropboxClaim | None:
        """Claims the next message for delivery. Returns None if no message waits.

        Raises:
            ProviderError: as :meth:`claim`.
        """
        if self._client is not None:
            self._client.check_soon()
        judge = self._judge
        while not self._closed and (name := self._listing.next()) is not None:
            if (codec.OWNER in name or codec.HEADER_KEY in name) and self._is_owned(name):
                continue
            # A virtual destination shows expired and failed messages. A name with three fields is neither.
            if not judge.is_view and name.count(".") > 2:
                if self._has_expired(name):
                    self._expire(name)
                    continue
                if (
                    judge.limit is not None
                    and (codec.DELIVERY_COUNT in name or codec.HEADER_KEY in name)
                    and self._delivered_too_often(name, judge.limit)
                ):
                    self._put_in_error(name)
                    continue
            if judge.selects and not self._is_wanted(name):
                continue
            new = name
            age = self._listing.ages.pop(name, None)
            if age is not None and codec.split(name) is None:
                new = self._names.claimed(name, age)
            claimed = self._claim(name, new, cycle, number)
            if claimed is not None:
                return claimed
        return None

    def _is_owned(self, name: str) -> bool:
        """Whether a message is in progress here, for a client that is known."""
        owner, _ = in_progress_origin(name if codec.OWNER in name else self._headers.full(name))
        return owner is not None and self._layout.knows_client(owner.client_id)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._on_close(self)

    @property
    def directories(self) -> Sequence[str]:
        """The directories in which messages for :meth:`claim` arrive."""
        delayed = self._delayed.folder if self._delayed is not None else ""
        return (self._folders.target, delayed) if os.path.isdir(delayed) else (self._folders.target,)

    @property
    def obstacle(self) -> str:
        return self._listing.obstacle

    def has_news(self) -> bool:
        has_come = self._listing.has_news()
        if has_come and self._has_lots:  # an old listing may have changed, and each try takes a number
            has_come = bool(files.names_in(self._folders.target))
        return has_come or self.due_in() <= 0

    def due_in(self) -> float:
        return math.inf if self._delayed is None else self._delayed.due_in()

    def _is_wanted(self, name: str) -> bool:
        """Whether a message is to be taken, by its name. Remembers rejected messages."""
        message, _ = codec.decode(self._headers.full(name), readable_only=True)
        if not message.timestamp:
            try:
                message.timestamp = os.lstat(self._target + name).st_mtime_ns // 1_000_000
            except OSError:
                return False
        if self._judge(message, 0) is Verdict.TAKE:
            return True
        self._listing.reject(name, message.expiration)
        return False

    def refresh(self) -> None:
        """Makes the next :meth:`claim` see messages that came back to the queue."""
        self._listing.remove()

    def _claim(
        self, name: str, new: str, cycle: int, sequence: int, *, again: bool = False
    ) -> DropboxClaim | None:
        """Claims a message under a new name, which gives a file with a bare name its id."""
        if self._in_progress is not None:
            return self._move_to_in_progress(name, new, cycle, sequence)
        claimed = f"{new}{self._tag}{base36(cycle)}-{base36(sequence)}{self._end_of_tag}"
        opened = self._opened
        if opened is None or not opened.rename(self._target, name, self._processing, claimed):
            try:
                os.rename(self._target + name, self._processing + claimed)
            except OSError as error:
                return self._claim_anyway(error, name, new, cycle, sequence, again=again)
        if self._is_topic:
            faults.point("fanout.claim")
        else:
            faults.point("claim")
        return self._claimed(new, self._relative + claimed, (self._owner, cycle, sequence))

    def _claim_anyway(
        self, error: OSError, name: str, new: str, cycle: int, sequence: int, *, again: bool
    ) -> DropboxClaim | None:
        """Handles a failed claim: another client was faster, the name is too long, or a real error."""
        if error.errno == errno.ENOENT:
            if not os.path.lexists(self._target + name):
                return None
            if again:
                self._leave(name, error)
                return None
            try:
                is_made = self._layout.make_parent(self._processing + name)  # processing/ was removed
            except OSError as failure:
                self._leave(name, failure)
                return None
            return self._claim(name, new, cycle, sequence, again=True) if is_made else None
        if error.errno == errno.ENAMETOOLONG:
            tag = f"{self._tag}{base36(cycle)}-{base36(sequence)}{self._end_of_tag}"
            short = self._fit(new, name, codec.NAME_MAX - len(tag))
            if not self._rename_fitted(name, short, self._processing + short + tag):
                return None
            faults.point("claim")
            return self._claimed(short, self._relative + short + tag, (self._owner, cycle, sequence))
        self._leave(name, error)
        return None

    def _move_to_in_progress(self, name: str, new: str, cycle: int, sequence: int) -> DropboxClaim | None:
        assert self._in_progress is not None
        owner = self._owner, cycle, sequence
        moved = name_with_owner(new, owner_text(*owner), self._folders.destination)
        if len(os.fsencode(moved)) > codec.NAME_MAX:
            moved = self._fit(moved, name, codec.NAME_MAX)
        target = f"{self._in_progress.target}/{moved}"
        if not os.path.isdir(self._in_progress.target):
            self._layout.make(self._in_progress)  # the folder was removed
        if not self._rename_fitted(name, moved, target):
            return None
        faults.point("claim")
        return self._claimed(moved, self._layout.relative(target), owner, in_progress=True)

    def _rename_fitted(self, name: str, fitted: str, target: str) -> bool:
        """Takes a message under a name that may have a new sidecar. False if the message is gone."""
        try:
            os.rename(self._target + name, target)
        except OSError as error:
            self._headers.remove(without(fitted, name))
            if error.errno != errno.ENOENT or os.path.lexists(self._target + name):
                self._leave(name, error)
            return False
        self._headers.remove(self._headers.keys_of_file(name, target, fitted), after=os.path.dirname(target))
        return True

    def _fit(self, name: str, waits_as: str, room: int) -> str:
        """Returns a name of a message that waits under another name."""
        try:
            return self._headers.fit(name, self._target + waits_as, room)
        except OSError as error:
            raise self._claim_error(error) from error

    def _has_expired(self, name: str) -> bool:
        parts = name.split(".", 4)
        if len(parts) < 4 or not parts[3] or not codec.split(name):
            return False
        try:
            expiration = codec.decode_expiration(parts[3])
        except MalformedData:
            return False  # the event fails with that text
        return 0 < expiration <= time.time_ns() // 1_000_000

    def _delivered_too_often(self, name: str, limit: int) -> bool:
        return codec.decode(self._headers.full(name), readable_only=True)[0].delivery_count > limit

    def _expire(self, name: str) -> None:
        if self._keep:
            self.expired += self._remove_to(self._folders.expired, name, name)
            return
        keys = self._headers.keys_of_file(name, self._target + name)
        try:
            os.unlink(self._target + name)
        except FileNotFoundError:
            return
        except OSError as error:
            self._leave(name, error)
            return
        self._headers.remove(keys)
        self.expired += 1

    def _put_in_error(self, name: str) -> None:
        moved = self._fit(self._names.put_aside(self._headers.full(name)), name, codec.NAME_MAX)
        gone = self._headers.keys_of_file(name, self._target + name, moved)
        is_moved = False
        try:
            is_moved = self._remove_to(self._folders.error, name, moved)
        finally:
            keys = gone if is_moved else without(moved, name)
            self._headers.remove(keys, after=self._folders.error if is_moved else "")

    def _remove_to(self, folder: str, name: str, moved: str) -> bool:
        """Moves a message that is not for delivery, renamed. False if another client was faster."""
        try:
            if not os.path.lexists(self._target + name):
                return False
            if not self._layout.make_parent(f"{folder}/{moved}"):
                return False
            rename_to_free_name(self._target + name, f"{folder}/{moved}", self._headers.fit)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._leave(name, error)
            return False
        return True

    def _leave(self, name: str, error: OSError) -> None:
        """Leaves a message that cannot be taken now. The other messages and queues go on.

        Raises:
            ProviderError: neither this message nor its folder is the cause.
        """
        if not files.is_of_one_file(error, self._layout.clients):
            raise self._claim_error(error) from error
        closed = files.closed_folder(error)
        if closed is None:
            reason = f"{error.strerror}; its owner or its attributes do not let this user rename the file"
        else:
            reason = f"{error.strerror}: {closed!r}; give this user the right to write there"
        if self._in_progress is not None and closed == self._in_progress.target:
            raise self._claim_error(error) from error
        if closed in (self._folders.target, self._folders.processing):
            self._listing.leave_all(closed, reason)
        else:
            self._listing.leave(name, reason)

    def _claim_error(self, error: OSError) -> ProviderError:
        if error.errno == errno.EXDEV:
            return ProviderError(
                f"cannot take a message of {self._folders.destination}: {error.filename!r} and "
                f"{error.filename2!r} lie on different file systems; put all folders of the root on one"
            )
        return ProviderError(
            f"cannot take a message of {self._folders.destination}: {error.strerror}: {error.filename!r}; "
            "give this user the right to write there, or make room on the disk"
        )
