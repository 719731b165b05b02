"""The exchange of one request: the request is sent, and its reply awaited if one is wanted."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Callable
from typing import Final

from connector.businessobjects.dynamic import as_text
from connector.errors import CapabilityError, ConnectorError, ProviderError, RequestRefused, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Capabilities, Connection
from connector.requests.late import LateReplies
from connector.requests.listener import ReplyListener
from connector.requests.own_replies import key_of
from connector.requests.pending import Call, Failure, Pending
from connector.requests.sender import Outgoing, Sender
from connector.requests.settings import CORRELATION_ID, MESSAGE_ID, RequestSettings
from connector.status import ReturnCode
from connector.trace import DETAILS, HANDOVER

_log = logging.getLogger("connector.requests")

_DONE: Final = Failure(ReturnCode.SUCCEED)


class Exchange:
    """Sends the requests of one client and finds their replies. Thread-safe.

    The listener's selector names the connection that sent a request, so there are two senders. Requests whose
    reply repeats their message id use the first. Asynchronous requests, and requests with a response
    selector, use the second. The listener's selector matches no reply to the second group.

    Args:
        settings: of the client.
        connect: makes a provider connection.
        capabilities: of the provider.
    """

    def __init__(
        self, settings: RequestSettings, connect: Callable[[], Connection], capabilities: Capabilities
    ) -> None:
        self._settings = settings
        self._capabilities = capabilities
        self._pending = Pending()
        self.late = LateReplies(settings.late_replies)
        self._listener = ReplyListener(
            connect, self._pending, settings.matching.reply, self.late, settings.max_body
        )
        self._awaited = Sender(connect)
        self._others = Sender(connect)
        self._token = secrets.token_hex(8)
        self._numbers = itertools.count(1)

    def begin(self, call: Call, *, attended: bool = False) -> None:
        """Sends a request. An asynchronous request completes at once, others complete later.

        Args:
            attended: the caller will call :meth:`attend`.
        """
        try:
            if call.properties.synchronous:
                self._ask(call, attended)
            else:
                self._send_only(call)
        except Exception as error:
            may_be_sent = call.outgoing is not None and call.outgoing.attempted
            self.give_up(call, _failure(error, may_be_sent=may_be_sent))

    def attend(self, call: Call) -> None:
        """Takes the reply of a call in this thread if no other thread takes replies.

        May return before the reply.
        """
        if not call.completed:
            self._listener.attend(call)

    def give_up(self, call: Call, failure: Failure) -> None:
        """Ends a request without a reply, unless the request has ended before."""
        self._pending.give_up(call)
        call.complete(failure)

    def stop(self) -> None:
        """Completes all waiting calls and ends the connections. Repeatable."""
        self._listener.stop()
        for sender in (self._awaited, self._others):
            try:
                sender.close()
            except (ProviderError, OSError) as error:
                _log.warning("ending a connection for requests failed", extra={"reason": str(error)})

    # -- asynchronous --------------------------------------------------------------------------------

    def _send_only(self, call: Call) -> None:
        if call.properties.reply_to is not None:
            call.message.reply_to = str(call.properties.reply_to)
        self._send(self._others, call)
        call.complete(_DONE)

    def _send(
        self, sender: Sender, call: Call, prepared: Callable[[str, str], object] = lambda *_: None
    ) -> None:
        properties = call.properties
        # The expiration keeps a request from being served after its ResponseTimeout. With ResponseTimeout 0
        # the client looks only once, so no expiration is set.
        time_to_live = max(0, properties.response_timeout or 0)
        call.outgoing = Outgoing(properties.output_destination, call.message, prepared, time_to_live)
        sender.send(call.outgoing)
        call.sent_as = call.message.message_id or ""
        trace = self._settings.trace
        if trace.level >= HANDOVER:
            fields = {"message_id": call.sent_as, "destination": str(properties.output_destination)}
            trace(HANDOVER, "request sent", **fields, object=call.bo.type, verb=call.bo.verb)
            if trace.level >= DETAILS:
                trace(DETAILS, "message put", **fields, bytes=len(call.message.body))

    # -- synchronous ---------------------------------------------------------------------------------

    def _ask(self, call: Call, attended: bool) -> None:
        selector = call.selector or self._own_selector(call.message)
        reply_to = call.properties.reply_to or self._temporary(shared=bool(selector))
        if reply_to == self._settings.late_replies:
            raise RequestRefused(
                f"ReplyToDestination: {reply_to} is where replies that nobody awaits are copied to "
                "(late_replies); take another"
            )
        call.reply_to = reply_to
        call.message.reply_to = str(reply_to)
        if selector:
            self._ask_by_selector(call, reply_to, selector)
        elif self._settings.matching.request == MESSAGE_ID:
            self._ask_by_message_id(call, reply_to)
        else:
            self._ask_by_token(call, reply_to)
        call.deadline = time.monotonic() + (call.properties.response_timeout or 0) / 1000
        self._listener.await_reply(call, attended=attended)

    def _ask_by_selector(self, call: Call, reply_to: Destination, selector: str) -> None:
        """Awaits the reply that the selector matches, unless the reply names another request."""

        def prepared(message_id: str, sent_ids: str) -> None:
            self._pending.add(key_of(message_id), call)

        names_request = self._settings.matching.request == MESSAGE_ID
        self._send(self._others, call, prepared if names_request else lambda *_: None)
        self._listener.watch(call, reply_to, selector)

    def _ask_by_message_id(self, call: Call, reply_to: Destination) -> None:
        """Awaits the reply that repeats the message id. The id contains the id of the sending connection."""
        if not self._listener.takes_from(reply_to):
            self._listener.expect(self._awaited.sent_ids())
            self._listener.take_from(reply_to)

        def prepared(message_id: str, sent_ids: str) -> None:
            call.sent_as = message_id
            self._listener.expect(sent_ids)
            self._pending.add(key_of(message_id), call)

        self._send(self._awaited, call, prepared)
        self._take_again(reply_to)

    def _ask_by_token(self, call: Call, reply_to: Destination) -> None:
        """Awaits the reply that repeats a correlation id or property.

        Makes that value, because the request has none.
        """
        token = f"{self._token}-{next(self._numbers)}"
        if self._settings.matching.request == CORRELATION_ID:
            call.message.correlation_id = token
        else:
            call.message.set_property(self._settings.matching.request, token)
        self._listener.expect(f"%{self._token}-%")
        if not self._listener.takes_from(reply_to):
            self._listener.take_from(reply_to)
        self._pending.add(token, call)
        self._send(self._awaited, call)
        self._take_again(reply_to)

    def _take_again(self, reply_to: Destination) -> None:
        """Takes replies from ``reply_to`` again: too many other destinations may have ended its poller."""
        if not self._listener.takes_from(reply_to):
            self._listener.take_from(reply_to)

    def _own_selector(self, message: Message) -> str:
        """Returns a selector for the reply that repeats the value set by the meta-objects.

        Returns an empty text if none is set.
        """
        wanted, field = self._settings.matching.request, self._settings.matching.reply
        if wanted == MESSAGE_ID:
            return ""
        value = message.correlation_id if wanted == CORRELATION_ID else message.properties.get(wanted)
        if value is None:
            return ""
        key = key_of(as_text(value)).replace("'", "''")
        text = f"{field} IN ('{key}', 'ID:{key}')"
        if not isinstance(value, str):  # the reply may repeat the value with its type, or as text
            text += f" OR {field} = {as_text(value).upper()}"
        return text

    def _temporary(self, *, shared: bool) -> Destination:
        if not self._capabilities.temporary_destinations:
            raise CapabilityError(
                "a synchronous request needs a reply destination, and this provider has no temporary queues: "
                "set ReplyToDestination, in a meta-object or in connector:"
            )
        return self._listener.temporary(shared=shared)


def _failure(error: Exception, *, may_be_sent: bool) -> Failure:
    """Returns the failure of a request that was not sent, or that may have been sent."""
    if may_be_sent and not isinstance(error, SettlementError):
        text = f"the provider failed while the request was sent; it may have been sent: {error}"
        return Failure(ReturnCode.APPRESPONSETIMEOUT, text)
    text = f"the request was not sent: {error}"
    if isinstance(error, ProviderError | OSError):
        return Failure(ReturnCode.APPRESPONSETIMEOUT, text)
    if isinstance(error, ConnectorError | ValueError):
        return Failure(ReturnCode.FAIL, text, refused=True)
    _log.error("a request failed in a way that it should not", exc_info=error)
    return Failure(ReturnCode.FAIL, f"{type(error).__name__}: {error}")
