"""Fan-out: a message of a topic becomes one file in each subscription that gets the message, all or none.

The message is written once, in the topic's ``.incoming/working``. Hard links put the file into the hidden
``working/`` of the subscriptions (copies, if the file system has no links). One commit record moves all of
them to ``target/``. The last subscription gets the file itself, unless a journal may name the file. Then the
record removes the file. Nothing is visible before the commit point. Files that are not committed are removed
like any unsent message of a dead client.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from connector import faults
from connector.stores.dropbox import files
from connector.stores.dropbox.delayed import place_of, room_for
from connector.stores.dropbox.headers import HeaderStore, keys_of, without
from connector.stores.dropbox.layout import QueueFolders, RootLayout
from connector.stores.dropbox.transaction_log import FileMove
from connector.stores.engine.channel import Channel

_NO_LINKS: Final = (
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
    errno.EXDEV,
)


@dataclass(slots=True)
class FanOut:
    """The files made for a commit, to be removed if the commit fails."""

    linked: list[str] = field(default_factory=list)
    moved: list[tuple[str, str]] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    names: list[tuple[str, str]] = field(default_factory=list)
    """Short names of links, each with the name of the linked file."""


class FanOutFiles:
    """Makes the files of messages for subscriptions, for one client.

    Args:
        durable: whether copies are synced. Links need no sync.
    """

    def __init__(self, layout: RootLayout, headers: HeaderStore, *, durable: bool) -> None:
        self._layout = layout
        self._headers = headers
        self._durable = durable
        self._places: dict[Channel, QueueFolders] = {}

    def add(
        self,
        fan_out: FanOut,
        channels: Sequence[Channel],
        source: str,
        base: str,
        name: str,
        *,
        moved: bool,
        due: int = 0,
    ) -> list[FileMove]:
        """Returns the moves that send one message.

        Args:
            base: name of the new files until the commit.
            moved: the last subscription gets the file itself. Otherwise the caller settles the file.
            due: milliseconds since 1970. 0 = the message is not delayed.

        Raises:
            OSError: the file cannot be linked or copied. Call :meth:`undo`.
        """
        places = [self._places.get(one) or self._place(one) for one in channels]
        moves = []
        for folders in places[:-1] if moved else places:
            moves += self._link(fan_out, folders, source, base, name, due)
        if moved and places:
            moves += self._hand_over(fan_out, places[-1], source, base, name, due)
        elif moved:
            moves += self.removal(source, name)
        return moves

    def _place(self, channel: Channel) -> QueueFolders:
        folders = self._layout.subscription(channel.destination, channel.subscription)
        self._places[channel] = folders
        return folders

    def undo(self, fan_out: FanOut) -> None:
        """Removes links and their sidecars after a failed commit."""
        for path in fan_out.linked:
            files.remove(path)
        for path, source in fan_out.moved:
            with contextlib.suppress(FileNotFoundError):  # the file went with its subscription
                os.rename(path, source)
        for name, source in fan_out.names:
            self._headers.remove(without(name, source))

    def sync(self, fan_out: FanOut) -> None:
        """Makes copies durable before the commit."""
        if self._durable:
            files.sync_files(fan_out.copied)

    def removal(self, source: str, name: str) -> list[FileMove]:
        """Returns the moves that remove a message and its sidecar.

        A lost sidecar stays, because the links name it too.
        """
        moves = [FileMove("received", self._layout.relative(source), None)]
        for key in self._headers.keys_of_file(name, source, self._headers.full(name)):
            moves.append(FileMove("received", self._layout.relative(self._headers.path(key)), None))
        return moves

    def _link(
        self, fan_out: FanOut, folders: QueueFolders, source: str, base: str, name: str, due: int
    ) -> list[FileMove]:
        """Links the file into the working folder of a subscription.

        No moves if the subscription has ended.
        """
        working = f"{folders.working}/{base}"
        fan_out.linked.append(working)
        if not self._link_file(fan_out, source, working):
            return []
        if keys_of(name):  # a sidecar goes with its file, so each file needs its own sidecar
            own = self._headers.fit(self._headers.full(name), working, room_for(due))
            fan_out.names.append((own, name))
            name = own
        faults.point("fanout.link")
        return [FileMove("sent", self._layout.relative(working), place_of(folders, name, due))]

    def _hand_over(
        self, fan_out: FanOut, folders: QueueFolders, source: str, base: str, name: str, due: int
    ) -> list[FileMove]:
        """Moves the file itself into the working folder of a subscription.

        If the subscription ends, the file goes with it.
        """
        working = f"{folders.working}/{base}"
        try:
            os.rename(source, working)
        except OSError:  # the subscription has ended, or lies on another file system
            return [*self._link(fan_out, folders, source, base, name, due), *self.removal(source, name)]
        fan_out.moved.append((working, source))
        faults.point("fanout.link")
        return [FileMove("sent", self._layout.relative(working), place_of(folders, name, due))]

    def _link_file(self, fan_out: FanOut, source: str, target: str) -> bool:
        """Links or copies a file. False if the subscription has ended meanwhile."""
        try:
            self._link_or_copy(fan_out, source, target)
        except FileNotFoundError:
            if not os.path.lexists(source):
                raise
            if not self._layout.make_parent(target):
                return False
            self._link_or_copy(fan_out, source, target)
        return True

    @staticmethod
    def _link_or_copy(fan_out: FanOut, source: str, target: str) -> None:
        try:
            try:
                os.link(source, target, follow_symlinks=False)
            except FileExistsError:  # left by an attempt that failed
                os.unlink(target)
                os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            shutil.copyfile(source, target, follow_symlinks=False)
            fan_out.copied.append(target)
