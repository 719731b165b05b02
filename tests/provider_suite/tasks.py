"""The operations of a Spark task on a provider: load by reference, prepare, discard."""

from __future__ import annotations

import json
import pickle

import pytest

from connector.errors import ClaimLost, MalformedData
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from tests.provider_suite.base import (
    NO_LIMIT,
    NOTES,
    ORDERS,
    SuiteBase,
    needs,
)


class TaskTests(SuiteBase):
    def test_a_worker_reads_a_claim_by_its_reference(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("body")])
        claim = self.take(connection.poller(ORDERS))
        access = self.access(connection)
        access.check()
        reference = pickle.loads(pickle.dumps(claim.reference))  # a pickle of our own
        assert access.load(reference, NO_LIMIT).body == b"body"

    def test_a_reference_names_its_claim_in_a_few_words(self, connection: Connection) -> None:
        self.send(connection, ORDERS, *["x" * 100_000] * 3)
        references = [claim.reference for claim in self.claim(connection.poller(ORDERS), 1, range(3))]
        assert len({str(reference) for reference in references}) == 3
        assert max(len(str(reference)) for reference in references) < 1000

    def test_a_body_larger_than_allowed_is_malformed_and_one_just_as_large_is_not(
        self, connection: Connection
    ) -> None:
        connection.send(ORDERS, [self.text("12345")])
        claim = self.take(connection.poller(ORDERS))
        access = self.access(connection)
        assert access.load(claim.reference, 5).body == b"12345"
        with pytest.raises(MalformedData, match="5 bytes"):
            access.load(claim.reference, 4)

    @needs("by_value", has=False)
    def test_a_settled_message_cannot_be_read_any_more(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("body")])
        claim = self.take(connection.poller(ORDERS))
        reference = claim.reference
        connection.settle([Settlement(claim)])
        with pytest.raises(LookupError):
            self.access(connection).load(reference, NO_LIMIT)

    def test_a_prepared_message_is_seen_by_nobody_until_it_is_committed(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("body")])
        claim = self.take(connection.poller(ORDERS))
        access = self.access(connection)
        message = self.text("prepared", correlation_id="c1")
        message.set_property("p", 1, "short")
        prepared = pickle.loads(pickle.dumps(access.prepare(NOTES, message, "key")))  # a pickle of our own
        access.sync()
        assert self.visible(connection, NOTES) == []
        poller = connection.poller(NOTES)
        assert poller.take(1, 1) is None
        self.release_fetched(poller)
        connection.settle([Settlement(claim, sends=[prepared])])
        (seen,) = connection.browse(NOTES)
        assert (seen.body, seen.correlation_id) == (b"prepared", "c1")
        assert seen.property_types == {"p": "short"}
        assert (seen.message_id or "").startswith("ID:")

    def test_what_is_written_is_sent_whatever_becomes_of_its_task(self, connection: Connection) -> None:
        access = self.access(connection)
        prepared = access.prepare(NOTES, self.text("written"), "key")
        access.write()
        del access
        connection.settle([], [prepared])
        assert self.bodies(connection, NOTES) == ["written"]

    def test_what_is_prepared_can_be_sent_by_what_a_journal_says_of_it(self, connection: Connection) -> None:
        access = self.access(connection)
        sent, discarded = (access.prepare(NOTES, self.text(key), key) for key in ("sent", "discarded"))
        access.sync()
        for prepared in (sent, discarded):
            prepared.handle = json.loads(json.dumps(prepared.handle))
        connection.settle([], [sent], [discarded])
        assert self.bodies(connection, NOTES) == ["sent"]

    def test_preparing_again_under_one_key_replaces(self, connection: Connection) -> None:
        connection.send(ORDERS, [self.text("body")])
        claim = self.take(connection.poller(ORDERS))
        access = self.access(connection)
        access.prepare(NOTES, self.text("first"), "key")
        prepared = access.prepare(NOTES, self.text("second"), "key")
        access.sync()
        connection.settle([Settlement(claim, sends=[prepared])])
        assert self.bodies(connection, NOTES) == ["second"]

    def test_one_key_names_a_message_for_each_destination(self, connection: Connection) -> None:
        access = self.access(connection)
        prepared = [access.prepare(target, self.text(str(target)), "key") for target in (NOTES, ORDERS)]
        access.sync()
        connection.settle([], prepared)
        assert (self.bodies(connection, NOTES), self.bodies(connection, ORDERS)) == (
            [str(NOTES)],
            [str(ORDERS)],
        )

    @needs("by_value", has=False)
    @pytest.mark.parametrize("how", ["sent", "discarded", "discarded by its access"])
    def test_a_prepared_message_that_is_gone_lets_nothing_be_sent(
        self, connection: Connection, how: str
    ) -> None:
        access = self.access(connection)
        gone, kept = (access.prepare(NOTES, self.text(key), key) for key in ("gone", "kept"))
        access.sync()
        if how == "discarded by its access":
            access.discard(gone)
        else:
            sends, discards = ([gone], []) if how == "sent" else ([], [gone])
            connection.settle([], sends, discards)
        before = self.visible(connection, NOTES)
        for sends in ([gone], [kept, gone]):
            with pytest.raises(ClaimLost):
                connection.settle([], sends)
        assert self.visible(connection, NOTES) == before
        connection.settle([], [kept], [gone])
        connection.settle([], discards=[gone])
        assert self.visible(connection, NOTES) == [*before, "kept"]

    def test_a_discarded_message_is_never_sent(self, connection: Connection) -> None:
        access = self.access(connection)
        access.discard(access.prepare(NOTES, self.text("discarded"), "key"))
        access.sync()
        assert self.visible(connection, NOTES) == []
