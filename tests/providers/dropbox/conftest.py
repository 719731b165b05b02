"""Parts that the tests of the dropbox share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.core.local.connection import LocalConnection
from connector.providers.dropbox.provider import DropboxProvider


@pytest.fixture
def provider(root: Path) -> DropboxProvider:
    return DropboxProvider(root, create=True, durable=False)


@pytest.fixture
def connection(provider: DropboxProvider) -> Iterator[LocalConnection]:
    connection = provider.connect("suite", "a")
    yield connection
    connection.abandon()
