"""Prepares replies to the senders of messages while an event is at work.

The commit that settles the event also sends the reply, so nobody ever sees only the reply or only the
settlement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from connector.businessobjects.instance import BusinessObject
from connector.errors import UnknownDestination
from connector.events.run.convert import Converter
from connector.events.run.task_settings import TaskSettings
from connector.limits.stages import is_interrupt
from connector.messaging.access import MessageAccess
from connector.messaging.input import Input
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared
from connector.sinks.contract import Event
from connector.sinks.replying import Replies, ReplyHeaders, Unanswered
from connector.sinks.subscriptions import Subscription
from connector.tracebacks import error_text


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """Everything that is needed to reply to a request, noted before the process is called.

    Args:
        reply_headers: header values of the reply, from the request.
        to_body: writes the object of the reply.
        format_of: the format of the reply, by object and verb.
        request_id: the JMSMessageID of the request.
        key: of the reply, for :meth:`connector.messaging.access.MessageAccess.prepare`.
    """

    reply_headers: ReplyHeaders
    to_body: Callable[[BusinessObject], bytes | str]
    format_of: Callable[[str, str], str | None]
    request_id: str
    key: str


@dataclass(frozen=True, slots=True)
class PreparedReply:
    """A prepared reply.

    Args:
        prepared: the reply, or why no message can reach the sender of the request.
        failure: why the process has failed, as in the reply. None after success.
    """

    prepared: Prepared | Unanswered
    failure: BaseException | None


class RefusalReplies:
    """Prepares replies to messages that no process will see.

    Args:
        task_settings: of the adapter. Nothing is replied if no process of the adapter answers requests.
    """

    def __init__(self, task_settings: TaskSettings, access: MessageAccess) -> None:
        self._answers_requests = task_settings.answers_requests
        self._access = access
        self._replies = Replies(
            task_settings.definitions, task_settings.connector, own_names=task_settings.own_names
        )

    def refuse(self, request: Message, reason: str, key: str) -> Prepared | Unanswered | None:
        """Returns the reply that says why a message has failed or is unsubscribed.

        Args:
            request: headers of the message.
            reason: the text of the reply.
            key: of the claim.

        Returns:
            the reply, or why there is none. None if nobody awaits a reply.

        Raises:
            ProviderError: the reply cannot be made now.
        """
        reply_headers = self._replies.reply_headers(request) if self._answers_requests else None
        if not isinstance(reply_headers, ReplyHeaders):
            return reply_headers
        message = self._replies.failure(reply_headers, reason)
        return self._prepare(reply_headers, message, f"{key}\nreply", request.message_id or "")

    def refuse_durably(self, request: Message, reason: str, key: str) -> Prepared | Unanswered | None:
        """Does the same as :meth:`refuse`, and makes the reply durable for a commit."""
        prepared = self.refuse(request, reason, key)
        self._access.sync()
        return prepared

    def _prepare(
        self, reply_headers: ReplyHeaders, message: Message, key: str, request_id: str
    ) -> Prepared | Unanswered:
        try:
            prepared = self._access.prepare(reply_headers.destination, message, key)
            self._access.write()  # the journal of an event that has begun names the reply
            return prepared
        except (UnknownDestination, ValueError) as error:
            # a temporary queue that has ended, a view of a queue, or a header that no message can carry
            return Unanswered.log(request_id, str(error))


class ProcessReplies(RefusalReplies):
    """Prepares the replies of business processes, too.

    Args:
        task_settings, access: see :class:`RefusalReplies`.
        converter: for the formats of replies.

    Raises:
        ConfigurationError: there is no data handler for the format of a subscription.
    """

    def __init__(self, task_settings: TaskSettings, converter: Converter, access: MessageAccess) -> None:
        super().__init__(task_settings, access)
        self._rules = task_settings.rules
        self._converter = converter
        for subscription in task_settings.subscriptions:
            if subscription.reply and subscription.mime_type is not None:
                converter.handler(subscription.mime_type)  # a missing handler shows at the start

    def context(
        self, subscription: Subscription, event: Event, key: str, named: Input | None = None
    ) -> ReplyContext | Unanswered | None:
        """Returns the reply data of a request, or why it gets no reply. None if nobody awaits one.

        Called before the process, which may change the event.

        Args:
            named: the input, if it has keys of its own.
        """
        reply_headers = self._replies.reply_headers(event.message, event.traceparent)
        if not isinstance(reply_headers, ReplyHeaders):
            return reply_headers
        if subscription.mime_type is not None:
            handler = self._converter.handler(subscription.mime_type)
        else:
            handler = self._converter.reader(event.message, event.input_destination, named)
        format_of = partial(subscription.output_format, self._rules)
        return ReplyContext(reply_headers, handler.to_body, format_of, event.id, f"{key}\nreply")

    def convert(
        self, context: ReplyContext, bo: BusinessObject, answered: object, failure: BaseException | None
    ) -> tuple[Message, BaseException | None]:
        """Returns the reply to the value that a process has returned, or to its exception.

        The second part says why the process has failed, as in the reply. None after success.
        """
        if failure is None:
            try:
                message = self._replies.answer(
                    context.reply_headers, bo, answered, context.to_body, context.format_of
                )
            except BaseException as error:  # the returned value cannot be sent
                if is_interrupt(error):
                    raise
                failure = error
        if failure is not None:
            message_format = context.format_of(bo.type, bo.verb or "")
            message = self._replies.failure(context.reply_headers, error_text(failure), message_format)
        return message, failure

    def prepare(self, context: ReplyContext, reply: tuple[Message, BaseException | None]) -> PreparedReply:
        """Prepares a reply of :meth:`convert`.

        Raises:
            ProviderError: the reply cannot be made now.
        """
        message, failure = reply
        return PreparedReply(
            self._prepare(context.reply_headers, message, context.key, context.request_id), failure
        )
