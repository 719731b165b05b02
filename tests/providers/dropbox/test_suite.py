"""The dropbox passes the shipped suite, as it comes and with each of its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector.messaging.destination import Destination, parse_destination
from connector.messaging.provider import Provider
from connector.providers.dropbox.connection import DropboxProvider
from connector.testing.provider import ProviderSuite


class DropboxSuite(ProviderSuite):
    @pytest.fixture
    def unwritable(self, root: Path) -> Destination:
        (root / "blocked").write_text("a file where the queue should be")
        return parse_destination("queue://blocked")


class TestDropbox(DropboxSuite):
    @pytest.fixture
    def provider(self, root: Path) -> Provider:
        return DropboxProvider(root, durable=False)


class TestDurableDropbox(DropboxSuite):
    @pytest.fixture
    def provider(self, root: Path) -> Provider:
        return DropboxProvider(root, durable=True)


class TestDropboxThatKeepsNothingAndHasNoIncomingLevel(DropboxSuite):
    @pytest.fixture
    def provider(self, root: Path) -> Provider:
        return DropboxProvider(root, durable=False, incoming="", keep_processed=0)
