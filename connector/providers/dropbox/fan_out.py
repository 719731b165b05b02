"""Fan-out: a message of a topic becomes one file of every subscription that gets it, all or none.

It is written once, in the topic's ``.incoming/working``. Hard links put it into the hidden ``working/`` of
the subscriptions (copies, where the file system has no links), and one commit record moves all of them
to ``target/``. The last one gets the file itself. Nothing is visible before the commit point, and what
is not committed is removed as any unsent message of a dead client is.
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
from connector.core.local.channel import Channel
from connector.providers.dropbox import files
from connector.providers.dropbox.headers import HeaderStore, keys_of
from connector.providers.dropbox.layout import Layout, QueueFolders
from connector.providers.dropbox.log import Move

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
    """What was made for a commit, to be removed where that fails."""

    linked: list[str] = field(default_factory=list)
    moved: list[tuple[str, str]] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    names: list[tuple[str, str]] = field(default_factory=list)
    """Short names of links, each with the name of the file that was linked."""


class FanOutFiles:
    """Makes the files of messages that go to subscriptions, for one client.

    Args:
        layout, headers: of the root.
        durable: whether copies are synced. Links need no sync of their own.
    """

    def __init__(self, layout: Layout, headers: HeaderStore, *, durable: bool) -> None:
        self._layout = layout
        self._headers = headers
        self._durable = durable
        self._places: dict[Channel, QueueFolders] = {}

    def add(
        self, fan_out: FanOut, channels: Sequence[Channel], source: str, base: str, name: str, *, moved: bool
    ) -> list[Move]:
        """The moves that send one message.

        Args:
            fan_out: remembers what is made for it.
            channels: the subscriptions that get it.
            source: its file.
            base: what the files are called until the commit.
            name: its file name.
            moved: the last subscription gets the file itself. Else the caller settles it.

        Raises:
            OSError: it cannot be linked or copied; call :meth:`undo`.
        """
        places = [self._places.get(one) or self._place(one) for one in channels]
        moves = []
        for folders in places[:-1] if moved else places:
            moves += self._link(fan_out, folders, source, base, name)
        if moved and places:
            moves += self._hand_over(fan_out, places[-1], source, base, name)
        elif moved:
            moves += self.removal(source, name)
        return moves

    def _place(self, channel: Channel) -> QueueFolders:
        folders = self._layout.subscription(channel.destination, channel.subscription)
        self._places[channel] = folders
        return folders

    def undo(self, fan_out: FanOut) -> None:
        """Nothing was committed: removes the links and what belongs to them."""
        for path in fan_out.linked:
            files.remove(path)
        for path, source in fan_out.moved:
            with contextlib.suppress(FileNotFoundError):  # went with its subscription
                os.rename(path, source)
        for name, source in fan_out.names:
            self._headers.remove(name, keep=source)

    def sync(self, fan_out: FanOut) -> None:
        """Makes copies durable before the commit."""
        if self._durable and fan_out.copied:
            files.sync_files(fan_out.copied)

    def removal(self, source: str, name: str) -> list[Move]:
        """Removes a message and its sidecar; one that is lost stays, because the links speak of it too."""
        moves = [Move("received", self._layout.relative(source), None)]
        lost = keys_of(self._headers.full(name))
        for key in keys_of(name):
            if key not in lost:
                moves.append(Move("received", self._layout.relative(self._headers.path(key)), None))
        return moves

    def _link(self, fan_out: FanOut, folders: QueueFolders, source: str, base: str, name: str) -> list[Move]:
        """A second name for the file, in the working folder of a subscription; none where that has ended."""
        working = f"{folders.working}/{base}"
        fan_out.linked.append(working)
        if not self._link_file(fan_out, source, working):
            return []
        if keys_of(name):  # the sidecar goes with its file, so each file has its own
            own = self._headers.fit(self._headers.full(name))
            fan_out.names.append((own, name))
            name = own
        faults.point("fanout.link")
        return [Move("sent", self._layout.relative(working), f"{folders.relative_target}/{name}")]

    def _hand_over(
        self, fan_out: FanOut, folders: QueueFolders, source: str, base: str, name: str
    ) -> list[Move]:
        """The file itself, into the working folder of a subscription: where that ends, it goes with it."""
        working = f"{folders.working}/{base}"
        try:
            os.rename(source, working)
        except OSError:  # the subscription has ended, or lies on another file system
            return [*self._link(fan_out, folders, source, base, name), *self.removal(source, name)]
        fan_out.moved.append((working, source))
        faults.point("fanout.link")
        return [Move("sent", self._layout.relative(working), f"{folders.relative_target}/{name}")]

    def _link_file(self, fan_out: FanOut, source: str, target: str) -> bool:
        """Links, or copies; False where the subscription has ended meanwhile."""
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
            except FileExistsError:  # of an attempt that failed
                os.unlink(target)
                os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            shutil.copyfile(source, target, follow_symlinks=False)
            fan_out.copied.append(target)
