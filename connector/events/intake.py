"""Polls the inputs: which of them, how many messages, and what has to wait.

One poll claims round robin over all inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from connector.events.claiming import claim_round_robin
from connector.events.connection_state import ConnectionState
from connector.events.rates import RateLimit
from connector.events.report import CycleReport
from connector.events.settings import Input
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.polling import Poller
from connector.messaging.settlement import SettlementOpen
from connector.messaging.subscription import TopicSubscription


class Intake:
    """The pollers of one connection.

    Args:
        state: of the connection.

    Raises:
        CapabilityError: the provider cannot poll an input.
        SubscriptionError: a subscription of an input is in use otherwise.
        ProviderError: an input cannot be used.
    """

    def __init__(self, state: ConnectionState) -> None:
        self.cycle = 0
        """Of the last poll."""
        self._hooks = state.hooks
        self._connection = state.connection
        self._settings = settings = state.settings
        self._working = state.working
        self._schedule = state.schedule
        self._waiting = state.waiting
        self._waits = state.waits
        self._traced_claim = settings.trace.around("claim", self._claim)
        self._open: dict[int, Poller] = {}
        """By the position of the input. A paused input has none."""
        self._pollers: list[Poller] = []
        """The same in the order of the inputs."""
        self._rates: dict[int, RateLimit] = {}
        """By the id of the poller. Empty if no input has a rate."""
        self._full: set[Destination] = set()
        """Inputs of which the last poll took all that it may take."""
        self._skipped: list[Poller] = []
        """Pollers that the last poll left out."""
        self._expired: dict[int, int] = {}
        for one in settings.inputs:
            if self._is_paused(one) and isinstance(one.source, TopicSubscription):
                self._poller(one).close()  # the subscription gets messages meanwhile
        self._open_and_close()

    def _poller(self, one: Input) -> Poller:
        return one.poller(self._connection, self._settings.in_progress, self._settings.order)

    def _is_paused(self, one: Input) -> bool:
        return self._working.control.is_paused(str(one.destination))

    def _open_and_close(self) -> list[Poller]:
        """Opens and closes pollers, so that exactly the paused inputs have none. Returns the new pollers."""
        new: list[Poller] = []
        for position, one in enumerate(self._settings.inputs):
            is_paused, is_open = self._is_paused(one), position in self._open
            if is_paused and is_open:
                poller = self._open.pop(position)
                poller.close()
                self._rates.pop(id(poller), None)
                self._expired.pop(id(poller), None)
                self._full.discard(one.destination)
            elif not is_paused and not is_open:
                poller = self._open[position] = self._poller(one)
                if self._working.rates:
                    self._rates[id(poller)] = self._working.rates[position]
                new.append(poller)
        self._pollers = [self._open[position] for position in sorted(self._open)]
        self._skipped = [one for one in self._skipped if one in self._pollers]
        return new

    def obey(self) -> bool:
        """Obeys pauses that have changed. Returns whether an input has been resumed.

        Raises:
            CapabilityError, SubscriptionError, ProviderError: an input cannot be used.
        """
        new = self._open_and_close()
        for poller in new:
            self._waits.read(poller)
        if self._waiting is not None:
            self._waiting.look()
        self.give_back_held([one.destination for one in self._settings.inputs if self._is_paused(one)])
        return bool(new)

    def poll(self, report: CycleReport, *, ahead: bool, patient: bool) -> Iterator[Sequence[Claim]]:
        """Yields the claims of one poll. The caller takes in each list before the next.

        Args:
            report: gets the numbers and the failure of the poll.
            ahead: whether an input with unsettled events may be polled, too.
            patient: whether an input with a pause is left out.
        """
        claims = self._traced_claim(self._choose(ahead=ahead, patient=patient), report)
        report.claimed += len(claims)
        yield claims

    def _choose(self, *, ahead: bool, patient: bool) -> list[Poller]:
        """Returns the pollers that this poll asks. The one place that decides it."""
        chosen = []
        for poller in self._pollers:
            poller.wakes = not self._is_shut(poller)
            poller.asks = not patient  # nobody polls again soon
            if poller.wakes and self._may_poll(poller.destination, ahead=ahead):
                chosen.append(poller)
        if len(chosen) < len(self._pollers) or self._skipped:
            self._skipped = [one for one in self._pollers if one not in chosen]
        return chosen

    def _claim(self, pollers: Sequence[Poller], report: CycleReport) -> list[Claim]:
        first = self._first_sequence()
        if first is None:
            self.cycle, first = next(self._working.numbers), 0
        rates = [self._rates[id(poller)] for poller in pollers] if self._rates else ()
        quantity = self._quantity(pollers)
        taken = claim_round_robin(pollers, quantity, self.cycle, first, self._waiting, rates)
        for poller, rate in zip(pollers, rates, strict=False):
            poller.wakes = rate.allowed() > 0
        for poller in pollers:
            self._full.discard(poller.destination)
        self._full |= taken.full
        for poller in self._pollers:
            seen = self._expired.get(id(poller), 0)
            if poller.expired != seen:
                self._working.summary.count_expired(str(poller.destination), poller.expired - seen)
                self._expired[id(poller)] = poller.expired
        if taken.failure is not None:
            fields = {"cycle": self.cycle, "reason": str(taken.failure)}
            self._working.lines.error("claiming messages failed", extra=fields)
            report.fail(str(taken.failure), provider_failed=not isinstance(taken.failure, SettlementOpen))
        elif not taken.claims:
            self._connection.check()
        for observe in self._hooks.claimed:
            observe(taken.claims)
        return taken.claims

    def _first_sequence(self) -> int | None:
        """Returns the number of the next claim. None = a new cycle begins."""
        return self._schedule.next_sequence(self.cycle)

    def _quantity(self, pollers: Sequence[Poller]) -> int:
        """Returns how many messages a poll of an input may take."""
        return self._settings.quantity

    def more_in(self) -> float | None:
        """Returns the seconds until an input may be polled in which more may wait.

        0 = now. None = an input with more has to wait for another reason than its rate, or there is none.
        """
        soonest: float | None = None
        for poller in self._pollers:
            if (poller.destination in self._full or poller in self._skipped) and self._may_poll_again(poller):
                seconds = self._rates[id(poller)].seconds() if self._rates else 0.0
                soonest = seconds if soonest is None else min(soonest, seconds)
        return soonest

    def _may_poll_again(self, poller: Poller) -> bool:
        """Whether an input may be polled, but for its rate."""
        return self._may_poll(poller.destination, ahead=True)

    def _is_shut(self, poller: Poller) -> bool:
        """Whether nothing is claimed from an input now, so that a message for it wakes nobody."""
        return bool(self._rates) and self._rates[id(poller)].allowed() <= 0

    def _may_poll(self, destination: Destination, *, ahead: bool) -> bool:
        """Whether the schedule takes messages of an input, and no event waits that all others wait for."""
        if self._waits.until and self._waits.has(destination):
            return False
        if not ahead:
            return self._schedule.is_settled(destination)
        return self._schedule.may_poll(destination, has_more=destination in self._full)

    @property
    def closed(self) -> dict[str, str]:
        """Why no message of an input can be taken now, by destination. Without inputs that can be used."""
        return {str(one.destination): reason for one in self._pollers if (reason := self._reason(one))}

    def _reason(self, poller: Poller) -> str:
        return poller.obstacle

    def keeps(self, one: Input) -> bool:
        """Whether messages of an input wait for this adapter alone.

        Raises:
            CapabilityError, SubscriptionError, ProviderError: the input cannot be used.
        """
        position = self._settings.inputs.index(one)
        poller = self._open.get(position) or self._poller(one)
        try:
            return poller.keeps()
        finally:
            if position not in self._open:
                poller.close()

    def read_waits(self) -> None:
        """Finds the events that wait in the inputs.

        Raises:
            ProviderError: an input cannot be read.
        """
        for poller in self._pollers:
            self._waits.read(poller)

    def give_back_held(self, inputs: Collection[Destination] | None = None) -> None:
        """Gives back the transactions that wait for another client.

        Args:
            inputs: only those of these inputs. None = all.

        Raises:
            ProviderError: they cannot be given back.
        """

    def close(self) -> None:
        """Closes the pollers."""
        for poller in self._pollers:
            poller.close()
