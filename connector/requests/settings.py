"""The resolved, picklable configuration of a request client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from connector.agent_trace import OFF, Trace
from connector.businessobjects.definition import Definitions
from connector.businessobjects.rules import StaticMetaObject
from connector.formats.handlers import HandlerSpec
from connector.messaging.destination import Destination

MESSAGE_ID: Final = "JMSMessageID"
CORRELATION_ID: Final = "JMSCorrelationID"


@dataclass(frozen=True, slots=True)
class Matching:
    """The fields by which a reply names the request.

    Args:
        request: field that identifies a request: JMSMessageID, JMSCorrelationID, or the name of a property.
        reply: field of the reply that repeats that value: JMSCorrelationID, or the name of a property.
    """

    request: str = MESSAGE_ID
    reply: str = CORRELATION_ID


@dataclass(frozen=True, slots=True)
class ListenerIntervals:
    """The times of a reply listener, in seconds.

    Args:
        idle: between two looks for late replies while no call waits. A listener becomes idle when no call has
            waited for that long, because most clients go on asking.
        grace: after its deadline, at which a call ends although the provider holds the listener.
        takeover: between two looks for dead clients.
    """

    idle: float = 1.0
    grace: float = 5.0
    takeover: float = 10.0


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """The configuration of the requests of one adapter.

    Args:
        definitions: the business objects.
        rules: the static meta-object. None = only the dynamic one and the connector's properties count.
        handlers: the recipes of all data handlers that a request may ask for.
        default_handler: MIME type (or class) of the connector's default data handler.
        use_defaults: whether an attribute's default satisfies ``required``.
        format_property: the header or property that carries OutputFormat.
        persistent: whether messages without DeliveryMode are persistent. False if the provider is not
            reliable.
        reply_to: the connector's ReplyToDestination.
        result_property: MessageResponseResultProperty.
        pool_size: requests in flight at a time (SessionPoolSizeForRequests).
        pool_timeout: seconds that a request waits for a slot at most, and then fails.
        matching: the fields by which a reply names the request.
        quoting: of values substituted into response selectors.
        late_replies: destination for replies that nobody awaits any more. None = no copies.
        late_replies_for: seconds after a time-out in which a broker's late reply on a reply destination still
            gets its copy.
        max_body: bytes of a reply. A larger reply is unreadable.
        convert_timeout: seconds for the conversion of a reply.
        worker_memory: bytes for the conversion of a reply. None = no limit.
        trace: of AgentTraceLevel.
        intervals: of the reply listener.
        own_names: whether names of destinations are those of a server.
    """

    definitions: Definitions
    rules: StaticMetaObject | None
    handlers: tuple[HandlerSpec, ...]
    default_handler: str
    use_defaults: bool = False
    format_property: str = "JMSType"
    persistent: bool = True
    reply_to: Destination | None = None
    result_property: str = "ResponseResult"
    pool_size: int = 10
    pool_timeout: float = 30.0
    matching: Matching = Matching()
    quoting: Literal["quoted", "raw"] = "quoted"
    late_replies: Destination | None = None
    late_replies_for: float = 60.0
    max_body: int = 16 << 20
    convert_timeout: float = 10.0
    worker_memory: int | None = 2 << 30
    trace: Trace = OFF
    intervals: ListenerIntervals = ListenerIntervals()
    own_names: bool = False

    @property
    def defaults(self) -> Mapping[str, str]:
        """The ``Default`` entry of the static meta-object."""
        return self.rules.defaults if self.rules is not None else {}
