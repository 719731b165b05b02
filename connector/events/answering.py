"""Prepares replies to the senders of messages while an event is at work.

The commit that settles the event also sends the reply, so nobody ever sees only the reply or only the
settlement.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from connector.broker.replying import Envelope, Replies
from connector.broker.sinks import Event
from connector.broker.subscriptions import Subscription
from connector.businessobjects.instance import BusinessObject
from connector.errors import UnknownDestination
from connector.events.convert import Converter
from connector.events.plan import EventPlan
from connector.messaging.access import MessageAccess
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared
from connector.tracebacks import error_text

_log: Final = logging.getLogger("connector.events")


@dataclass(frozen=True, slots=True)
class Asked:
    """Everything that is needed to reply to a request, noted before the process is called.

    Args:
        envelope: header values of the reply, from the request.
        to_body: writes the object of the reply.
        format_of: the format of the reply, by object and verb.
        request_id: the JMSMessageID of the request.
        key: of the reply, for :meth:`connector.messaging.access.MessageAccess.prepare`.
    """

    envelope: Envelope
    to_body: Callable[[BusinessObject], bytes | str]
    format_of: Callable[[str, str], str | None]
    request_id: str
    key: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A prepared reply.

    Args:
        prepared: the reply. None if no message can reach the sender of the request.
        failure: why the process has failed, as in the reply. None after success.
    """

    prepared: Prepared | None
    failure: BaseException | None


class Refusals:
    """Prepares replies to messages that no process will see.

    Args:
        plan: of the adapter. Nothing is replied if no process of the adapter answers requests.
        access: prepares the replies.
    """

    def __init__(self, plan: EventPlan, access: MessageAccess) -> None:
        self._serves = plan.serves
        self._access = access
        self._replies = Replies(
            plan.definitions,
            result_property=plan.result_property,
            matching=plan.matching,
            format_property=plan.format_property,
            use_defaults=plan.use_defaults,
        )

    def refuse(self, request: Message, reason: str, key: str) -> Prepared | None:
        """Returns the reply that says why a message has failed or is unsubscribed.

        Args:
            request: headers of the message.
            reason: the text of the reply.
            key: of the claim.

        Returns:
            the reply, or None if nobody awaits a reply.

        Raises:
            ProviderError: the reply cannot be made now.
        """
        envelope = self._replies.envelope(request) if self._serves else None
        if envelope is None:
            return None
        message = self._replies.failure(envelope, reason)
        return self._prepare(envelope, message, f"{key}\nreply", request.message_id or "")

    def refuse_durably(self, request: Message, reason: str, key: str) -> Prepared | None:
        """Does the same as :meth:`refuse`, and makes the reply durable for a commit."""
        prepared = self.refuse(request, reason, key)
        self._access.sync()
        return prepared

    def _prepare(self, envelope: Envelope, message: Message, key: str, request_id: str) -> Prepared | None:
        try:
            prepared = self._access.prepare(envelope.destination, message, key)
            self._access.write()  # the journal of an event that has begun names the reply
            return prepared
        except (UnknownDestination, ValueError) as error:
            # a temporary queue that has ended, a view of a queue, or a header that no message can carry
            _log.warning("a request gets no reply", extra={"message_id": request_id, "reason": str(error)})
            return None


class Answering(Refusals):
    """Prepares the replies of business processes, too.

    Args:
        plan, access: see :class:`Refusals`.
        converter: for the formats of replies.

    Raises:
        ConfigurationError: there is no data handler for the format of a subscription.
    """

    def __init__(self, plan: EventPlan, converter: Converter, access: MessageAccess) -> None:
        super().__init__(plan, access)
        self._rules = plan.rules
        self._converter = converter
        for subscription in plan.subscriptions:
            if subscription.reply and subscription.mime_type is not None:
                converter.handler(subscription.mime_type)  # a missing handler shows at the start

    def asked(self, subscription: Subscription, event: Event, key: str) -> Asked | None:
        """Returns the reply data of a request, or None if nobody awaits a reply.

        Called before the process, which may change the event.
        """
        envelope = self._replies.envelope(event.message)
        if envelope is None:
            return None
        if subscription.mime_type is not None:
            handler = self._converter.handler(subscription.mime_type)
        else:
            handler = self._converter.reader(event.message, event.input_destination)
        format_of = partial(subscription.output_format, self._rules)
        return Asked(envelope, handler.to_body, format_of, event.id, f"{key}\nreply")

    def answer(
        self, asked: Asked, bo: BusinessObject, answered: object, failure: BaseException | None
    ) -> Answer:
        """Prepares the reply to the value that a process has returned, or to its exception.

        Raises:
            ProviderError: the reply cannot be made now.
        """
        if failure is None:
            try:
                message = self._replies.answer(asked.envelope, bo, answered, asked.to_body, asked.format_of)
            except Exception as error:  # the returned value cannot be sent
                failure = error
        if failure is not None:
            message_format = asked.format_of(bo.type, bo.verb or "")
            message = self._replies.failure(asked.envelope, error_text(failure), message_format)
        return Answer(self._prepare(asked.envelope, message, asked.key, asked.request_id), failure)
