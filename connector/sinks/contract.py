"""Sinks: the contract of the code that delivers business objects to a subscriber.

A sink consists of three parts, and each part lives where the part is needed:

* The *entry* is a class of pydantic. The class declares the keys of a subscription in ``adapter.yaml``, their
  check, and their texts for the schema and the reference. The entry point of the sink (group
  ``connector.sinks``) names this class. The entry lives in the adapter's own process
  (:mod:`connector.sinks.subscription_model`).
* The *spec* (:class:`SinkSpec`) is a small picklable object that the entry makes. The spec travels to the
  workers.
* A worker opens the *sink* by the spec. The sink delivers.

There are three kinds of sink.

* An *external* sink (:class:`ExternalSink`) is called. The effects happen at once, outside the transaction of
  the event. So the journal says ``begin`` before the call and ``done`` after the call. An event whose worker
  dies in between is in doubt, and the sink may be called again for that event.
* A *prepared* sink (:class:`PreparedSink`) only makes a message. The commit that settles the event sends the
  message. So the message is sent exactly once, and only when the event is published.
* A *transactional* sink (:class:`TransactionalSink`) is called with an open transaction of a database. The
  commit of that transaction also records that the subscription has the event. So the effects in that database
  happen exactly once, whatever dies when.

``docs/how-to/write-a-sink.md`` shows all three parts, with a checklist. :mod:`connector.testing.sinks` is the
suite that every sink passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject, check
from connector.errors import CapabilityError, MalformedData, SessionStateError
from connector.formats.datahandler import HandlerFailed, check_body, message_body
from connector.limits import stages
from connector.messaging.destination import Destination
from connector.messaging.history import hops_of
from connector.messaging.message import Message, PropertyValue
from connector.requests.contract import Requests
from connector.requests.result import RequestResult
from connector.sinks.lazy_requests import LazyRequests

if TYPE_CHECKING:
    from connector.sinks.sending import Outbox, OutboxWriter

ENTRY_POINTS: Final = "connector.sinks"
"""The group of entry points. The name of an entry point is the key of the sink in a subscription."""

ToBody = Callable[[BusinessObject], bytes | str]
"""Writes a business object in one format, as :meth:`DataHandler.to_body` does."""

_NO_REQUESTS: Final = LazyRequests(None, "")


@dataclass(slots=True)
class Event:
    """The second argument of a business process, beside the business object.

    Args:
        id: the JMSMessageID, the same at every attempt.
        input_destination: the destination that the message was taken from, ``queue://orders``.
        delivery_count: 1 at the first attempt. A higher number says that this may be a repetition.
            JMSXDeliveryCount of the message and of the dynamic meta-object are the same number.
        message: the headers, properties and unchanged body of the message.
        retries: tries of this subscription before, by ``retry_later``. 0 at the first delivery.
        subscription: the name of the subscription whose process is called.
        requests: makes the requests of the process. A test of a process may pass another object.
        transaction: the open transaction of a subscription with ``transaction``. The connector commits after
            the process has returned, and rolls back if the process raises. None = no ``transaction``.
        traceparent: the place of the event in its trace (W3C Trace Context), for calls that the process
            makes. Empty = the event belongs to no trace.
        writer: makes the messages of :meth:`send`. None = nothing can be sent.
        mapped_from: the object of the event, if the sink gets the object of a map in its place.
        outbox: what was sent. None = nothing yet.
        has_ended: whether the sink has returned.
    """

    id: str
    input_destination: str
    delivery_count: int
    message: Message
    subscription: str = ""
    requests: Requests = field(default=_NO_REQUESTS, repr=False, compare=False)
    transaction: Any = field(default=None, repr=False, compare=False)
    retries: int = 0
    traceparent: str = ""
    mapped_from: BusinessObject | None = field(default=None, repr=False, compare=False)
    writer: OutboxWriter | None = field(default=None, repr=False, compare=False)
    outbox: Outbox | None = field(default=None, repr=False, compare=False)
    has_ended: bool = field(default=False, repr=False, compare=False)

    def objects(self, bo: BusinessObject) -> tuple[BusinessObject, ...]:
        """Returns the objects that the placeholders of a sink may name, the object of the event first.

        Args:
            bo: that the sink gets.
        """
        return (bo,) if self.mapped_from is None else (self.mapped_from, bo)

    # long: more than half is its arguments and their meaning
    def send(
        self,
        object_or_type: BusinessObject | str | bytes,
        data: Mapping[str, Any] | None = None,
        *,
        destination: str | Destination | None = None,
        verb: str | None = None,
        mime_type: str | None = None,
        properties: Mapping[str, PropertyValue] | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        group: str | None = None,
        delay: int | None = None,
    ) -> str:
        """Sends a message with this delivery, as often as wanted.

        The message leaves in the settlement that records this subscription as confirmed, whatever becomes of
        the other subscriptions of the event. A delivery that has failed, comes later or was not active sends
        nothing. So each message is there exactly once, also if the process was called twice.

        Args:
            object_or_type: a business object, or its type and verb (``Invoice.Create``) with ``data``, or a
                body: text or bytes.
            data: the attributes.
            destination: a queue or topic. None = OutputDestination of the rule of the object and verb.
            verb: of the object. None = as the type or the object says, else ``DefaultVerb``.
            mime_type: of the data handler that writes the object. None = that of the rule, else the
                connector's.
            properties: user properties of the message.
            priority, correlation_id: JMSPriority and JMSCorrelationID.
            group: JMSXGroupID.
            delay: milliseconds until the message can be taken.

        Returns:
            the key of the message, ``EVENT/SUBSCRIPTION/NUMBER``, its property ``connector_key``.

        Raises:
            UnknownBusinessObject: no such business object, or the object has no such verb.
            MalformedData: the data do not fit the business object, or a delivery sends more than 1 MiB.
            ValueError: a destination, header or property is not valid.
            CapabilityError: nothing can be sent here, or nothing says where the message goes.
            SessionStateError: the delivery has ended, or this is another process.
        """
        from connector.sinks.sending import Outbox, Wanted  # most processes send nothing

        if self.writer is None:
            raise CapabilityError(
                "nothing can be sent here: event.send is for a business process; run the deployment with "
                "connector run, or use connector.testing.processes.call"
            )
        if self.has_ended:
            raise SessionStateError(
                "the delivery has ended, so nothing more is sent with it: send before the process returns"
            )
        if self.outbox is None:
            hops = hops_of(self.message) + 1
            self.outbox = Outbox(self.writer, self.id, self.subscription, self.traceparent, hops)
        wanted = Wanted(destination, verb, mime_type, properties, priority, correlation_id, group, delay)
        return self.outbox.send(object_or_type, data, wanted)

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        """Sends a request to an application. Waits for the reply when a ResponseTimeout is defined.

        The ``timeout`` of the subscription goes on during the wait. A process that is called again
        (``delivery_count`` above 1) sends the requests again.

        Args:
            name: object and verb, ``Customer.Retrieve``.
            data: the attributes, the dynamic meta-object among them. They are not changed.
            timeout: ResponseTimeout of this request in ms. Below 0 = do not wait.

        Raises:
            UnknownBusinessObject: no such business object, or the object has no such verb.
            MalformedData: the data do not fit the business object.
            CapabilityError: no requests can be made here.
        """
        return self.requests.request(name, data, timeout=timeout)

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        """Works like :meth:`request`, without waiting.

        A request that is not complete when the process returns may never be sent, because the worker may end.
        """
        return self.requests.request_async(name, data, timeout=timeout)


@dataclass(frozen=True, slots=True)
class SinkContext:
    """The facts that a worker gives to a sink at its opening.

    Args:
        subscription: the name of the subscription.
        deployment: the directory of ``adapter.yaml`` on this machine. On a cluster: the directory that
            the files of ``spark.ship`` were unpacked to. Relative paths that are not resolved yet count from
            here.
        writer: returns the function that writes objects in the format of a MIME type. None = the connector's
            default data handler. Raises ConfigurationError when no data handler serves the type. Call
            ``writer`` in :meth:`SinkSpec.open`, so that the mistake shows at the start.
        properties: returns the keys and values of the static meta-object for an object and a verb. The result
            is empty when there are none.
        format_property: MessageFormatProperty: the header or property that holds the format of a message.
        persistent: whether messages are persistent by default. True when the provider keeps such messages.
        definitions: the business objects.
        mime_type: of the connector's default data handler. None = that handler is named by its class.
        application: ApplicationName.
        instance: of the adapter. Empty = not known, because no adapter runs.
    """

    subscription: str
    deployment: str
    writer: Callable[[str | None], ToBody]
    properties: Callable[[str, str], Mapping[str, str]]
    format_property: str
    persistent: bool
    definitions: Definitions = field(default_factory=Definitions, repr=False)
    mime_type: str | None = None
    application: str = ""
    instance: str = ""


class Sink(Protocol):
    """The common part of all kinds of sink.

    A worker opens one sink for each subscription. Each worker has its own sinks. So several sinks of a
    subscription may deliver at the same time, in different processes and on different machines, and with
    ``parallel`` in different threads of one process. A sink is
    used by one thread at a time: the thread that opened the sink also calls and closes the sink. In tests
    without worker processes several threads may do so one after the other.
    """

    failed: ClassVar[str] = "a sink has failed"
    """The text of the log line for an exception of the sink. ``docs/reference/log.md`` lists the texts."""

    def close(self) -> None:
        """Gives back the resources of the sink: connections, files.

        Called after the last delivery, when the worker ends in good order. The call has some two seconds. A
        worker that is killed closes nothing. Afterwards the sink is not used again, and a second ``close``
        does nothing. An exception is logged and ignored.
        """
        return None


class ExternalSink(Sink, Protocol):
    """A sink that is called. Inherit from this class, and write ``deliver``."""

    kind: ClassVar[Literal["external"]] = "external"

    def deliver(self, bo: BusinessObject, event: Event) -> object:
        """Delivers one object. After the return, the object must not be lost any more.

        The sink is called again for the same event after an exception, and when the end of a call is not
        known. Then ``event.id`` is the same. ``event.delivery_count`` above 1 says that an earlier call may
        have done its work. A sink makes a second call harmless if possible.

        The caller looks after the ``timeout`` and ``retries`` of the subscription. A call that takes longer
        than ``timeout`` ends with its worker.

        May be ``async def``. Then it is awaited in the one event loop of the process, and cancelled after
        ``timeout``.

        Args:
            bo: the object, shared with the other subscriptions of the event. A sink must neither change nor
                keep the object.
            event: the message and the delivery. The ``Event`` belongs to this call.

        Returns:
            the answer, when the subscription has ``reply: true``: None, a business object, a mapping, or a
            :class:`connector.Reply`. Without ``reply``, the value is ignored.

        Raises:
            Unsubscribed: this subscriber does not want the object, as if there were no subscription.
            NotActive: the subscriber can take nothing now. The message stays where it is, and the poll ends.
            TemporaryFailure: a repetition may work. The sink is called again in place, ``retries`` times.
                Then the event has failed.
            Exception: all other failures. The event has failed, and the text of the exception is the reason.
        """


class PreparedSink(Sink, Protocol):
    """A sink that makes a message. Inherit from this class, and write ``destination`` and ``prepare``.

    Attributes:
        destination: where the messages go: a queue or topic of the adapter's own provider. None = each
            message names its own, as ``Message.destination``.
    """

    kind: ClassVar[Literal["prepared"]] = "prepared"
    destination: Destination | None

    def prepare(self, bo: BusinessObject, event: Event) -> Message:
        """Returns the message for one object. Nothing is visible before the settlement sends the message.

        If ``destination`` of the sink is None, ``destination`` of the message is the text of the queue or
        topic that it goes to. Otherwise ``destination`` of the message does not count.

        The sink may be called again for the same event. The message may be thrown away, because another
        subscription has failed or the event is given back. So this method must have no other effect.

        Args:
            bo: the object. A sink must neither change nor keep the object.
            event: the message and the delivery. The subscriptions of an event share the ``Event``, so a sink
                must not change it.

        Raises:
            MalformedData: the object cannot be written. The event has failed, with this text.
            ValueError: a message cannot carry the values. The event has failed, with this text.
            Exception: all other failures. The event has failed. The exception is logged with a traceback.
        """


class TransactionalSink(Sink, Protocol):
    """A sink that writes to a database. Inherit from this class, and write ``database`` and ``deliver``.

    Attributes:
        database: a key of ``databases:`` in adapter.yaml.
    """

    kind: ClassVar[Literal["transactional"]] = "transactional"
    database: str

    def deliver(self, bo: BusinessObject, event: Event) -> object:
        """Writes one object in the transaction ``event.transaction``, and leaves the transaction open.

        Called and answered as :meth:`ExternalSink.deliver`, with two differences. An event whose transaction
        was committed is never delivered again. After a conflict with another transaction, the sink is called
        again with a new transaction.
        """


AnySink = ExternalSink | PreparedSink | TransactionalSink


class SinkSpec(Protocol):
    """A recipe by which a worker opens the sink of one subscription. Small and picklable.

    The recipe travels to every worker. The module of the recipe, and all its imports, must be importable on
    the workers. The module of the entry need not be.
    """

    def open(self, context: SinkContext) -> AnySink:
        """Makes the sink. Called in each worker, before the first event, in the thread that delivers.

        When the adapter starts, it also calls this method in the process of a worker, so that mistakes show
        at once. An exception here keeps the adapter from starting. So a sink connects to a system that may be
        out of reach only at the first delivery.

        Raises:
            ConnectorError: the sink cannot be made. The text gives the reason and the remedy.
        """


class CallTimer(Protocol):
    """Ends the worker when a call takes too long."""

    def arm(self, seconds: float, what: str) -> None: ...

    def disarm(self) -> None: ...


def write_body(to_body: Callable[[BusinessObject], bytes | str], bo: BusinessObject) -> tuple[str, bytes]:
    """Returns the message class and the body of an object, as a data handler writes them.

    Raises:
        MalformedData: the object cannot be written.
        HandlerFailed: the data handler raised another exception, or returned no body.
    """
    handler = getattr(to_body, "__self__", to_body)
    check(bo)
    try:
        with stages.Stage("data_handler", type(handler).__name__):
            return message_body(check_body(to_body(bo), handler))
    except MalformedData:
        raise
    except BaseException as error:
        if stages.is_interrupt(error):
            raise
        raise HandlerFailed(handler, error) from error
