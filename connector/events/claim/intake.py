"""Polls the inputs: which of them, how many messages, and what has to wait (WBI Adapter for JMS, "Polling").

First come the messages that wait in the in-progress destination because their process was not active. Then
come at most ``PollQuantity`` messages of each input, without waiting. A poll asks an empty destination only
once.

The claims are numbered as if the poll had taken one message of each input in turn. The number of a claim is
round x number of inputs + position of its input. Claims are processed in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from connector.errors import ProviderError
from connector.events.claim.polled_input import PolledInput
from connector.events.connection_state import ConnectionState
from connector.events.cycle_report import CycleReport
from connector.messaging.claim import Claim
from connector.messaging.input import Input
from connector.messaging.settlement import SettlementOpen


class Intake:
    """Polls over one connection.

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
        self._settings = state.settings
        self._working = state.working
        self._schedule = state.schedule
        self._waiting = state.waiting
        self._waits = state.waits
        self._traced_claim = state.settings.trace.around("claim", self._claim)
        self._inputs = state.working.inputs
        self._open: list[PolledInput] = []
        """The inputs that no operator has paused."""
        for one in self._inputs:
            one.forget()
            if self._is_paused(one) and one.settings.subscription:  # it gets messages meanwhile
                self._open_poller(one)
                one.close()
        self._open_and_close()

    def _open_poller(self, one: PolledInput) -> None:
        one.open(self._connection, self._settings.connector.in_progress_destination)

    def _is_paused(self, one: PolledInput) -> bool:
        return self._working.control.is_paused(str(one.destination))

    def _open_and_close(self) -> list[PolledInput]:
        """Opens and closes inputs, so that exactly the paused ones are closed. Returns the new open ones."""
        new: list[PolledInput] = []
        for one in self._inputs:
            if self._is_paused(one):
                one.close()
            elif not one.is_open:
                self._open_poller(one)
                new.append(one)
        self._open = [one for one in self._inputs if one.is_open]
        return new

    def obey(self) -> bool:
        """Obeys pauses that have changed. Returns whether an input has been resumed.

        Raises:
            CapabilityError, SubscriptionError, ProviderError: an input cannot be used.
        """
        new = self._open_and_close()
        for one in new:
            self._waits.read(one.input, one.poller)
        if self._waiting is not None:
            self._waiting.look()
        self.give_back_held(only_paused=True)
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

    def _choose(self, *, ahead: bool, patient: bool) -> list[PolledInput]:
        """Returns the inputs that this poll asks. The one place that decides it."""
        chosen = []
        for one in self._open:
            one.poller.wakes = wakes = not self._is_shut(one)
            one.poller.asks = not patient  # nobody polls again soon
            one.is_skipped = not (wakes and self._may_poll(one, ahead=ahead))
            if not one.is_skipped:
                self._waits.begin_poll(one.destination)
                chosen.append(one)
        return chosen

    def _claim(self, inputs: Sequence[PolledInput], report: CycleReport) -> list[Claim]:
        first = self._first_sequence()
        if first is None:
            self.cycle, first = next(self._working.numbers), 0
        claims: list[Claim] = []
        failure: ProviderError | None = None
        try:
            if self._waiting is not None:
                self._waiting.take(claims, self.cycle, first)
            claim_round_robin(inputs, claims, self.cycle, first + len(claims))
        except ProviderError as error:  # the claims are finished all the same, then the poll ends
            failure = error
        claims.sort(key=_sequence)
        for one in self._open:
            if one.poller.expired != one.expired:
                self._working.summary.count_expired(str(one.destination), one.poller.expired - one.expired)
                one.expired = one.poller.expired
        if failure is not None:
            fields = {"cycle": self.cycle, "reason": str(failure)}
            self._working.lines.error("claiming messages failed", extra=fields)
            report.fail(str(failure), provider_failed=not isinstance(failure, SettlementOpen))
        elif not claims:
            self._connection.check()
        for observe in self._hooks.claimed:
            observe(claims)
        return claims

    def _first_sequence(self) -> int | None:
        """Returns the number of the next claim. None = a new cycle begins."""
        return self._schedule.next_sequence(self.cycle)

    def more_in(self) -> float | None:
        """Returns the seconds until an input may be polled in which more may wait.

        0 = now. None = an input with more has to wait for another reason than its rate, or there is none.
        """
        soonest: float | None = None
        for one in self._open:
            if (one.is_full or one.is_skipped) and self._may_poll_again(one):
                seconds = 0.0 if one.rate is None else one.rate.seconds()
                soonest = seconds if soonest is None else min(soonest, seconds)
        return soonest

    def _may_poll_again(self, one: PolledInput) -> bool:
        """Whether an input may be polled, but for its rate."""
        return self._may_poll(one, ahead=True)

    def _is_shut(self, one: PolledInput) -> bool:
        """Whether nothing is claimed from an input now, so that a message for it wakes nobody."""
        return one.rate is not None and one.rate.allowed() <= 0

    def _may_poll(self, one: PolledInput, *, ahead: bool) -> bool:
        """Whether the schedule takes messages of an input, and no event waits that all others wait for."""
        waits = self._waits
        if (waits.until or waits.left_aside) and waits.has(one.destination):
            return False
        return self._schedule.may_poll(one) if ahead else self._schedule.is_settled(one.input)

    @property
    def closed(self) -> dict[str, str]:
        """Why no message of an input can be taken now, by input. Without inputs that can be used."""
        return {str(one.input): reason for one in self._open if (reason := self._reason(one))}

    def _reason(self, one: PolledInput) -> str:
        return one.poller.obstacle

    def has_bound_messages(self, wanted: Input, others: Sequence[str]) -> bool:
        """Whether messages of an input wait for this adapter alone, and no other input takes them.

        Args:
            others: selectors of further inputs of the same queue.

        Raises:
            CapabilityError, SubscriptionError, ProviderError: the input cannot be used.
        """
        one = self._inputs[wanted]
        if one.is_open:
            return one.poller.has_bound_messages(others)
        self._open_poller(one)
        try:
            return one.poller.has_bound_messages(others)
        finally:
            one.close()

    def find_waiting_events(self) -> None:
        """Finds the events that wait in the inputs.

        Raises:
            ProviderError: an input cannot be read.
        """
        for one in self._open:
            self._waits.read(one.input, one.poller)

    def give_back_held(self, *, only_paused: bool = False) -> None:
        """Gives back the transactions that wait for another client.

        Args:
            only_paused: only those of inputs that an operator has paused.

        Raises:
            ProviderError: they cannot be given back.
        """


def claim_round_robin(inputs: Sequence[PolledInput], claims: list[Claim], cycle: int, first: int) -> None:
    """Claims at most :attr:`PolledInput.most` messages of each input.

    Args:
        inputs: in the order of the configuration.
        claims: gets the claims, also those before an error.
        first: the lowest number of a claim.

    Raises:
        ProviderError: an input cannot be polled.
    """
    count = len(inputs)
    for one in inputs:
        one.is_full = False
    for start, one in enumerate(inputs, first):
        numbers = range(start, start + count * one.most, count)
        poller, rate = one.poller, one.rate
        if rate is not None:
            numbers = numbers[: rate.allowed()]
        while numbers and (found := poller.claim(cycle, numbers)):
            for claim in found:
                claim.input = one.input
            claims += found
            if rate is not None:
                rate.note(len(found))
                poller.wakes = rate.allowed() > 0
            numbers = numbers[len(found) :]  # a short list does not mean an empty destination
        one.is_full = not numbers or poller.is_full


_sequence: Final = attrgetter("sequence")
