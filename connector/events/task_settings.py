"""The resolved, picklable configuration of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from connector.agent_trace import OFF, Trace
from connector.businessobjects.definition import Definitions
from connector.businessobjects.rules import StaticMetaObject
from connector.databases.settings import DatabaseSettings
from connector.events.circuits import CircuitState
from connector.formats.handlers import HandlerSpec
from connector.log import LogSettings
from connector.messaging.access import AccessSpec
from connector.messaging.state_store import JournalHandle
from connector.operate.own_history import OwnHistory
from connector.requests.contract import RequestsSpec
from connector.sinks.subscriptions import Subscription

_LOGGING: Final = LogSettings()
NOTHING: Final[Mapping[Any, Any]] = {}


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """The configuration of an adapter's tasks.

    Args:
        application: ApplicationName.
        definitions: the business objects.
        rules: the static meta-object. None = the default data handler decides alone.
        handlers: the recipes of all data handlers that may be asked for.
        default_handler: MIME type (or class) of the connector's default data handler.
        subscriptions: in the order of the configuration.
        default_verb: for events whose rule and body name no verb. None = such events fail.
        use_defaults: whether an attribute's default satisfies ``required``.
        max_body: most bytes of a body.
        max_attempts: begun deliveries after which an event has failed.
        convert_timeout: seconds for everything between claim and first delivery of one event.
        worker_memory: bytes of a runner. None = no limit.
        worker_events: events after which a runner is replaced.
        format_property: the header or property of InputFormat and OutputFormat.
        access: reads claimed messages.
        rerun: whether an event whose worker was ended runs again. Otherwise the event stays in doubt.
        stop_timeout: seconds that a task may go on after the end of its driver or its Spark worker.
        persistent: whether the messages of sinks are persistent. False if the provider is not reliable.
        own_names: whether names of destinations are those of a server.
        managed: ContainerManagedEvents: a failed event is rolled back, and comes again.
        result_property: MessageResponseResultProperty, the property of a reply that holds the result.
        matching: the field that identifies a request, and the field of its reply that repeats that value. The
            first is JMSMessageID, JMSCorrelationID or a property, the second JMSCorrelationID or a property.
        requests: lets a business process make requests while it handles an event. None = no requests.
        logging: of workers.
        trace: of AgentTraceLevel.
        databases: of transactional sinks.
        client_id: of the adapter's connection.
        has_history: whether tasks note what the history needs of each event.
        history_keys: whether notes have the keys of objects.
        reloads: number of the last reload. Other settings get other runners, which load all modules anew.
        instance: of the adapter. Empty = not known.
        copies: the names of the destinations of copies.
        sample: the share of the new traces whose spans are measured. None = there is no tracing.
    """

    application: str
    definitions: Definitions
    rules: StaticMetaObject | None
    handlers: tuple[HandlerSpec, ...]
    default_handler: str
    subscriptions: tuple[Subscription, ...]
    default_verb: str | None
    use_defaults: bool
    max_body: int
    max_attempts: int
    format_property: str
    access: AccessSpec
    convert_timeout: float = 10.0
    worker_memory: int | None = 2 << 30
    worker_events: int = 100_000
    rerun: bool = True
    stop_timeout: float = 30.0
    persistent: bool = True
    managed: bool = False
    result_property: str = "ResponseResult"
    matching: tuple[str, str] = ("JMSMessageID", "JMSCorrelationID")
    requests: RequestsSpec | None = None
    logging: LogSettings = _LOGGING
    trace: Trace = OFF
    databases: tuple[DatabaseSettings, ...] = ()
    client_id: str = ""
    has_history: bool = False
    history_keys: bool = True
    reloads: int = 0
    sample: float | None = None
    instance: str = ""
    copies: frozenset[str] = frozenset()
    own_names: bool = False

    @property
    def own(self) -> OwnHistory:
        """Says whose history of a message counts."""
        return OwnHistory(self.application, self.copies)

    @property
    def answers_requests(self) -> bool:
        """Whether any business process answers requests."""
        return any(subscription.reply for subscription in self.subscriptions)


WorkItem = tuple[int, str, Any, int]
"""A claim as a task gets it: sequence, input destination, reference, deliveries begun before.

A plain tuple, because a thousand of them travel with every job.
"""


class Assignment(NamedTuple):
    """The work of a task. Events of an order group keep their order, others do not."""

    journal: JournalHandle | None
    """Journal of the task. None if there is no work."""
    order_groups: list[list[WorkItem]]
    batch: int = 0
    """Number of the batch, unique for the client."""
    circuits: Mapping[str, CircuitState] = NOTHING
    """The subscriptions that have failed, by name."""
    paused: Mapping[str, float] = NOTHING
    """The paused subscriptions, by name, each with the seconds until its events come again."""
    ids: Mapping[int, str] = NOTHING
    """The duplicate keys by sequence, for transactional sinks. Empty if duplicates are not eliminated."""
