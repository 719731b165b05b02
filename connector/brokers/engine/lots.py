"""Lots at a broker: durable claims of many messages, as copies in a queue of the adapter.

One transaction takes the messages from their queue, and sends a copy of each. Another one takes the copies,
and sends what the outcomes ask for. A copy is persistent and does not expire. It is read by browsing, which
counts as no delivery.

Each of these transactions also replaces the *mark* of the sequence: a small message in the same queue, with
the last number and the number of messages of that lot. The mark is taken just before the commit. So nobody
sees the mark while the commit of a dead owner may still come. The next owner waits for the mark, and knows by
it what has happened.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from connector import faults
from connector.brokers.engine.access import RemoteAccess, post_prepared, sendable
from connector.brokers.engine.broker import (
    NO_LIMIT,
    BrokerSession,
    CommitUnknown,
    Received,
    UnreadableMessage,
)
from connector.brokers.engine.broker_client import BrokerClientConnection
from connector.brokers.engine.claims import BEGUN, LentClaim, remove
from connector.brokers.engine.copies import copy_of, moved_copy
from connector.brokers.engine.later import LaterMessages
from connector.brokers.engine.lot_names import (
    MESSAGES,
    NAME,
    NUMBER,
    QUEUE,
    SEQUENCE,
    LotNames,
    Mark,
    NameRecord,
    OwnedName,
    integer,
)
from connector.brokers.engine.probe import refusal_of
from connector.brokers.engine.silence import ANSWER, BrokerSilent
from connector.brokers.engine.transaction_limits import TransactionLimits
from connector.errors import (
    CapabilityError,
    ClaimLost,
    ConnectorError,
    LotError,
    ProviderError,
    UnknownDestination,
)
from connector.messaging.destination import Destination
from connector.messaging.lot import Lot, LotInfo, LotPosition, LotTaking
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.settlement import GroupSettlement, Settlement, one_by_one

_POSITION: Final = "connector_lot_position"
_MODE: Final = "connector_lot_mode"
_OURS: Final = (NAME, SEQUENCE, NUMBER, QUEUE, _POSITION, _MODE)
"""Properties of copies. The last two are the place in the lot, and the delivery mode of a message that is not
persistent."""

_LOOK: Final = 0.1
"""Seconds of a first look for another message, and between two looks."""
_MARK_BYTES: Final = 1 << 16

Found = TypeVar("Found")


class RemoteLot(Lot):
    def __init__(
        self,
        lots: RemoteLots,
        record: NameRecord,
        mark: Mark,
        claims: Sequence[LentClaim],
        *,
        ends_at_limit: bool = False,
    ) -> None:
        self.destination = mark.destination
        self.name = record.name
        self.number = mark.number
        self.sequence_id = record.sequence_id
        self.claims: Sequence[LentClaim] = claims
        self.ends_at_limit = ends_at_limit
        self._lots = lots

    def read(self) -> Iterator[Message]:
        self._lots.check(self)
        return map(self._load, self.claims)

    def _load(self, claim: LentClaim) -> Message:
        message = RemoteAccess().load(claim.reference, NO_LIMIT)
        message.destination = str(self.destination)
        return message

    def settle(self, outcomes: Sequence[Settlement | GroupSettlement]) -> None:
        self._lots.settle(self, outcomes)


class RemoteLots(LotTaking):
    """The lots of a broker, as one client claims them.

    Args:
        later: the messages that come again later. None = this client is no adapter.
    """

    def __init__(
        self,
        client: BrokerClientConnection,
        names: LotNames,
        limits: TransactionLimits,
        later: LaterMessages | None,
    ) -> None:
        self._client = client
        self._connection = client.broker
        self.names = names
        self._limits = limits
        self._later = later
        self._lots: dict[str, RemoteLot] = {}
        """The last lot of each name. The messages of a lot never change."""
        self._allowed: dict[Destination, int] = {}
        """Messages of the next lot of a queue, at most: one after a message that nobody can read."""

    # -- making --------------------------------------------------------------------------------------

    def claim(
        self,
        destination: Destination,
        name: str,
        limit: int,
        *,
        number: int | None = None,
        selector: str = "",
    ) -> RemoteLot | None:
        if not name or limit < 1:
            raise ValueError(f"a lot needs a name and a limit from 1, found {name!r} and {limit}")
        owned = self._own(destination, name)
        mark, lot = self._look(owned)
        if number is not None and (lot is None or number != lot.number):
            what = "is settled" if number <= mark.number else "does not exist"
            raise LotError(f"the lot {number} of {name!r} {what}")
        if lot is None:
            return self._make(owned, mark, destination, limit, selector)
        if lot.destination != destination:
            raise LotError(f"{name!r} has the lot {lot.number} of {lot.destination}: settle it first")
        return lot

    def position(self, destination: Destination, name: str) -> LotPosition:
        owned = self._own(destination, name)
        mark, lot = self._look(owned)
        number = None if lot is None else lot.number
        return LotPosition(owned.record.sequence_id, mark.number - (lot is not None), number)

    def _own(self, destination: Destination, name: str) -> OwnedName:
        if not destination.is_queue or destination.view or destination in self._client.temporaries:
            raise CapabilityError(f"no lots are taken from {destination}: name a queue that lasts")
        owned = self.names.own(name)
        if not owned.record.sequence_id:
            self._begin(owned, destination)
        return owned

    def _begin(self, owned: OwnedName, destination: Destination) -> None:
        """Begins a sequence. Its first mark is there before anybody knows the sequence."""
        record = replace(owned.record, sequence_id=secrets.token_hex(8))
        mark = Mark(record.number, 0, destination)
        with contextlib.closing(self._connection.session()) as session:
            session.send(owned.queue, record.message(mark))
            session.commit()
        owned.write(record, sync=True)
        owned.mark = mark

    def _make(
        self, owned: OwnedName, last: Mark, destination: Destination, limit: int, selector: str
    ) -> RemoteLot | None:
        """Makes the next lot. Returns None if no message waits."""
        allowed = self._allowed.get(destination, self._limits.lot)
        most = min(limit, allowed)
        try:
            lot = self._move(owned, last, destination, most, selector)
        except UnreadableMessage:
            self._allowed[destination] = 1  # the messages before that one have lots of their own
            if most == 1:
                raise
            return self._make(owned, last, destination, 1, selector)
        self._allowed[destination] = min(self._limits.lot, allowed * 2)
        return lot

    def _move(
        self, owned: OwnedName, last: Mark, destination: Destination, most: int, selector: str
    ) -> RemoteLot | None:
        with contextlib.closing(self._connection.session()) as session:
            found, ends_at_limit = self._receive(session, destination, most, selector)
            if not found:
                return None
            number = max(last.number, owned.record.number) + 1
            owned.write(replace(owned.record, number=number))
            faults.point("lot.number")
            mark = Mark(number, len(found), destination)
            claims = []
            for position, received in enumerate(found):
                claim = LentClaim(self._client.client_id, (number, position), destination, received)
                copied = claim.reference.message
                marks = {**owned.record.properties(mark), _POSITION: position, BEGUN: claim.carried}
                if copied.delivery_mode == NON_PERSISTENT:
                    marks[_MODE] = NON_PERSISTENT
                copy = moved_copy(copied, marks, expires=False)
                copy.delivery_mode = PERSISTENT
                session.post(owned.queue, copy, copied=copied)
                claims.append(claim)
            self._commit(session, owned, last, mark)
        faults.point("lot.claimed")
        return self._keep(owned, mark, claims, ends_at_limit=ends_at_limit)

    def _receive(
        self, session: BrokerSession, destination: Destination, most: int, selector: str
    ) -> tuple[list[Received], bool]:
        """Returns the messages of a lot, and whether more may wait."""
        receiver = session.receiver(destination, selector, self._limits.max_body)
        found: list[Received] = []
        room = self._limits.batch_bytes
        while len(found) < most and room > 0:
            more = receiver.receive(_LOOK, most - len(found), room)
            if not more and not (more := receiver.receive(0.0, most - len(found), room)):
                break
            found += more
            room -= sum(len(one.message.body) for one in more)
        receiver.close()
        return found, len(found) >= most or room <= 0

    def _commit(self, session: BrokerSession, owned: OwnedName, last: Mark, mark: Mark) -> None:
        """Replaces the mark, and commits."""
        owned.mark = None  # until the broker has answered
        session.post(owned.queue, owned.record.message(mark))
        session.check_sends()
        receiver = session.receiver(owned.queue, owned.selector(), _MARK_BYTES)
        if not (found := receiver.receive(ANSWER)):
            raise BrokerSilent(f"the mark of the lots of {owned.record.name!r} does not come")
        if [Mark.of(one.message) for one in found] != [last]:
            raise ProviderError(f"the mark of the lots of {owned.record.name!r} has changed: try again")
        receiver.close()
        faults.point("settle.committing")
        session.commit()
        owned.mark = mark

    # -- looking -------------------------------------------------------------------------------------

    def _look(self, owned: OwnedName) -> tuple[Mark, RemoteLot | None]:
        """Returns the mark of a name, and the lot that is not settled."""
        mark, record = self._mark(owned), owned.record
        if not mark.messages:
            return mark, None
        lot = self._lots.get(record.name)
        if lot is not None and (lot.sequence_id, lot.number) == (record.sequence_id, mark.number):
            return mark, lot
        claims = self._claims(owned, mark)
        if len(claims) != mark.messages:
            raise LotError(
                f"the lot {mark.number} of {record.name!r} has {len(claims)} of {mark.messages} messages in "
                f"{owned.queue}: a client there has the others, or somebody has removed them; connector lot "
                "NAME --give-back ends the lot"
            )
        return mark, self._keep(owned, mark, claims)

    def _keep(
        self, owned: OwnedName, mark: Mark, claims: Sequence[LentClaim], *, ends_at_limit: bool = False
    ) -> RemoteLot:
        lot = RemoteLot(self, owned.record, mark, claims, ends_at_limit=ends_at_limit)
        self._lots[owned.record.name] = lot
        return lot

    def _mark(self, owned: OwnedName) -> Mark:
        """Returns the mark of a name.

        Raises:
            ProviderError: nobody sees the mark.
        """
        if owned.mark is None:
            found = _soon(lambda: list(map(Mark.of, self._browse(owned.queue, owned.selector()))), 1)
            if not found:
                raise ProviderError(
                    f"a transaction of the last owner of the lots of {owned.record.name!r} is open: try "
                    f"again later. If somebody has emptied {owned.queue}, remove {owned.file.path}"
                )
            owned.mark = found[0]
        return owned.mark

    def _claims(self, owned: OwnedName, mark: Mark) -> list[LentClaim]:
        """Returns the messages of the lot of a mark, as far as they are seen."""
        return _soon(lambda: self._look_at(owned, mark), mark.messages)

    def _look_at(self, owned: OwnedName, mark: Mark) -> list[LentClaim]:
        reasons: dict[int, str] = {}

        def note(message: Message, reason: str) -> None:
            reasons[id(message)] = reason

        found = []
        for message in self._browse(owned.queue, owned.selector(mark.number), note):
            ours = mark.number, integer(message, _POSITION)
            if _MODE in remove(message, _OURS):
                message.delivery_mode = NON_PERSISTENT
            message.destination = str(mark.destination)
            received = Received(message, len(message.body), reasons.get(id(message), ""))
            if received.size > self._limits.max_body:
                message.body = b""
            found.append(LentClaim(self._client.client_id, ours, mark.destination, received))
        return sorted(found, key=lambda claim: claim.sequence)

    def _browse(
        self, queue: Destination, selector: str, unreadable: Callable[[Message, str], object] | None = None
    ) -> Iterator[Message]:
        try:
            yield from self._connection.browse(queue, selector, unreadable)
        except UnknownDestination:
            return

    def information(self) -> dict[Destination, list[LotInfo]]:
        """Returns the lots that are not settled, by queue. Without those that just now change."""
        known = {record.sequence_id: (record, lives) for record, lives in self.names.records()}
        found: dict[Destination, list[LotInfo]] = {}
        for queue in sorted({record.queue for record, _ in known.values()}):
            for message in self._browse(Destination("queue", queue), f"{MESSAGES} > 0"):
                record, lives = known.get(str(message.properties.get(SEQUENCE)), (None, False))
                if record is not None:
                    mark = Mark.of(message)
                    owner = record.who if lives else ""
                    info = LotInfo(mark.destination, record.name, mark.number, mark.messages, owner)
                    found.setdefault(mark.destination, []).append(info)
        return found

    # -- settling ------------------------------------------------------------------------------------

    def check(self, lot: RemoteLot) -> tuple[OwnedName, Mark]:
        """Returns name and mark of a lot. Raises LotError if the lot is settled, or the name is not ours."""
        self._client.check()
        owned = self.names.owned(lot.name)
        if owned is None:
            raise LotError(f"this client does not own the name {lot.name!r} any more: claim the lot anew")
        mark = self._mark(owned)
        is_last = (owned.record.sequence_id, mark.number) == (lot.sequence_id, lot.number)
        if not is_last or not mark.messages:
            raise LotError(f"the lot {lot.number} of {lot.name!r} is settled")
        return owned, mark

    def settle(self, lot: RemoteLot, outcomes: Sequence[Settlement | GroupSettlement]) -> None:
        """As :meth:`connector.messaging.lot.Lot.settle`."""
        settlements = one_by_one(outcomes)
        if sorted(id(one.claim) for one in settlements) != sorted(map(id, lot.claims)):
            raise ValueError(f"the lot {lot.number} of {lot.name!r} needs one outcome of each of its claims")
        if any(one.published is not None for one in settlements):
            raise CapabilityError("a lot at a broker adds no published ids to the duplicate window")
        self._settle(*self.check(lot), settlements)

    def give_back(self, name: str) -> LotInfo:
        owned = self.names.own(name) if self.names.is_known(name) else None
        mark = self._mark(owned) if owned is not None and owned.record.sequence_id else None
        if owned is None or mark is None or not mark.messages:
            known = ", ".join(sorted(lot.name for lots in self.information().values() for lot in lots))
            raise LotError(f"there is no lot of {name!r}" + (f"; there are {known}" if known else ""))
        claims = self._claims(owned, mark)
        back = [
            Settlement(claim, give_back=True, delivery_count=claim.delivery_count + 1) for claim in claims
        ]
        self._settle(owned, mark, back)
        return LotInfo(mark.destination, name, mark.number, len(claims))

    def _settle(self, owned: OwnedName, mark: Mark, settlements: Sequence[Settlement]) -> None:
        try:
            with contextlib.closing(self._connection.session()) as session:
                received = self._take_copies(session, owned, mark, len(settlements))
                if any(self._is_near(one) for one in received.values()):
                    for message in received.values():  # anew, with a count of their own
                        session.post(owned.queue, sendable(message), copied=message)
                    self._commit(session, owned, mark, mark)
                    received = self._take_copies(session, owned, mark, len(settlements))
                for one in settlements:
                    self._send(session, one, received[one.claim.sequence])
                self._commit(session, owned, mark, mark._replace(messages=0))
        except ClaimLost:
            self._lots.pop(owned.record.name, None)
            raise
        except CommitUnknown:
            raise
        except (ConnectorError, ValueError) as error:
            raise refusal_of(self._connection, error) from error
        faults.point("lot.settled")

    def _is_near(self, message: Message) -> bool:
        """Whether the broker puts a message aside soon."""
        limit = self._limits.redelivery_limit
        return limit is not None and message.delivery_count >= max(2, limit - 1)

    def _take_copies(
        self, session: BrokerSession, owned: OwnedName, mark: Mark, number: int
    ) -> dict[int, Message]:
        """Receives the copies of a lot. Returns them by their places.

        Raises:
            ClaimLost: the broker does not show a copy any more.
            BrokerSilent: a copy that the broker shows does not come.
        """
        receiver = session.receiver(owned.queue, owned.selector(mark.number), self._limits.max_body)
        found: dict[int, Message] = {}
        while len(found) < number:
            more = receiver.receive(ANSWER, number - len(found))
            if not more:
                if any(self._browse(owned.queue, owned.selector(mark.number))):
                    raise BrokerSilent(f"messages of the lot of {owned.record.name!r} do not come")
                raise ClaimLost(
                    f"nothing was settled: {number - len(found)} of {number} messages of the lot "
                    f"{mark.number} of {owned.record.name!r} are gone from {owned.queue}"
                )
            found.update((integer(one.message, _POSITION), one.message) for one in more)
        receiver.close()
        return found

    def _send(self, session: BrokerSession, settlement: Settlement, copied: Message) -> None:
        """Adds the messages of an outcome to the transaction."""
        for prepared in settlement.sends:
            post_prepared(self._connection, session, prepared)
        claim = settlement.claim
        if settlement.due and self._later is not None:
            self._later.post(session, settlement, str(claim.destination), copied)
        elif settlement.give_back:
            marks = {**settlement.properties, BEGUN: max(0, settlement.delivery_count)}
            back = moved_copy(claim.reference.message, marks, expires=True)
            session.post(claim.destination, back, copied=copied)
        elif settlement.copy_to is not None:
            session.post(settlement.copy_to, copy_of(settlement), copied=copied)


def _soon(look: Callable[[], list[Found]], number: int) -> list[Found]:
    """Returns what is found, as soon as it is a number of things, or after a while."""
    deadline = time.monotonic() + ANSWER
    while len(found := look()) < number and time.monotonic() < deadline:
        time.sleep(_LOOK)
    return found
