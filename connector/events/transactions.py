"""The transactions of a broker: claims that are settled together, and messages that come again.

A broker settles all messages of a transaction or none. So a decided event waits until the whole transaction
is decided. If one event has to go back, the transaction is rolled back. The outcomes of the others stay in
the journal. When their messages come again, they are settled without running.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from connector.events.outcome import Outcome, join_names
from connector.events.schedule import EndedClaims
from connector.events.settling import given_back
from connector.messaging.claim import BrokerClaim, Claim
from connector.messaging.destination import Destination
from connector.messaging.message import PropertyValue
from connector.state.store import BrokerJournals, BrokerStateStore, ClientJournals, CycleJournal, StateStore
from connector.status import OutcomeKind

_log: Final = logging.getLogger("connector.recovery")


@dataclass(slots=True)
class Redelivery:
    """What a journal says of one delivery of a message that comes again.

    Args:
        destination: the input, as text.
        journals, cycle: where the journal is.
        outcome: of an event that is done. None = the event runs again.
        begun: deliveries that were begun.
        properties: of the message that say who has confirmed.
        sends: messages to send with the final outcome.
    """

    destination: str
    journals: ClientJournals
    cycle: int
    outcome: Outcome | None = None
    begun: int = 0
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    sends: tuple[object, ...] = ()


class Redeliveries:
    """The messages that come again and were begun or done before, by identity.

    A journal entry stands for one delivery. The entry settles one message at most, and is then used up.
    """

    def __init__(self) -> None:
        self._entries: dict[str, list[Redelivery]] = {}
        self._numbers: Counter[str] = Counter()
        self._open: Counter[tuple[ClientJournals, int]] = Counter()

    def add(self, identity: str, entry: Redelivery) -> None:
        """Remembers an entry."""
        self._entries.setdefault(identity, []).append(entry)
        self._numbers[entry.destination] += 1
        self._open[entry.journals, entry.cycle] += 1

    def has(self, destination: Destination) -> bool:
        """Whether messages of an input come again. Then one message at a time is polled there."""
        return self._numbers[str(destination)] > 0

    def holds(self, journals: ClientJournals, cycle: int) -> bool:
        """Whether an entry comes from these journals, which must not be removed."""
        return self._open[journals, cycle] > 0

    def has_any_of(self, journals: ClientJournals) -> bool:
        """Whether an entry comes from the journals of a client."""
        return any(number for (where, _), number in self._open.items() if where is journals)

    def take(self, identity: str) -> Redelivery | None:
        """Removes and returns the oldest entry of a message. None if the message is new."""
        entries = self._entries.get(identity)
        if not entries:
            return None
        entry = entries.pop(0)
        if not entries:
            del self._entries[identity]
        self._numbers[entry.destination] -= 1
        self._open[entry.journals, entry.cycle] -= 1
        return entry

    def read(self, journals: ClientJournals, cycles: Mapping[int, CycleJournal]) -> int:
        """Adds the entries of a dead client's journals, and returns their number."""
        number = 0
        for cycle, journal in cycles.items():
            for sequence, (destination, identity) in journal.claims.items():
                values = journal.done.get(sequence)
                begun = journal.begun.get(sequence, 0) or journal.at_work.get(sequence, 0)
                if isinstance(values, list):
                    entry = _of_outcome(Outcome.from_list(values), destination, journals, cycle, begun)
                elif begun:
                    entry = Redelivery(destination, journals, cycle, begun=begun)
                else:
                    continue
                self.add(identity, entry)
                number += 1
        return number


def _of_outcome(
    outcome: Outcome, destination: str, journals: ClientJournals, cycle: int, begun: int
) -> Redelivery:
    if not outcome.comes_again:
        return Redelivery(destination, journals, cycle, outcome)
    properties: dict[str, PropertyValue] = {}
    if outcome.delivered:
        properties = {"connector_outcome": outcome.kind, "connector_delivered": join_names(outcome.delivered)}
    counts = outcome.kind != OutcomeKind.GIVEN_BACK.value or outcome.must_repeat
    return Redelivery(
        destination, journals, cycle, None, begun if counts else 0, properties, tuple(outcome.sends)
    )


class Transactions:
    """The open transactions of one connection, by cycle.

    Args:
        state: of the application.
        instance, client_id: of this adapter.
    """

    def __init__(self, state: StateStore, instance: str, client_id: str) -> None:
        self.redeliveries = Redeliveries()
        self._state = cast(BrokerStateStore, state)
        self._instance = instance
        self._client_id = client_id
        self._journals = self._state.journals(client_id, instance)
        self._read: set[str] = set()
        self._sizes: dict[int, int] = {}
        self._ended: dict[int, EndedClaims] = {}
        self._used: dict[tuple[int, int], Redelivery] = {}

    @property
    def journals(self) -> BrokerJournals:
        """The journals of this client."""
        return self._journals

    def begin(self, claims: Sequence[Claim]) -> tuple[list[Claim], list[tuple[Claim, Outcome]]]:
        """Begins the transaction of the claims of one poll of one input.

        A message that comes again and was begun gets its counts and properties.

        Returns:
            the claims of new events and of events that run again, and the claims of done events.

        Raises:
            ProviderError: the claims cannot be recorded.
        """
        open_claims: list[Claim] = []
        done: list[tuple[Claim, Outcome]] = []
        for claim in cast(Sequence[BrokerClaim], claims):
            self._sizes[claim.cycle] = self._sizes.get(claim.cycle, 0) + 1
            entry = self.redeliveries.take(claim.identity)
            if entry is not None:
                self._used[claim.cycle, claim.sequence] = entry
                if entry.outcome is not None:
                    done.append((claim, entry.outcome))
                    continue
                claim.amend(entry.begun, entry.properties)
            open_claims.append(claim)
        if open_claims:
            names = {one.sequence: (str(one.destination), _identity(one)) for one in open_claims}
            self._journals.note_claims(open_claims[0].cycle, names)
        return open_claims, done

    def complete(self, ended_claims: EndedClaims) -> EndedClaims:
        """Adds claims that leave the schedule. Returns the claims of whole decided transactions.

        If one of them goes back, all go back. The outcomes of the others are remembered.
        """
        for claim, outcome in ended_claims.decided:
            self._ended.setdefault(claim.cycle, EndedClaims()).decided.append((claim, outcome))
        for claim, begun in ended_claims.returned:
            self._ended.setdefault(claim.cycle, EndedClaims()).returned.append((claim, begun))
        found = EndedClaims()
        for cycle, ended in list(self._ended.items()):
            if len(ended.decided) + len(ended.returned) < self._sizes[cycle]:
                continue
            del self._ended[cycle], self._sizes[cycle]
            if ended.returned or any(outcome.comes_again for _, outcome in ended.decided):
                ended = self._rolled_back(ended)
            else:
                ended.decided = [
                    (claim, self._with_sends(claim, outcome)) for claim, outcome in ended.decided
                ]
            found.decided += ended.decided
            found.returned += ended.returned
        return found

    def _with_sends(self, claim: Claim, outcome: Outcome) -> Outcome:
        entry = self._used.get((claim.cycle, claim.sequence))
        if entry is None or not entry.sends or entry.outcome is not None:
            return outcome
        return outcome._replace(sends=(*entry.sends, *outcome.sends))

    def _rolled_back(self, ended: EndedClaims) -> EndedClaims:
        back = EndedClaims()
        for claim, outcome in ended.decided:
            outcome = self._with_sends(claim, outcome)
            entry = Redelivery(str(claim.destination), self._journals, claim.cycle, outcome)
            if outcome.comes_again:
                settlement = given_back(claim, outcome)
                entry.outcome, entry.begun = None, settlement.delivery_count
                entry.properties, entry.sends = settlement.properties, tuple(outcome.sends)
                back.decided.append((claim, outcome))
            else:
                back.returned.append((claim, 0))
            self.redeliveries.add(_identity(claim), entry)
        for claim, begun in ended.returned:
            back.returned.append((claim, begun))
            used = self._used.get((claim.cycle, claim.sequence))
            total = claim.delivery_count + begun
            if total or used is not None:
                entry = Redelivery(str(claim.destination), self._journals, claim.cycle, begun=total)
                if used is not None:
                    entry.properties, entry.sends = used.properties, used.sends
                self.redeliveries.add(_identity(claim), entry)
        return back

    def closed(self, cycles: Iterable[int]) -> None:
        """Removes the journals of closed cycles, unless a message comes again."""
        for cycle in cycles:
            places: set[tuple[ClientJournals, int]] = {(self._journals, cycle)}
            for key in [key for key in self._used if key[0] == cycle]:
                entry = self._used.pop(key)
                places.add((entry.journals, entry.cycle))
            for journals, number in places:
                if journals is not self._journals and not self.redeliveries.has_any_of(journals):
                    journals.forget()
                elif not self.redeliveries.holds(journals, number):
                    journals.forget(number)

    def recover(self, timeout: float) -> None:
        """Reads the journals of dead clients, whose messages the broker delivers again.

        Args:
            timeout: seconds to wait for a running task of a dead client.

        Raises:
            OSError: a journal cannot be read.
        """
        for client, journals in self._state.dead_clients(self._instance, self._client_id).items():
            if client in self._read:
                continue
            journals.seal()
            if not journals.wait(timeout):
                _log.warning(
                    "a task of a dead client still runs, so the takeover is tried again later",
                    extra={"client": client},
                )
                continue
            number = self.redeliveries.read(journals, journals.read())
            if number:
                self._read.add(client)
                _log.warning(
                    "messages of a dead client are redelivered", extra={"client": client, "number": number}
                )
            else:
                journals.forget()

    def close(self) -> None:
        """Removes the journals of this client, unless a message comes again."""
        if not self.redeliveries.has_any_of(self._journals):
            self._journals.forget()


def _identity(claim: Claim) -> str:
    return cast(BrokerClaim, claim).identity
