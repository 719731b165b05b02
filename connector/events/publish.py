"""Publish: every subscription that matches gets the object (design, sections 4 and 7)."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from connector import faults
from connector.broker.loading import load_process
from connector.broker.sinks import DestinationSink, Event, ProcessSink, Watch
from connector.broker.subscriptions import Broker, Subscription
from connector.businessobjects.datahandler import HandlerFailed
from connector.businessobjects.instance import BusinessObject
from connector.errors import NotActive, ProviderError, TemporaryFailure, Unsubscribed
from connector.events.answering import Answering
from connector.events.convert import Converter
from connector.events.plan import EventPlan
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import MessageAccess, Prepared
from connector.state.store import TaskJournal
from connector.trace import CONVERSION, DETAILS, HANDOVER
from connector.tracebacks import error_text, log_failure

_log: Final = logging.getLogger("connector.events")


@dataclass(slots=True)
class Publication:
    """What the subscribers answered.

    Args:
        delivered: subscriptions that have confirmed, those of earlier stays in the queue included.
        prepared: messages to send when the event is published.
        replies: of processes that have confirmed; they are sent whatever becomes of the event.
        refusals: replies that say why a process has failed; they are sent where the event has failed.
        failures: what went wrong, by subscription.
        unsubscribed: subscriptions that do not want the object after all.
        inactive: why the event has to come again: the text of the one that is not active, or of a
            provider that cannot take a message; None otherwise.
        provider_failed: whether it was the provider.
        begun: whether an external delivery was begun.
        in_vain: a process was called whose reply cannot be made now, and has to be called again.
    """

    delivered: tuple[str, ...] = ()
    prepared: tuple[Prepared, ...] = ()
    replies: tuple[Prepared, ...] = ()
    refusals: tuple[Prepared, ...] = ()
    failures: tuple[str, ...] = ()
    unsubscribed: tuple[str, ...] = ()
    inactive: str | None = None
    provider_failed: bool = False
    begun: bool = False
    in_vain: bool = False


class Publisher:
    """Delivers objects to subscribers.

    Args:
        plan: with the subscriptions.
        deployment: where processes are loaded from.
        converter: for the formats of destination sinks and replies.
        access: where prepared messages are made.
        watch: ends this worker when a process takes too long.

    Raises:
        ProcessNotFound: a business process cannot be loaded.
    """

    def __init__(
        self, plan: EventPlan, deployment: str, converter: Converter, access: MessageAccess, watch: Watch
    ) -> None:
        self._plan = plan
        self._deployment = deployment
        self.trace = plan.trace
        self._broker = Broker(plan.subscriptions)
        self._access = access
        self._answering = Answering(plan, converter, access)
        self._pid = os.getpid()
        self._warned: set[str] = set()
        self._external: dict[str, ProcessSink] = {}
        self._prepared: dict[str, tuple[DestinationSink, Destination]] = {}
        for subscription in plan.subscriptions:
            if subscription.process is not None:
                self._external[subscription.name] = ProcessSink(
                    load_process(subscription.process, deployment),
                    subscription.name,
                    retries=subscription.retries,
                    timeout=subscription.timeout,
                    watch=watch,
                )
            elif subscription.destination is not None:
                sink = DestinationSink(
                    converter.handler(subscription.mime_type).to_body,
                    partial(subscription.headers, plan.rules),
                    format_property=plan.format_property,
                    persistent=plan.persistent,
                )
                self._prepared[subscription.name] = (sink, subscription.destination)

    def subscribers(self, bo: BusinessObject) -> Sequence[Subscription]:
        return self._broker.subscribers(bo.type, bo.verb or "")

    def publish(
        self,
        bo: BusinessObject,
        event: Event,
        subscribers: Sequence[Subscription],
        confirmed: Sequence[str],
        journal: TaskJournal,
        sequence: int,
        reference: object,
    ) -> Publication:
        """Delivers to each subscriber that has not confirmed before.

        A failure does not keep the object from the others; one that is not active ends the round, and
        so does a provider that cannot take a prepared message.

        Raises:
            OSError: the journal cannot be written.
        """
        result = Publication()
        if confirmed:
            names = {subscription.name for subscription in subscribers}
            result.delivered = tuple([name for name in confirmed if name in names])
        for subscription in subscribers:
            name = subscription.name
            if name in result.delivered:
                continue
            if self.trace.level >= HANDOVER:
                self.trace(
                    HANDOVER,
                    "business object handed over",
                    message_id=event.id,
                    object=bo.type,
                    verb=bo.verb,
                    subscription=name,
                )
            external = self._external.get(name)
            if external is None:
                self._prepare(bo, event, f"{reference}|{name}", name, result)
                if result.provider_failed:
                    break
                continue
            if not result.begun:
                journal.begin(sequence)
                result.begun = True
                faults.point("begin")
            self._deliver(external, subscription, bo, event, reference, result)
            if result.inactive is not None:
                break
            faults.point("deliver")
        return result

    def _deliver(
        self,
        external: ProcessSink,
        subscription: Subscription,
        bo: BusinessObject,
        event: Event,
        reference: object,
        result: Publication,
    ) -> None:
        """Calls a process; whoever awaits its answer gets a reply, and only then it has confirmed."""
        name = subscription.name
        asked = None
        if subscription.reply:
            asked = self._answering.asked(subscription, event, f"{reference}|{name}")
        returned, raised = self._call(external, bo, _event_for(name, event))
        if raised is None and returned is not None and not subscription.reply:
            self._warn_of_return(name, event.id)
        failure = raised
        if asked is not None and not isinstance(failure, Unsubscribed | NotActive):
            try:
                answer = self._answering.answer(asked, bo, returned, failure)
            except ProviderError as error:
                result.inactive, result.provider_failed = f"{name}: its reply: {error}", True
                result.in_vain = True
                return
            failure = answer.failure
            if answer.prepared is not None:
                if failure is None:
                    result.replies += (answer.prepared,)
                else:
                    result.refusals += (answer.prepared,)
                if self.trace.level >= CONVERSION:
                    self.trace(
                        CONVERSION,
                        "reply made",
                        message_id=event.id,
                        destination=str(answer.prepared.destination),
                        subscription=name,
                    )
        if failure is None:
            result.delivered += (name,)
        elif isinstance(failure, Unsubscribed):
            result.unsubscribed += (_reason(name, failure),)
        elif isinstance(failure, NotActive):
            result.inactive = _reason(name, failure)
        else:
            times = subscription.retries + 1
            tried = f" (tried {times} times)" * (isinstance(failure, TemporaryFailure) and times > 1)
            process = external.function if raised is not None else None
            place = self._log_failure(failure, process, name, bo, event)
            result.failures += (f"{_reason(name, failure)}{tried}{place}",)

    def _log_failure(
        self, error: BaseException, process: object, name: str, bo: BusinessObject, event: Event
    ) -> str:
        """Logs an exception of a business process or data handler, once, where it has happened.

        Args:
            error: why a subscription has failed.
            process: what raised it; None where no process did.
            name: of the subscription.

        Returns:
            the end of the reason, `` (FILE:LINE)``; empty for what is no exception of user code.
        """
        text, handler = "a business process has failed", None
        if process is None:
            if not isinstance(error, HandlerFailed):
                return ""  # a statement about an object: there is no place in a file where it came from
            text, handler, process = "a data handler has failed", type(error.handler).__name__, error.handler
            error = error.__cause__ or error
        return log_failure(
            _log,
            text,
            error,
            process,
            self._deployment,
            message_id=event.id,
            destination=event.input_destination,
            object=bo.type,
            verb=bo.verb,
            subscription=name,
            data_handler=handler,
            attempts=event.delivery_count,
        )

    def _warn_of_return(self, name: str, message_id: str) -> None:
        """Says once for each subscription that nobody gets what its process returns."""
        if name not in self._warned:
            self._warned.add(name)
            _log.warning(
                "a process returned something, but its subscription has no reply: true",
                extra={"subscription": name, "message_id": message_id},
            )

    def _call(
        self, external: ProcessSink, bo: BusinessObject, event: Event
    ) -> tuple[object, BaseException | None]:
        """What a process returns, and what it raises."""
        try:
            return external.deliver(bo, event), None
        except BaseException as error:  # asyncio.CancelledError and SystemExit are the process's own, too
            if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
                raise  # Ctrl-C; a worker ignores it, so that there it is the process's own as well
            return None, error
        finally:
            if os.getpid() != self._pid:
                os._exit(0)  # a fork that the process forgot to end: only its parent goes on

    def refuse(self, request: Message, reason: str, reference: object) -> Prepared | None:
        """See :meth:`connector.events.answering.Answering.refuse`."""
        return self._answering.refuse(request, reason, str(reference))

    def _prepare(self, bo: BusinessObject, event: Event, key: str, name: str, result: Publication) -> None:
        # the key is the claim's, not the message's: two copies of one message may be at work together
        sink, destination = self._prepared[name]
        try:
            message = sink.prepare(bo, event)
        except Exception as error:
            place = self._log_failure(error, None, name, bo, event)
            result.failures += (f"{_reason(name, error)}{place}",)
            return
        try:
            result.prepared += (self._access.prepare(destination, message, key),)
            if self.trace.level >= CONVERSION:
                self._traced_message(destination, message, name, event)
        except ValueError as error:  # a header that no message can carry
            result.failures += (_reason(name, error),)
        except ProviderError as error:
            result.inactive, result.provider_failed = f"{name}: {error}", True

    def _traced_message(self, destination: Destination, message: Message, name: str, event: Event) -> None:
        fields = {"message_id": event.id, "destination": str(destination), "subscription": name}
        self.trace(CONVERSION, "message sent", **fields, format=message.type, bytes=len(message.body))
        if self.trace.level >= DETAILS:
            self.trace(DETAILS, "message put", **fields, headers=message.headers())


def _event_for(subscription: str, event: Event) -> Event:
    """An event of its own for the process of a subscription, which may change it."""
    return Event(
        event.id,
        event.input_destination,
        event.delivery_count,
        event.message,
        subscription,
        event.requests,
    )


def _reason(name: str, error: BaseException) -> str:
    return f"{name}: {error_text(error)}"
