"""The resolved, picklable configuration of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from connector.databases.settings import DatabaseSettings
from connector.events.run.circuits import CircuitState
from connector.events.run.event_keys import RecordKey
from connector.log import LogSettings
from connector.messaging.access import AccessSpec
from connector.messaging.input import Input
from connector.messaging.state_store import JournalHandle
from connector.operate.own_history import OwnHistory
from connector.requests.contract import RequestsSpec
from connector.requests.settings import ConversionSettings
from connector.sinks.subscriptions import Subscription

if TYPE_CHECKING:
    from connector.declare.connector_section import Connector
    from connector.declare.history_section import HistorySection

_LOGGING: Final = LogSettings()
NOTHING: Final[Mapping[Any, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings(ConversionSettings):
    """The configuration of an adapter's tasks.

    Args:
        subscriptions: in the order of the configuration.
        by_input: the section ``connector`` as it holds for each input that has keys of its own.
        history: the section. With ``keep``, tasks note what the history needs of each event.
        requests: lets a business process make requests while it handles an event. None = no requests.
        reloads: number of the last reload. Other settings get other runners, which load all modules anew.
        instance: of the adapter. Empty = not known.
        sample: the share of the new traces whose spans are measured. None = there is no tracing.
    """

    subscriptions: tuple[Subscription, ...]
    access: AccessSpec
    history: HistorySection
    by_input: Mapping[Input, Connector] = field(default_factory=dict)
    requests: RequestsSpec | None = None
    logging: LogSettings = _LOGGING
    databases: tuple[DatabaseSettings, ...] = ()
    client_id: str = ""
    reloads: int = 0
    sample: float | None = None
    instance: str = ""

    @property
    def reruns(self) -> bool:
        """Whether an event whose worker was ended runs again. Otherwise the event stays in doubt."""
        return self.connector.copies.in_progress is None or self.connector.in_doubt_events == "Reprocess"

    @property
    def own(self) -> OwnHistory:
        """Says whose history of a message counts."""
        return OwnHistory(self.connector.application_name, self.connector.copies.names)

    @property
    def answers_requests(self) -> bool:
        """Whether any business process answers requests."""
        return any(subscription.reply for subscription in self.subscriptions)


WorkItem = tuple[int, str, Any, int, Input | None]
"""A claim as a task gets it: sequence, input destination, reference, deliveries begun before, input.

The input is None if it has no keys of its own (:attr:`TaskSettings.by_input`).

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
    asks_keys: bool = False
    """Whether the task only finds the duplicate keys of its events by values, and publishes nothing."""
    values: Mapping[int, tuple[RecordKey, ...]] = NOTHING
    """By sequence, what is known of such keys. Without events whose input has none."""
