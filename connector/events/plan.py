"""What a task needs to know, once for a whole run: picklable, resolved, nothing left to look up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from connector.broker.requesting import RequestsSpec
from connector.broker.subscriptions import Subscription
from connector.businessobjects.definition import Definitions
from connector.businessobjects.handlers import HandlerSpec
from connector.businessobjects.rules import StaticMetaObject
from connector.log import LogSettings
from connector.messaging.provider import AccessSpec
from connector.state.store import JournalHandle
from connector.trace import OFF, Trace

_LOGGING: Final = LogSettings()


@dataclass(frozen=True, slots=True)
class EventPlan:
    """The event pipeline of one adapter, as its tasks run it.

    Args:
        application: ApplicationName.
        definitions: the business objects.
        rules: the static meta-object; None = the default data handler decides alone.
        handlers: the recipes of all data handlers that may be asked for.
        default_handler: MIME type (or class) of the connector's default data handler.
        subscriptions: in the order of the configuration.
        default_verb: for events whose rule and body name none; None = then it has none and fails.
        use_defaults: whether an attribute's default satisfies ``required``.
        max_body: bytes.
        max_attempts: deliveries begun for one event; then it has failed.
        format_property: the header or property that InputFormat and OutputFormat mean.
        access: how to read claimed messages.
        rerun: whether an event whose worker was ended runs again; else it stays in doubt.
        stop_timeout: seconds a task may go on when its driver or its Spark worker is gone.
        persistent: whether the messages of sinks are persistent: where the provider keeps such.
        managed: ContainerManagedEvents: an event that fails is rolled back, and comes again.
        result_property: MessageResponseResultProperty: what says in a reply what became of the request.
        matching: what identifies a request (JMSMessageID, JMSCorrelationID or the name of a property), and
            where its reply repeats that (JMSCorrelationID or the name of a property).
        requests: how a business process makes requests while it handles an event; None = it cannot.
        logging: how workers log.
        trace: of AgentTraceLevel.
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
    rerun: bool = True
    stop_timeout: float = 30.0
    persistent: bool = True
    managed: bool = False
    result_property: str = "ResponseResult"
    matching: tuple[str, str] = ("JMSMessageID", "JMSCorrelationID")
    requests: RequestsSpec | None = None
    logging: LogSettings = _LOGGING
    trace: Trace = OFF

    @property
    def serves(self) -> bool:
        """Whether any business process answers requests."""
        return any(subscription.reply for subscription in self.subscriptions)


WorkItem = tuple[int, str, Any, int]
"""One claim, as a task sees it: sequence, input destination, reference, deliveries begun before.

A plain tuple, because a thousand of them travel with every job.
"""


class Assignment(NamedTuple):
    """What one task has to do: events of different lanes in any order, those of one lane in theirs."""

    journal: JournalHandle | None
    """Its journal; None where there is nothing to do."""
    lanes: list[list[WorkItem]]
