"""What a request client needs to know: picklable, resolved, nothing left to look up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from connector.businessobjects.definition import Definitions
from connector.businessobjects.handlers import HandlerSpec
from connector.businessobjects.rules import StaticMetaObject
from connector.messaging.destination import Destination
from connector.trace import OFF, Trace

MESSAGE_ID: Final = "JMSMessageID"
CORRELATION_ID: Final = "JMSCorrelationID"


@dataclass(frozen=True, slots=True)
class Matching:
    """How a reply says which request it answers.

    Args:
        request: what identifies a request: JMSMessageID, JMSCorrelationID, or the name of a property.
        reply: where its reply repeats that: JMSCorrelationID, or the name of a property.
    """

    request: str = MESSAGE_ID
    reply: str = CORRELATION_ID


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """The requests of one adapter.

    Args:
        definitions: the business objects.
        rules: the static meta-object; None = the dynamic one and the connector's properties are all there is.
        handlers: the recipes of all data handlers that a request may ask for.
        default_handler: MIME type (or class) of the connector's default data handler.
        use_defaults: whether an attribute's default satisfies ``required``.
        format_property: the header or property that OutputFormat means.
        persistent: whether messages are persistent unless DeliveryMode says otherwise: where the provider
            keeps such.
        reply_to: the connector's ReplyToDestination.
        result_property: MessageResponseResultProperty.
        pool_size: requests in flight at a time (SessionPoolSizeForRequests).
        pool_timeout: seconds that a request waits until it may be sent; then it fails.
        matching: how a reply says which request it answers.
        quoting: of values substituted into response selectors.
        late_replies: where replies that nobody awaits any more are copied to; None = nowhere.
        max_body: bytes of a reply; a larger one is unreadable.
        trace: of AgentTraceLevel.
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
    max_body: int = 16 << 20
    trace: Trace = OFF

    @property
    def defaults(self) -> Mapping[str, str]:
        """The ``Default`` entry of the static meta-object."""
        return self.rules.defaults if self.rules is not None else {}
