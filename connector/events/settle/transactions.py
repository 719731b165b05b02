"""The transactions of a broker: claims that are settled together.

A broker settles all messages of a transaction or none. So a decided event waits until the whole transaction
is decided. If one event has to go back, the transaction is rolled back, and the broker delivers all its
messages again, to this instance or another.
:class:`~connector.events.settle.redeliveries.Redeliveries` remembers how far their events were.

The journal of a batch says so until its transaction ends, the record of redeliveries afterwards. Both survive
a crash.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence, Set
from typing import Final, cast

from connector import faults
from connector.events.claim.order_groups import NONE, Orders
from connector.events.claim.polled_input import PolledInput, PolledInputs
from connector.events.outcome import Outcome
from connector.events.run.schedule import EndedClaims
from connector.events.settle.no_transactions import NoTransactions
from connector.events.settle.redeliveries import ClaimNumber, Redeliveries, Redelivery
from connector.events.settle.settling import blame, give_back_settlement
from connector.messaging.claim import BrokerClaim, Claim
from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.messaging.provider import Connection, TransactionalConnection
from connector.messaging.settlement import TransactionRefused
from connector.messaging.state_store import BrokerJournals, BrokerStateStore, ClaimNote, StateStore
from connector.operate.own_history import OwnHistory
from connector.status import OutcomeKind

_log: Final = logging.getLogger("connector.recovery")

_LOOKS: Final = 5
_PAUSE: Final = 0.02
"""Seconds between looks at the transactions of other instances."""


class Transactions(NoTransactions):
    """The open transactions of one connection, by cycle.

    Args:
        orders: of the destinations.
        own: says whose history of a message counts.

    Raises:
        ProviderError: the state or the broker cannot be used.
    """

    polls_alone = True

    def __init__(
        self,
        connection: Connection,
        state: StateStore,
        instance: str,
        inputs: PolledInputs,
        orders: Orders,
        own: OwnHistory,
    ) -> None:
        self._own = own
        self._inputs = inputs
        self._orders = orders
        self._state = cast(BrokerStateStore, state)
        self._instance = instance
        self._connection = cast(TransactionalConnection, connection)
        self._client_id = connection.client_id
        self.redeliveries = Redeliveries(self._state.redeliveries(), self._client_id)
        self._journals: BrokerJournals = self._state.journals(self._client_id, instance)
        self._sizes: dict[int, int] = {}
        self._open: Counter[Input | None] = Counter()
        """The number of open transactions of each input."""
        self._ended: dict[int, EndedClaims] = {}
        self._gave_back: dict[Input | None, int] = {}
        """Inputs whose last transaction was rolled back, with the last cycle that had begun until then."""
        self._last_cycle = 0
        self._refusing: dict[Input | None, TransactionRefused] = {}
        """Inputs that rest, because destinations of their events take nothing now."""
        self._used: dict[ClaimNumber, Redelivery] = {}
        """The entries of redelivered messages in open transactions."""

    def quantity(self, one: PolledInput) -> int:
        """Returns 1 after a rollback, which counts as a delivery of every message of the transaction.

        So one message is taken at a time, until a transaction is settled and no redelivered message is
        awaited.
        """
        is_careful = one.input in self._gave_back or self.redeliveries.has(one.destination)
        return 1 if is_careful else one.quantity

    def awaits(self, destination: Destination) -> bool:
        return self.redeliveries.has(destination)

    def awaited_keys(self) -> Set[str]:
        return self.redeliveries.published_keys()

    def may_overlap(self, one: PolledInput) -> bool:
        """Whether a second transaction of an input may begin while the events of the first run."""
        is_worth_it = one.destination.is_queue and one.order == NONE
        return is_worth_it and self._open[one.input] == 1 and one.input not in self._gave_back

    def must_wait(self, claims: Sequence[Claim]) -> bool:
        """Whether another client still has an event of these messages. Takes over from dead clients first.

        A connection of a living instance may break. Then the broker gives its messages to others, while its
        tasks run.

        Raises:
            ProviderError: the state or the broker cannot be used.
        """
        identities = {claim.identity for claim in cast(Sequence[BrokerClaim], claims)}
        for look in range(_LOOKS):
            if look:
                time.sleep(_PAUSE)
            self._take_over(0.0, warns=False)
            if identities.isdisjoint(self._state.claims_of_others(self._client_id)):
                return False
        return True

    def hold(self, claims: Sequence[Claim]) -> bool:
        return self._connection.hold(claims)

    def begin(self, claims: Sequence[Claim]) -> tuple[list[Claim], list[tuple[Claim, Outcome]]]:
        """Begins the transaction of the claims of one poll of one input.

        A redelivered message whose event was begun gets its counts and properties.

        Returns:
            the claims whose events run, and the claims of done events.

        Raises:
            ProviderError: the claims cannot be recorded.
        """
        running: list[Claim] = []
        done: list[tuple[Claim, Outcome]] = []
        notes: dict[int, ClaimNote] = {}
        ours = cast(Sequence[BrokerClaim], claims)
        self._open[claims[0].input] += 1
        self._last_cycle = max(self._last_cycle, claims[0].cycle)
        taken = self.redeliveries.take((_place(claim), claim.identity) for claim in ours)
        faults.point("claim.known")
        for claim in ours:
            self._sizes[claim.cycle] = self._sizes.get(claim.cycle, 0) + 1
            notes[claim.sequence] = ClaimNote(str(claim.destination), claim.identity, claim.expiration)
            found = taken.get(_place(claim))
            if found is not None:
                entry = self._used[_place(claim)] = found.entry
                if entry.outcome is not None:
                    done.append((claim, entry.outcome))
                    continue
                if not entry.is_new:
                    claim.amend(entry.begun, self._own.name(entry.properties))
            running.append(claim)
        self._connection.note_journal(claims[0].cycle)
        if running:
            self._journals.note_claims(running[0].cycle, notes)
        self._end_pending((one.client, one.cycle) for one in taken.values() if one.client != self._client_id)
        faults.point("claim.noted")
        return running, done

    def _end_pending(self, transactions: Iterable[tuple[str, int]]) -> None:
        """Ends pending commits whose messages have come again, or have expired.

        Such a commit has not happened. The commit queue is asked all the same, because the copy of an event
        that comes again later looks like its message.
        """
        found: dict[str, set[int]] = {}
        for client, cycle in transactions:
            found.setdefault(client, set()).add(cycle)
        for client, cycles in found.items():
            pending = cycles & self._state.pending_of(client)
            if not pending:
                continue
            committed = self._end_committed(client, pending)
            for cycle in pending - committed:
                self._state.drop(client, cycle)
            if client not in self._state.clients():  # else the takeover releases the client
                self._release(client)

    def _end_committed(self, client: str, pending: Set[int]) -> Set[int]:
        """Ends the pending commits that have happened, and returns their cycles."""
        committed = pending & self._connection.committed_cycles(client)
        for cycle in committed:
            self.redeliveries.remove_committed(client, cycle)
            self._state.confirm(client, cycle)
            _log.info("a commit without an answer has happened", extra={"client": client, "cycle": cycle})
        return committed

    def complete(self, ended_claims: EndedClaims) -> Sequence[EndedClaims]:
        """Adds claims that leave the schedule. Returns the whole decided transactions.

        If one claim of a transaction goes back, all go back. The outcomes of the others are recorded first.

        Raises:
            ProviderError: the record cannot be written.
        """
        for claim, outcome in ended_claims.decided:
            self._ended.setdefault(claim.cycle, EndedClaims()).decided.append((claim, outcome))
        for claim, begun in ended_claims.returned:
            self._ended.setdefault(claim.cycle, EndedClaims()).returned.append((claim, begun))
        found = []
        for cycle, ended in list(self._ended.items()):
            if len(ended.decided) + len(ended.returned) < self._sizes[cycle]:
                continue
            self._delay_others(ended)
            if ended.returned or any(outcome.rolls_back for _, outcome in ended.decided):
                self._note_return(ended.claims[0])
                ended = self._roll_back(cycle, ended)
            else:
                ended.decided = [(claim, self._with_sends(claim, one)) for claim, one in ended.decided]
            del self._ended[cycle], self._sizes[cycle]
            found.append(ended)
        return found

    def _delay_others(self, ended: EndedClaims) -> None:
        """Lets events come again later that have not begun because an earlier event of their key does.

        A rollback would give back the whole transaction, and count as a delivery.
        """
        due: dict[Hashable, int] = {}
        for claim, outcome in ended.decided:
            if outcome.kind == OutcomeKind.LATER:
                key = self._orders.key(claim)
                due[key] = max(outcome.due, due.get(key, 0))
        due.pop(None, None)
        behind = [one for one in ended.returned if not one[1] and self._orders.key(one[0]) in due]
        if not behind:
            return
        ended.returned = [one for one in ended.returned if one not in behind]
        for claim, _ in behind:
            later = Outcome(OutcomeKind.LATER, not_read=True, due=due[self._orders.key(claim)])
            ended.decided.append((claim, later))
        ended.decided.sort(key=lambda one: one[0].sequence)  # their copies keep the order

    def _note_return(self, claim: Claim) -> None:
        self._gave_back[claim.input] = self._last_cycle
        self._inputs[claim.input].back_off.begin()

    def _entry(self, claim: Claim) -> Redelivery:
        """Returns the entry that a claim has used, or a new one."""
        return self._used.get(_place(claim)) or _new_entry(claim)

    def _with_sends(self, claim: Claim, outcome: Outcome) -> Outcome:
        entry = self._entry(claim)
        if not entry.sends or entry.outcome is not None:
            return outcome
        return outcome._replace(sends=(*entry.sends, *outcome.sends))

    def _roll_back(self, cycle: int, ended: EndedClaims) -> EndedClaims:
        """Records the events of a transaction before its rollback, and returns its claims."""
        back = EndedClaims()
        entries: list[tuple[ClaimNumber, str, Redelivery]] = []
        for claim, outcome in ended.decided:
            entry = self._entry(claim)
            if outcome.rolls_back:
                begun = give_back_settlement(claim, outcome, self._own).delivery_count - claim.delivery_count
                entry = entry.after(outcome, 0)._replace(begun=entry.begun + max(0, begun))
                back.decided.append((claim, outcome))
            else:
                entry = entry if entry.outcome is not None else entry.after(outcome, 0)
                back.returned.append((claim, 0))
            entries.append((_place(claim), _identity(claim), entry))
        for claim, begun in ended.returned:
            back.returned.append((claim, begun))
            entry = self._entry(claim)
            entries.append((_place(claim), _identity(claim), entry._replace(begun=entry.begun + begun)))
        self.redeliveries.put(entries)
        self._journals.forget(cycle)
        faults.point("rollback")
        return back

    def note_settled(self, ended: EndedClaims) -> Sequence[Claim]:
        """Ends the care about an input after a whole transaction of it was settled, and nothing went back.

        The care goes on if this transaction had begun before the last rollback.
        """
        self._open[ended.claims[0].input] -= 1
        if not ended.returned and not any(outcome.rolls_back for _, outcome in ended.decided):
            for claim in ended.claims[:1]:
                if claim.cycle > self._gave_back.get(claim.input, 0):
                    self._gave_back.pop(claim.input, None)
                    self._inputs[claim.input].back_off.end()
        return [claim for claim, outcome in ended.decided if outcome.kind == OutcomeKind.PUBLISHED]

    def note_refusal(self, ended: EndedClaims, error: TransactionRefused) -> bool:
        """Records the events of a transaction that the broker has refused and rolled back.

        Then one message is taken at a time. If the destinations take an empty message, the refused message is
        to blame. Its event has failed, and its copy goes to the error destination when it comes again.
        Otherwise the input rests until they do. If the broker has refused nothing, or only for the moment, no
        message is to blame.
        """
        blames = error.blames
        is_first = ended.decided[0][0].input not in self._gave_back
        may_repeat = not error.destinations and (blames or is_first)
        is_alone = len(ended.decided) == 1 and blames
        if may_repeat and is_alone:
            claim, outcome = ended.decided[0]
            blamed = blame(outcome, str(error))
            may_repeat = blamed is not None
            ended.decided[0] = claim, blamed or outcome
        entries = [
            (_place(claim), _identity(claim), _new_entry(claim)._replace(outcome=outcome))
            for claim, outcome in ended.decided
        ]
        self.redeliveries.put(entries)
        claim = ended.decided[0][0]
        self._open[claim.input] -= 1
        self._journals.forget(claim.cycle)
        if may_repeat:
            self._gave_back[claim.input] = self._last_cycle
        else:
            self._note_return(claim)
        if error.destinations:
            self._refusing[claim.input] = error
        return may_repeat

    def obstacle(self, one: PolledInput, *, looks: bool = False) -> str:
        error = self._refusing.get(one.input)
        if error is None:
            return ""
        looks = looks or not one.back_off.is_on
        if not any(self._connection.refuses(copy_to, asks=looks) for copy_to in error.destinations):
            del self._refusing[one.input]
            one.back_off.end()
            _log.info("an input goes on", extra={"destination": str(one.input)})
            return ""
        if looks:
            one.back_off.begin()
        return str(error)

    def forget(self, cycles: Iterable[int]) -> None:
        ended = set(cycles)
        places = [place for place in self._used if place[0] in ended]
        if places:
            self.redeliveries.remove_settled(places)
            for place in places:
                del self._used[place]
        super().forget(ended)
        self._connection.forget(ended)

    # -- takeover ------------------------------------------------------------------------------------

    def recover(self, timeout: float) -> None:
        self._take_over(timeout, warns=True)
        cycles: dict[str, set[int]] = {}
        for client, cycle in self._state.pending():
            cycles.setdefault(client, set()).add(cycle)
        for client, pending in cycles.items():
            self._end_committed(client, pending)
            self._release(client)
        self._end_pending(self.redeliveries.remove_expired())
        marked = self._connection.marked_clients()  # asked first: a new client has journals, then marks
        for client in marked - self._state.clients():
            self._release(client)

    def _take_over(self, timeout: float, *, warns: bool) -> None:
        for client, journals in self._state.dead_clients(self._instance, self._client_id).items():
            journals.seal()
            if journals.wait(timeout):
                self._adopt(client, journals)
            elif warns:
                _log.warning(
                    "a task of a dead client still runs, so the takeover is tried again later",
                    extra={"client": client},
                )

    def _adopt(self, client: str, journals: BrokerJournals) -> None:
        committed = self._connection.committed_cycles(client)
        pending = self._state.pending_of(client)
        self._end_pending(self.redeliveries.origins(client))  # first, because adopt forgets the origins
        number = self.redeliveries.adopt(client, journals.read(), committed, pending)
        for cycle in committed:
            self._state.confirm(client, cycle)
        journals.forget()
        self._release(client)
        if number:
            fields = {"client": client, "number": number}
            _log.warning("messages of a dead client are redelivered", extra=fields)

    def _release(self, client: str) -> None:
        """Forgets an ended client, unless the end of one of its commits is unknown."""
        if not self._connection.marks_commits:
            for owner, cycle in self._state.pending():
                if owner == client:
                    self._state.drop(client, cycle)
        if not self._state.hold_pending(client):
            self._connection.remove_markers(client)


def _new_entry(claim: Claim) -> Redelivery:
    return Redelivery(str(claim.destination), expiration=cast(BrokerClaim, claim).expiration)


def _place(claim: Claim) -> ClaimNumber:
    return claim.cycle, claim.sequence


def _identity(claim: Claim) -> str:
    return cast(BrokerClaim, claim).identity
