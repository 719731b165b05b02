"""Pruning removes copies whose retention time is over, and nothing else."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Final

import pytest

from connector.errors import DestinationError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import PropertyValue
from connector.messaging.provider import Connection
from connector.messaging.retention import Retention
from connector.messaging.settlement import Settlement
from tests.provider_suite.base import (
    ARCHIVE,
    NOTES,
    ORDERS,
    SuiteBase,
)

_HOUR: Final = 3600.0


class KeepingTests(SuiteBase):
    def test_a_copy_that_was_kept_long_enough_is_removed(self, connection: Connection) -> None:
        self.copy(connection, "old", hours=3)
        self.copy(connection, "long", hours=3, reason="é& " * 2700)
        self.copy(connection, "young", hours=1)
        assert self.prune(connection, Retention(ARCHIVE, 2 * _HOUR)) == {ARCHIVE: 2}
        assert self.bodies(connection, ARCHIVE) == ["young"]

    def test_a_client_that_is_no_adapter_removes_no_copy(
        self, connection: Connection, client: Callable[..., Connection]
    ) -> None:
        self.copy(connection, "old", hours=3)
        assert self.prune(client(), Retention(ARCHIVE, _HOUR)) == {}
        assert self.bodies(connection, ARCHIVE) == ["old"]

    @pytest.mark.parametrize("name", ["topic://prices", "archive~EXPIRED"])
    def test_only_whole_queues_keep_copies(self, name: str) -> None:
        with pytest.raises(DestinationError, match=name):
            Retention(parse_destination(name), _HOUR)

    def test_every_queue_has_a_time_of_its_own(self, connection: Connection) -> None:
        for target in (ARCHIVE, NOTES):
            self.copy(connection, "old", hours=3, target=target)
        kept = (Retention(ARCHIVE, 2 * _HOUR), Retention(NOTES, 4 * _HOUR))
        assert self.prune(connection, *kept) == {ARCHIVE: 1}
        assert self.bodies(connection, NOTES) == ["old"]

    def test_a_message_that_is_no_copy_stays(self, connection: Connection) -> None:
        self.send(connection, ARCHIVE, "a stranger's")
        partial = self.text("with half of the properties")
        partial.set_property("connector_time", _time(3))
        connection.send(ARCHIVE, [partial])
        self.copy(connection, "old", hours=3)
        assert self.prune(connection, Retention(ARCHIVE, 2 * _HOUR)) == {ARCHIVE: 1}
        assert sorted(self.bodies(connection, ARCHIVE)) == ["a stranger's", "with half of the properties"]

    def test_a_copy_that_somebody_has_claimed_stays(self, connection: Connection) -> None:
        self.copy(connection, "claimed", hours=3)
        poller = connection.poller(ARCHIVE)
        claim = self.take_soon(poller, cycle=2)
        self.release_fetched(poller)
        self.copy(connection, "waits", hours=3)
        assert self.prune(connection, Retention(ARCHIVE, 2 * _HOUR)) == {ARCHIVE: 1}
        assert self.load(connection, claim).body == b"claimed"
        connection.settle([Settlement(claim, give_back=True)])
        assert self.bodies(connection, ARCHIVE) == ["claimed"]

    def test_a_copy_whose_time_cannot_be_read_is_as_old_as_it_lies_there(
        self, connection: Connection
    ) -> None:
        self.copy(connection, "dubious", hours=None)
        assert self.prune(connection, Retention(ARCHIVE, _HOUR)) == {}
        assert self.bodies(connection, ARCHIVE) == ["dubious"]

    def test_a_queue_that_is_not_there_has_nothing_to_remove(self, connection: Connection) -> None:
        assert self.prune(connection, Retention(ARCHIVE, _HOUR)) == {}
        assert self.visible(connection, ARCHIVE) == []

    def test_pruning_goes_on_where_the_time_was_too_short(self, connection: Connection) -> None:
        for number in range(5):
            self.copy(connection, str(number), hours=3)
        assert self.prune(connection, Retention(ARCHIVE, _HOUR), seconds=0.0) == {ARCHIVE: 5}
        assert self.bodies(connection, ARCHIVE) == []

    def copy(
        self,
        connection: Connection,
        body: str,
        *,
        hours: float | None,
        reason: str = "",
        target: Destination = ARCHIVE,
    ) -> None:
        """Makes a copy that was settled ``hours`` ago. None = an unreadable time."""
        self.send(connection, ORDERS, body)
        poller = connection.poller(ORDERS)
        claim = self.take_soon(poller)
        properties: dict[str, PropertyValue] = {
            "connector_origin_destination": str(ORDERS),
            "connector_time": "once" if hours is None else _time(hours),
        }
        if reason:
            properties["connector_reason"] = reason
        connection.settle([Settlement(claim, copy_to=target, properties=properties)])
        poller.close()

    @staticmethod
    def prune(connection: Connection, *retentions: Retention, seconds: float = 0.5) -> dict[Destination, int]:
        """Prunes until all is done. Returns the number of removed copies."""
        removed: dict[Destination, int] = {}
        for _ in range(100):
            pruned = connection.prune(retentions, seconds=seconds)
            for destination, count in pruned.copies.items():
                removed[destination] = removed.get(destination, 0) + count
            if pruned.is_done:
                return removed
        raise AssertionError("pruning never ends")


def _time(hours: float) -> str:
    """Returns the ``connector_time`` of ``hours`` ago."""
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=hours)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")
