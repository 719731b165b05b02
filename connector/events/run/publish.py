"""Publishes an object to every subscription that matches."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from connector import faults
from connector.agent_trace import CONVERSION, DETAILS, HANDOVER
from connector.businessobjects.instance import BusinessObject
from connector.databases.settings import EventKey, digest
from connector.errors import (
    MalformedData,
    NotActive,
    ObjectRefused,
    ProviderError,
    TemporaryFailure,
    Unsubscribed,
)
from connector.events.hooks.task_hook import TaskHooks
from connector.events.run.circuits import CircuitState, DeliveryGate
from connector.events.run.conversion_limit import ConversionLimit
from connector.events.run.convert import Converter
from connector.events.run.event_identity import identity_of
from connector.events.run.open_sinks import CalledSink, OpenSinks
from connector.events.run.prepared_replies import ProcessReplies, ReplyContext
from connector.events.run.publication import MatchedObject, Publication, TaskEvent
from connector.events.run.task_settings import TaskSettings
from connector.formats.datahandler import HandlerFailed
from connector.limits import stages
from connector.log import AT_WORK
from connector.messaging.access import MessageAccess
from connector.messaging.destination import Destination, known_destination
from connector.messaging.history import HOPS, hops_of
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared
from connector.messaging.state_store import TaskJournal
from connector.operate.reasons import ReasonKind
from connector.sinks.calling import Deliver
from connector.sinks.contract import AnySink, CallTimer, Event, write_body
from connector.sinks.event_loop import CallOverdue
from connector.sinks.replying import Unanswered
from connector.sinks.sending import Outbox, OutboxWriter
from connector.sinks.subscriptions import Broker, Subscription
from connector.tracebacks import error_text, log_failure

_log: Final = logging.getLogger("connector.events")
NO_RETRIES: Final[Mapping[str, int]] = MappingProxyType({})


class _Delivery(NamedTuple):
    """One object for one subscriber.

    Args:
        label: by which ``connector_delivered`` names the subscription.
        called: the sink, if it is called. None = its message is prepared.
        retries: how often the delivery has come again.
    """

    matched: MatchedObject
    subscription: Subscription
    label: str
    called: CalledSink | None
    retries: int


class Publisher:
    """Delivers objects to subscribers.

    Args:
        deployment: the directory of the deployment on this machine.
        converter: for the formats of messages and replies.
        timer: ends this worker when an external sink takes too long.
        limit: of everything before the first delivery of an event, and of replies.

    Raises:
        ConnectorError: a sink cannot be opened.
    """

    def __init__(
        self,
        task_settings: TaskSettings,
        deployment: str,
        converter: Converter,
        access: MessageAccess,
        timer: CallTimer,
        limit: ConversionLimit,
        hooks: TaskHooks,
    ) -> None:
        self._hooks = hooks
        self._task_settings = task_settings
        self._limit = limit
        self._deployment = deployment
        self.trace = task_settings.trace
        self._access = access
        self._answering = ProcessReplies(task_settings, converter, access)
        self._pid = os.getpid()
        self._batch = 0
        self.gate = DeliveryGate(task_settings.subscriptions)
        """Decides which subscriptions get an event now."""
        self._ids: Mapping[int, str] = {}
        self._sinks = OpenSinks(task_settings, deployment, converter, timer)
        self._writer = message_writer(task_settings, converter)
        # Prepared sinks come first: if the provider refuses their message, no external sink was called in
        # vain. Transactional sinks come last: an external sink that fails in the end is not called twice
        # for their sake.
        self._broker = Broker(sorted(task_settings.subscriptions, key=self._sinks.order_of_delivery))

    def begin(
        self,
        batch: int,
        circuits: Mapping[str, CircuitState],
        paused: Mapping[str, float],
        ids: Mapping[int, str],
    ) -> None:
        """Begins an assignment.

        Args:
            paused: the paused subscriptions, each with the seconds until its events come again.
            ids: the duplicate keys by sequence. Empty if duplicates are not eliminated.
        """
        self._batch, self._ids = batch, ids
        if circuits or paused or not self.gate.is_open:
            self.gate.begin(circuits, paused)

    def close(self) -> None:
        """Closes the sinks. Repeatable."""
        self._sinks.close()

    def subscribers(self, bo: BusinessObject) -> Sequence[Subscription]:
        return self._broker.subscribers(bo.type, bo.verb or "")

    def publish(
        self,
        event: TaskEvent,
        confirmed: Sequence[str],
        journal: TaskJournal,
        reference: object,
        retries: Mapping[str, int] = NO_RETRIES,
    ) -> Publication:
        """Delivers the objects of one message to each subscriber that has not confirmed before.

        A failed subscriber does not keep an object from the others. The round ends if a subscriber is not
        active, or if the provider cannot take a prepared message.

        Raises:
            OSError: the journal cannot be written.
        """
        result, hooks = Publication(), self._hooks
        for delivery in self._deliveries(event.objects, confirmed, retries, result):
            name, called, one = delivery.subscription.name, delivery.called, delivery.matched
            AT_WORK.set(
                {
                    "message_id": one.event.id,
                    "destination": one.event.input_destination,
                    "object": one.bo.type,
                    "verb": one.bo.verb,
                    "subscription": name,
                }
            )
            if self.trace.level >= HANDOVER:
                self._trace_handover(delivery)
            if not self.gate.is_open and self._comes_later(delivery, result):
                continue
            if called is not None and not self._begin(called, delivery, event, journal, reference, result):
                break
            for observe in hooks.delivering:
                observe(event, name, result)
            if called is None:
                self._prepare(delivery.matched, f"{reference}|{delivery.label}", name, result)
            else:
                self._deliver(called, delivery, reference, result)
            for observe in hooks.delivered:
                observe(event, name, result)
            if result.inactive is not None:
                break
            if called is not None:
                faults.point("deliver")
        return result

    def _deliveries(
        self,
        objects: Sequence[MatchedObject],
        confirmed: Sequence[str],
        retries: Mapping[str, int],
        result: Publication,
    ) -> Sequence[_Delivery]:
        """Returns the deliveries in order. Notes earlier confirmations, and objects without a subscriber."""
        found = [
            _Delivery(
                one.as_delivered_to(subscription.name) if one.mapped else one,
                subscription,
                label := one.label(subscription.name),
                self._sinks.called.get(subscription.name),
                retries.get(label, 0),
            )
            for one in objects
            for subscription in one.subscribers
        ]
        if len(objects) > 1:  # otherwise subscribers are in this order
            found.sort(key=lambda one: self._sinks.order_of_delivery(one.subscription))
            result.unwanted = tuple([one.unwanted for one in objects if not one.subscribers])
        if confirmed:
            labels = {one.label for one in found}
            result.delivered = tuple([label for label in confirmed if label in labels])
            found = [one for one in found if one.label not in result.delivered]
        return found

    def _comes_later(self, delivery: _Delivery, result: Publication) -> bool:
        """Whether the gate keeps a delivery for later, as that of a subscription that is paused or rests."""
        name, label = delivery.subscription.name, delivery.label
        delay = self.gate.delay(name, is_called=delivery.called is not None)
        if delay is None:
            return False
        result.later += ("",)  # nothing is logged
        result.retries[label] = delivery.retries
        result.wait = max(result.wait, delay)
        return True

    def _begin(
        self,
        called: CalledSink,
        delivery: _Delivery,
        event: TaskEvent,
        journal: TaskJournal,
        reference: object,
        result: Publication,
    ) -> bool:
        """Notes that a sink is called. Returns False if the prepared messages cannot be written before."""
        if not (result.begun or result.transacted) and result.prepared:
            try:
                self._access.write()  # the journal of a begun event relies on them
            except ProviderError as error:
                result.inactive = f"{delivery.subscription.name}: {error}"
                result.provider_failed = True
                return False
        if called.transactions is not None:
            key = self._key(delivery.matched, event.sequence, reference)
            called.transactions.begin(key, journal.check)
            result.transacted = True
        elif not result.begun:
            journal.begin(event.sequence)
            result.begun = True
            faults.point("begin")
        return True

    def _key(self, matched: MatchedObject, sequence: int, reference: object) -> EventKey:
        """Returns the key of the rows of an event."""
        event = matched.event
        key = matched.key or self._ids.get(sequence)
        identity = identity_of(key, self._access, reference, event.message)
        if matched.record and (matched.shares_key or not matched.key):
            identity = f"{identity}#{matched.record}"
        return EventKey(digest(identity), event.id, self._task_settings.client_id, self._batch)

    def _deliver(
        self, called: CalledSink, delivery: _Delivery, reference: object, result: Publication
    ) -> None:
        """Calls a sink.

        If somebody awaits an answer, prepares the reply before the sink counts as confirmed.
        """
        subscription, name, matched = delivery.subscription, delivery.subscription.name, delivery.matched
        context, error = self._context(delivery, reference) if subscription.reply else (None, None)
        if error is not None:
            result.fail(f"{matched.place}{_reason(name, error)}", ReasonKind.SEND_FAILED, name)
            return
        began = time.perf_counter()
        event = _event_for(name, matched.event, delivery.retries, self._writer)
        returned, raised = self._call(called.deliver, matched.bo, event)
        event.has_ended = True
        for observe in self._hooks.called:
            observe(name, time.perf_counter() - began)
        if called.transactions is not None and called.transactions.taken_over is not None:
            raise called.transactions.taken_over
        failure = raised
        if context is not None:
            failure = self._answer(context, delivery, returned, raised, result)
        if failure is None and event.outbox is not None and not result.must_repeat:
            failure = self._prepare_sent(event.outbox, delivery, reference, result)
        if result.must_repeat:
            return
        rules = subscription.retry_later
        if rules is not None and not isinstance(failure, NotActive):
            is_named = failure is not None and rules.names(failure)
            self.gate.note(name, error_text(failure) if is_named and failure is not None else None)
        if failure is None:
            result.delivered += (delivery.label,)
        else:
            is_of_sink = raised is not None and not isinstance(raised, HandlerFailed)
            self._add_failure(delivery, failure, called.sink if is_of_sink else None, result)

    def _prepare_sent(
        self, outbox: Outbox, delivery: _Delivery, reference: object, result: Publication
    ) -> BaseException | None:
        """Prepares what a sink has sent. Returns why that cannot be sent, or None."""
        place = f"{delivery.matched.place}{delivery.subscription.name}"
        prepared: tuple[Prepared, ...] = ()
        try:
            for number, one in enumerate(outbox.end(), 1):
                key = f"{reference}|{delivery.label}\nsent {number}"
                prepared += (self._access.prepare(one.destination, one.message, key),)
            if prepared:
                self._access.write()  # the journal of an event that has begun names them
        except ProviderError as error:
            result.inactive, result.provider_failed = f"{place}: what it has sent: {error}", True
            result.must_repeat = True
        except ValueError as error:  # a header that this provider cannot carry, or no such destination
            result.prepared += prepared  # which a failed event discards
            return error
        else:
            result.replies += prepared
            return None
        result.prepared += prepared
        return None

    def _context(
        self, delivery: _Delivery, reference: object
    ) -> tuple[ReplyContext | Unanswered | None, BaseException | None]:
        """Returns the context of an awaited reply, or the error that its making has raised."""
        name, event = delivery.subscription.name, delivery.matched.event
        self._limit.renew()
        try:
            with self._limit, stages.Stage("reply", name):
                key = f"{reference}|{delivery.label}"
                named = delivery.matched.input
                return self._answering.context(delivery.subscription, event, key, named), None
        except BaseException as error:
            if stages.is_interrupt(error):
                raise
            return None, error

    def _answer(
        self,
        context: ReplyContext | Unanswered,
        delivery: _Delivery,
        returned: object,
        failure: BaseException | None,
        result: Publication,
    ) -> BaseException | None:
        """Prepares the reply of a sink. Returns why the delivery has failed, or None."""
        matched, name = delivery.matched, delivery.subscription.name
        if isinstance(context, Unanswered):
            result.unanswered += (f"{matched.place}{name}: {context.reason}",)
            return failure
        if isinstance(failure, Unsubscribed | NotActive):
            return failure
        try:
            with self._limit, stages.Stage("reply", name):
                reply = self._answering.convert(context, matched.bo, returned, failure)
            answer = self._answering.prepare(context, reply)
        except ProviderError as error:
            result.inactive, result.provider_failed = f"{matched.place}{name}: its reply: {error}", True
            result.must_repeat = True
            return failure
        if isinstance(answer.prepared, Unanswered):
            result.unanswered += (f"{matched.place}{name}: {answer.prepared.reason}",)
            return answer.failure
        if answer.failure is None:
            result.replies += (answer.prepared,)
        else:
            result.refusals += (answer.prepared,)
        if self.trace.level >= CONVERSION:
            self.trace(
                CONVERSION,
                "reply prepared",
                message_id=matched.event.id,
                destination=str(answer.prepared.destination),
                subscription=name,
            )
        return answer.failure

    def _add_failure(
        self, delivery: _Delivery, failure: BaseException, sink: AnySink | None, result: Publication
    ) -> None:
        """Adds why a sink has not confirmed.

        Args:
            sink: that has raised ``failure``. None = something else has.
        """
        subscription, matched, retries = delivery.subscription, delivery.matched, delivery.retries
        name, rules = subscription.name, subscription.retry_later
        reason = f"{matched.place}{_reason(name, failure)}"
        if isinstance(failure, Unsubscribed):
            result.unsubscribed += (reason,)
        elif isinstance(failure, NotActive):
            result.inactive = reason
        elif rules is not None and rules.allows(failure, retries):
            result.postpone(reason, _kind_of(failure), name)
            result.retries[delivery.label] = retries + 1
            after = failure.after if isinstance(failure, TemporaryFailure) else 0.0
            result.wait = max(result.wait, rules.seconds(retries), after)
        else:
            times = subscription.retries + 1
            tried = f" (tried {times} times)" * (isinstance(failure, TemporaryFailure) and times > 1)
            tried += f" (came again {retries} times)" * (retries > 0)
            where = self._log_failure(failure, sink, name, matched.bo, matched.event)
            result.fail(f"{reason}{tried}{where}", _kind_of(failure), name, where)

    def _log_failure(
        self,
        error: BaseException,
        sink: AnySink | None,
        name: str,
        bo: BusinessObject,
        event: Event,
    ) -> str:
        """Logs an exception of a sink or data handler once, where the exception has happened.

        Args:
            error: why a subscription has failed.
            sink: the sink that raised ``error``, or None.

        Returns:
            the end of the reason, `` (FILE:LINE)``. Empty if user code has raised no exception.
        """
        target: object = sink
        handler = None
        if isinstance(error, ObjectRefused):
            return ""
        if sink is not None:
            text = sink.failed
        elif isinstance(error, HandlerFailed):
            text, handler, target = "a data handler has failed", type(error.handler).__name__, error.handler
            error = error.__cause__ or error
        else:
            return ""  # an error without a place in a file of the user
        return log_failure(
            self._hooks,
            text,
            error,
            target,
            self._deployment,
            message_id=event.id,
            destination=event.input_destination,
            object=bo.type,
            verb=bo.verb,
            subscription=name,
            data_handler=handler,
            attempts=event.delivery_count,
        )

    def _call(
        self, deliver: Deliver, bo: BusinessObject, event: Event
    ) -> tuple[object, BaseException | None]:
        """Returns the value that a sink returns, and the exception that the sink raises."""
        try:
            return deliver(bo, event), None
        except CallOverdue:
            raise
        except BaseException as error:  # a sink may raise asyncio.CancelledError and SystemExit, too
            if stages.is_interrupt(error):
                raise  # workers ignore that signal, so in a worker a sink has raised this
            return None, error
        finally:
            if os.getpid() != self._pid:
                os._exit(0)  # a fork that the sink forgot to end: only its parent goes on

    def refuse(self, request: Message, reason: str, reference: object) -> Prepared | Unanswered | None:
        """See :meth:`connector.events.run.prepared_replies.ProcessReplies.refuse`."""
        return self._answering.refuse(request, reason, str(reference))

    def _prepare(self, matched: MatchedObject, key: str, name: str, result: Publication) -> None:
        # The key is the claim's, not the message's: two copies of a message may be at work at the same time.
        sink, bo, event = self._sinks.prepared[name], matched.bo, matched.event
        destination = sink.destination
        with self._limit:
            try:
                with stages.Stage("subscription", name):
                    message = sink.prepare(bo, event)
                    if not isinstance(message, Message):
                        raise TypeError(f"prepare returned {type(message).__name__}, expected a Message")
                    # One more than the message that came has, so that a loop ends in any adapter.
                    message.properties[HOPS] = hops_of(event.message) + 1
                    message.property_types[HOPS] = "int"
                    if destination is None:
                        destination = known_destination(message.destination or "")
            except BaseException as error:  # a sink or a data handler may raise any exception
                if stages.is_interrupt(error):
                    raise
                blamed = None if isinstance(error, MalformedData | ValueError) else sink
                where = self._log_failure(error, blamed, name, bo, event)
                reason = f"{matched.place}{_reason(name, error)}{where}"
                result.fail(reason, ReasonKind.SEND_FAILED, name, where)
                return
        try:
            result.prepared += (self._access.prepare(destination, message, key),)
            if self.trace.level >= CONVERSION:
                self._trace_message(destination, message, name, event)
        except ProviderError as error:
            result.inactive, result.provider_failed = f"{name}: {error}", True
        except OSError:
            raise
        except Exception as error:  # a header that no message can carry, or no message at all
            result.fail(f"{matched.place}{_reason(name, error)}", ReasonKind.SEND_FAILED, name)

    def _trace_handover(self, delivery: _Delivery) -> None:
        matched = delivery.matched
        self.trace(
            HANDOVER,
            "business object passed to a sink",
            message_id=matched.event.id,
            object=matched.bo.type,
            verb=matched.bo.verb,
            subscription=delivery.subscription.name,
        )

    def _trace_message(self, destination: Destination, message: Message, name: str, event: Event) -> None:
        fields = {"message_id": event.id, "destination": str(destination), "subscription": name}
        self.trace(CONVERSION, "message sent", **fields, format=message.type, bytes=len(message.body))
        if self.trace.level >= DETAILS:
            self.trace(DETAILS, "message put", **fields, headers=message.headers())


def message_writer(task_settings: TaskSettings, converter: Converter) -> OutboxWriter:
    """Returns what makes the messages that processes send."""
    rules = task_settings.rules

    def write(bo: BusinessObject, mime_type: str | None, said: Mapping[str, str]) -> tuple[str, bytes]:
        return write_body(converter.writer_of(mime_type, said), bo)

    return OutboxWriter(
        task_settings.definitions,
        write,
        _no_properties if rules is None else rules.properties,
        task_settings.connector.message_format_property,
        task_settings.connector.default_verb,
        persistent=task_settings.persistent,
        own_names=task_settings.own_names,
    )


def _no_properties(_object: str, _verb: str) -> Mapping[str, str]:
    return {}


def _event_for(subscription: str, event: Event, retries: int, writer: OutboxWriter) -> Event:
    """Returns an event for one sink, which may change this copy."""
    return Event(
        event.id,
        event.input_destination,
        event.delivery_count,
        event.message,
        subscription,
        event.requests,
        retries=retries,
        traceparent=event.traceparent,
        mapped_from=event.mapped_from,
        writer=writer,
    )


def _kind_of(failure: BaseException) -> ReasonKind:
    if isinstance(failure, HandlerFailed):
        return ReasonKind.HANDLER_FAILED
    is_temporary = isinstance(failure, TemporaryFailure | ConnectionError | TimeoutError)
    return ReasonKind.TEMPORARY if is_temporary else ReasonKind.REFUSED


def _reason(name: str, error: BaseException) -> str:
    return f"{name}: {error_text(error)}"
