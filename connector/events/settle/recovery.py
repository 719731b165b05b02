"""Recovery: settles or gives back the claims of dead clients.

Source: WBI Adapter for JMS, "Event status and recovery".

The journal decides first. A done event is settled with its outcome. An untouched event goes back to its queue
unchanged. A begun event is in doubt. Without an in-progress destination a begun event is rolled back and runs
again, with a higher delivery count. With an in-progress destination ``InDoubtEvents`` decides.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from connector.errors import ClaimLost, ConnectorError
from connector.events.connection_state import ConnectionState
from connector.events.hooks.event_hook import Single
from connector.events.outcome import Outcome
from connector.events.settle.settling import SettlementRules, begun_settlement, blame, untouched_settlement
from connector.messaging.claim import Claim
from connector.messaging.history import Note
from connector.messaging.input import Input
from connector.messaging.roles import Leftover
from connector.messaging.settlement import Settlement, SettlementOpen
from connector.messaging.state_store import ClientJournals, CycleJournal, StateStore
from connector.status import OutcomeKind, timestamp

_log = logging.getLogger("connector.recovery")


class InDoubtAtStartup(ConnectorError):
    """Raised for FailOnStartup: messages in doubt wait in the in-progress destination.

    Look at them, then discard them or replay them, and start again.
    """

    exit_status = 2


@dataclass(slots=True)
class Recovered:
    """The result of a recovery.

    Args:
        settled: number of events settled with a journalled outcome.
        returned: number of events given back to their queues.
        reprocess: adopted claims of an in-progress destination to run, oldest first.
        in_doubt: messages that stay in the in-progress destination.
        busy: whether a task of a dead client still runs, so that its claims are looked at again.
    """

    settled: int = 0
    returned: int = 0
    reprocess: list[Claim] = field(default_factory=list)
    in_doubt: list[Claim] = field(default_factory=list)
    busy: bool = False


_NOBODY: Final = CycleJournal()
_IN_DOUBT: Final = Outcome(OutcomeKind.IN_DOUBT)
_UNTOUCHED: Final = Outcome(OutcomeKind.GIVEN_BACK)
_Decision = tuple[Settlement, Outcome | None]
"""How a claim is settled, with the journalled outcome of a done event."""


class Recovery:
    """Takes over from dead clients.

    Args:
        whole: the connection of this adapter, and what stands beside it.
    """

    def __init__(self, whole: ConnectionState, state: StateStore, settling: SettlementRules) -> None:
        self._hooks = whole.hooks
        self._connection = whole.connection
        self._state = state
        self._rules = settling
        self._window = None if whole.duplicates is None else whole.duplicates.window
        self._in_progress = whole.settings.copies.in_progress
        self._policy = whole.settings.connector.in_doubt_events
        self._numbers = whole.working.numbers
        self._inputs = whole.working.inputs
        self._waiting = whole.waiting
        self._waits: dict[str, float] = {}
        self.open: dict[Input | None, str] = {}
        """Why the last run could not settle messages of dead clients, by their inputs."""
        self._told: set[str] = set()
        """The dead clients whose settlement is open, and stands in the history."""
        self.in_doubt: list[str] = []
        """The ids of the messages that are in doubt now, and wait for an operator."""
        self._must_look = False
        """Whether a message without an owner did not come, so that these messages are looked at again."""

    def run(self, *, at_start: bool, timeout: float) -> Recovered:
        """Settles or gives back the claims of dead clients.

        Args:
            at_start: also looks at messages that no client owns, and applies FailOnStartup.
            timeout: seconds to wait at start for a running task of a dead client. A client that was declared
                dead is taken over after that time at the latest.

        Raises:
            InDoubtAtStartup: as the policy demands.
            ProviderError: an event cannot be settled.
        """
        result = Recovered()
        self.open = {}
        if self._waiting is not None:
            self._waiting.look()
        for leftover in self._connection.leftovers(self._in_progress, at_start=at_start):
            try:
                self._take_over(leftover, result, timeout, at_start=at_start)
            finally:
                leftover.release()
        if (at_start or self._must_look) and self._in_progress is not None:
            self._must_look = False
            result.in_doubt.clear()  # the messages just left are among those without an owner
            for claim in self._unowned():
                # a message that waits is for another application
                if not self._decide_in_doubt(claim, result, leaves=not claim.waits):
                    self._must_look = True
        self._report_in_doubt(result, at_start)
        if result.in_doubt or self.in_doubt:  # an operator may have ended some of them
            self.in_doubt = [claim.message_id for claim in self._unowned()]
        return result

    def _unowned(self) -> list[Claim]:
        """Returns the messages in progress that no client owns, without those that wait for their time."""
        if self._in_progress is None:
            return []
        waiting, found = self._waiting, self._connection.find_unowned(self._in_progress)
        return [claim for claim in found if waiting is None or not waiting.has(claim)]

    def _wait(self, journals: ClientJournals, leftover: Leftover, timeout: float, *, at_start: bool) -> bool:
        """Whether the journals can be read: their tasks have ended, or the wait was long enough.

        The wait for tasks of a client that was declared dead is bounded. These tasks begin no more
        deliveries, and their begun events are in doubt.
        """
        if journals.wait(timeout if at_start else 0.0):
            self._waits.pop(leftover.client_id, None)
            return True
        if not leftover.declared_dead:
            return False
        since = self._waits.setdefault(leftover.client_id, time.monotonic())
        return at_start or time.monotonic() - since >= timeout

    def _take_over(self, leftover: Leftover, result: Recovered, timeout: float, *, at_start: bool) -> None:
        journals = self._state.journals(leftover.client_id, leftover.instance)
        journals.seal()  # tasks that have not begun never will
        if not self._wait(journals, leftover, timeout, at_start=at_start):
            _log.warning(
                "a task of a dead client still runs, so the takeover is tried again later",
                extra={"client": leftover.client_id},
            )
            result.busy = True
            return
        cycles = journals.read() if leftover.application else {}
        decisions, doubtful = self._decide(leftover, cycles)
        planned = {id(one.claim): (one.claim.message_id, outcome) for one, outcome in decisions}
        if self._hooks.recovering and leftover.client_id not in self._told:
            told = [(one.claim, outcome or _UNTOUCHED, one.claim.message_id) for one, outcome in decisions]
            told += [(claim, _IN_DOUBT, claim.message_id) for claim in doubtful]
            self._tell(leftover, told, {cycle: journal.notes for cycle, journal in cycles.items()})
        decisions, gone, is_open = self._settle(decisions)
        doubtful += [claim for claim in gone if claim.in_progress]
        decisions += self._give_back([claim for claim in gone if not claim.in_progress], cycles)
        told = [(one, _IN_DOUBT if one.in_progress else _UNTOUCHED, one.message_id) for one in gone]
        for settlement, outcome in decisions:
            identity, before = planned[id(settlement.claim)]
            if outcome is not None and outcome is not before:
                told.append((settlement.claim, outcome, identity))
        if told:  # the broker has refused commits that were told above
            self._tell(leftover, told, {})
        for claim in doubtful:
            if not self._decide_in_doubt(claim, result, leaves=True):
                is_open = True
        ended = [
            (one.claim, outcome, planned[id(one.claim)][0], one.copy_to is None)
            for one, outcome in decisions
            if outcome is not None and not outcome.comes_again
        ]
        self._note_settled(decisions, ended, result)
        if is_open:  # the journal knows what was delivered, so it stays
            self._told.add(leftover.client_id)
            result.busy = True
            return
        self._forget(leftover, journals)
        if leftover.claims:
            _log.warning(
                "took over from a dead client",
                extra={
                    "client": leftover.client_id,
                    "settled": len(ended),
                    "in_doubt": len(doubtful),
                    "given_back": len(decisions) - len(ended),
                },
            )

    def _give_back(self, claims: Iterable[Claim], cycles: Mapping[int, CycleJournal]) -> Iterator[_Decision]:
        """Gives claims back that cannot be settled because a message is missing. Yields the settled ones."""
        for claim in claims:
            begun = max(1, cycles.get(claim.cycle, _NOBODY).begun.get(claim.sequence, 0))
            yield from self._settle([(begun_settlement(claim, begun), None)])[0]

    def _tell(
        self, leftover: Leftover, told: Sequence[Single], notes: Mapping[int, Mapping[int, Note]]
    ) -> None:
        for observe in self._hooks.recovering:
            observe(leftover.client_id, told, notes)

    def _note_settled(
        self,
        decisions: Sequence[_Decision],
        ended: Sequence[tuple[Claim, Outcome, str, bool]],
        result: Recovered,
    ) -> None:
        for observe in self._hooks.recovered:
            observe(ended)
        result.settled += len(ended)
        result.returned += len(decisions) - len(ended)
        if self._window is not None:
            for one, _ in decisions:
                if one.published is not None:
                    self._window.add(one.published.split("\n"))

    def _forget(self, leftover: Leftover, journals: ClientJournals) -> None:
        """Removes the traces of a dead client, and its record last."""
        self._told.discard(leftover.client_id)
        if self._window is not None:
            self._window.release(leftover.client_id)
        journals.forget()
        leftover.forget()
        for observe in self._hooks.taken_over:
            observe(leftover.client_id)

    def _decide(
        self, leftover: Leftover, cycles: Mapping[int, CycleJournal]
    ) -> tuple[list[_Decision], list[Claim]]:
        """Returns the decisions about the claims of a dead client, and the claims in doubt."""
        decisions: list[_Decision] = []
        doubtful: list[Claim] = []
        now = timestamp()
        for claim in leftover.claims:
            self._inputs.name(claim)
            journal = cycles.get(claim.cycle, _NOBODY)
            values = journal.done.get(claim.sequence)
            begun = journal.begun.get(claim.sequence, 0)
            if isinstance(values, list):
                outcome = Outcome.from_list(values)
                settlement = self._rules.settlement(claim, outcome, None, now)
                if settlement is None:
                    doubtful.append(claim)
                else:
                    decisions.append((settlement, outcome))
            elif begun and claim.in_progress:
                doubtful.append(claim)
            else:
                begun = begun or journal.at_work.get(claim.sequence, 0 if leftover.application else 1)
                decisions.append(
                    (begun_settlement(claim, begun) if begun else untouched_settlement(claim), None)
                )
        return decisions, doubtful

    def _settle(self, decisions: list[_Decision]) -> tuple[list[_Decision], list[Claim], bool]:
        """Settles all claims in one commit. If a message is gone, settles each claim in its own commit.

        If messages do not come from a broker, settles the others. If a destination takes nothing, settles the
        claims of each input for themselves. If a broker refuses a message for good, its event has failed.

        The thread of the poll waits for this. The steps of a takeover have an order, and the next look for
        dead clients must find none of them half done.

        A server that has lost its last commits may have lost a prepared message, but the journal has the
        event as done. Such an event is not settled.

        Returns:
            the decisions that are settled, the claims whose messages are gone, and whether there are others,
            which are tried again later.

        Raises:
            ProviderError: the claims cannot be settled now.
        """
        try:
            self._connection.settle([settlement for settlement, _ in decisions])
        except SettlementOpen as error:
            if self._fail(decisions, error.refused):
                return self._settle(decisions)
            silent = {id(claim) for claim in error.claims}
            parts: dict[Input | None, list[_Decision]] = {}
            for one in decisions:
                if id(one[0].claim) not in silent:
                    parts.setdefault(one[0].claim.input, []).append(one)
            is_whole = not silent and len(parts) == 1
            if silent or is_whole:
                self._note_open(error.claims or [one.claim for one, _ in decisions], error)
            settled, gone, is_open = self._settle_each(() if is_whole else parts.values())
            return settled, gone, is_open or is_whole or bool(silent)
        except ClaimLost as error:
            if len(decisions) > 1:
                return self._settle_each([decision] for decision in decisions)
            self._connection.check()  # raises if this client was taken for dead itself
            claim = decisions[0][0].claim
            destination = str(claim.destination)
            _log.warning(
                "a claim cannot be settled because a message is missing",
                extra={"message_id": claim.message_id, "destination": destination, "reason": str(error)},
            )
            return [], [claim], False
        return decisions, [], False

    def _fail(self, decisions: list[_Decision], refused: Iterable[tuple[Claim, str]]) -> bool:
        """Lets events fail whose messages a broker refuses for good. Returns whether one has."""
        reasons = {id(claim): reason for claim, reason in refused}
        is_new = False
        for number, (settlement, outcome) in enumerate(decisions):
            reason = reasons.get(id(settlement.claim))
            failed = None if outcome is None or reason is None else blame(outcome, reason)
            if failed is not None:
                again = self._rules.settlement(settlement.claim, failed, None, timestamp())
                assert again is not None
                decisions[number] = again, failed
                is_new = True
        return is_new

    def _settle_each(self, parts: Iterable[list[_Decision]]) -> tuple[list[_Decision], list[Claim], bool]:
        """Settles each part as :meth:`_settle`, and returns the same of all parts."""
        found = [self._settle(part) for part in parts]
        return (
            [one for settled, _, _ in found for one in settled],
            [one for _, gone, _ in found for one in gone],
            any(is_open for _, _, is_open in found),
        )

    def _note_open(self, claims: Iterable[Claim], error: SettlementOpen) -> None:
        self.open |= {claim.input: str(error) for claim in claims}
        _log.warning(
            "a settlement for a dead client stays open, so the takeover is tried again later",
            extra={"reason": str(error)},
        )

    def _decide_in_doubt(self, claim: Claim, result: Recovered, *, leaves: bool) -> bool:
        """Decides on a message in doubt. Returns False if the message does not come, or cannot move now."""
        self._inputs.name(claim)
        try:
            if leaves:
                self._leave(claim)
            self._handle_in_doubt(claim, result)
        except SettlementOpen as error:
            self.open[claim.input] = str(error)
            _log.warning(
                "a message in doubt does not come and is looked for again later",
                extra={"message_id": claim.message_id, "reason": str(error)},
            )
            return False
        return True

    def _leave(self, claim: Claim) -> None:
        """Counts the delivery of a message in doubt that stays, and leaves the message to an operator."""
        if self._policy != "Reprocess":  # with Reprocess adopt() counts the delivery
            self._connection.leave_unowned(claim)

    def _handle_in_doubt(self, claim: Claim, result: Recovered) -> None:
        if self._policy != "Reprocess":
            result.in_doubt.append(claim)
            return
        # adopted before its client is forgotten: nobody else would look for it, or its group would be free
        adopted = result.reprocess
        cycle = adopted[0].cycle if adopted else next(self._numbers)
        taken = self._connection.adopt(claim, cycle, len(adopted))
        if taken is not None:
            taken.input = claim.input
            adopted.append(taken)

    def _report_in_doubt(self, result: Recovered, at_start: bool) -> None:
        if not result.in_doubt:
            return
        count = len(result.in_doubt)
        doubtful = [(claim, _IN_DOUBT, claim.message_id, False) for claim in result.in_doubt]
        for observe in self._hooks.in_doubt:
            observe(doubtful)
        some = ", ".join(claim.message_id for claim in result.in_doubt[:5])
        queue = self._in_progress
        text = (
            f"{count} message{'s' * (count != 1)} in {queue} may or may not have been published "
            f"({some}{', ...' if count > 5 else ''}); connector discard {queue} ends those that were, and "
            f"connector replay {queue} sends the others back to their input"
        )
        if self._policy == "FailOnStartup" and at_start:
            raise InDoubtAtStartup(f"{text}, and start again (InDoubtEvents: FailOnStartup)")
        if self._policy != "Ignore":
            _log.error("messages are in doubt", extra={"reason": text, "in_doubt_events": self._policy})
