"""Temporary destinations: ``temporary-<client>-<n>``, a queue or topic that ends with its client.

Anybody may send to one while its owner lives; only connections of the owner's origin consume from it. Nobody
but the owner ever makes its directory, so what is sent to one that has ended is refused. Each consumer has a
mark, in ``consumers/`` beside the messages or in its subscription: one that is consumed is not deleted.
"""

from __future__ import annotations

import itertools
import os
import shutil
from typing import Final

from connector.errors import DestinationError, ProviderError, SubscriptionError, UnknownDestination
from connector.messaging.destination import Destination
from connector.providers.dropbox.claims import split_tag
from connector.providers.dropbox.clients import ClientInfo, holds_lock, origin_of
from connector.providers.dropbox.files import names_in
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import Layout, temporary_owner
from connector.providers.dropbox.marks import CONSUMERS, IsAlive, Mark, exclusive, living


class Temporaries:
    """The temporary destinations of one client.

    Args:
        layout, headers: of the root.
        client_id, info: of the client.
        is_alive: tells whether another client lives.
    """

    def __init__(
        self, layout: Layout, headers: HeaderStore, client_id: str, info: ClientInfo, is_alive: IsAlive
    ) -> None:
        self._layout = layout
        self._headers = headers
        self._client_id = client_id
        self._info = info
        self._is_alive = is_alive
        self._numbers = itertools.count(1)
        self._marks = itertools.count(1)

    def make(self, kind: str) -> Destination:
        """See :meth:`connector.messaging.provider.Connection.temporary`."""
        if kind not in ("queue", "topic"):
            raise DestinationError(f"{kind!r} is neither 'queue' nor 'topic'")
        if not self._client_id:
            raise ProviderError("a connection that only looks has no temporary destinations")
        destination = Destination(kind, f"temporary-{self._client_id}-{next(self._numbers)}")
        self._layout.make_new(self._layout.queue(destination))
        outbox = self._layout.outbox(destination)
        if not os.path.isdir(outbox.base):
            self._layout.make_new(outbox)
        return destination

    def check_consumer(self, destination: Destination) -> None:
        """Whether this client may consume from a destination; from any that is not temporary.

        Raises:
            DestinationError: it is the temporary one of somebody else.
            UnknownDestination: it has ended.
        """
        owner = temporary_owner(destination.base)
        if owner is None:
            return
        if not os.path.isdir(self._layout.queue(destination).base):
            raise UnknownDestination(f"the temporary destination {destination} has ended")
        check_alive(self._layout, destination.base)
        if owner != self._client_id and origin_of(self._layout.clients, owner) != self._info.origin:
            raise DestinationError(
                f"{destination} is the temporary destination of another connection: anybody may send to it, "
                "only that connection consumes from it"
            )

    def attach(self, queue: Destination) -> Mark | None:
        """The mark of a new consumer of a queue, where that is a temporary one.

        Raises:
            As :meth:`check_consumer`.
            ProviderError: it cannot be written.
        """
        if temporary_owner(queue.base) is None:
            return None
        with exclusive(self._layout.lock):
            self.check_consumer(queue)
            directory = os.path.join(self._layout.queue(queue.base).base, CONSUMERS)
            return Mark(directory, self._client_id, next(self._marks), self._info)

    def end(self, destination: Destination) -> None:
        """See :meth:`connector.messaging.provider.Connection.delete_temporary`."""
        owner = temporary_owner(destination)
        if owner is None:
            raise DestinationError(f"{destination} is no temporary destination")
        if owner != self._client_id:
            raise DestinationError(f"{destination} is the temporary destination of another connection")
        with exclusive(self._layout.lock):
            if not os.path.isdir(self._layout.directory(destination)):
                raise DestinationError(f"{destination} is no temporary destination any more: it has ended")
            if consumers := self._consumers(destination):
                raise SubscriptionError(
                    f"{destination} has a consumer (process {consumers[0].pid} on {consumers[0].host}); "
                    "close that first"
                )
            hidden = _hide(self._layout.directory(destination))
        _clear(self._headers, hidden)

    def _consumers(self, destination: Destination) -> list[ClientInfo]:
        places = [self._layout.queue(destination), *self._layout.subscriptions_of(destination)]
        found = []
        for folders in places:
            found += living(os.path.join(folders.base, CONSUMERS), self._is_alive, tidy=True)
        return found

    def end_all(self) -> None:
        """The client ends, and they with it."""
        end_temporaries(self._layout, self._headers, self._client_id)


def end_temporaries(layout: Layout, headers: HeaderStore, client_id: str) -> None:
    """Removes all temporary destinations of a client that has ended."""
    for parent, kind in ((layout.root, "queue"), (layout.topic_root, "topic")):
        for name in names_in(parent):
            if temporary_owner(Destination(kind, name.removeprefix(_HIDDEN))) == client_id:
                _clear(headers, _hide(os.path.join(parent, name)))


def check_alive(layout: Layout, destination: Destination) -> None:
    """Whether anybody could ever take what is sent to a temporary destination; true of all others.

    Raises:
        UnknownDestination: its owner is dead, and it ends when somebody takes over from that.
    """
    owner = temporary_owner(destination)
    if owner is not None and not holds_lock(layout.clients, owner):
        raise UnknownDestination(f"the temporary destination {destination} has ended: its owner is dead")


_HIDDEN: Final = ".deleted-"


def _hide(path: str) -> str:
    """Gives a destination a hidden name, and returns it: from one moment to the next nobody sees it any more.

    Raises:
        ProviderError: it cannot be renamed.
    """
    parent, name = os.path.split(path)
    if name.startswith(_HIDDEN):
        return path
    hidden = os.path.join(parent, _HIDDEN + name)
    try:
        os.rename(path, hidden)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ProviderError(f"cannot remove {path}: {error.strerror}") from error
    return hidden


def _clear(headers: HeaderStore, hidden: str) -> None:
    """Removes what is hidden, with the sidecars of its messages."""
    for _, _, names in os.walk(hidden):
        for file in names:
            headers.remove(split_tag(file)[0])
    shutil.rmtree(hidden, ignore_errors=True)
