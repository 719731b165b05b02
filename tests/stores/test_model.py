"""Any operations on a store, or on a variant of it, leave what lists of messages would hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from connector.messaging.message import NON_PERSISTENT
from connector.messaging.provider import Provider
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.memory.provider import MemoryProvider
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.provider_suite.model import ProviderUnderTest, check_provider
from tests.stores.conftest import new_root
from tests.stores.sql.conftest import EmptiedDatabase


@contextmanager
def memory(**options: Any) -> Iterator[Provider]:
    provider = MemoryProvider(**options)
    yield provider
    provider.close()


def test_memory() -> None:
    check_provider(ProviderUnderTest(memory, delivery_mode=NON_PERSISTENT), examples=50, steps=40)
    check_provider(ProviderUnderTest(lambda: memory(accept_persistent=True)), examples=20, steps=30)


@pytest.mark.parametrize(
    "options",
    [{}, {"durable": True}, {"incoming": "", "keep_processed": 0}],
    ids=["plain", "durable", "nothing kept, no incoming level"],
)
def test_dropbox(options: dict[str, Any], tmp_path: Path) -> None:
    @contextmanager
    def dropbox() -> Iterator[Provider]:
        with new_root(tmp_path) as root:
            yield DropboxProvider(root, create=True, **{"durable": False, **options})

    keeps_expired = options.get("keep_processed") != 0
    tested = ProviderUnderTest(dropbox, sees_at_once=False, keeps_expired=keeps_expired)
    check_provider(tested, examples=15, steps=30)


def check_database(url: str, *, examples: int) -> None:
    """Checks the store in one database, which is emptied before each example."""
    provider, database = SqlProvider(Settings(url)), EmptiedDatabase(url)
    provider.connect().close()

    @contextmanager
    def emptied() -> Iterator[Provider]:
        database.empty()
        yield provider

    try:
        check_provider(ProviderUnderTest(emptied, message_groups=True), examples=examples, steps=22)
    finally:
        database.close()


def test_sqlite(tmp_path: Path) -> None:
    with new_root(tmp_path) as root:
        check_database(f"sqlite:///{root}/messages.db", examples=9)


def test_postgresql(database: str) -> None:
    check_database(database, examples=6)
