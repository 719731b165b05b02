"""Sinks: the contract of the code that delivers business objects to a subscriber.

A sink consists of three parts, and each part lives where it is needed:

* The *entry*, a class of pydantic, is what a subscription in ``adapter.yaml`` says: its keys, their check,
  and their texts for the schema and the reference. The entry point of the sink (group ``connector.sinks``)
  names this class. It lives in the adapter's own process (:mod:`connector.config.subscription_model`).
* The *spec* (:class:`SinkSpec`) is a small picklable object that the entry makes. It travels to the workers.
* The *sink* is what a worker opens by the spec. It delivers.

There are two kinds of sink.

* An *external* sink (:class:`ExternalSink`) is called. What it does is done at once, outside the transaction
  of the event. So the journal says ``begin`` before the call and ``done`` after it. An event whose worker
  dies in between is in doubt, and the sink may be called again for it.
* A *prepared* sink (:class:`PreparedSink`) only makes a message. The settlement of the event sends the
  message in the commit that settles the event. So the message is sent exactly once, and only when the event
  is published.

``docs/how-to/write-a-sink.md`` shows all three parts, with a checklist. :mod:`connector.testing.sinks` is the
suite that every sink passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Protocol

from connector.broker.lazy_requests import LazyRequests
from connector.broker.requesting import Requests
from connector.businessobjects.datahandler import HandlerFailed, message_body
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.requests.result import RequestResult

ENTRY_POINTS: Final = "connector.sinks"
"""The group of entry points. The name of an entry point is the key of the sink in a subscription."""

ToBody = Callable[[BusinessObject], bytes | str]
"""Writes a business object in one format, as :meth:`DataHandler.to_body` does."""

_NO_REQUESTS: Final = LazyRequests(None, "")


@dataclass(slots=True)
class Event:
    """What a business process is told beside the object.

    Args:
        id: the JMSMessageID, the same at every attempt.
        input_destination: where the message was taken from, ``queue://orders``.
        delivery_count: 1 at the first attempt; more when this may be a repetition. JMSXDeliveryCount of the
            message and of the dynamic meta-object are the same number.
        message: headers and properties of the message; its body stays as it arrived.
        subscription: the name of the subscription whose process is called.
        requests: makes the requests of the process; in a test of one, whatever answers them there.
    """

    id: str
    input_destination: str
    delivery_count: int
    message: Message
    subscription: str = ""
    requests: Requests = field(default=_NO_REQUESTS, repr=False, compare=False)

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        """Asks an application, and waits for its reply where a ResponseTimeout says so.

        The process goes on meanwhile as far as its own ``timeout`` is concerned. A process that is called
        again (``delivery_count`` above 1) asks again.

        Args:
            name: object and verb, ``Customer.Retrieve``.
            data: the attributes, the dynamic meta-object among them; not changed.
            timeout: ResponseTimeout of this request in ms; below 0 = do not wait.

        Raises:
            UnknownBusinessObject: no such business object, or it has no such verb.
            MalformedData: the data do not fit the business object.
            CapabilityError: no requests can be made here.
        """
        return self.requests.request(name, data, timeout=timeout)

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        """As :meth:`request`, without waiting.

        What is not complete when the process returns may never be sent: its worker may end.
        """
        return self.requests.request_async(name, data, timeout=timeout)


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a worker tells a sink that it opens.

    Args:
        subscription: the name of the subscription.
        deployment: the directory of ``adapter.yaml`` on this machine. On a cluster it is the directory that
            the files of ``spark.ship`` were unpacked to. Relative paths that are not resolved yet count from
            here.
        writer: gives the function that writes objects in the format of a MIME type. None = the connector's
            default data handler. Raises ConfigurationError where no data handler serves the type. Call it in
            :meth:`SinkSpec.open`, so that the mistake shows at the start.
        properties: what the static meta-object says for an object and a verb, by key; empty where it says
            nothing.
        format_property: MessageFormatProperty: the header or property in which a message names its format.
        persistent: whether messages are persistent, unless something else decides it: whether the provider
            keeps such messages.
    """

    subscription: str
    deployment: str
    writer: Callable[[str | None], ToBody]
    properties: Callable[[str, str], Mapping[str, str]]
    format_property: str
    persistent: bool


class Sink(Protocol):
    """What both kinds have in common.

    A worker opens one sink for each subscription. Each worker has sinks of its own, so several sinks of one
    subscription may deliver at the same time, in different processes and on different machines. One sink is
    used by one thread at a time: the thread that opened the sink also calls and closes it. In tests without
    worker processes several threads may do so one after the other.
    """

    failed: ClassVar[str] = "a sink has failed"
    """The text of the log line for an exception of the sink. ``docs/reference/log.md`` lists the texts."""

    def close(self) -> None:
        """Gives back what the sink holds: connections, files.

        Called after the last delivery, when the worker ends in good order. It has some two seconds. A worker
        that is killed closes nothing. Afterwards the sink is not used again, and a second ``close`` does
        nothing. An exception is logged and ignored.
        """
        return None


class ExternalSink(Sink, Protocol):
    """A sink that is called. Inherit from it: all but ``deliver`` comes with it."""

    kind: ClassVar[Literal["external"]] = "external"

    def deliver(self, bo: BusinessObject, event: Event) -> object:
        """Delivers one object. Returning means done: it must not be lost any more when this returns.

        It is called again for the same event after it has raised, and where nobody knows how a call ended.
        ``event.id`` is the same then. ``event.delivery_count`` above 1 says that an earlier call may have
        done its work. A sink makes a second call harmless where it can.

        The caller looks after the ``timeout`` and ``retries`` of the subscription. A call that takes longer
        than ``timeout`` ends with its worker.

        Args:
            bo: the object, shared with the other subscriptions of the event. A sink must not change it, and
                must not keep it.
            event: what is known of the message. It belongs to this call.

        Returns:
            the answer, where the subscription has ``reply: true``: None, a business object, a mapping, or a
            :class:`connector.Reply`. Otherwise None; anything else is ignored.

        Raises:
            Unsubscribed: this subscriber does not want the object, as if it had not subscribed.
            NotActive: it can take nothing now. The message stays where it is, and the poll ends.
            TemporaryFailure: it may work in a moment. The sink is called again in place, ``retries`` times,
                then the event has failed.
            Exception: anything else. The event has failed, and the text of the exception is the reason.
        """


class PreparedSink(Sink, Protocol):
    """A sink that makes a message. Inherit from it: all but ``destination`` and ``prepare`` comes with it.

    Attributes:
        destination: where its messages go: a queue or topic of the adapter's own provider.
    """

    kind: ClassVar[Literal["prepared"]] = "prepared"
    destination: Destination

    def prepare(self, bo: BusinessObject, event: Event) -> Message:
        """The message for one object. Nothing is visible before the settlement sends it.

        It may be called again for the same event, and its message may be thrown away: where another
        subscription has failed, or the event is given back. So it must have no other effect.

        Args:
            bo: the object. A sink must not change it, and must not keep it.
            event: what is known of the message. The subscriptions of an event share it, so a sink must not
                change it.

        Raises:
            MalformedData: the object cannot be written. The event has failed, with this text.
            ValueError: no message can carry what it would have to say. The event has failed, with this text.
            Exception: anything else. The event has failed, and the exception is logged with its traceback.
        """


class SinkSpec(Protocol):
    """How a worker opens the sink of one subscription. Picklable, and small: it travels with every plan.

    Its module and what that imports must be importable on the workers. The module of the entry need not be.
    """

    def open(self, context: SinkContext) -> ExternalSink | PreparedSink:
        """Makes the sink. Called in each worker, before its first event, in the thread that delivers.

        The adapter also calls it when it starts, in the process of a worker, so that mistakes show at once.
        An exception here keeps the adapter from starting. So a sink connects to what may be out of reach for
        a while at its first delivery.

        Raises:
            ConnectorError: the sink cannot be made; says why, and what to do.
        """


class Watch(Protocol):
    """Ends the worker when a call takes too long."""

    def arm(self, seconds: float, what: str) -> None: ...

    def disarm(self) -> None: ...


def write_body(to_body: Callable[[BusinessObject], bytes | str], bo: BusinessObject) -> tuple[str, bytes]:
    """Message class and body for an object, as a data handler writes it.

    Raises:
        MalformedData: it cannot. HandlerFailed, where it raised anything else.
    """
    try:
        return message_body(to_body(bo))
    except MalformedData:
        raise
    except (Exception, SystemExit) as error:
        raise HandlerFailed(getattr(to_body, "__self__", to_body), error) from error
