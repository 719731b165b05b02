"""What is left of adapters that have settled everything: there must be nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sqlalchemy import NullPool, create_engine

from connector.stores.sql.database import Settings

_EMPTY: Final = (
    "message_reference WHERE state = 'NOT_COMMITTED'",
    "message_reference WHERE state = 'DELIVERED' AND settled IS NULL",
    "message WHERE id NOT IN (SELECT message FROM message_reference)",
    *("client", "record", "in_flight"),
)
"""What is empty where every client has settled its claims and has ended."""
_EMPTY_OF_POSTGRESQL: Final = ("task_list", "task", "task_outcome")


def file_leftovers(root: Path, application: str, inputs: Sequence[str], in_progress: str) -> list[str]:
    """What is left of adapters in a directory: paths relative to the root.

    Args:
        root: of the provider.
        application: name of the adapter.
        inputs: its queues.
        in_progress: its queue for messages in progress.
    """
    found: list[str] = []
    for queue in [*inputs, "archive", "error", "unsubscribed", in_progress]:
        folders = ["processing", "working"]
        if queue in inputs or queue == in_progress:
            folders.append("target")
        for folder in folders:
            path = root / queue / "incoming" / folder
            found += [f"{queue}/{folder}/{name}" for name in sorted(_names(path))]
    for folder in ("processing", "working", "target"):
        of_topics = root.glob(f"topic-root/**/{folder}/*")
        found += [str(path.relative_to(root)) for path in of_topics]
    own = root / "dropboxmq"
    for place in (
        "clients",
        "transaction/associated",
        "transaction/committing",
        f"adapter/{application}/in-flight",
    ):
        found += [f"{place}/{name}" for name in _names(own / place)]
    for lock in (own / "adapter" / application).glob("*/lock"):
        found += [str(path.relative_to(own)) for path in lock.parent.iterdir() if path != lock]
    return found


def _names(path: Path) -> list[str]:
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []


def database_leftovers(url: str) -> list[str]:
    """What is left of adapters in the tables of a database, and in the files beside SQLite."""
    file = Settings(url).file
    found: list[str] = []
    engine = create_engine(Settings(url).parsed, poolclass=NullPool)
    with engine.connect() as connection:
        for table in _EMPTY if file else (*_EMPTY, *_EMPTY_OF_POSTGRESQL):
            where = " WHERE kind <> 'control'" if table == "record" else ""
            number = connection.exec_driver_sql(f"SELECT count(*) FROM {table}{where}").scalar_one()
            found += [f"{number} rows: {table}"] if number else []
    if file:
        found += [str(path) for path in Path(f"{file}.clients").glob("*")]
        for lock in Path(f"{file}.state").glob("*/*/lock"):
            found += [str(path) for path in lock.parent.iterdir() if path != lock]
    return found
