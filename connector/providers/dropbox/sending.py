"""Sending: written where nobody sees it, made durable, then visible, all or none."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Sequence

from connector.errors import ClaimLost, ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.providers.dropbox import codec, files
from connector.providers.dropbox.claims import TAG
from connector.providers.dropbox.committer import Committer
from connector.providers.dropbox.distribution import Distributor, FanOut
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import Layout, QueueFolders
from connector.providers.dropbox.log import Move
from connector.providers.dropbox.temporary import check_alive


class Sender:
    """Sends the messages of one client.

    Args:
        layout, headers: of the root.
        client_id: names what is not visible yet, and the message ids.
        committer, distributor: of the client.
        durable: whether what is sent is synced before it is visible.
    """

    def __init__(
        self,
        layout: Layout,
        headers: HeaderStore,
        client_id: str,
        committer: Committer,
        distributor: Distributor,
        *,
        durable: bool,
    ) -> None:
        self._layout = layout
        self._headers = headers
        self._client_id = client_id
        self._committer = committer
        self._distributor = distributor
        self._durable = durable
        self._micros = 0
        self._numbers = itertools.count(1)
        self._tag = f"{TAG}{client_id}-0-0"

    def send(self, destination: Destination, messages: Iterable[Message]) -> list[str]:
        """See :meth:`connector.messaging.provider.Connection.send`."""
        folders = self._layout.outbox(destination)
        if folders.whole:
            check_alive(self._layout, destination)
        is_wanted = destination.is_queue or self._has_subscriptions(folders)
        ids: list[str] = []
        names: list[str] = []
        written: list[str] = []
        try:
            try:
                for message in messages:
                    identity = self._new_id()
                    message.message_id = f"ID:{identity}"
                    name = codec.encode_new(message)
                    if is_wanted:
                        names.append(self._headers.fit(name))
                        working = f"{folders.working}/{identity}{self._tag}"
                        written.append(working)
                        self._layout.write(folders, working, message.body)
                    ids.append(message.message_id)
                if self._durable:
                    files.sync_files(written)
                self._make_visible(folders, written, names)
            except ProviderError as error:
                if isinstance(error, SettlementError | ClaimLost):
                    self._unmake(written, names)
                raise
            except BaseException:
                self._unmake(written, names)
                raise
        except (OSError, SettlementError) as failure:
            error_ = failure if isinstance(failure, OSError) else failure.__cause__
            what = f"{error_.strerror}: {error_.filename!r}" if isinstance(error_, OSError) else str(failure)
            raise ProviderError(f"cannot send to {destination}: {what}; nothing was sent") from failure
        return ids

    def _has_subscriptions(self, topic: QueueFolders) -> bool:
        """Whether anybody could want what is sent to a topic; one that is new is made all the same."""
        if not os.path.isdir(topic.target):
            self._layout.make(topic)
        return self._distributor.has_subscriptions(topic.destination)

    def _make_visible(self, folders: QueueFolders, written: Sequence[str], names: Sequence[str]) -> None:
        """One message is one rename, several are one commit record."""
        if not written:
            return
        if not folders.destination.is_queue:
            self._distribute(folders.destination, written, names)
        elif len(written) == 1:
            self._rename(folders, written[0], f"{folders.target}/{names[0]}")
            if self._durable:
                files.sync_directory(folders.target)
        else:
            target, relative = folders.relative_target, self._layout.relative
            self._committer.commit(
                [
                    Move("sent", relative(working), f"{target}/{name}")
                    for working, name in zip(written, names, strict=True)
                ]
            )

    def _rename(self, folders: QueueFolders, working: str, target: str) -> None:
        try:
            os.rename(working, target)
        except FileNotFoundError:
            self._layout.make(folders)  # somebody has removed target/
            os.rename(working, target)

    def _distribute(self, topic: Destination, written: Sequence[str], names: Sequence[str]) -> None:
        fan_out = FanOut()
        try:
            moves = []
            for source, name in zip(written, names, strict=True):
                moves += self._distributor.add(fan_out, topic, source, name)
            self._distributor.sync(fan_out)
        except BaseException:
            self._distributor.undo(fan_out)
            raise
        try:
            self._committer.commit(moves)
        except (SettlementError, ClaimLost):
            self._distributor.undo(fan_out)
            raise

    def _unmake(self, written: Sequence[str], names: Sequence[str]) -> None:
        """Removes messages that were not sent, and their sidecars."""
        for path in written:
            files.remove(path)
        for name in names:
            self._headers.remove(name)

    def _new_id(self) -> str:
        """Sorts by time, also within this client and when the clock goes back, and names the client."""
        now = time.time_ns() // 1000
        self._micros = now if now > self._micros else self._micros + 1
        return f"{self._micros:016d}-{self._client_id}-{next(self._numbers)}"
