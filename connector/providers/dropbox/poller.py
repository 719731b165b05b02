"""Taking from a queue, or from what works like one: one rename a message, no body read."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable

from connector import faults
from connector.errors import MalformedData, ProviderError
from connector.messaging.provider import Poller
from connector.messaging.selector import Selector
from connector.providers.dropbox import codec
from connector.providers.dropbox.claims import TAG, DropboxClaim, Owner, counted_anew, owned_name
from connector.providers.dropbox.clients import base36
from connector.providers.dropbox.files import rename_to_free_name
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import Layout, QueueFolders
from connector.providers.dropbox.lease import Pulse
from connector.providers.dropbox.listing import Listing
from connector.providers.dropbox.marks import Mark


class QueuePoller(Poller):
    """Takes messages of one queue (see :class:`connector.messaging.provider.Poller`).

    Args:
        layout, headers: of the root.
        client_id: names the owner in claims.
        folders: what is taken from.
        in_progress: taking is the move there.
        limit: deliveries after which a message goes to ``error/``; None = never.
        keep: whether expired messages go to ``expired/``; else they are removed.
        selector: of the messages that are taken.
        pulse: of the client; None = it only looks.
        mark: of this consumer, where what is taken from keeps marks; it goes with the poller.
    """

    def __init__(
        self,
        layout: Layout,
        headers: HeaderStore,
        client_id: str,
        folders: QueueFolders,
        in_progress: QueueFolders | None = None,
        *,
        limit: int | None,
        keep: bool,
        selector: Selector | None = None,
        pulse: Pulse | None = None,
        mark: Mark | None = None,
    ) -> None:
        self._layout = layout
        self._headers = headers
        self._client_id = client_id
        self._limit = limit
        self._keep = keep
        self._folders = folders
        self._in_progress = in_progress
        self._selector = selector
        self._pulse = pulse
        self._mark = mark
        self.destination = folders.destination
        self._is_view = folders.destination.view != ""
        self._listing = Listing(folders.target)
        self._target = folders.target + "/"
        self._processing = folders.processing + "/"
        self._relative = layout.relative(self._processing)
        self._tag = f"{TAG}{client_id}-"
        self._end_of_tag = f"-{folders.view}" if folders.view else ""
        self._closed = False
        self._failure: ProviderError | None = None
        """What has ended the list of claims before; the next call raises it."""
        self._ending = threading.RLock()  # its connection may close it at the same time, from another thread
        self.on_close: Callable[[], None] = _nothing
        self.expired = 0

    def claim(self, cycle: int, numbers: range) -> list[DropboxClaim]:
        """See :meth:`connector.messaging.provider.Poller.claim`."""
        if self._closed:
            raise ProviderError(f"the consumer of {self.destination} is closed: make another")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        claims: list[DropboxClaim] = []
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
        return claims

    def _next(self, cycle: int, sequence: int) -> DropboxClaim | None:
        """Claims the next message that is to be delivered; None where nothing waits.

        Raises:
            ProviderError: as :meth:`claim`.
        """
        if self._pulse is not None:
            self._pulse.check()
        while not self._closed and (name := self._listing.next()) is not None:
            if not self._is_view:  # what has expired or failed is just what a view shows
                if self._has_expired(name):
                    self._expire(name)
                    continue
                if (
                    self._limit is not None
                    and (codec.DELIVERY_COUNT in name or codec.HEADER_KEY in name)
                    and self._delivered_too_often(name, self._limit)
                ):
                    self._put_in_error(name)
                    continue
            if self._selector is not None and not self._is_wanted(name, self._selector):
                continue
            claimed = self._claim(name, cycle, sequence)
            if claimed is not None:
                return claimed
        if self._folders.whole and not os.path.isdir(self._folders.base):
            raise ProviderError(
                f"{self.destination} has ended: it was temporary, or its subscription was removed"
            )
        return None

    def close(self) -> None:
        """See :meth:`connector.messaging.provider.Poller.close`."""
        with self._ending:
            if self._closed:
                return
            self._closed = True
            self._leave()
            self.on_close()

    def _leave(self) -> None:
        if self._mark is not None:
            self._mark.close()

    def abandon(self) -> None:
        """Ends it as the death of its process would."""
        with self._ending:
            self._closed = True
            if self._mark is not None:
                self._mark.abandon()

    @property
    def directories(self) -> tuple[str, ...]:
        """Where files come that :meth:`claim` may find."""
        return (self._folders.target,)

    def has_news(self) -> bool:
        """Whether :meth:`claim` may find more than it did last time."""
        return self._closed or self._listing.has_news()

    def _is_wanted(self, name: str, selector: Selector) -> bool:
        """Whether the selector is true for a message, by its name; remembered where it is not."""
        message, _ = codec.decode(self._headers.full(name), readable_only=True)
        if not message.timestamp:
            try:
                message.timestamp = os.lstat(self._target + name).st_mtime_ns // 1_000_000
            except OSError:
                return False
        if selector.matches(message):
            return True
        self._listing.reject(name, message.expiration)
        return False

    def look_again(self) -> None:
        """Messages came back to the queue: the next :meth:`claim` must see them."""
        self._listing.forget()

    def _claim(self, name: str, cycle: int, sequence: int, *, again: bool = False) -> DropboxClaim | None:
        if self._in_progress is not None:
            return self._move_to_in_progress(name, cycle, sequence)
        claimed = f"{name}{self._tag}{base36(cycle)}-{base36(sequence)}{self._end_of_tag}"
        try:
            os.rename(self._target + name, self._processing + claimed)
        except OSError as error:
            return self._claim_anyway(error, name, cycle, sequence, again=again)
        faults.point("claim")
        return DropboxClaim(
            self._layout, self._headers, self._folders, name, self._relative + claimed, cycle, sequence
        )

    def _claim_anyway(
        self, error: OSError, name: str, cycle: int, sequence: int, *, again: bool
    ) -> DropboxClaim | None:
        """What a failed claim means: somebody else was faster, the name is too long, or real trouble."""
        if error.errno == errno.ENOENT:
            if not os.path.lexists(self._target + name):
                return None
            if again:
                raise self._trouble(error) from error
            if not self._layout.make_parent(self._processing + name):  # somebody removed processing/
                return None
            return self._claim(name, cycle, sequence, again=True)
        if error.errno == errno.ENAMETOOLONG:
            tag = f"{self._tag}{base36(cycle)}-{base36(sequence)}{self._end_of_tag}"
            short = self._fit(name, codec.NAME_MAX - len(tag))
            if not self._rename_fitted(name, short, self._processing + short + tag):
                return None
            faults.point("claim")
            return DropboxClaim(
                self._layout,
                self._headers,
                self._folders,
                short,
                self._relative + short + tag,
                cycle,
                sequence,
            )
        raise self._trouble(error) from error

    def _move_to_in_progress(self, name: str, cycle: int, sequence: int) -> DropboxClaim | None:
        assert self._in_progress is not None
        owner = Owner(self._client_id, cycle, sequence)
        moved = owned_name(name, owner, self._folders.destination)
        if len(os.fsencode(moved)) > codec.NAME_MAX:
            moved = self._fit(moved, codec.NAME_MAX)
        target = f"{self._in_progress.target}/{moved}"
        if not os.path.isdir(self._in_progress.target):
            self._layout.make(self._in_progress)  # somebody removed it
        if not self._rename_fitted(name, moved, target):
            return None
        faults.point("claim")
        return DropboxClaim(
            self._layout,
            self._headers,
            self._folders,
            moved,
            self._layout.relative(target),
            cycle,
            sequence,
            owner,
        )

    def _rename_fitted(self, name: str, fitted: str, target: str) -> bool:
        """Takes a message under a name that may have a sidecar of its own; False where it is gone."""
        try:
            os.rename(self._target + name, target)
        except OSError as error:
            self._headers.remove(fitted, keep=name)
            if error.errno == errno.ENOENT and not os.path.lexists(self._target + name):
                return False
            raise self._trouble(error) from error
        self._headers.remove(name, keep=fitted)
        return True

    def _fit(self, name: str, room: int) -> str:
        try:
            return self._headers.fit(name, room)
        except OSError as error:
            raise self._trouble(error) from error

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
        try:
            os.unlink(self._target + name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._trouble(error) from error
        self._headers.remove(name)
        self.expired += 1

    def _put_in_error(self, name: str) -> None:
        moved = self._fit(counted_anew(self._headers.full(name)), codec.NAME_MAX)
        is_moved = False
        try:
            is_moved = self._remove_to(self._folders.error, name, moved)
        finally:
            old, new = (name, moved) if is_moved else (moved, name)
            self._headers.remove(old, keep=new)

    def _remove_to(self, folder: str, name: str, moved: str) -> bool:
        """Moves a message that is not for delivery, renamed; False where somebody else was faster."""
        try:
            if not os.path.lexists(self._target + name):
                return False
            if not self._layout.make_parent(f"{folder}/{moved}"):
                return False
            rename_to_free_name(self._target + name, f"{folder}/{moved}", self._headers.fit)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._trouble(error) from error
        return True

    def _trouble(self, error: OSError) -> ProviderError:
        if error.errno == errno.EXDEV:
            return ProviderError(
                f"cannot take a message of {self._folders.destination}: {error.filename!r} and "
                f"{error.filename2!r} lie on different file systems; put all folders of the root on one"
            )
        return ProviderError(
            f"cannot take a message of {self._folders.destination}: {error.strerror}: {error.filename!r}; "
            "give this user the right to write there, or make room on the disk"
        )


def _nothing() -> None:
    """Nobody wants to know."""
