"""Sends the messages of ``POST /events`` in threads, each with a connection of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final, NamedTuple

from connector.core.once_sender import OnceSender
from connector.errors import CapabilityError, ConnectorError, ProviderError
from connector.http.answers import SECONDS_TO_RETRY
from connector.http.places import CallPlaces
from connector.http.problems import HttpProblem
from connector.http.throttled_log import ThrottledLog
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.once import SentOnce
from connector.service.observer import Observer

KEEP_SECONDS: Final = 86400.0
"""How long a key is kept."""
_THREADS: Final = 4
"""Messages that are sent at the same time. A thread and its connection begin when all others are at work."""
_CLOSE_SECONDS: Final = 1.0
"""Seconds that the ends of the connections may take."""


class Key(NamedTuple):
    """The key of a call.

    Args:
        text: with what tells the keys of the caller from those of others.
        fingerprint: of the call. Another fingerprint with the same key is a mistake of the caller.
    """

    text: str
    fingerprint: str


class EventSender:
    """Sends messages. For one thread, that of the server.

    Args:
        places: whose cut ends every wait.
        seconds: that a message may take.
    """

    def __init__(self, observer: Observer, places: CallPlaces, seconds: float) -> None:
        self._observer = observer
        self._places = places
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(_THREADS, "connector-http-events")
        self._of_thread = threading.local()
        self._senders: list[OnceSender] = []
        self._failed = ThrottledLog("messages over HTTP are not taken", {})

    async def send(self, queue: Destination, message: Message, key: Key | None) -> SentOnce:
        """Sends a message, unless its key is known. Returns when the message is durable.

        Raises:
            HttpProblem: 503, there is no answer. With Retry-After if the same call may be repeated. 400 and
                501, the provider cannot send such a message.
        """
        begun = self._threads.submit(self._send, queue, message, key)
        done = asyncio.ensure_future(asyncio.wrap_future(begun))
        cut = asyncio.ensure_future(self._places.cut.wait())
        try:
            await asyncio.wait((done, cut), timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            cut.cancel()
        try:
            if done.done() and not done.cancelled():
                return done.result()
        except ValueError as error:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, str(error)) from None
        except CapabilityError as error:
            raise HttpProblem(HTTPStatus.NOT_IMPLEMENTED, str(error)) from None
        except (ConnectorError, OSError) as error:
            self._failed.add(reason=str(error))
            what = "nothing was taken" if key is None else "repeat the call with the same key"
            raise _away(f"messages cannot be stored now: {what}", may_repeat=True) from None
        if begun.cancel():
            detail = "the adapter is stopping, or its provider is slow: nothing was taken"
            raise _away(detail, may_repeat=True)
        done.add_done_callback(_read_exception)
        detail = "the provider has not answered yet; the message may have been taken"
        raise _away(detail, may_repeat=key is not None)

    def _send(self, queue: Destination, message: Message, key: Key | None) -> SentOnce:
        if shortage := self._observer.disk_shortage():
            raise ProviderError(shortage)
        sender: OnceSender | None = getattr(self._of_thread, "sender", None)
        if sender is None:
            sender = self._of_thread.sender = self._observer.sender()
            self._senders.append(sender)
        if key is None:
            return SentOnce(sender.send_new(queue, message), is_new=True, fingerprint="")
        return sender.send(queue, message, key=key.text, keep=KEEP_SECONDS, fingerprint=key.fingerprint)

    def close(self) -> None:
        """Ends threads and connections. Does not wait long for a thread that is stuck in a provider."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        ending = threading.Thread(target=self._close_senders, name="connector-http-events-end", daemon=True)
        ending.start()
        ending.join(_CLOSE_SECONDS)

    def _close_senders(self) -> None:
        for sender in self._senders:
            sender.close()


def _away(detail: str, *, may_repeat: bool) -> HttpProblem:
    headers = {"Retry-After": SECONDS_TO_RETRY} if may_repeat else {}
    return HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers)


def _read_exception(done: asyncio.Future[SentOnce]) -> None:
    """Reads the exception of an answer that nobody waits for, so that asyncio does not log the exception."""
    if not done.cancelled():
        done.exception()
