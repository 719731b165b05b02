"""Business data in the commit of the event, beside the same work without the outcome row.

A worker's part alone: read, convert, call, commit, journal, one transaction an event. The reference is the
same process as an external sink, with a connection and a commit of its own. The table sink stands beside one
bare ``executemany`` of the same rows. ``python -m benchmarks.transactions [--runs N] [--disk DIR]``
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import yaml
from sqlalchemy import create_engine, insert, text
from sqlalchemy.schema import MetaData, Table

from benchmarks.common import deployment, fill, json_body, machine, scratch
from benchmarks.worker_cost import Unwatched
from connector.config.loading import load
from connector.events.run.job import work_items
from connector.events.run.task import Task
from connector.messaging.destination import parse_destination
from connector.service.assembly import make_provider, make_task_settings
from connector.state.journal import JournalFile
from tests.postgres import PostgresServer

EVENTS: Final = 1000
SERVER: Final = {"fsync": "on", "full_page_writes": "on"}
_PROCESSES: Final = """
from sqlalchemy import create_engine, text

INSERT = text("INSERT INTO customer (id, name) VALUES (:id, :name)")
engine = create_engine({url!r})
if engine.dialect.name == "sqlite":
    from sqlalchemy import event as events

    @events.listens_for(engine, "connect")
    def configure(connection, record):
        connection.isolation_level = None

    @events.listens_for(engine, "begin")
    def begin(connection):
        connection.connection.dbapi_connection.execute("BEGIN IMMEDIATE")


def own(customer, event):
    with engine.begin() as connection:
        connection.execute(INSERT, {{"id": customer["CustomerId"], "name": customer["Name"]}})


def guarded(customer, event):
    values = {{"id": customer["CustomerId"], "name": customer["Name"]}}
    event.transaction.sqlalchemy.execute(INSERT, values)
"""
_ENTRIES: Final = {
    "own": {"object": "Customer", "process": "processes:own"},
    "guarded": {"object": "Customer", "process": "processes:guarded", "transaction": "shop"},
    "table": {
        "object": "Customer",
        "table": "shop.customer",
        "columns": {"id": "CustomerId", "name": "Name"},
        "operation": "insert",
    },
}


def run(directory: Path, url: str, name: str) -> float:
    """Returns the seconds of a worker for all events."""
    file = deployment(directory, ["in"])
    (directory / "processes.py").write_text(_PROCESSES.format(url=url))
    document = yaml.safe_load(file.read_text())
    document["subscriptions"] = [_ENTRIES[name]]
    document["databases"] = {"shop": {"url": url}}
    file.write_text(yaml.safe_dump(document))
    configuration = load(file)
    provider = make_provider(configuration)
    connection = provider.connect("benchmark", "benchmark")
    fill(directory / "data", "in", EVENTS + 1, json_body)
    claims = connection.poller(parse_destination("in")).claim(1, range(EVENTS + 1))
    items = work_items(claims, {})
    task = Task(make_task_settings(configuration, provider, connection.access()), str(directory), Unwatched())
    task.run(JournalFile(str(directory / "journal-0")), [items[:1]])  # connects
    began = time.perf_counter()
    outcomes = task.run(JournalFile(str(directory / "journal-1")), [items[1:]])
    seconds = time.perf_counter() - began
    assert sum(map(len, outcomes.values())) == EVENTS, outcomes
    assert all(b'"published"' in outcome for outcome in outcomes), outcomes
    task.close()
    connection.abandon()
    return seconds


def bare(url: str) -> float:
    """Returns the seconds of one ``executemany`` of the same rows."""
    engine = create_engine(url)
    with engine.connect() as connection:
        table = Table("customer", MetaData(), autoload_with=connection)
    began = time.perf_counter()
    with engine.begin() as connection:
        connection.execute(
            insert(table), [{"id": str(number), "name": f"Customer {number}"} for number in range(EVENTS)]
        )
    seconds = time.perf_counter() - began
    engine.dispose()
    return seconds


def measure(base: Path, url: str, runs: int) -> None:
    ways: dict[str, Callable[[Path], float]] = {
        **{name: partial(run, url=url, name=name) for name in _ENTRIES},
        "executemany": lambda directory: bare(url),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(runs):
        for name, way in ways.items():
            engine = create_engine(url)
            with engine.begin() as connection:
                connection.execute(text("DROP TABLE IF EXISTS customer"))
                connection.execute(text("DROP TABLE IF EXISTS connector_outcome"))
                connection.execute(text("CREATE TABLE customer (id VARCHAR(20), name VARCHAR(80))"))
            engine.dispose()
            directory = base / f"{name}-{number}"
            directory.mkdir()
            found[name].append(way(directory))
    medians = {name: statistics.median(seconds) for name, seconds in found.items()}
    for name, seconds in medians.items():
        print(f"  {name:12} {EVENTS / seconds:8,.0f} events/s")
    ratio = medians["guarded"] / medians["own"]
    print(f"  with the outcome row: {ratio:.2f} times the time of the same work without (aim 1.3)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--disk", default="/dev/shm", help="where the files are; default tmpfs")
    arguments = parser.parse_args()
    print(machine())
    with scratch(arguments.disk) as base:
        print(f"SQLite, {EVENTS} events, median of {arguments.runs}")
        (base / "sqlite").mkdir()
        measure(base / "sqlite", f"sqlite:///{base}/shop.db", arguments.runs)
        base.chmod(0o755)
        server = PostgresServer(base / "server")
        server.start(**SERVER)
        try:
            print(f"PostgreSQL, {EVENTS} events, median of {arguments.runs}")
            (base / "postgresql").mkdir()
            measure(base / "postgresql", server.url(), arguments.runs)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
