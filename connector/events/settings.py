"""The settings of the inbound side of an adapter."""

from __future__ import annotations

from dataclasses import dataclass

from connector.agent_trace import OFF, Trace
from connector.events.order_groups import GROUP
from connector.events.recovery import InDoubtPolicy
from connector.events.settling import CopyDestinations
from connector.messaging.destination import Destination
from connector.messaging.polling import Poller
from connector.messaging.retention import Retention
from connector.messaging.roles import Receiving
from connector.messaging.subscription import TopicSubscription


@dataclass(frozen=True, slots=True)
class Input:
    """One entry of InputDestination.

    Args:
        source: the queue, or the subscription of a topic.
        selector: for messages of a queue, as text. Empty = all. A subscription has its own.
    """

    source: Destination | TopicSubscription
    selector: str = ""

    @property
    def destination(self) -> Destination:
        """The queue or topic of the input, as rules and summary name it."""
        return self.source.topic if isinstance(self.source, TopicSubscription) else self.source

    @property
    def key(self) -> tuple[Destination, str]:
        """The destination, and the name of the subscription. A queue has none."""
        return self.destination, "" if isinstance(self.source, Destination) else self.source.name

    def poller(self, connection: Receiving, in_progress: Destination | None, order: str) -> Poller:
        """Returns a poller for the input.

        Args:
            connection: of the adapter.
            in_progress: InProgressDestination.
            order: of :class:`EventSettings`.

        Raises:
            CapabilityError, SelectorError, SubscriptionError, ProviderError: as ``Receiving.poller``.
        """
        by_group = order == GROUP
        return connection.poller(self.source, in_progress, selector=self.selector, by_group=by_group)


@dataclass(frozen=True, slots=True)
class EventSettings:
    """The inbound side of an adapter.

    Args:
        application: ApplicationName.
        instance: name of this instance.
        inputs: in the order in which they are polled.
        copies: destinations for settled messages.
        in_progress, policy: InProgressDestination and InDoubtEvents.
        duplicate_window: number of ids to remember. 0 = duplicates are not eliminated.
        quantity: PollQuantity, messages of one destination and poll.
        order: ``destination``, ``group`` or ``none``.
        max_attempts: begun deliveries after which an event has failed.
        max_jobs: batches that run side by side. None = as many as the pipeline has cores.
        stop_timeout: seconds.
        retentions: how long copies are kept. Copies without an entry are kept for ever.
        wake: whether a new message starts a poll.
        trace: of AgentTraceLevel.
        keep_history: seconds. 0 = no history is written.
    """

    application: str
    instance: str
    inputs: tuple[Input, ...]
    copies: CopyDestinations
    in_progress: Destination | None
    policy: InDoubtPolicy
    duplicate_window: int
    quantity: int
    order: str
    max_attempts: int
    stop_timeout: float
    max_jobs: int | None = None
    retentions: tuple[Retention, ...] = ()
    wake: bool = True
    trace: Trace = OFF
    keep_history: float = 0.0

    @property
    def client_id(self) -> str:
        """The client id of the subscriptions. Empty if none needs one, so that no client id is held."""
        sources = [one.source for one in self.inputs]
        ids = [one.client_id for one in sources if isinstance(one, TopicSubscription)]
        return max(ids, default="")
