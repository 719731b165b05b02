"""``keep_processed``: what was consumed is kept for a while, then removed, never earlier."""

from __future__ import annotations

import os
import time
from pathlib import Path

from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Settlement
from connector.providers.dropbox.connection import DropboxConnection, DropboxProvider

ORDERS = Destination("queue", "orders")


def consume(connection: DropboxConnection, body: bytes, property_size: int = 1) -> None:
    message = Message(body=body)
    message.set_property("note", "n" * property_size)
    connection.send(ORDERS, [message])
    claim = connection.poller(ORDERS).take(1, 0)
    assert claim is not None
    connection.settle([Settlement(claim)])


def processed(connection: DropboxConnection) -> list[str]:
    return os.listdir(connection.layout.queue(ORDERS).processed)


def test_old_files_go_with_their_sidecars_and_young_ones_stay(tmp_path: Path) -> None:
    connection = DropboxProvider(tmp_path, keep_processed=0.4).connect()
    consume(connection, b"old", property_size=600)
    assert len(os.listdir(connection.layout.headers)) == 1
    time.sleep(0.5)
    consume(connection, b"young")
    assert connection.prune() == 1
    assert len(processed(connection)) == 1
    assert os.listdir(connection.layout.headers) == []
    connection.close()


def test_nothing_goes_where_files_are_kept_for_ever(tmp_path: Path) -> None:
    connection = DropboxProvider(tmp_path, keep_processed=None).connect()
    consume(connection, b"kept")
    assert connection.prune() == 0
    assert len(processed(connection)) == 1
    connection.close()


def test_nothing_is_kept_where_zero_is_demanded(tmp_path: Path) -> None:
    connection = DropboxProvider(tmp_path, keep_processed=0).connect()
    consume(connection, b"gone", property_size=600)
    assert processed(connection) == []
    assert os.listdir(connection.layout.headers) == []
    connection.close()


def test_pruning_is_done_by_one_client_and_not_all_the_time(tmp_path: Path) -> None:
    provider = DropboxProvider(tmp_path, keep_processed=0.4)
    connection = provider.connect()
    assert connection.prune() == 0
    consume(connection, b"old")
    other = provider.connect()
    assert other.prune() == 0  # it was looked at just now
    time.sleep(0.5)
    assert other.prune() == 1
    connection.close()
    other.close()
