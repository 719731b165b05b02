"""Lots: durable claims of many messages, which outlive their client.

The claims of a lot have the sequence of the lot as their owner (:func:`.channel.lot_owner`), which is never
dead. So nobody takes over, and the messages stay claimed. Two records belong to a name. One has the number
and the queue of the last lot. The other has the client that owns the name, and ends with that client.

A new lot is three steps under the lock of the registry: the number is written, the messages are claimed, and
their number is written. In a database all three are one transaction. After a crash between the steps, the
next owner keeps what was claimed, because nobody has seen the lot yet. If nothing was claimed, the number is
a gap. A settlement is one commit record. If a crash comes before the lot is marked as settled, no claim is
left, and the next owner sees by that that the lot is settled.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from connector import faults
from connector.errors import CapabilityError, LotError, ProviderError
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.lot import Lot, LotInfo, LotPosition, LotTaking
from connector.messaging.message import Message
from connector.messaging.notes import owner_of_lots
from connector.messaging.selector import Selector, compile_selector
from connector.messaging.settlement import GroupSettlement, Settlement
from connector.stores.engine.changes import Edit, GivenBack
from connector.stores.engine.channel import Channel, lot_owner
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.client import LOT, LOT_OWNER, Client
from connector.stores.engine.registry import ClientInfo, Record
from connector.stores.engine.rules import DeliveryRules
from connector.stores.engine.settlement import LocalSettler
from connector.stores.engine.store import Reader

_CLAIMING: Final = -1
_NO_LIMIT: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class _State:
    """The last lot of a name.

    Args:
        messages: number of messages. 0 = the lot is settled. -1 = the messages are being claimed.
        client_id: of the last owner of the name. Empty = written by an earlier version.
    """

    name: str
    number: int
    sequence_id: str
    destination: Destination
    messages: int
    client_id: str

    @classmethod
    def of(cls, record: Record) -> _State:
        data: Any = record.data
        queue = parse_destination(data["destination"])
        number, messages, client_id = data["number"], data["messages"], data.get("client_id", "")
        return cls(record.key, number, data["sequence_id"], queue, messages, client_id)

    @property
    def owner(self) -> str:
        return lot_owner(self.sequence_id)

    def record(self) -> Record:
        data = {
            "number": self.number,
            "sequence_id": self.sequence_id,
            "destination": str(self.destination),
            "messages": self.messages,
            "client_id": self.client_id,
        }
        return Record(LOT, "", self.name, data, durable=True)


class LocalLot(Lot):
    def __init__(self, lots: Lots, state: _State, claims: Sequence[LocalClaim]) -> None:
        self.destination = state.destination
        self.name = state.name
        self.number = state.number
        self.sequence_id = state.sequence_id
        self.claims: Sequence[LocalClaim] = claims
        self._lots = lots

    def read(self) -> Iterator[Message]:
        self._lots.check(self)
        return self._lots.load(self.claims)

    def settle(self, outcomes: Sequence[Settlement | GroupSettlement]) -> None:
        self._lots.settle(self, outcomes)


class Lots(LotTaking):
    """The lots of a provider, as one client claims them."""

    def __init__(self, client: Client, settler: LocalSettler) -> None:
        self._client = client
        self._settler = settler
        self._readers: dict[tuple[Destination, str, str], Reader] = {}
        """By queue, owner of the claims and selector. A kept reader knows whether messages have come."""

    def claim(
        self,
        destination: Destination,
        name: str,
        limit: int,
        *,
        number: int | None = None,
        selector: str = "",
    ) -> LocalLot | None:
        if not name or limit < 1:
            raise ValueError(f"a lot needs a name and a limit from 1, found {name!r} and {limit}")
        wanted = compile_selector(selector) if selector else None
        with self._client.registry.lock():
            state = self._begin(destination, name)
            claims = self._claims(state)
            if number is not None and (not claims or number != state.number):
                what = "is settled" if number <= state.number else "does not exist"
                raise LotError(f"the lot {number} of {name!r} {what}")
            if not claims:
                return self._make(state, destination, limit, wanted)
            if state.destination != destination:
                raise LotError(f"{name!r} has the lot {state.number} of {state.destination}: settle it first")
            if state.messages == _CLAIMING:
                state = self._write(replace(state, messages=len(claims)))
            elif state.messages != len(claims):
                raise LotError(
                    f"the lot {state.number} of {name!r} has {len(claims)} of {state.messages} messages: "
                    "somebody has removed the others; connector lot NAME --give-back ends the lot"
                )
            return LocalLot(self, state, claims)

    def position(self, destination: Destination, name: str) -> LotPosition:
        with self._client.registry.lock():
            state = self._begin(destination, name)
            is_open = bool(self._claims(state))
        return LotPosition(state.sequence_id, state.number - is_open, state.number if is_open else None)

    def _begin(self, destination: Destination, name: str) -> _State:
        """Makes this client the owner of a name. Returns the last lot of the name."""
        if not destination.is_queue or destination.view or Channel(destination).can_end:
            raise CapabilityError(f"no lots are taken from {destination}: name a queue that lasts")
        self._own(name)
        state = self._state(name)
        if state is None:
            state = _State(name, 0, secrets.token_hex(8), destination, 0, self._client.info.client_id)
            self._write(state)
        return state

    def _make(
        self, last: _State, destination: Destination, limit: int, selector: Selector | None
    ) -> LocalLot | None:
        """Makes the next lot. Returns None, and mostly uses no number, if no message waits."""
        reader = self._reader(destination, last.owner, selector)
        if not reader.has_news():
            return None
        state = replace(last, number=last.number + 1, destination=destination, messages=_CLAIMING)
        self._write(state)
        faults.point("lot.number")
        claims = reader.claim(state.number, range(limit))
        faults.point("lot.claimed")
        state = self._write(replace(state, messages=len(claims)))
        faults.point("lot.list")
        return LocalLot(self, state, claims) if claims else None

    def _reader(self, destination: Destination, owner: str, selector: Selector | None) -> Reader:
        key = destination, owner, "" if selector is None else selector.text
        reader = self._readers.get(key)
        if reader is None:
            self._client.store.create(Channel(destination))
            judge = DeliveryRules(self._client.limit, selector, is_view=False, by_group=False)
            reader = self._client.store.reader(Channel(destination), judge, None, destination, owner)
            self._readers[key] = reader
        return reader

    # -- settling ------------------------------------------------------------------------------------

    def load(self, claims: Sequence[LocalClaim]) -> Iterator[Message]:
        """Yields the messages of claims. Raises as :meth:`connector.messaging.lot.Lot.read`."""
        access = self._client.store.tasks().open()
        for claim in claims:
            try:
                message = access.load(claim.reference, _NO_LIMIT)
            except LookupError as error:
                raise ProviderError(
                    f"{claim.message_id} of {claim.destination} is not claimed any more"
                ) from error
            message.destination = str(claim.destination)
            yield message

    def check(self, lot: LocalLot) -> None:
        """Checks that a lot is not settled, and that this client owns its name. Raises LotError if not."""
        with self._client.registry.lock():
            self._check(lot)

    def _check(self, lot: LocalLot) -> _State:
        if not self._check_owner(lot.name):
            raise LotError(f"this client does not own the name {lot.name!r} any more: claim the lot anew")
        state = self._state(lot.name)
        is_last = state is not None and (state.sequence_id, state.number) == (lot.sequence_id, lot.number)
        if state is None or not is_last or not state.messages:
            raise LotError(f"the lot {lot.number} of {lot.name!r} is settled")
        return state

    def settle(self, lot: LocalLot, outcomes: Sequence[Settlement | GroupSettlement]) -> None:
        """As :meth:`connector.messaging.lot.Lot.settle`."""
        settled = [claim for one in outcomes for claim in _claims_of(one)]
        if sorted(map(id, settled)) != sorted(map(id, lot.claims)):
            raise ValueError(f"the lot {lot.number} of {lot.name!r} needs one outcome of each of its claims")
        with self._client.registry.lock():
            state = self._check(lot)
            self._settler.settle(outcomes, (), (), fenced=True)
            faults.point("lot.settled")
            self._write(replace(state, messages=0))

    def give_back(self, name: str) -> LotInfo:
        with self._client.registry.lock():
            state = self._state(name)
            if state is None or not state.messages:
                known = ", ".join(sorted(one.name for one in self._open_states()))
                raise LotError(f"there is no lot of {name!r}" + (f"; there are {known}" if known else ""))
            self._own(name)
            claims = self._claims(state)
            back = [GivenBack(claim, Edit(deliveries=claim.delivery_count + 1)) for claim in claims]
            if back:
                self._client.store.apply(back, fenced=True)
            self._write(replace(state, messages=0))
        return LotInfo(state.destination, name, state.number, len(claims))

    # -- looking -------------------------------------------------------------------------------------

    def information(self) -> dict[Destination, list[LotInfo]]:
        """Returns the lots that are not settled, by queue."""
        found: dict[Destination, list[LotInfo]] = {}
        for state in self._open_states():
            owner = self._owner(state.name)
            messages = state.messages
            if owner is None or messages == _CLAIMING:  # a crash may have come before the mark
                messages = len(self._claims(state))
            if messages:
                who = owner.who if owner is not None else ""
                info = LotInfo(state.destination, state.name, state.number, messages, who)
                found.setdefault(state.destination, []).append(info)
        return found

    def _open_states(self) -> list[_State]:
        states = map(_State.of, self._client.registry.records(LOT, ""))
        return [state for state in states if state.messages]

    def close(self) -> None:
        """Ends the readers. The lots stay. Repeatable, from any thread."""
        for reader in tuple(self._readers.values()):
            reader.close()

    # -- the records ---------------------------------------------------------------------------------

    def _state(self, name: str) -> _State | None:
        for record in self._client.registry.records(LOT, ""):
            if record.key == name:
                return _State.of(record)
        return None

    def _write(self, state: _State) -> _State:
        self._client.registry.write(state.record())
        return state

    def _claims(self, state: _State) -> Sequence[LocalClaim]:
        if not state.messages:
            return ()
        return self._client.store.claims([state.owner], None).get(state.owner, ())

    def _owner(self, name: str) -> ClientInfo | None:
        """Returns the living client that owns a name."""
        for record in self._client.registry.records(LOT_OWNER, name):
            if record.owner is not None:
                return record.owner
        return None

    def _own(self, name: str) -> None:
        """Makes this client the owner of a name.

        Raises:
            LotError: another client is the owner.
        """
        if self._check_owner(name):
            return
        info = self._client.info
        self._client.registry.write(Record(LOT_OWNER, name, info.client_id, owner=info))
        if (state := self._state(name)) is not None:
            self._client.store.finish(state.owner)  # the owner before may be late, and settles nothing
            if state.client_id not in ("", info.client_id):
                self._client.store.finish(state.client_id)  # a settlement that it could not finish
            self._write(replace(state, client_id=info.client_id))

    def _check_owner(self, name: str) -> bool:
        """Whether this client is the owner of a name. Raises LotError if another client is."""
        owner, own = self._owner(name), self._client.info.client_id
        if owner is not None and owner.client_id != own:
            raise LotError(
                f"the lots of {name!r} are {owner_of_lots(owner.client_id, owner.who, owner.since)}"
            )
        return owner is not None


def _claims_of(outcome: Settlement | GroupSettlement) -> Sequence[Claim]:
    return outcome.claims if isinstance(outcome, GroupSettlement) else (outcome.claim,)
