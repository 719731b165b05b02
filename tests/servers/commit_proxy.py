"""A way to a broker that loses the connection in a commit of an AMQP transaction."""

from __future__ import annotations

import socket
import threading
import time
from typing import Final, Literal

from tests.proxy import Link, Proxy, shut

_DISCHARGE: Final = b"\x00\x53\x32"
"""Begin of the descriptor of ``discharge`` (AMQP 1.0, 4.5.6), with a small unsigned number."""
_DISPOSITION: Final = b"\x00\x53\x15"
"""Begin of a disposition (AMQP 1.0, 2.7.6), with which a broker answers each message that it gets."""
_IN_TRANSACTION: Final = b"\x00\x53\x34"
"""Begin of a transactional state (4.5.8). The answer to a commit is the one without."""
_HEARTBEAT: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"
"""A frame without content (AMQP 1.0, 2.4.5)."""
_KEEP: Final = 0.2
"""Seconds between the frames that keep a connection."""
_ANSWER: Final = 120.0
"""Most seconds until the broker answers a commit."""
_REMEMBERED: Final = 1 << 20
"""Bytes of the beginning of a connection in which a text is looked for."""

When = Literal["before", "after", "late"]


class CommitProxy(Proxy):
    """A proxy to a broker.

    Args:
        target: the port.
    """

    def __init__(self, target: int) -> None:
        self._when: When | None = None
        self._behind = b""
        self._held: tuple[CommitLink, bytes] | None = None
        self._commits = threading.Lock()
        self.cuts = 0
        """Number of connections that were lost in a commit."""
        self.heartbeats = {"client": 0, "broker": 0}
        """Number of frames without content, by sender."""
        super().__init__(target)

    def cut_next(self, when: When, *, behind: str) -> None:
        """Loses the connection in the next commit of a connection on which the client has sent a text.

        Args:
            when: ``before`` the broker gets the commit, or ``after`` it, without the answer. ``late`` = the
                broker gets the commit with :meth:`deliver`, and until then its connection lives.
            behind: the text.
        """
        with self._commits:
            self._when, self._behind = when, behind.encode()

    def deliver(self) -> None:
        """Lets the broker have a late commit, and then ends its connection."""
        link, data = self._late()
        link.commit(data)
        shut(link.server)

    def drop(self) -> None:
        """Ends the broker's connection without the late commit."""
        shut(self._late()[0].server)

    def _late(self) -> tuple[CommitLink, bytes]:
        with self._commits:
            assert self._held is not None
            held, self._held = self._held, None
        return held

    def hold(self, link: CommitLink, data: bytes) -> None:
        """Keeps a late commit, and lets the broker believe that its client lives."""
        self._held = link, data
        threading.Thread(target=self._keep, daemon=True).start()

    def _keep(self) -> None:
        while True:
            with self._commits:
                if self._held is None:
                    return
                self._held[0].server.sendall(_HEARTBEAT)
            time.sleep(_KEEP)

    def close(self) -> None:
        if self._held is not None:
            self.drop()
        super().close()

    def link(self, client: socket.socket, server: socket.socket) -> Link:
        return CommitLink(self, client, server)

    def fatal(self, data: bytes, sent: bytes) -> When | None:
        """Returns when the connection is to be lost. None = now is no time for it."""
        with self._commits:
            if self._when is None or _DISCHARGE not in data or self._behind not in sent:
                return None
            when, self._when = self._when, None
            return when


class CommitLink(Link):
    """A connection to a broker that may be lost in a commit.

    Args:
        proxy: decides about that.
        client, server: the connections of the proxy with both.
    """

    def __init__(self, proxy: CommitProxy, client: socket.socket, server: socket.socket) -> None:
        super().__init__(client, server)
        self._proxy = proxy
        self._sent = b""
        self._rest = b""
        self._is_lost = threading.Event()
        self._answered = threading.Event()
        self._is_held = False

    def request(self, data: bytes) -> None:
        self._proxy.heartbeats["client"] += data.count(_HEARTBEAT)
        if len(self._sent) < _REMEMBERED:
            self._sent += data
        when = self._proxy.fatal(data, self._sent)
        if when is None:
            self.server.sendall(data)
            return
        self._is_lost.set()
        if when == "late":
            self._is_held = True
            self._proxy.hold(self, data)
        elif when == "after":
            self.commit(data)
        self._proxy.cuts += 1
        raise ConnectionAbortedError("the connection is lost in a commit")

    def response(self, data: bytes) -> None:
        self._proxy.heartbeats["broker"] += data.count(_HEARTBEAT)
        frames, self._rest = _frames(self._rest + data)
        if not self._is_lost.is_set():
            self.client.sendall(data)
        elif any(_DISPOSITION in one and _IN_TRANSACTION not in one for one in frames):
            self._answered.set()

    def commit(self, data: bytes) -> None:
        """Sends a commit, and waits until the broker has answered it."""
        self._answered.clear()
        self.server.sendall(data)
        assert self._answered.wait(_ANSWER), "the broker did not answer the commit"

    def end(self) -> None:
        shut(self.client) if self._is_held else super().end()


def _frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Returns the whole frames in what a broker has sent, and the rest (AMQP 1.0, 2.2 and 2.3)."""
    found = []
    while len(data) >= 8:
        size = 8 if data.startswith(b"AMQP") else int.from_bytes(data[:4])
        if len(data) < size:
            break
        found.append(data[:size])
        data = data[size:]
    return found, data
