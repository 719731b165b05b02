"""Temporary destinations: ``temporary-<client>-<n>``, a queue or topic that ends with its client.

Anybody may send to one while it lives; only connections of its owner's origin consume from it. Nobody but the
owner ever makes its directory, so what is sent to one that has ended is refused.
"""

from __future__ import annotations

import itertools
import os
import shutil

from connector.errors import DestinationError, ProviderError, UnknownDestination
from connector.messaging.destination import Destination
from connector.providers.dropbox.claims import split_tag
from connector.providers.dropbox.clients import origin_of
from connector.providers.dropbox.files import names_in
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import Layout, temporary_owner


class Temporaries:
    """The temporary destinations of one client.

    Args:
        layout, headers: of the root.
        client_id, origin: of the client.
    """

    def __init__(self, layout: Layout, headers: HeaderStore, client_id: str, origin: str) -> None:
        self._layout = layout
        self._headers = headers
        self._client_id = client_id
        self._origin = origin
        self._numbers = itertools.count(1)

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
        owner = temporary_owner(destination)
        if owner is None:
            return
        if not os.path.isdir(self._layout.queue(destination).base):
            raise UnknownDestination(f"the temporary destination {destination} has ended")
        if owner != self._client_id and origin_of(self._layout.clients, owner) != self._origin:
            raise DestinationError(
                f"{destination} is the temporary destination of another connection: anybody may send to it, "
                "only that connection consumes from it"
            )

    def end(self, destination: Destination) -> None:
        """See :meth:`connector.messaging.provider.Connection.delete_temporary`."""
        owner = temporary_owner(destination)
        if owner is None:
            raise DestinationError(f"{destination} is no temporary destination")
        if owner != self._client_id:
            raise DestinationError(f"{destination} is the temporary destination of another connection")
        remove_tree(self._headers, self._layout.directory(destination))

    def end_all(self) -> None:
        """The client ends, and they with it."""
        end_temporaries(self._layout, self._headers, self._client_id)


def end_temporaries(layout: Layout, headers: HeaderStore, client_id: str) -> None:
    """Removes all temporary destinations of a client that has ended."""
    for parent, kind in ((layout.root, "queue"), (layout.topic_root, "topic")):
        for name in names_in(parent):
            if temporary_owner(Destination(kind, name.removeprefix(_HIDDEN))) == client_id:
                remove_tree(headers, os.path.join(parent, name))


_HIDDEN = ".deleted-"


def remove_tree(headers: HeaderStore, path: str) -> None:
    """Removes a destination with its messages: from one moment to the next nobody sees it any more.

    Raises:
        ProviderError: it cannot be removed.
    """
    parent, name = os.path.split(path)
    hidden = path if name.startswith(_HIDDEN) else os.path.join(parent, _HIDDEN + name)
    try:
        if hidden != path:
            os.rename(path, hidden)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ProviderError(f"cannot remove {path}: {error.strerror}") from error
    for _, _, names in os.walk(hidden):
        for file in names:
            headers.remove(split_tag(file)[0])
    shutil.rmtree(hidden, ignore_errors=True)
