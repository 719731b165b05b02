"""The transactions of a broker: claims that are settled together, and messages that are redelivered.

A broker settles all messages of a transaction or none. So a decided event waits until the whole transaction
is decided. If one event has to go back, the transaction is rolled back, and the broker delivers all its
messages again. :class:`Redeliveries` remembers how far their events were: a done event is settled without
running, a begun event runs with a higher delivery count.

The journal of a batch says so until its transaction is settled. After a rollback, and after a takeover, a
record of this client says so. Both survive a crash.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple, cast

from connector.events.outcome import Outcome, join_names
from connector.events.schedule import EndedClaims
from connector.events.settling import given_back
from connector.messaging.claim import BrokerClaim, Claim
from connector.messaging.destination import Destination
from connector.messaging.message import PropertyValue
from connector.messaging.provider import Connection, TransactionalConnection
from connector.state.store import BrokerJournals, BrokerStateStore, CycleJournal, StateStore
from connector.status import OutcomeKind

_log: Final = logging.getLogger("connector.recovery")


class Redelivery(NamedTuple):
    """How far the event of a redelivered message was.

    Args:
        destination: the input, as text.
        outcome: of a done event. None = the event runs again.
        begun: deliveries that were begun.
        properties: of the message that say who has confirmed.
        sends: messages to send with the final outcome, as in :class:`~connector.events.outcome.Outcome`.
    """

    destination: str
    outcome: Outcome | None = None
    begun: int = 0
    properties: Mapping[str, PropertyValue] = {}
    sends: tuple[Any, ...] = ()

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Redelivery:
        """Undoes :meth:`to_list`."""
        destination, outcome, begun, properties, sends = values
        known = None if outcome is None else Outcome.from_list(list(outcome))
        return cls(destination, known, begun, properties, tuple(sends))

    def to_list(self) -> list[Any]:
        """Returns values that JSON can carry."""
        outcome = None if self.outcome is None else list(self.outcome)
        return [self.destination, outcome, self.begun, dict(self.properties), self.sends]

    def after(self, outcome: Outcome, begun: int) -> Redelivery:
        """Returns the entry after another delivery, begun ``begun`` times, which ended with ``outcome``."""
        sends = (*self.sends, *outcome.sends)
        if not outcome.comes_again:
            return Redelivery(self.destination, outcome._replace(sends=sends))
        properties = dict(self.properties)
        if outcome.delivered:
            properties["connector_outcome"] = outcome.kind
            properties["connector_delivered"] = join_names(outcome.delivered)
        counts = outcome.kind == OutcomeKind.ROLLED_BACK.value or outcome.must_repeat
        return Redelivery(self.destination, None, self.begun + (begun if counts else 0), properties, sends)


class Redeliveries:
    """The entries of messages that the broker delivers again, by identity.

    An entry stands for one delivery. The entry settles one message at most, and is then used up.
    """

    def __init__(self) -> None:
        self._entries: dict[str, list[Redelivery]] = {}
        self._numbers: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._numbers.total()

    def add(self, identity: str, entry: Redelivery) -> None:
        """Remembers an entry."""
        self._entries.setdefault(identity, []).append(entry)
        self._numbers[entry.destination] += 1

    def has(self, destination: Destination) -> bool:
        """Whether messages of an input are redelivered. Then one message at a time is polled there."""
        return self._numbers[str(destination)] > 0

    def take(self, identity: str) -> Redelivery | None:
        """Removes and returns the oldest entry of a message. None if the message is new."""
        entries = self._entries.get(identity)
        if not entries:
            return None
        entry = entries.pop(0)
        if not entries:
            del self._entries[identity]
        self._numbers[entry.destination] -= 1
        return entry

    def to_list(self) -> list[tuple[str, list[Any]]]:
        """Returns values that JSON can carry."""
        return [(identity, one.to_list()) for identity, entries in self._entries.items() for one in entries]

    def read(self, journals: BrokerJournals, committed: Set[int]) -> None:
        """Adds the entries of a dead client.

        Args:
            committed: cycles that are settled, although their journals may be there.

        Raises:
            OSError: a journal cannot be read.
        """
        found = Redeliveries()
        for identity, values in journals.redeliveries():
            found.add(identity, Redelivery.from_list(values))
        for cycle, journal in journals.read().items():
            for sequence, (destination, identity) in journal.claims.items():
                before = found.take(identity) or Redelivery(destination)
                entry = _after_journal(before, journal, sequence)
                if cycle not in committed and entry != Redelivery(
                    destination
                ):  # an untouched event is like a new one
                    found.add(identity, entry)
        for identity, entries in found._entries.items():
            for entry in entries:
                self.add(identity, entry)


def _after_journal(before: Redelivery, journal: CycleJournal, sequence: int) -> Redelivery:
    """Returns the entry of a message after the delivery that a journal describes."""
    values = journal.done.get(sequence)
    begun = journal.begun.get(sequence, 0)
    if isinstance(values, list):
        return before.after(Outcome.from_list(values), begun)
    return before._replace(begun=before.begun + (begun or journal.at_work.get(sequence, 0)))


class Transactions:
    """The open transactions of one connection, by cycle.

    Args:
        connection: to the broker.
        state: of the application.
        instance: name of this adapter.
    """

    def __init__(self, connection: Connection, state: StateStore, instance: str) -> None:
        self.redeliveries = Redeliveries()
        self._state = cast(BrokerStateStore, state)
        self._instance = instance
        self._connection = cast(TransactionalConnection, connection)
        self._journals = self._state.journals(connection.client_id, instance)
        self._sizes: dict[int, int] = {}
        self._ended: dict[int, EndedClaims] = {}
        self._used: dict[tuple[int, int], tuple[str, Redelivery]] = {}
        """The entries of open transactions with their identities, by cycle and sequence."""
        self._recorded = 0

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
        names: dict[int, tuple[str, str]] = {}
        for claim in cast(Sequence[BrokerClaim], claims):
            self._sizes[claim.cycle] = self._sizes.get(claim.cycle, 0) + 1
            entry = self.redeliveries.take(claim.identity)
            if entry is not None:
                self._used[claim.cycle, claim.sequence] = claim.identity, entry
                if entry.outcome is not None:
                    done.append((claim, entry.outcome))
                    continue
                claim.amend(entry.begun, entry.properties)
            running.append(claim)
            names[claim.sequence] = str(claim.destination), claim.identity
        if running:
            self._journals.note_claims(running[0].cycle, names)
        return running, done

    def complete(self, ended_claims: EndedClaims) -> EndedClaims:
        """Adds claims that leave the schedule. Returns the claims of whole decided transactions.

        If one claim of a transaction goes back, all go back. The outcomes of the others are remembered.
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
                ended.decided = [(claim, self._with_sends(claim, one)) for claim, one in ended.decided]
            found.decided += ended.decided
            found.returned += ended.returned
        return found

    def _entry(self, claim: Claim) -> Redelivery:
        """Returns the entry that a claim has used, or a new one."""
        used = self._used.get((claim.cycle, claim.sequence))
        return Redelivery(str(claim.destination)) if used is None else used[1]

    def _with_sends(self, claim: Claim, outcome: Outcome) -> Outcome:
        entry = self._entry(claim)
        if not entry.sends or entry.outcome is not None:
            return outcome
        return outcome._replace(sends=(*entry.sends, *outcome.sends))

    def _rolled_back(self, ended: EndedClaims) -> EndedClaims:
        back = EndedClaims()
        for claim, outcome in ended.decided:
            entry = self._entry(claim)
            if outcome.comes_again:
                begun = given_back(claim, outcome).delivery_count - entry.begun
                entry = entry.after(outcome, 0)._replace(begun=entry.begun + max(0, begun))
                back.decided.append((claim, outcome))
            else:
                entry = entry if entry.outcome is not None else entry.after(outcome, 0)
                back.returned.append((claim, 0))
            self.redeliveries.add(_identity(claim), entry)
        for claim, begun in ended.returned:
            back.returned.append((claim, begun))
            entry = self._entry(claim)
            entry = entry._replace(begun=entry.begun + begun)
            if entry != Redelivery(str(claim.destination)):
                self.redeliveries.add(_identity(claim), entry)
        return back

    def closed(self, cycles: Iterable[int]) -> None:
        """Records the entries that are left after the end of transactions, and removes their journals.

        Raises:
            ProviderError: the record cannot be written.
        """
        ended = set(cycles)
        if not ended:
            return
        for key in [key for key in self._used if key[0] in ended]:
            del self._used[key]
        self._record()
        for cycle in ended:
            self._journals.forget(cycle)

    def _record(self) -> None:
        """Writes the entries, with those of open transactions, unless there were and are none."""
        entries = self.redeliveries.to_list()
        entries += [(identity, entry.to_list()) for identity, entry in self._used.values()]
        if entries or self._recorded:
            self._journals.note_redeliveries(entries)
        self._recorded = len(entries)

    def recover(self, timeout: float) -> None:
        """Takes over the entries of dead clients, whose messages the broker delivers again.

        Args:
            timeout: seconds to wait for a running task of a dead client.

        Raises:
            OSError: a journal cannot be read.
            ProviderError: the record cannot be written.
        """
        dead = self._state.dead_clients(self._instance, self._connection.client_id)
        for client, journals in dead.items():
            journals.seal()
            if not journals.wait(timeout):
                _log.warning(
                    "a task of a dead client still runs, so the takeover is tried again later",
                    extra={"client": client},
                )
                continue
            before = len(self.redeliveries)
            self.redeliveries.read(journals, self._connection.committed_cycles(client))
            number = len(self.redeliveries) - before
            self._record()
            journals.forget()
            self._connection.remove_markers(client)
            if number:
                fields = {"client": client, "number": number}
                _log.warning("messages of a dead client are redelivered", extra=fields)

    def close(self) -> None:
        """Removes the journals of this client, unless a message is redelivered later."""
        if not len(self.redeliveries):
            self._journals.forget()


def _identity(claim: Claim) -> str:
    return cast(BrokerClaim, claim).identity
