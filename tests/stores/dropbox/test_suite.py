"""The dropbox passes the shipped suite, as it comes and with each of its settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from connector.messaging.destination import Destination, parse_destination
from connector.messaging.provider import Connection, Provider
from connector.stores.dropbox.provider import DropboxProvider
from connector.testing.provider import ProviderSuite
from connector.testing.provider_suite.base import ORDERS


class DropboxSuite(ProviderSuite):
    able = DropboxProvider.capabilities
    can_spoil = True

    @pytest.fixture(params=[".soon", ".....badI=xyz", ".....JMS_dropboxmq_hdrS=gone"])
    def spoil(
        self, provider: DropboxProvider, request: pytest.FixtureRequest
    ) -> Callable[[Destination, str], None]:
        def rename(destination: Destination, identity: str) -> None:
            target = Path(provider.folders(destination).target)
            (path,) = target.glob(f"*{identity.removeprefix('ID:')}.*")
            path.rename(f"{path}{request.param}")

        return rename

    @pytest.fixture
    def unwritable(self, root: Path) -> Destination:
        (root / "blocked").write_text("a file where the queue should be")
        return parse_destination("queue://blocked")

    @pytest.fixture
    def limited(self, root: Path) -> Provider:
        return DropboxProvider(root, create=True, durable=False, redelivery_limit=2)


class TestDropbox(DropboxSuite):
    @pytest.fixture
    def provider(self, root: Path) -> Provider:
        return DropboxProvider(root, create=True, durable=False)


class TestDurableDropbox(DropboxSuite):
    @pytest.fixture
    def provider(self, root: Path) -> Provider:
        return DropboxProvider(root, create=True, durable=True)


class TestDropboxThatKeepsNothingAndHasNoIncomingLevel(DropboxSuite):
    @pytest.fixture
    def provider(self, root: Path) -> Provider:
        return DropboxProvider(root, create=True, durable=False, incoming="", keep_processed=0)

    def test_expired_messages_can_be_browsed_taken_and_settled(self, connection: Connection) -> None:
        self.no_expired_message_is_kept(connection)

    def test_what_is_given_back_to_a_virtual_destination_is_there_again(self, connection: Connection) -> None:
        self.no_expired_message_is_kept(connection)

    def test_what_is_claimed_from_a_virtual_destination_is_in_progress_in_its_queue(
        self, connection: Connection
    ) -> None:
        self.no_expired_message_is_kept(connection)

    def test_a_message_from_a_virtual_destination_is_no_duplicate_of_one_from_its_queue(
        self, connection: Connection
    ) -> None:
        self.no_expired_message_is_kept(connection)

    def test_an_expired_message_may_be_copied_elsewhere(self, connection: Connection) -> None:
        self.no_expired_message_is_kept(connection)

    def test_messages_of_a_virtual_destination_are_picked(self, connection: Connection) -> None:
        self.no_expired_message_is_kept(connection)

    def no_expired_message_is_kept(self, connection: Connection) -> None:
        """Those tests of the suite begin with one."""
        connection.send(ORDERS, [self.text("old", expiration=1)])
        assert self.drain(connection, ORDERS) == []
        expired = parse_destination("orders~EXPIRED")
        assert self.bodies(connection, expired) == []
        assert connection.poller(expired).take(1, 0) is None
