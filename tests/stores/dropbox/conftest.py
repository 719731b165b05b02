"""Parts that the tests of the dropbox share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from tests.stores.dropbox.steps import Clock


@pytest.fixture
def provider(root: Path) -> DropboxProvider:
    return DropboxProvider(root, create=True, durable=False)


@pytest.fixture
def connection(provider: DropboxProvider) -> Iterator[LocalConnection]:
    connection = provider.connect("suite", "a")
    yield connection
    connection.abandon()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)
