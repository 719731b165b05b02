"""Fan-out: a message of a topic becomes one file of every subscription that wants it, all or none.

It is written once, in the topic's ``.incoming/working``; hard links put it into the hidden ``working/`` of
the subscriptions (copies, where the file system has no links), and one commit record moves all of them
to ``target/``. The last one gets the file itself. Nothing is visible before the commit point, and what
is not committed is removed as any unsent message of a dead client is.

Files that other programs drop into the topic's ``.incoming/target`` are claimed there by a rename and
distributed by the same kind of record, by whoever polls a subscription of the topic.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
from dataclasses import dataclass, field
from typing import Final

from connector import faults
from connector.core.subscriptions import is_local
from connector.errors import ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.providers.dropbox import codec, files
from connector.providers.dropbox.claims import TAG
from connector.providers.dropbox.committer import Committer
from connector.providers.dropbox.headers import HeaderStore, keys_of
from connector.providers.dropbox.layout import Layout
from connector.providers.dropbox.listing import Listing
from connector.providers.dropbox.log import Move
from connector.providers.dropbox.subscriptions import Subscription, SubscriptionStore

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
    subscriptions: dict[Destination, list[Subscription]] = field(default_factory=dict)
    """Those that all messages of the commit are for: one that is made meanwhile gets none, not a part."""


class Distributor:
    """Distributes messages of topics for one client.

    Args:
        layout, headers: of the root.
        store: the subscriptions.
        client_id: owner of what is not committed yet.
        origin: of what this client sends, for no-local.
        durable: whether copies are synced; links need no sync of their own.
        keep: whether a foreign file is kept in the topic's ``processed/`` when it has been distributed.
    """

    def __init__(
        self,
        layout: Layout,
        headers: HeaderStore,
        store: SubscriptionStore,
        client_id: str,
        origin: str,
        *,
        durable: bool,
        keep: bool,
    ) -> None:
        self._layout = layout
        self._headers = headers
        self._store = store
        self._client_id = client_id
        self._origin = origin
        self._durable = durable
        self._keep = keep
        self._numbers = itertools.count(1)
        self._listings: dict[Destination, Listing] = {}

    def has_subscriptions(self, topic: Destination) -> bool:
        """Whether anybody could want what is sent there now."""
        return bool(self._store.of(topic))

    def add(
        self, fan_out: FanOut, topic: Destination, source: str, name: str, *, moved: bool = True
    ) -> list[Move]:
        """The moves that send a message of this client.

        Args:
            fan_out: remembers what is made for it.
            topic: where it is sent.
            source: its file.
            name: its file name.
            moved: the last subscription gets the file itself; False = the caller settles it.

        Raises:
            OSError: it cannot be linked or copied; call :meth:`undo`.
        """
        wanting = self._wanting(fan_out, topic, name, self._origin)
        base = os.path.basename(source)
        moves = []
        for subscription in wanting[:-1] if moved else wanting:
            moves += self._link(fan_out, subscription, source, base, name)
        if moved and wanting:
            moves += self._hand_over(fan_out, wanting[-1], source, base, name)
        elif moved:
            moves += self._removal(source, name)
        return moves

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

    def _removal(self, source: str, name: str) -> list[Move]:
        """Removes a message and its sidecar; one that is lost stays, because the links speak of it too."""
        moves = [Move("received", self._layout.relative(source), None)]
        lost = keys_of(self._headers.full(name))
        for key in keys_of(name):
            if key not in lost:
                moves.append(Move("received", self._layout.relative(self._headers.path(key)), None))
        return moves

    # -- files of other programs -------------------------------------------------------------------

    def distribute(self, topic: Destination, committer: Committer) -> None:
        """Distributes what other programs have put into the topic; each file by one record.

        Raises:
            ProviderError: it cannot be; what is not distributed stays.
        """
        listing = self._listing(topic)
        while (name := listing.next()) is not None:
            try:
                self._distribute(topic, name, committer)
            except OSError as error:
                raise ProviderError(
                    f"cannot distribute {name!r} to the subscriptions of {topic}: {error.strerror}: "
                    f"{error.filename!r}; give this user the right to write there, or make room on the disk"
                ) from error

    def has_news(self, topic: Destination) -> bool:
        """Whether :meth:`distribute` may find something."""
        return self._listing(topic).has_news()

    def _listing(self, topic: Destination) -> Listing:
        listing = self._listings.get(topic)
        if listing is None:
            listing = self._listings[topic] = Listing(self._layout.queue(topic).target)
        return listing

    def _distribute(self, topic: Destination, name: str, committer: Committer) -> None:
        folders = self._layout.queue(topic)
        number = next(self._numbers)
        tag = f"{TAG}{self._client_id}-0-{number}"
        fitted = self._headers.fit(name, codec.NAME_MAX - len(tag))
        source = f"{folders.processing}/{fitted}{tag}"
        try:
            os.rename(f"{folders.target}/{name}", source)
        except FileNotFoundError:
            if fitted != name:
                self._headers.remove(fitted)
            if os.path.lexists(f"{folders.target}/{name}"):
                self._layout.make(folders)  # somebody has removed processing/
                self._distribute(topic, name, committer)
            return
        faults.point("fanout.claim")
        fan_out = FanOut()
        try:
            if self._durable:
                files.sync_files([source])
            moves = []
            for subscription in self._wanting(fan_out, topic, fitted, ""):
                base = f"{self._client_id}-f{number}{TAG}{self._client_id}-0-{number}"
                moves += self._link(fan_out, subscription, source, base, fitted)
            self.sync(fan_out)
            if self._keep:
                kept = f"{folders.relative_processed}/{fitted}"
                moves.append(Move("received", self._layout.relative(source), kept))
            else:
                moves += self._removal(source, fitted)
            committer.commit(moves)
        except (OSError, SettlementError):
            self.undo(fan_out)
            os.rename(source, f"{folders.target}/{fitted}")
            raise

    # -- who wants what ----------------------------------------------------------------------------

    def _wanting(self, fan_out: FanOut, topic: Destination, name: str, origin: str) -> list[Subscription]:
        message: Message | None = None
        found = []
        if topic not in fan_out.subscriptions:
            fan_out.subscriptions[topic] = self._store.of(topic)
        for subscription in fan_out.subscriptions[topic]:
            details = subscription.details
            if details.no_local and is_local(details, subscription.origin, origin):
                continue
            if subscription.selector is not None:
                if message is None:
                    message = codec.decode(self._headers.full(name), readable_only=True)[0]
                if not subscription.selector.matches(message):
                    continue
            found.append(subscription)
        return found

    def _link(
        self, fan_out: FanOut, subscription: Subscription, source: str, base: str, name: str
    ) -> list[Move]:
        """A second name for the file, in the working folder of a subscription; none where that has ended."""
        folders = subscription.folders
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
        self, fan_out: FanOut, subscription: Subscription, source: str, base: str, name: str
    ) -> list[Move]:
        """The file itself, into the working folder of a subscription: where that ends, it goes with it."""
        folders = subscription.folders
        working = f"{folders.working}/{base}"
        try:
            os.rename(source, working)
        except OSError:  # the subscription has ended, or lies on another file system
            return [*self._link(fan_out, subscription, source, base, name), *self._removal(source, name)]
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
