"""The inputs as an instance polls them: what belongs to one input, and which input a claim names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from connector.events.claim.input_back_off import InputBackOff
from connector.events.claim.order_groups import DESTINATION, GROUP
from connector.events.claim.rates import RateLimit
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.messaging.polling import Poller
from connector.messaging.provider import Connection
from connector.messaging.selector import may_match
from connector.messaging.subscription import TopicSubscription


@dataclass(frozen=True, slots=True)
class InputSettings:
    """What the configuration says of an input. The fields after ``subscription`` are its options.

    Args:
        input: what names the input.
        subscription: of a topic, with all details. None for a queue.
        quantity: PollQuantity, the most messages that one poll takes.
        rate: most messages a second that this instance claims. None = no limit.
        duplicate_key: what makes two events one. Empty = their ids.
        order: ``destination``, ``group`` or ``none``.
        parallel: events of the input at the same time. None = that of the connector, for all such inputs.
    """

    input: Input
    subscription: TopicSubscription | None = None
    quantity: int = 1
    rate: float | None = None
    order: str = DESTINATION
    parallel: int | None = None
    duplicate_key: str = ""

    @property
    def source(self) -> Destination | TopicSubscription:
        """What a provider takes the messages from."""
        return self.subscription or self.input.destination


class PolledInput:
    """One input: its settings, its limits, and how its last poll ended. For one thread.

    Rate and pause last from one connection to the next. The rest ends with the poller.

    Args:
        frequency: seconds of PollFrequency.
    """

    def __init__(self, settings: InputSettings, frequency: float = 0.0) -> None:
        self.settings = settings
        self.input = settings.input
        self.destination = settings.input.destination
        self.quantity = settings.quantity
        self.order = settings.order
        self.parallel = settings.parallel
        """Events at the same time. None = the connector says it, for all such inputs."""
        self.rate = RateLimit(settings.rate) if settings.rate else None
        """None = no limit."""
        self.back_off = InputBackOff(frequency)
        self.poller: Poller
        """Of the present connection, while the input is open."""
        self.forget()

    def forget(self) -> None:
        """Forgets the poller and the state of an earlier connection."""
        self.is_open = False
        """Whether there is a poller. An input that an operator has paused has none."""
        self.is_full = False
        """Whether the last poll took all that it may take, so that more may wait."""
        self.is_skipped = False
        """Whether the last poll left the input out."""
        self.most = self.quantity
        """Messages that the next poll may take."""
        self.expired = 0
        """Expired messages of the poller that are counted."""
        self.channel = ""
        """How claims name the subscription (:attr:`.Claim.subscription`), once there was a poller."""

    def open(self, connection: Connection, in_progress: Destination | None) -> None:
        """Makes a poller.

        Raises:
            CapabilityError, SelectorError, SubscriptionError, ProviderError: as ``Connection.poller``.
        """
        self.poller = connection.poller(
            self.settings.source,
            in_progress,
            selector=self.input.selector,
            by_group=self.order == GROUP,
        )
        self.forget()
        self.is_open, self.channel = True, self.poller.subscription

    def close(self) -> None:
        """Closes the poller. Repeatable."""
        if self.is_open:
            self.is_open = self.is_full = self.is_skipped = False
            self.poller.close()


class PolledInputs:
    """The inputs of an instance, in the order of the configuration."""

    def __init__(self, inputs: Iterable[PolledInput] = ()) -> None:
        self._inputs = {one.input: one for one in inputs}
        self.destinations: dict[Destination, list[PolledInput]] = {}
        """All inputs of each destination."""
        for one in self:
            self.destinations.setdefault(one.destination, []).append(one)

    def __iter__(self) -> Iterator[PolledInput]:
        return iter(self._inputs.values())

    def __getitem__(self, named: Input | None) -> PolledInput:
        """Returns an input of the configuration."""
        assert named is not None
        return self._inputs[named]

    def name(self, claim: Claim) -> None:
        """Lets a claim that no poll of this instance has taken name its input.

        Nobody has noted the selector with which its message was taken. If several inputs may have taken the
        message, it is of the first that would take it today.
        """
        subscription, of_destination = claim.subscription, self.destinations.get(claim.destination, ())
        found = [one.input for one in of_destination if one.channel == subscription]
        if len(found) > 1:
            message = claim.headers()
            found = [one for one in found if may_match(one.selector, message)]
        claim.input = found[0] if found else Input(claim.destination, subscription=subscription)
