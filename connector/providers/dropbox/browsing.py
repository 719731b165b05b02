"""Looking without taking: browse, and what destinations and subscriptions there are."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Final

from connector.core.state import order_key
from connector.errors import MalformedData, ProviderError, UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import DestinationInfo, SubscriptionInfo
from connector.providers.dropbox import codec, files
from connector.providers.dropbox.access import without_owner
from connector.providers.dropbox.claims import split_tag
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import Layout, temporary_owner
from connector.providers.dropbox.listing import rank
from connector.providers.dropbox.subscriptions import SubscriptionStore

_NO_LIMIT: Final = 1 << 62


class Browser:
    """What one client sees of a root.

    Args:
        layout, headers: of the root.
        store: the subscriptions.
        client_id: whose temporary destinations are listed.
    """

    def __init__(
        self, layout: Layout, headers: HeaderStore, store: SubscriptionStore, client_id: str
    ) -> None:
        self._layout = layout
        self._headers = headers
        self._store = store
        self._client_id = client_id

    def browse(
        self, destination: Destination, unreadable: Callable[[Message, str], object] | None
    ) -> Iterator[Message]:
        """See :meth:`connector.messaging.provider.Connection.browse`."""
        if not self._layout.exists(destination):
            known = ", ".join(str(name) for name in self.names() if temporary_owner(name) is None)
            raise UnknownDestination(
                f"there is no {destination} under {self._layout.root}"
                + (f"; there are {known}" if known else "")
            )
        return self._messages(destination, unreadable)

    def _messages(
        self, destination: Destination, unreadable: Callable[[Message, str], object] | None
    ) -> Iterator[Message]:
        """What is there, in the order of taking."""
        folders = self._layout.queue(destination)
        found = []
        for folder in (folders.target,) if destination.view else (folders.target, folders.processing):
            for name in _names(folder):
                seen = self._look(folder, name)
                if seen is not None:
                    key, message, lost = seen
                    message.destination = str(destination)
                    found.append((key, f"{folder}/{name}", message, lost))
        found.sort(key=lambda entry: entry[0])
        for _, path, message, lost in found:
            reason = ""
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

    def _look(self, folder: str, name: str) -> tuple[tuple[int, int, str], Message, str] | None:
        """Place in the order of taking and headers of a file, and why headers are lost.

        None where the file is gone or no message.
        """
        short = split_tag(name)[0]
        try:
            status = os.lstat(f"{folder}/{name}")
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        full, lost = short, ""
        try:
            full, lost = self._headers.look(short)
            full = without_owner(full, keep_origin=True)
        except (MalformedData, ProviderError) as error:
            lost = lost or str(error)
        message, _ = codec.decode(full, readable_only=True)
        if not message.timestamp:
            message.timestamp = status.st_mtime_ns // 1_000_000
        priority, age = rank(short)
        key = order_key(priority, status.st_mtime_ns // 1000 if age is None else age, short)
        return key, message, lost

    def subscriptions(self) -> list[SubscriptionInfo]:
        """See :meth:`connector.messaging.provider.Connection.subscriptions`."""
        return [info for topic in self._layout.topics() for info in self._subscriptions_of(topic)]

    def _subscriptions_of(self, topic: Destination) -> list[SubscriptionInfo]:
        """By name and client id."""
        found = [self._store.describe(subscription) for subscription in self._store.of(topic)]
        found.sort(key=lambda info: (info.subscription.name, info.subscription.client_id))
        return found

    def names(self) -> list[Destination]:
        """See :meth:`connector.messaging.provider.Connection.names`."""
        return [*self._layout.queues(), *self._layout.topics()]

    def destinations(self) -> list[DestinationInfo]:
        """See :meth:`connector.messaging.provider.Connection.destinations`."""
        return [
            self._describe(destination)
            for destination in self.names()
            if temporary_owner(destination) in (None, self._client_id)
        ]

    def _describe(self, destination: Destination) -> DestinationInfo:
        folders = self._layout.queue(destination)
        return DestinationInfo(
            destination,
            files.count(folders.target),
            files.count(folders.processing),
            files.count(folders.processed),
            files.count(folders.expired),
            files.count(folders.error),
            () if destination.is_queue else tuple(self._subscriptions_of(destination)),
        )


def _names(folder: str) -> list[str]:
    """Names that may be messages; none where a foreign program has not made the folder.

    Raises:
        ProviderError: the folder cannot be read.
    """
    try:
        return [name for name in os.listdir(folder) if not name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise files.unreadable(folder, error) from error
