"""The exchange of one request: sent, and its reply awaited where it is to be."""

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
from connector.requests.listener import Listener
from connector.requests.own_replies import key_of
from connector.requests.pending import Call, Failure, Pending
from connector.requests.plan import CORRELATION_ID, MESSAGE_ID, RequestPlan
from connector.requests.sender import Outgoing, Sender
from connector.status import ReturnCode
from connector.trace import DETAILS, HANDOVER

_log = logging.getLogger("connector.requests")

_DONE: Final = Failure(ReturnCode.SUCCEED)


class Exchange:
    """Sends the requests of one client and finds their replies. Thread-safe.

    Two senders, because the ids of what is sent tell the replies that the listener takes: those to requests
    whose reply repeats their message id, and no others. A reply to an asynchronous request, or to one with a
    response selector, stays where it is, for whomever it is.

    Args:
        plan: of the client.
        connect: makes a provider connection.
        capabilities: of the provider.
    """

    def __init__(
        self, plan: RequestPlan, connect: Callable[[], Connection], capabilities: Capabilities
    ) -> None:
        self._plan = plan
        self._capabilities = capabilities
        self._pending = Pending()
        self.late = LateReplies(plan.late_replies)
        self._listener = Listener(connect, self._pending, plan.matching.reply, self.late, plan.max_body)
        self._awaited = Sender(connect)
        self._others = Sender(connect)
        self._token = secrets.token_hex(8)
        self._numbers = itertools.count(1)

    def begin(self, call: Call, *, attended: bool = False) -> None:
        """Sends a request; it completes by itself, at once where nothing is awaited.

        Args:
            attended: the caller will :meth:`attend` to it.
        """
        try:
            if call.properties.synchronous:
                self._ask(call, attended)
            else:
                self._tell(call)
        except Exception as error:
            may_be_sent = call.outgoing is not None and call.outgoing.attempted
            self.give_up(call, _failure(error, may_be_sent=may_be_sent))

    def attend(self, call: Call) -> None:
        """Sees to it that its reply is taken, in this thread where no other does; may return before."""
        if not call.completed:
            self._listener.attend(call)

    def give_up(self, call: Call, failure: Failure) -> None:
        """Ends a request without a reply, unless it has ended before."""
        self._pending.give_up(call)
        call.complete(failure)

    def stop(self) -> None:
        """Completes what still waits, and ends the connections. Repeatable."""
        self._listener.stop()
        for sender in (self._awaited, self._others):
            try:
                sender.close()
            except (ProviderError, OSError) as error:
                _log.warning("ending a connection for requests failed", extra={"reason": str(error)})

    # -- asynchronous --------------------------------------------------------------------------------

    def _tell(self, call: Call) -> None:
        if call.properties.reply_to is not None:
            call.message.reply_to = str(call.properties.reply_to)
        self._send(self._others, call)
        call.complete(_DONE)

    def _send(
        self, sender: Sender, call: Call, prepared: Callable[[str, str], object] = lambda *_: None
    ) -> None:
        properties = call.properties
        # nobody is to answer what nobody awaits; and one that looks once awaits nothing
        time_to_live = max(0, properties.response_timeout or 0)
        call.outgoing = Outgoing(properties.output_destination, call.message, prepared, time_to_live)
        sender.send(call.outgoing)
        call.sent_as = call.message.message_id or ""
        trace = self._plan.trace
        if trace.level >= HANDOVER:
            fields = {"message_id": call.sent_as, "destination": str(properties.output_destination)}
            trace(HANDOVER, "request sent", **fields, object=call.bo.type, verb=call.bo.verb)
            if trace.level >= DETAILS:
                trace(DETAILS, "message put", **fields, bytes=len(call.message.body))

    # -- synchronous ---------------------------------------------------------------------------------

    def _ask(self, call: Call, attended: bool) -> None:
        selector = call.selector or self._own_selector(call.message)
        reply_to = call.properties.reply_to or self._temporary(shared=bool(selector))
        if reply_to == self._plan.late_replies:
            raise RequestRefused(
                f"ReplyToDestination: {reply_to} is where replies that nobody awaits are copied to "
                "(late_replies); take another"
            )
        call.reply_to = reply_to
        call.message.reply_to = str(reply_to)
        if selector:
            self._ask_by_selector(call, reply_to, selector)
        elif self._plan.matching.request == MESSAGE_ID:
            self._ask_by_message_id(call, reply_to)
        else:
            self._ask_by_token(call, reply_to)
        call.deadline = time.monotonic() + (call.properties.response_timeout or 0) / 1000
        self._listener.await_reply(call, attended=attended)

    def _ask_by_selector(self, call: Call, reply_to: Destination, selector: str) -> None:
        """The reply is what the selector is true for, unless it names another request of this client."""

        def prepared(message_id: str, sent_ids: str) -> None:
            self._pending.add(key_of(message_id), call)

        names_request = self._plan.matching.request == MESSAGE_ID
        self._send(self._others, call, prepared if names_request else lambda *_: None)
        self._listener.watch(call, reply_to, selector)

    def _ask_by_message_id(self, call: Call, reply_to: Destination) -> None:
        """The reply repeats the message id, which carries the id of the connection that sends."""
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
        """The reply repeats a correlation id or property that nobody has set: one is made."""
        token = f"{self._token}-{next(self._numbers)}"
        if self._plan.matching.request == CORRELATION_ID:
            call.message.correlation_id = token
        else:
            call.message.set_property(self._plan.matching.request, token)
        self._listener.expect(f"%{self._token}-%")
        if not self._listener.takes_from(reply_to):
            self._listener.take_from(reply_to)
        self._pending.add(token, call)
        self._send(self._awaited, call)
        self._take_again(reply_to)

    def _take_again(self, reply_to: Destination) -> None:
        """Where others have named so many destinations that this one was given up before it was in use."""
        if not self._listener.takes_from(reply_to):
            self._listener.take_from(reply_to)

    def _own_selector(self, message: Message) -> str:
        """Selects the reply that repeats what the meta-objects have set; empty where they have not."""
        wanted, field = self._plan.matching.request, self._plan.matching.reply
        if wanted == MESSAGE_ID:
            return ""
        value = message.correlation_id if wanted == CORRELATION_ID else message.properties.get(wanted)
        if value is None:
            return ""
        key = key_of(as_text(value)).replace("'", "''")
        text = f"{field} IN ('{key}', 'ID:{key}')"
        if not isinstance(value, str):  # the reply may repeat it as what it is, or as text
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
    """How a request ends that could not be sent, or of which that is not known."""
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
