"""A lot keeps its number and its messages until it is settled, whoever owns its name."""

from __future__ import annotations

import pytest

from connector.errors import CapabilityError, ConnectorError, LotError, SessionStateError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.lot import Lot, LotInfo, LotPosition
from connector.messaging.provider import Connection, Provider
from connector.messaging.settlement import GroupSettlement, Settlement
from tests.provider_suite.base import (
    ARCHIVE,
    IN_PROGRESS,
    NOTES,
    ORDERS,
    PRICES,
    Connect,
    SuiteBase,
    needs,
)

NAME = "to-lake"


class LotsRefusedTests(SuiteBase):
    @needs("lots", has=False)
    def test_lots_are_refused(self, connection: Connection) -> None:
        with pytest.raises(CapabilityError, match="lots"):
            connection.lots.claim(ORDERS, NAME, 1)
        with pytest.raises(CapabilityError, match="lots"):
            connection.lots.give_back(NAME)
        with pytest.raises(CapabilityError, match="lots"):
            connection.lots.position(ORDERS, NAME)

    @needs("lots", has=False)
    def test_a_program_is_refused(self, provider: Provider) -> None:
        with self.client_class(provider) as connection, pytest.raises(CapabilityError, match="lots"):
            connection.claim_lot(ORDERS, NAME, 1)


@needs("lots")
class LotTests(SuiteBase):
    def lot(self, connection: Connection, limit: int = 10, name: str = NAME) -> Lot:
        """Returns the lot of a name, which has messages."""
        lot = connection.lots.claim(ORDERS, name, limit)
        assert lot is not None
        return lot

    def filled(self, connection: Connection, *bodies: str, limit: int = 10) -> Lot:
        """Returns a new lot of new messages."""
        self.send(connection, ORDERS, *bodies)
        return self.lot(connection, limit)

    @staticmethod
    def read(lot: Lot) -> list[str]:
        return [message.body.decode() for message in lot.read()]

    @staticmethod
    def infos(connection: Connection) -> list[LotInfo]:
        return [lot for one in connection.destinations() for lot in one.lots]

    # -- making ------------------------------------------------------------------------------------

    def test_nothing_waits(self, connection: Connection) -> None:
        for _ in range(3):
            assert connection.lots.claim(ORDERS, NAME, 10) is None
        assert self.infos(connection) == []

    def test_a_lot_has_the_best_messages_in_the_order_of_taking(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "a", "b", "c")
        ids = self.send(connection, ORDERS, "urgent", priority=9)
        lot = self.lot(connection, 3)
        assert (lot.destination, lot.name) == (ORDERS, NAME)
        assert lot.number >= 1
        assert self.read(lot) == ["urgent", "a", "b"]
        assert lot.claims[0].message_id == ids[0]
        (first, *_) = lot.read()
        assert (first.message_id, first.priority, first.destination) == (ids[0], 9, str(ORDERS))

    def test_a_selector_picks_the_messages_of_a_new_lot(self, connection: Connection) -> None:
        for body, kind in (("a", "T"), ("b", "U"), ("c", "T")):
            self.send(connection, ORDERS, body, type=kind)
        lot = connection.lots.claim(ORDERS, NAME, 10, selector="JMSType = 'T'")
        assert lot is not None
        assert self.read(lot) == ["a", "c"]
        again = connection.lots.claim(ORDERS, NAME, 10, selector="JMSType = 'U'")
        assert again is not None
        assert (again.number, self.read(again)) == (lot.number, ["a", "c"])
        lot.settle([GroupSettlement(lot.claims)])
        assert connection.lots.claim(ORDERS, NAME, 10, selector="JMSType = 'T'") is None
        assert self.read(self.lot(connection)) == ["b"]

    def test_a_position_is_what_was_settled_last(self, connection: Connection) -> None:
        begun = connection.lots.position(ORDERS, NAME)
        lot = self.filled(connection, "a", "b", limit=1)
        assert begun.settled < lot.number
        assert begun == LotPosition(lot.sequence_id, begun.settled, None)
        assert connection.lots.position(ORDERS, NAME) == LotPosition(
            lot.sequence_id, lot.number - 1, lot.number
        )
        lot.settle([GroupSettlement(lot.claims)])
        assert connection.lots.position(ORDERS, NAME) == LotPosition(lot.sequence_id, lot.number, None)
        assert self.lot(connection).number > lot.number
        with pytest.raises(CapabilityError):
            connection.lots.position(PRICES, NAME)

    def test_the_same_lot_comes_until_it_is_settled(self, connection: Connection) -> None:
        first = self.filled(connection, "a", "b", limit=2)
        self.send(connection, ORDERS, "urgent", priority=9)
        for limit in (1, 10):
            again = self.lot(connection, limit)
            assert (again.number, again.sequence_id) == (first.number, first.sequence_id)
            assert self.read(again) == self.read(first) == self.read(first) == ["a", "b"]
        assert self.lot(connection).claims[0].delivery_count == 0

    def test_a_lot_outlives_its_connection(self, connect: Connect) -> None:
        for end in ("close", "abandon"):
            first = connect()
            lot = self.filled(first, "a", "b")
            getattr(first, end)()
            second = connect()
            again = self.lot(second)
            assert (again.number, again.sequence_id, self.read(again)) == (
                lot.number,
                lot.sequence_id,
                ["a", "b"],
            )
            again.settle([GroupSettlement(again.claims)])
            second.close()

    def test_names_have_lots_of_their_own(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "a", "b")
        odd = "Nämé / .. \u2028 " + "x" * 300
        one, other = self.lot(connection, 1), self.lot(connection, 1, odd)
        assert one.sequence_id != other.sequence_id
        assert (self.read(one), self.read(other)) == (["a"], ["b"])
        assert {lot.name for lot in self.infos(connection)} == {NAME, odd}

    def test_what_is_past_its_expiration_is_in_no_lot(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "old", expiration=1)
        assert self.read(self.filled(connection, "fresh")) == ["fresh"]

    def test_long_headers_stay_whole(self, connection: Connection) -> None:
        lengths = range(150, 260, 3)
        for length in lengths:
            self.send(connection, ORDERS, f"{length}", correlation_id="c" * length)
        lot = self.lot(connection, 100)
        assert [len(message.correlation_id or "") for message in lot.read()] == [*lengths]
        lot.settle([Settlement(claim, give_back=True) for claim in lot.claims])
        assert [len(message.correlation_id or "") for message in connection.browse(ORDERS)] == [*lengths]

    @needs("delays")
    def test_what_is_delayed_is_in_no_lot(self, connection: Connection) -> None:
        self.send(connection, ORDERS, "later", delivery_time=1 << 50)
        assert self.read(self.filled(connection, "now")) == ["now"]

    def test_only_whole_queues_have_lots_and_a_lot_needs_a_name_and_a_limit(
        self, connection: Connection
    ) -> None:
        for text in ("topic://prices", "queue://orders~EXPIRED"):
            with pytest.raises(CapabilityError, match="queue"):
                connection.lots.claim(parse_destination(text), NAME, 1)
        for name, limit in (("", 1), (NAME, 0), (NAME, -1)):
            with pytest.raises(ValueError, match="a lot needs a name and a limit"):
                connection.lots.claim(ORDERS, name, limit)

    @needs("temporary_destinations")
    def test_a_temporary_queue_has_no_lots(self, connection: Connection) -> None:
        with pytest.raises(CapabilityError, match="lasts"):
            connection.lots.claim(connection.temporary("queue"), NAME, 1)

    def test_a_name_is_for_one_queue_at_a_time(self, connection: Connection) -> None:
        lot = self.filled(connection, "a")
        self.send(connection, NOTES, "note")
        with pytest.raises(LotError, match=rf"has the lot {lot.number} of {ORDERS}"):
            connection.lots.claim(NOTES, NAME, 1)
        lot.settle([Settlement(claim) for claim in lot.claims])
        other = connection.lots.claim(NOTES, NAME, 1)
        assert other is not None
        assert (other.number > lot.number, other.sequence_id) == (True, lot.sequence_id)

    # -- others ------------------------------------------------------------------------------------

    def test_nobody_else_gets_the_messages(self, connect: Connect) -> None:
        connection, other = connect(), connect()
        self.filled(connection, "a", "b", limit=1)
        assert self.drain(other, ORDERS) == ["b"]
        assert other.poller(ORDERS).take(1, 0) is None
        (info,) = (one for one in other.destinations() if one.destination == ORDERS)
        assert (info.waiting, info.in_progress) == (0, 1)

    def test_another_client_cannot_use_the_name(self, connect: Connect) -> None:
        connection, other = connect(), connect()
        assert connection.lots.claim(ORDERS, NAME, 1) is None
        self.send(connection, ORDERS, "a")
        for queue in (ORDERS, NOTES):
            with pytest.raises(LotError, match=f"in use by the client {connection.client_id}, .*process"):
                other.lots.claim(queue, NAME, 1)
        lot = self.lot(connection)
        with pytest.raises(LotError, match=f"in use by the client {connection.client_id}"):
            other.lots.give_back(NAME)
        assert self.read(lot) == ["a"]
        connection.close()
        assert self.read(self.lot(other)) == ["a"]

    def test_takeover_leaves_lots_alone(self, connect: Connect) -> None:
        first = connect()
        lot = self.filled(first, "a", "b", "c", limit=2)
        claim = self.take(first.poller(ORDERS))
        first.abandon()
        second = connect()
        for leftover in second.leftovers(None, at_start=True):
            assert [one.message_id for one in leftover.claims] == [claim.message_id]
            leftover.forget()
        assert list(connect().leftovers(None, at_start=True)) == []
        assert self.drain(second, ORDERS) == ["c"]
        again = self.lot(second)
        assert (again.number, self.read(again)) == (lot.number, ["a", "b"])

    @needs("in_progress")
    def test_no_recovery_of_an_in_progress_destination_adopts_them(self, connect: Connect) -> None:
        first = connect()
        lot = self.filled(first, "a")
        first.abandon()
        assert list(connect().find_unowned(ORDERS)) == []
        second = connect()
        second.poller(NOTES, IN_PROGRESS)
        assert self.lot(second).number == lot.number

    def test_pruning_leaves_lots_alone(self, connection: Connection) -> None:
        lot = self.filled(connection, "a")
        connection.prune(seconds=1)
        assert self.read(self.lot(connection)) == self.read(lot) == ["a"]

    def test_lots_are_listed(self, connect: Connect) -> None:
        connection, other = connect(), connect()
        lot = self.filled(connection, "a", "b")
        (info,) = self.infos(other)
        assert (info.destination, info.name, info.number, info.messages) == (ORDERS, NAME, lot.number, 2)
        assert "process" in info.owner
        connection.abandon()
        (info,) = self.infos(other)
        assert (info.messages, info.owner) == (2, "")
        again = self.lot(other)
        again.settle([GroupSettlement(again.claims)])
        assert self.infos(other) == []

    # -- settling ----------------------------------------------------------------------------------

    def test_each_message_has_its_outcome(self, connection: Connection) -> None:
        lot = self.filled(connection, "archived", "back", "gone")
        archived, back, gone = lot.claims
        lot.settle(
            [
                Settlement(archived, copy_to=ARCHIVE, properties={"connector_outcome": "published"}),
                Settlement(back, give_back=True, delivery_count=1),
                Settlement(gone),
            ]
        )
        (copy,) = connection.browse(ARCHIVE)
        assert (copy.body, copy.properties["connector_outcome"]) == (b"archived", "published")
        again = self.lot(connection)
        assert again.number > lot.number
        assert again.sequence_id == lot.sequence_id
        assert [claim.delivery_count for claim in again.claims] == [1]
        assert self.read(again) == ["back"]

    def test_a_group_is_an_outcome(self, connection: Connection) -> None:
        bodies = [f"{number:02}" for number in range(30)]
        lot = self.filled(connection, *bodies, limit=30)
        lot.settle([GroupSettlement(lot.claims, ARCHIVE)])
        assert self.bodies(connection, ARCHIVE) == bodies
        assert connection.lots.claim(ORDERS, NAME, 1) is None

    @needs("topics")
    def test_a_copy_may_go_to_a_topic(self, connection: Connection) -> None:
        lot = self.filled(connection, "a")
        lot.settle([GroupSettlement(lot.claims, PRICES)])
        assert connection.lots.claim(ORDERS, NAME, 1) is None

    def test_a_lot_is_settled_once(self, connection: Connection) -> None:
        lot = self.filled(connection, "a")
        twin = self.lot(connection)
        lot.settle([Settlement(lot.claims[0], copy_to=ARCHIVE)])
        for one in (lot, twin):
            with pytest.raises(LotError, match=f"the lot {lot.number} of '{NAME}' is settled"):
                one.settle([Settlement(one.claims[0], copy_to=ARCHIVE)])
            with pytest.raises(LotError, match=f"the lot {lot.number} of '{NAME}' is settled"):
                one.read()
        assert self.bodies(connection, ARCHIVE) == ["a"]

    def test_a_number_that_is_asked_for_is_that_lot_or_an_error(self, connection: Connection) -> None:
        with pytest.raises(LotError, match="the lot 1 of 'to-lake' does not exist"):
            connection.lots.claim(ORDERS, NAME, 1, number=1)
        lot = self.filled(connection, "a", "b", limit=1)
        again = connection.lots.claim(ORDERS, NAME, 1, number=lot.number)
        assert again is not None
        assert self.read(again) == ["a"]
        with pytest.raises(LotError, match=f"the lot {lot.number + 1} of .* does not exist"):
            connection.lots.claim(ORDERS, NAME, 1, number=lot.number + 1)
        lot.settle([Settlement(lot.claims[0])])
        for _ in range(2):  # also while there is a later lot
            with pytest.raises(LotError, match=f"the lot {lot.number} of .* is settled"):
                connection.lots.claim(ORDERS, NAME, 1, number=lot.number)
            assert self.read(self.lot(connection, 1)) == ["b"]

    def test_an_outcome_for_each_message_is_needed(self, connection: Connection) -> None:
        lot = self.filled(connection, "a", "b")
        first, second = map(Settlement, lot.claims)
        for outcomes in ([], [first], [first, first], [first, second, second]):
            with pytest.raises(ValueError, match="one outcome of each"):
                lot.settle(outcomes)
        assert self.read(lot) == ["a", "b"]
        lot.settle([second, first])

    def test_a_destination_that_cannot_be_written_settles_nothing(
        self, connection: Connection, unwritable: Destination
    ) -> None:
        lot = self.filled(connection, "a", "b")
        with pytest.raises(ConnectorError):
            lot.settle([Settlement(lot.claims[0]), Settlement(lot.claims[1], copy_to=unwritable)])
        assert self.read(self.lot(connection)) == ["a", "b"]
        lot.settle([GroupSettlement(lot.claims)])

    def test_the_owner_before_settles_nothing_any_more(self, connect: Connect) -> None:
        first = connect()
        lot = self.filled(first, "a")
        first.abandon()
        second = connect()
        again = self.lot(second)
        with pytest.raises(ConnectorError):
            lot.settle([Settlement(lot.claims[0], copy_to=ARCHIVE)])
        again.settle([Settlement(again.claims[0], copy_to=ARCHIVE)])
        assert self.bodies(second, ARCHIVE) == ["a"]

    def test_messages_that_are_given_back_wait_again(self, connect: Connect) -> None:
        first, second = connect(), connect()
        lot = self.filled(first, "a", "b")
        poller = second.poller(ORDERS)
        assert poller.take(1, 0) is None
        lot.settle([Settlement(claim, give_back=True) for claim in lot.claims])
        assert self.rest_soon(second, poller, 2) == ["a", "b"]

    # -- of a program ------------------------------------------------------------------------------

    def test_a_program_claims_lots(self, provider: Provider, connection: Connection) -> None:
        ids = self.send(connection, ORDERS, "a", "b")
        with self.client_class(provider) as first:
            lot = first.claim_lot(str(ORDERS), NAME, 10)
            assert lot is not None
            assert first.claim_lot(NOTES, "other", 10) is None
            number = lot.number
        with self.client_class(provider) as second:
            lot = second.claim_lot(ORDERS, NAME, 10)
            assert lot is not None
            assert lot.number == number
            assert [message.message_id for message in lot.read()] == ids
            lot.settle([Settlement(claim, copy_to=ARCHIVE) for claim in lot.claims])
        assert self.bodies(connection, ARCHIVE) == ["a", "b"]
        with pytest.raises(SessionStateError):
            second.claim_lot(ORDERS, NAME, 10)

    # -- by hand -----------------------------------------------------------------------------------

    def test_a_lot_is_given_back_by_hand(self, connect: Connect) -> None:
        first, second = connect(), connect()
        lot = self.filled(first, "a", "b")
        first.abandon()
        info = second.lots.give_back(NAME)
        assert (info.destination, info.name, info.number, info.messages) == (ORDERS, NAME, lot.number, 2)
        assert self.infos(second) == []
        poller = second.poller(ORDERS)
        assert [self.take_soon(poller, sequence=n).delivery_count for n in range(2)] == [1, 1]
        with pytest.raises(LotError, match=f"there is no lot of '{NAME}'"):
            second.lots.give_back(NAME)
        self.release_fetched(poller)
        self.send(second, ORDERS, "c")
        assert self.lot(second).number > lot.number

    def test_a_name_without_a_lot_is_an_error_that_names_the_others(self, connection: Connection) -> None:
        self.filled(connection, "a")
        with pytest.raises(LotError, match=f"there is no lot of 'other'; there are {NAME}"):
            connection.lots.give_back("other")
