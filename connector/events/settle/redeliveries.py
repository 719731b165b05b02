"""Messages that a broker delivers again, with what is known of their events.

A broker gives back all messages of a transaction or none. The record says how far the event of each message
was: a done event is settled without running, a begun event runs with a higher delivery count. All instances
of the application use one record, because the broker gives the messages to any of them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

from connector.events.outcome import Outcome, join_names
from connector.messaging.destination import Destination
from connector.messaging.message import PropertyValue
from connector.messaging.state_store import CycleJournal, RedeliveryNote, RedeliveryRecord
from connector.status import OutcomeKind

_PATIENCE: Final = 60.0
"""Seconds for which an input is polled carefully after a rollback, if its messages do not come."""

ClaimNumber = tuple[int, int]
"""Cycle and sequence of a claim."""


class Redelivery(NamedTuple):
    """How far the event of a redelivered message was.

    Args:
        destination: the input, as text.
        outcome: of a done event. None = the event runs again.
        begun: deliveries that were begun, beside those that the message itself carries.
        properties: of the message that say who has confirmed.
        sends: messages to send with the final outcome, as in :class:`~connector.events.outcome.Outcome`.
        expiration: JMSExpiration of the message in milliseconds since 1970. 0 = the message never expires.
    """

    destination: str
    outcome: Outcome | None = None
    begun: int = 0
    properties: Mapping[str, PropertyValue] = {}
    sends: tuple[Any, ...] = ()
    expiration: int = 0

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Redelivery:
        """Undoes :meth:`to_list`."""
        destination, outcome, begun, properties, sends, *rest = values  # earlier versions know no expiration
        known = None if outcome is None else Outcome.from_list(list(outcome))
        return cls(destination, known, begun, properties, tuple(sends), *rest)

    def to_list(self) -> list[Any]:
        """Returns values that JSON can carry."""
        outcome = None if self.outcome is None else list(self.outcome)
        return [self.destination, outcome, self.begun, dict(self.properties), self.sends, self.expiration]

    def after(self, outcome: Outcome, begun: int) -> Redelivery:
        """Returns the entry after another delivery, begun ``begun`` times, which ended with ``outcome``."""
        sends = (*self.sends, *outcome.sends)
        if not outcome.rolls_back:
            return Redelivery(self.destination, outcome._replace(sends=sends), expiration=self.expiration)
        properties = dict(self.properties)
        if outcome.delivered:
            properties["connector_outcome"] = outcome.kind
            properties["connector_delivered"] = join_names(outcome.delivered)
        counts = outcome.kind == OutcomeKind.ROLLED_BACK or outcome.must_repeat
        begun = self.begun + (begun if counts else 0)
        return self._replace(outcome=None, begun=begun, properties=properties, sends=sends)

    def after_journal(self, journal: CycleJournal, sequence: int) -> Redelivery:
        """Returns the entry after the delivery that a journal describes."""
        values = journal.done.get(sequence)
        begun = journal.begun.get(sequence, 0)
        if isinstance(values, list):
            return self.after(Outcome.from_list(values), begun)
        return self._replace(begun=self.begun + (begun or journal.at_work.get(sequence, 0)))

    @property
    def is_new(self) -> bool:
        """Whether nothing is known, as of a message that comes for the first time."""
        return self == Redelivery(self.destination, expiration=self.expiration)


class Taken(NamedTuple):
    """An entry whose message was received again.

    Args:
        client, cycle: the transaction that was rolled back.
    """

    entry: Redelivery
    client: str
    cycle: int


class Redeliveries:
    """The entries of redelivered messages, as one client uses them.

    An entry stands for one delivery. A claim *holds* the entry of its message while its transaction is open.
    An entry settles one message at most.

    Every method raises ProviderError if the record cannot be used.
    """

    def __init__(self, record: RedeliveryRecord, client_id: str) -> None:
        self._record = record
        self._client_id = client_id

    def has(self, destination: Destination) -> bool:
        """Whether messages of an input are awaited. Then one message at a time is polled there."""
        name, since = str(destination), time.time() - _PATIENCE
        return any(
            not note.holder and note.values[0] == name and note.since > since for note in self._record.read()
        )

    def published_keys(self) -> frozenset[str]:
        """Returns the duplicate keys by values of published events whose messages are awaited."""
        entries = (Redelivery.from_list(note.values) for note in self._record.read())
        found = [one.outcome for one in entries if one.outcome is not None and one.outcome.keys]
        published = [one.keys for one in found if one.kind == OutcomeKind.PUBLISHED]
        return frozenset(key for keys in published for key in keys.split("\n"))

    def take(self, claims: Iterable[tuple[ClaimNumber, str]]) -> dict[ClaimNumber, Taken]:
        """Returns the oldest entry of each claimed message that has one, and lets the claim hold it.

        Args:
            claims: place and identity of each claim.
        """
        wanted = dict(claims)
        names = {note.identity for note in self._record.read() if not note.holder}
        if names.isdisjoint(wanted.values()):
            return {}
        found: dict[ClaimNumber, Taken] = {}
        with self._record.change() as notes:
            for place, identity in wanted.items():
                for note in notes:
                    if not note.holder and note.identity == identity:
                        note.holder = self._name(place)
                        client, cycle, _ = note.origin.split("/")
                        found[place] = Taken(Redelivery.from_list(note.values), client, int(cycle))
                        break
        return found

    def put(self, entries: Iterable[tuple[ClaimNumber, str, Redelivery]]) -> None:
        """Adds the entries of a transaction before its rollback. They replace those that its claims hold.

        Args:
            entries: place, identity and entry of each claim of the transaction.
        """
        added = [(self._name(place), identity, entry) for place, identity, entry in entries]
        names = {name for name, _, _ in added}
        if all(entry.is_new for _, _, entry in added) and not self._is_holding(names):
            return
        with self._record.change() as notes:
            notes[:] = [note for note in notes if note.holder not in names]
            notes += [_note(identity, name, entry) for name, identity, entry in added if not entry.is_new]

    def remove_settled(self, places: Collection[ClaimNumber]) -> None:
        """Removes the entries that settled claims hold."""
        names = {self._name(place) for place in places}
        if self._is_holding(names):
            with self._record.change() as notes:
                notes[:] = [note for note in notes if note.holder not in names]

    def _is_holding(self, names: Set[str]) -> bool:
        return any(note.holder in names for note in self._record.read())

    def remove_committed(self, client: str, cycle: int) -> None:
        """Removes the entries of a transaction that turns out to be committed."""
        with self._record.change() as notes:
            notes[:] = [note for note in notes if note.holder or _transaction(note.origin) != (client, cycle)]

    def remove_expired(self) -> set[tuple[str, int]]:
        """Removes the entries of awaited messages that have expired. Returns client and cycle of each.

        The broker does not deliver an expired message again.
        """
        until = time.time() - _PATIENCE  # the broker has a clock of its own, and a commit may come late
        if not any(_is_expired(note, until) for note in self._record.read()):
            return set()
        with self._record.change() as notes:
            expired = {_transaction(note.origin) for note in notes if _is_expired(note, until)}
            notes[:] = [note for note in notes if not _is_expired(note, until)]
        return expired

    def origins(self, client: str) -> set[tuple[str, int]]:
        """Returns client and cycle of the transactions whose messages a client has received again."""
        held = (note for note in self._record.read() if note.holder.startswith(f"{client}/"))
        return {_transaction(note.origin) for note in held}

    def adopt(
        self,
        client: str,
        journals: Mapping[int, CycleJournal],
        committed: Set[int],
        pending: Set[int] = frozenset(),
    ) -> int:
        """Takes over the entries of a dead client, and adds those of its open transactions. Repeatable.

        Args:
            client: the dead client.
            journals: of its transactions, by cycle.
            committed: cycles that are settled, although their journals may be there.
            pending: cycles whose commits have an unknown end. If their messages come again, the commits have
                not happened.

        Returns:
            the number of messages with an entry that are awaited now.
        """
        number = 0
        with self._record.change() as notes:
            held = {note.holder: note for note in notes if note.holder.startswith(f"{client}/")}
            known = {note.origin for note in notes}
            for cycle, journal in journals.items():
                for sequence, claim in journal.claims.items():
                    name = f"{client}/{cycle}/{sequence}"
                    note = held.get(name)
                    if cycle in committed or name in known:
                        continue
                    new = Redelivery(claim.destination, expiration=claim.expiration)
                    before = new if note is None else Redelivery.from_list(note.values)
                    entry = before.after_journal(journal, sequence)
                    if entry.is_new and cycle not in pending:
                        continue
                    number += not entry.is_new
                    if note is None:
                        notes.append(_note(claim.identity, name, entry))
                    else:
                        note.values = entry.to_list()
            for name, note in held.items():
                if _transaction(name)[1] in committed:
                    notes.remove(note)
                else:
                    note.origin, note.holder, note.since = name, "", time.time()
        return number

    def _name(self, place: ClaimNumber) -> str:
        return f"{self._client_id}/{place[0]}/{place[1]}"


def _note(identity: str, origin: str, entry: Redelivery) -> RedeliveryNote:
    return RedeliveryNote(identity, origin, "", time.time(), entry.to_list())


def _is_expired(note: RedeliveryNote, until: float) -> bool:
    expiration = Redelivery.from_list(note.values).expiration
    return not note.holder and expiration > 0 and max(note.since, expiration / 1000) < until


def _transaction(name: str) -> tuple[str, int]:
    """Returns client and cycle of a claim by its name."""
    client, cycle, _ = name.split("/")
    return client, int(cycle)
