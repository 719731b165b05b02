"""Polls the inputs: which of them, how many messages, and what has to wait.

Without transactions one poll claims round robin over all inputs. With the transactions of a broker each input
is polled alone, because the claims of one poll are one transaction.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Sequence

from connector.agent_trace import step
from connector.events.claiming import WaitingMessages, claim_round_robin
from connector.events.hooks.event_hook import EventHooks
from connector.events.no_transactions import NoTransactions
from connector.events.open_settlements import OpenSettlements
from connector.events.rates import RateLimit
from connector.events.report import CycleReport
from connector.events.schedule import Schedule
from connector.events.settings import EventSettings, Input
from connector.events.settling import untouched_settlement
from connector.events.waits import EventWaits
from connector.events.working_state import WorkingState
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.polling import Poller
from connector.messaging.provider import Connection
from connector.messaging.settlement import SettlementOpen
from connector.messaging.subscription import TopicSubscription

_log = logging.getLogger("connector.events")


class Intake:
    """The pollers of one connection.

    Args:
        connection: of the provider.
        settings: of the adapter.
        working: of the instance.
        schedule: says which inputs may be polled.
        transactions: of the broker, or none.
        waiting: messages whose process was not active. None without InProgressDestination.
        waits: of inputs whose next event comes again later.
        open_settlements: of earlier claims.
        hooks: observe the claims.

    Raises:
        CapabilityError: the provider cannot poll an input.
        SubscriptionError: a subscription of an input is in use otherwise.
        ProviderError: an input cannot be used.
    """

    def __init__(
        self,
        connection: Connection,
        settings: EventSettings,
        working: WorkingState,
        schedule: Schedule,
        transactions: NoTransactions,
        waiting: WaitingMessages | None,
        waits: EventWaits,
        open_settlements: OpenSettlements,
        hooks: EventHooks,
    ) -> None:
        self._hooks = hooks
        self.cycle = 0
        """Of the last poll."""
        self.trace = settings.trace
        self._connection = connection
        self._settings = settings
        self._working = working
        self._schedule = schedule
        self._transactions = transactions
        self._waiting = waiting
        self._waits = waits
        self._open_settlements = open_settlements
        self._is_patient = False
        self._open: dict[int, Poller] = {}
        """By the position of the input. A paused input has none."""
        self._pollers: list[Poller] = []
        """The same in the order of the inputs."""
        self._rates: dict[int, RateLimit] = {}
        self._full: set[Destination] = set()
        """Inputs of which the last poll took all that it may take."""
        self._skipped: list[Poller] = []
        """Pollers that the last poll left out."""
        self._expired: dict[int, int] = {}
        self._held: list[Sequence[Claim]] = []
        """Transactions with an event that another client still has."""
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
                self._rates.pop(id(poller))
                self._expired.pop(id(poller), None)
                self._full.discard(one.destination)
            elif not is_paused and not is_open:
                poller = self._open[position] = self._poller(one)
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
        self._is_patient = patient
        held, self._held = self._held, []
        for claims in held:
            yield from self._ready(claims, report)
        may_poll = self._may_poll if ahead else self._may_begin
        for poller in self._pollers:
            if not patient and (reason := self._obstacle(poller.destination)):
                report.fail(reason, provider_failed=False)
            has_room = self._rates[id(poller)].allowed() > 0
            poller.wakes = has_room and not self._must_rest(poller.destination)
            poller.asks = not patient  # nobody polls again soon
        pollers = [
            poller
            for poller in self._pollers
            if poller.wakes and may_poll(poller.destination) and not self._waits.has(poller.destination)
        ]
        self._skipped = [poller for poller in self._pollers if poller not in pollers]
        for group in self._transactions.groups(pollers):
            yield from self._ready(self._claim(group, report), report)

    def _ready(self, claims: Sequence[Claim], report: CycleReport) -> Iterator[Sequence[Claim]]:
        """Yields claims, but not those that the provider holds, or that another client still has."""
        report.claimed += len(claims)
        if claims and self._transactions.hold(claims):
            self._full.add(claims[0].destination)
            report.held += len(claims)
        elif claims and self._transactions.must_wait(claims):
            self._held.append(claims)
            report.busy += len(claims)
        else:
            yield claims

    @step("claim")
    def _claim(self, pollers: Sequence[Poller], report: CycleReport) -> list[Claim]:
        first = None if self._transactions.polls_alone else self._schedule.next_sequence(self.cycle)
        if first is None:
            self.cycle, first = next(self._working.numbers), 0
        quantity = self._transactions.quantity(pollers, self._settings.quantity)
        rates = [self._rates[id(poller)] for poller in pollers]
        taken = claim_round_robin(pollers, quantity, self.cycle, first, self._waiting, rates)
        for poller, rate in zip(pollers, rates, strict=True):
            poller.wakes = rate.allowed() > 0
        self._full = (self._full - {poller.destination for poller in pollers}) | taken.full
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

    def more_in(self) -> float | None:
        """Returns the seconds until an input may be polled in which more may wait.

        0 = now. None = an input with more has to wait for another reason than its rate, or there is none.
        """
        found = [one for one in self._pollers if one.destination in self._full or one in self._skipped]
        ready = [one for one in found if self._may_poll(one.destination)]
        return min([self._rates[id(one)].seconds() for one in ready], default=None)

    def _has_pause(self, destination: Destination) -> bool:
        return self._is_patient and self._working.pauses.has(destination)

    def _must_rest(self, destination: Destination) -> bool:
        """Whether nothing is claimed from an input now: it has a pause, or its events cannot be settled."""
        return self._has_pause(destination) or bool(self._obstacle(destination))

    def _obstacle(self, destination: Destination) -> str:
        """Returns why the events of an input cannot be settled now. Empty = they can."""
        looks = not self._is_patient
        open_settlement = self._open_settlements.reason(destination)
        return open_settlement or self._transactions.obstacle(destination, looks=looks)

    def _may_poll(self, destination: Destination) -> bool:
        if self._must_rest(destination) or self._waits.has(destination):
            return False
        has_more = destination in self._full
        if not self._transactions.polls_alone:
            has_room = not self._open_settlements.are_many(destination)
            return has_room and self._schedule.may_poll(destination, has_more=has_more)
        return self._may_begin(destination) if has_more else self._is_settled(destination)

    def _may_begin(self, destination: Destination) -> bool:
        """Whether an input has no claims, or may have a second transaction beside those of the first."""
        if self._transactions.may_overlap(destination):
            return not self._is_held(destination)
        return self._is_settled(destination)

    def _is_settled(self, destination: Destination) -> bool:
        """Whether an input has no claims."""
        return not self._is_held(destination) and self._schedule.is_settled(destination)

    def _is_held(self, destination: Destination) -> bool:
        return any(claims[0].destination == destination for claims in self._held)

    @property
    def closed(self) -> dict[str, str]:
        """Why no message of an input can be taken now, by destination. Without inputs that can be used."""
        found = {
            str(one.destination): one.obstacle or self._obstacle(one.destination) for one in self._pollers
        }
        return {name: reason for name, reason in found.items() if reason}

    def keeps(self, one: Input) -> bool:
        """Whether messages of an input wait for this adapter alone.

        Raises:
            CapabilityError, SubscriptionError, ProviderError: the input cannot be used.
        """
        position = self._settings.inputs.index(one)
        poller = self._open.get(position) or self._poller(one)
        try:
            return poller.keeps() or self._transactions.awaits(one.destination)
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
        held, self._held = self._held, []
        for claims in held:
            if inputs is None or claims[0].destination in inputs:
                with contextlib.suppress(SettlementOpen):
                    self._connection.settle([untouched_settlement(claim) for claim in claims])
                    continue
            self._held.append(claims)

    def close(self) -> None:
        """Closes the pollers."""
        for poller in self._pollers:
            poller.close()
