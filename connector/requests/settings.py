"""The resolved, picklable configuration of conversions and of a request client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from connector.agent_trace import Trace
from connector.businessobjects.definition import Definitions
from connector.businessobjects.rules import StaticMetaObject
from connector.formats.handlers import HandlerSpec
from connector.messaging.destination import Destination

if TYPE_CHECKING:
    from connector.declare.connector_section import Connector

MESSAGE_ID: Final = "JMSMessageID"
CORRELATION_ID: Final = "JMSCorrelationID"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionSettings:
    """What events and requests need alike: messages become objects, and objects messages.

    Args:
        connector: the section, as :func:`~connector.declare.plain_section.plain` returns it, without inputs.
        definitions: the business objects.
        rules: the static meta-object. None = the default data handler decides alone, and of properties only
            the dynamic meta-object and the connector.
        handlers: the recipes of all data handlers that may be asked for.
        default_handler: MIME type (or class) of the connector's default data handler.
        persistent: whether messages without DeliveryMode are persistent. False if the provider is not
            reliable.
        own_names: whether names of destinations are those of a server.
    """

    connector: Connector
    definitions: Definitions
    rules: StaticMetaObject | None
    handlers: tuple[HandlerSpec, ...]
    default_handler: str
    persistent: bool = True
    own_names: bool = False

    @property
    def trace(self) -> Trace:
        """The trace of AgentTraceLevel."""
        return Trace(self.connector.agent_trace_level)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings(ConversionSettings):
    """The configuration of the requests of one adapter.

    Args:
        intervals: of the reply listener.
    """

    intervals: ListenerIntervals = ListenerIntervals()

    @property
    def defaults(self) -> Mapping[str, str]:
        """The ``Default`` entry of the static meta-object."""
        return self.rules.defaults if self.rules is not None else {}

    @property
    def late_replies(self) -> Destination | None:
        """The destination for replies that nobody awaits any more. None = no copies."""
        copies = {
            "error": self.connector.copies.error,
            "archive": self.connector.copies.archive,
            "discard": None,
        }
        return copies[self.connector.late_replies]
