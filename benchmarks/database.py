"""The provider ``sql`` on SQLite and on PostgreSQL, beside bare statements in sqlite3 and psycopg.

The bare statements do the same work on the same tables. There are five parts. ``claims`` claims and settles
1,000 messages in batches of 1, 100 and 1,000. ``backlog`` claims with 1 thousand to 1 million waiting.
``archived`` claims one message, and none, beside copies of which two servers have no statistics.
``churn`` claims while a foreign transaction stays open and 200,000 messages come and go.
``events`` counts the events a second from a queue through a process to the archive.
``python -m benchmarks.database [PART ...] [--on DATABASE] [--programs DIR] [--runs N] [--disk DIR]``
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import orjson
import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy import make_url

from benchmarks.common import deployment, json_body, machine, scratch, spread
from connector.messaging.destination import parse_destination
from connector.messaging.settlement import GroupSettlement
from connector.service.adapter import Adapter
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.postgres import NEWEST, OLDER, PostgresServer, version_of

PARTS: Final = ("claims", "backlog", "archived", "churn", "events")
DATABASES: Final = ("sqlite", "postgresql")
VERSIONS: Final = ("postgresql", "postgresql-17")
BATCHES: Final = (1, 100, 1000)
BACKLOGS: Final = (1_000, 100_000, 1_000_000)
ARCHIVED: Final = (0, 6_000, 1_000_000)
POLL: Final = 100
"""Messages of a claim from a backlog."""
COUNT: Final = 1000
"""Messages that are claimed and settled in a run."""
QUEUE, ARCHIVE = "queue://in", "queue://archive"
OUTCOME: Final = {"connector_outcome": "published"}
SELECTOR: Final = "region = 'EU'"
SERVER: Final = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"}

Take = Callable[[int], object]
"""Claims and settles so many messages."""


class Row(NamedTuple):
    """A claim of the bare statements."""

    id: int
    version: int
    sequence: int
    message: int
    headers: dict[str, Any]
    properties: dict[str, Any]


class Bare(Protocol):
    """The bare statements, on a connection of their own."""

    def fill(self, queue: str, count: int, bodies: Sequence[bytes] = ()) -> None:
        """Inserts messages in bulk; empty ones, or those of the bodies."""

    def claim(self, queue: str, limit: int) -> list[Row]:
        """Claims what is first."""

    def settle(self, rows: Sequence[Row]) -> None:
        """Moves claims to the archive and remembers their keys."""

    def bodies(self, rows: Sequence[Row]) -> list[bytes]:
        """The bodies of claims."""

    def give_back(self) -> None:
        """Ends all claims of anybody, as if they had not been."""

    def scan(self, queue: str) -> int:
        """Counts what the selector accepts."""

    def analyze(self) -> None:
        """Does the upkeep that follows upon a bulk INSERT."""

    def hold(self) -> None:
        """Begins a transaction that sees what is there now, and leaves it open."""

    def close(self) -> None:
        """Ends the connection."""


# --- the statements -----------------------------------------------------------------------------------

CLAIM: Final = """
WITH picked AS MATERIALIZED (
    SELECT id, priority FROM message_reference WHERE channel = :queue AND part = '' AND state = 'NEW'
    ORDER BY priority DESC, id LIMIT :limit {lock}
)
UPDATE message_reference
SET state = 'DELIVERED', version = version + 1, owner = 'bare', cycle = 1, sequence = numbered.place,
    taken_from = :queue, returned_by = NULL
FROM (SELECT id, row_number() OVER (ORDER BY priority DESC, id) - 1 AS place FROM picked) AS numbered {join}
WHERE message_reference.id = numbered.id {joined}
RETURNING message_reference.id, message_reference.version, sequence, message, {headers}, {properties}
"""
SETTLE: Final = """
UPDATE message_reference
SET state = 'NEW', channel = :archive, part = '', version = message_reference.version + 1, owner = NULL,
    cycle = NULL, sequence = NULL, taken_from = NULL, delivery_count = 0, properties = :properties,
    changed = {transaction}
FROM {given} WHERE message_reference.id = given.id AND message_reference.version = given.version
"""
GIVE_BACK: Final = """
UPDATE message_reference
SET state = 'NEW', version = version + 1, owner = NULL, cycle = NULL, sequence = NULL, taken_from = NULL
WHERE state = 'DELIVERED' AND settled IS NULL AND owner >= ''
"""
SCAN: Final = """
SELECT count(*) FROM message_reference AS r JOIN message AS m ON m.id = r.message
WHERE r.channel = :queue AND r.part = '' AND r.state = 'NEW' AND m.properties ->> 'region' = 'EU'
"""
FIRST: Final = "SELECT coalesce(max(id), 0) + 1 FROM message"
HEADERS: Final = '{"JMSType": "CUST_IN"}'


def key_of(row: Row) -> bytes:
    """The duplicate key of a claim."""
    return f"{QUEUE}|ID:{row.message}".encode()


class BareSqlite:
    """See :class:`Bare`.

    Args:
        url: of the database.
    """

    _OF_MESSAGE = "(SELECT {} FROM message WHERE message.id = message_reference.message)"
    _CLAIM = CLAIM.format(
        lock="",
        join="",
        joined="",
        headers=_OF_MESSAGE.format("headers"),
        properties=_OF_MESSAGE.format("properties"),
    )
    _TRANSACTION = "(SELECT value FROM counter WHERE name = 'transactions')"
    _GIVEN = (
        "(SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS version "
        "FROM json_each(:rows)) AS given"
    )
    _SETTLE = SETTLE.format(transaction=_TRANSACTION, given=_GIVEN)
    _PUBLISH = f"INSERT INTO published (application, key, changed) VALUES ('bare', ?, {_TRANSACTION})"
    _COUNT = "UPDATE counter SET value = value + 1 WHERE name = 'transactions'"

    def __init__(self, url: str) -> None:
        self._connection = sqlite3.connect(make_url(url).database or "", isolation_level=None)
        for pragma in ("busy_timeout = 30000", "journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {pragma}")

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        self._connection.execute("BEGIN IMMEDIATE")
        yield self._connection.execute
        self._connection.execute("COMMIT")

    def fill(self, queue: str, count: int, bodies: Sequence[bytes] = ()) -> None:
        with self._transaction() as execute:
            execute(self._COUNT)
            (first,) = execute(FIRST).fetchone()
            numbers = range(first, first + count)
            self._connection.executemany(
                "INSERT INTO message (id, headers, body) VALUES (?, ?, ?)",
                ((n, HEADERS, bodies[n - first] if bodies else b"") for n in numbers),
            )
            execute(
                "INSERT INTO message_reference (message, channel, changed) "
                f"SELECT id, ?, {self._TRANSACTION} FROM message WHERE id >= ?",
                (queue, first),
            )

    def claim(self, queue: str, limit: int) -> list[Row]:
        with self._transaction() as execute:
            found = execute(self._CLAIM, {"queue": queue, "limit": limit}).fetchall()
        rows = [Row._make((*row[:4], json.loads(row[4]), json.loads(row[5]))) for row in found]
        return sorted(rows, key=lambda row: row.sequence)

    def settle(self, rows: Sequence[Row]) -> None:
        values = {
            "archive": ARCHIVE,
            "properties": json.dumps(OUTCOME),
            "rows": json.dumps([(row.id, row.version) for row in rows]),
        }
        with self._transaction() as execute:
            execute(self._COUNT)
            assert execute(self._SETTLE, values).rowcount == len(rows)
            self._connection.executemany(self._PUBLISH, [(key_of(row),) for row in rows])

    def bodies(self, rows: Sequence[Row]) -> list[bytes]:
        found = self._connection.execute(
            "SELECT id, body FROM message WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps([row.message for row in rows]),),
        )
        by_number = dict(found.fetchall())
        return [by_number[row.message] for row in rows]

    def give_back(self) -> None:
        self._connection.execute(GIVE_BACK)

    def scan(self, queue: str) -> int:
        (found,) = self._connection.execute(SCAN, {"queue": queue}).fetchone()
        return int(found)

    def analyze(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def hold(self) -> None:
        self._connection.execute("BEGIN")
        self.scan(QUEUE)

    def close(self) -> None:
        self._connection.close()


def of_psycopg(statement: str) -> str:
    """A statement whose parameters are ``:name``."""
    return re.sub(r":(\w+)", r"%(\1)s", statement)


class BarePostgres:
    """See :class:`Bare`. It plans as the provider does: by index.

    Args:
        url: of the database.
    """

    _CLAIM = of_psycopg(
        CLAIM.format(
            lock="FOR UPDATE SKIP LOCKED",
            join=", message AS m",
            joined="AND m.id = message_reference.message",
            headers="m.headers",
            properties="m.properties",
        )
    )
    _SETTLE = of_psycopg(
        SETTLE.format(
            transaction="pg_current_xact_id()",
            given="unnest(CAST(:ids AS bigint[]), CAST(:versions AS bigint[])) AS given(id, version)",
        )
    )
    _PUBLISH = (
        "INSERT INTO published (application, key, changed) "
        "SELECT 'bare', key, pg_current_xact_id() FROM unnest(%s::bytea[]) AS key"
    )
    _PLANS = ("seqscan", "bitmapscan", "hashjoin", "mergejoin")

    def __init__(self, url: str) -> None:
        self._connection: psycopg.Connection[Any] = psycopg.connect(conninfo_of(url), autocommit=True)
        for one in self._PLANS:
            self._connection.execute(f"SET enable_{one} = off".encode())

    def fill(self, queue: str, count: int, bodies: Sequence[bytes] = ()) -> None:
        (first,) = self._connection.execute(FIRST).fetchone() or (0,)
        with self._connection.transaction():
            if bodies:
                with self._connection.cursor().copy("COPY message (headers, body) FROM STDIN") as copy:
                    for body in bodies:
                        copy.write_row((HEADERS, body))
            else:
                self._connection.execute(
                    "INSERT INTO message (headers, body) "
                    "SELECT CAST(%s AS json), '' FROM generate_series(1, %s)",
                    (HEADERS, count),
                )
            self._connection.execute(
                "INSERT INTO message_reference (message, channel) SELECT id, %s FROM message "
                "WHERE id >= %s ORDER BY id",
                (queue, first),
            )

    def claim(self, queue: str, limit: int) -> list[Row]:
        found = self._connection.execute(self._CLAIM, {"queue": queue, "limit": limit}).fetchall()
        return sorted((Row(*row) for row in found), key=lambda row: row.sequence)

    def settle(self, rows: Sequence[Row]) -> None:
        values = {
            "archive": ARCHIVE,
            "properties": json.dumps(OUTCOME),
            "ids": [row.id for row in rows],
            "versions": [row.version for row in rows],
        }
        with self._connection.transaction():
            assert self._connection.execute(self._SETTLE, values).rowcount == len(rows)
            self._connection.execute(self._PUBLISH, ([key_of(row) for row in rows],))

    def bodies(self, rows: Sequence[Row]) -> list[bytes]:
        numbers = [row.message for row in rows]
        found = self._connection.execute("SELECT id, body FROM message WHERE id = ANY(%s)", (numbers,))
        by_number = dict(found.fetchall())
        return [by_number[number] for number in numbers]

    def give_back(self) -> None:
        self._connection.execute(GIVE_BACK)

    def scan(self, queue: str) -> int:
        (found,) = self._connection.execute(of_psycopg(SCAN).encode(), {"queue": queue}).fetchone() or (0,)
        return int(found)

    def analyze(self) -> None:
        self._connection.execute("VACUUM ANALYZE message, message_reference")

    def hold(self) -> None:
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        self.scan(QUEUE)

    def close(self) -> None:
        self._connection.close()


# --- the databases ------------------------------------------------------------------------------------


def conninfo_of(url: str) -> str:
    """A URL as psycopg wants it."""
    found = make_url(url)
    return make_conninfo(
        host=found.host, port=found.port, user=found.username, password=found.password, dbname=found.database
    )


class Database(Protocol):
    """Makes databases of one kind."""

    def new_url(self) -> str:
        """The URL of a database that has nothing in it."""

    def bare(self, url: str) -> Bare:
        """The bare statements on a database."""


class Sqlite:
    """See :class:`Database`.

    Args:
        directory: of the files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0

    def new_url(self) -> str:
        self._number += 1
        return f"sqlite:///{self._directory}/{self._number}.db"

    def bare(self, url: str) -> Bare:
        return BareSqlite(url)


class Postgres:
    """See :class:`Database`.

    Args:
        server: that runs.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def new_url(self) -> str:
        return self._server.url(self._server.make_database())

    def bare(self, url: str) -> Bare:
        return BarePostgres(url)


@contextmanager
def sqlite_files(where: str) -> Iterator[Database]:
    with scratch(where) as directory:
        yield Sqlite(directory)


@contextmanager
def postgres_server(where: str, programs: Path = NEWEST) -> Iterator[Database]:
    with scratch(where) as directory:
        directory.chmod(0o755)  # root starts the server as another user
        server = PostgresServer(directory / "server", programs=programs)
        server.start(**SERVER)
        try:
            yield Postgres(server)
        finally:
            server.stop()


OPEN: Final[dict[str, Callable[[str], AbstractContextManager[Database]]]] = {
    "sqlite": sqlite_files,
    "postgresql": postgres_server,
    "postgresql-17": partial(postgres_server, programs=OLDER),
}


def seconds_of(step: Callable[..., object], *given: object) -> float:
    begun = time.perf_counter()
    step(*given)
    return time.perf_counter() - begun


def ratio_of(ours: Sequence[float], bare: Sequence[float]) -> float:
    """The median of ratios of runs that took turns."""
    return statistics.median(a / b for a, b in zip(ours, bare, strict=True))


# --- claims -------------------------------------------------------------------------------------------


def measure_claims(name: str, database: Database, runs: int) -> None:
    """Milliseconds in which 1,000 messages are claimed and settled, by size of the batch."""
    url = database.new_url()
    connection = SqlProvider(Settings(url)).connect("benchmark", "one")
    bare = database.bare(url)
    queue, archive = parse_destination(QUEUE), parse_destination(ARCHIVE)
    poller = connection.poller(queue)

    def take(batch: int) -> None:
        for cycle in range(COUNT // batch):
            claims = poller.claim(cycle, range(batch))
            assert len(claims) == batch
            keys = [claim.duplicate_key for claim in claims]
            connection.settle([GroupSettlement(claims, archive, OUTCOME, keys)])

    def take_bare(batch: int) -> None:
        for _ in range(COUNT // batch):
            rows = bare.claim(QUEUE, batch)
            assert len(rows) == batch
            bare.settle(rows)

    for batch in BATCHES:
        times: dict[Take, list[float]] = {take: [], take_bare: []}
        for number in range(runs + 1):
            for step, found in times.items():
                bare.fill(QUEUE, COUNT)
                seconds = seconds_of(step, batch)
                if number:  # the first run warms up
                    found.append(seconds * 1000)
        print(
            f"{name}: {COUNT:,} messages in batches of {batch:,}: provider {spread(times[take], 1)} ms, "
            f"bare statements {spread(times[take_bare], 1)} ms, ratio "
            f"{ratio_of(times[take], times[take_bare]):.2f}",
            flush=True,
        )
    connection.close()
    bare.close()


# --- backlog ------------------------------------------------------------------------------------------


def measure_backlog(name: str, database: Database, backlogs: Sequence[int], runs: int) -> None:
    """Microseconds of a claimed message, and of a poll that rejects all, by the number that waits."""
    queue = parse_destination(QUEUE)
    urls = [database.new_url() for _ in backlogs]
    connections = [SqlProvider(Settings(url)).connect("benchmark", "one") for url in urls]
    bares = [database.bare(url) for url in urls]
    for backlog, bare in zip(backlogs, bares, strict=True):
        bare.fill(QUEUE, backlog)
        bare.analyze()
    pollers = [connection.poller(queue) for connection in connections]
    selective = [connection.poller(queue, selector=SELECTOR) for connection in connections]
    for backlog, bare, poller in zip(backlogs, bares, selective, strict=True):
        scan = seconds_of(bare.scan, QUEUE) * 1e6 / backlog
        look = seconds_of(poller.claim, 1, range(POLL)) * 1e6 / backlog
        print(
            f"{name}: {backlog:,} waiting: the first look of a selector {look:.2f} us a message, "
            f"bare SELECT {scan:.2f} us",
            flush=True,
        )
    times: dict[str, list[list[float]]] = {
        kind: [[] for _ in backlogs] for kind in ("claim", "bare claim", "poll")
    }
    for number in range(runs + 1):
        for index, (bare, poller, selecting) in enumerate(zip(bares, pollers, selective, strict=True)):
            steps: tuple[tuple[str, Callable[..., Sequence[object]], tuple[object, ...], int], ...] = (
                ("claim", poller.claim, (1, range(POLL)), POLL),
                ("bare claim", bare.claim, (QUEUE, POLL), POLL),
                ("poll", selecting.claim, (1, range(POLL)), 0),
            )
            for kind, step, given, expected in steps:
                begun = time.perf_counter()
                taken = step(*given)
                seconds = time.perf_counter() - begun
                assert len(taken) == expected, (kind, len(taken))
                bare.give_back()
                if number:  # the first run warms up
                    times[kind][index].append(seconds * 1e6 / max(1, expected))
    for index, backlog in enumerate(backlogs):
        claim, plain, poll = (found[index] for found in times.values())
        print(
            f"{name}: {backlog:,} waiting: claim {spread(claim, 1)} us a message, "
            f"bare {spread(plain, 1)} us, ratio {ratio_of(claim, plain):.2f}; "
            f"a poll that rejects all {spread(poll)} us"
        )
    first, last = (f"{one:,}" for one in (backlogs[0], backlogs[-1]))
    for kind, found in times.items():
        grown = statistics.median(found[-1]) / statistics.median(found[0])
        print(f"{name}: {kind}, {last} over {first}: {grown:.2f}", flush=True)
    for connection, bare in zip(connections, bares, strict=True):
        connection.abandon()
        bare.close()


# --- archived -----------------------------------------------------------------------------------------


def measure_archived(name: str, database: Database, runs: int) -> None:
    """Microseconds of a claim that finds one message and of one that finds none, by the number of copies."""
    queue = parse_destination(QUEUE)
    for archived in ARCHIVED:
        url = database.new_url()
        connection = SqlProvider(Settings(url)).connect("benchmark", "one")
        bare = database.bare(url)
        if archived:
            bare.fill(ARCHIVE, archived)
        poller = connection.poller(queue)
        steps: dict[str, Callable[[], Sequence[object]]] = {
            "provider": partial(poller.claim, 1, range(1)),
            "bare": partial(bare.claim, QUEUE, 1),
        }
        times: dict[tuple[str, int], list[float]] = {(one, found): [] for one in steps for found in (1, 0)}
        for _ in range(runs):
            for one, step in steps.items():
                bare.fill(QUEUE, 1)
                for found in (1, 0):
                    begun = time.perf_counter()
                    taken = step()
                    times[one, found].append((time.perf_counter() - begun) * 1e6)
                    assert len(taken) == found
        for found, what in ((1, "a claim"), (0, "an empty claim")):
            ours, plain = times["provider", found], times["bare", found]
            print(
                f"{name}: {archived:,} archived: {what} {spread(ours)} us, bare {spread(plain)} us, ratio "
                f"{ratio_of(ours, plain):.2f}",
                flush=True,
            )
        connection.abandon()
        bare.close()


# --- churn --------------------------------------------------------------------------------------------


def measure_churn(name: str, database: Database, messages: int, runs: int) -> None:
    """Microseconds of a claimed message before, while and after a foreign transaction is open."""
    url = database.new_url()
    connection = SqlProvider(Settings(url)).connect("benchmark", "one")
    bare, foreign = database.bare(url), database.bare(url)
    poller, archive = connection.poller(parse_destination(QUEUE)), parse_destination(ARCHIVE)
    bare.fill(QUEUE, COUNT)

    def measure(when: str) -> None:
        ours, plain = [], []
        for number in range(runs + 1):
            ours.append(seconds_of(poller.claim, 1, range(POLL)) * 1e6 / POLL)
            bare.give_back()
            plain.append(seconds_of(bare.claim, QUEUE, POLL) * 1e6 / POLL)
            bare.give_back()
            if not number:  # the first run warms up
                ours, plain = [], []
        print(
            f"{name}: {when}: claim {spread(ours, 1)} us a message, bare {spread(plain, 1)} us, "
            f"ratio {ratio_of(ours, plain):.2f}",
            flush=True,
        )

    measure("before the foreign transaction")
    foreign.hold()
    for _ in range(messages // COUNT):
        bare.fill(QUEUE, COUNT)
        claims = poller.claim(1, range(COUNT))
        assert len(claims) == COUNT
        keys = [claim.duplicate_key for claim in claims]
        connection.settle([GroupSettlement(claims, archive, OUTCOME, keys)])
    measure(f"{messages:,} messages later, the foreign transaction open")
    foreign.close()
    measure("just after its end")
    bare.analyze()
    measure("after the upkeep")
    connection.abandon()
    bare.close()


# --- events -------------------------------------------------------------------------------------------


def plain(bare: Bare, queue: str) -> int:
    """The reference: no Spark, no journal, no check of the object."""
    done = 0
    while rows := bare.claim(queue, 1000):
        for body in bare.bodies(rows):
            if orjson.loads(body)["CustomerId"]:
                done += 1
        bare.settle(rows)
    return done


def measure_events(name: str, database: Database, directory: Path, messages: int, runs: int) -> list[float]:
    """Events a second, of the adapter and of the bare statements; returns those of the adapter."""
    url = database.new_url()
    file = deployment(directory / name, ["in"], provider=f'{{type: sql, url: "{url}"}}')
    rates: list[float] = []
    plain_rates: list[float] = []
    bodies = [json_body(number) for number in range(messages)]
    with Adapter.from_file(file) as adapter:
        adapter.drain()  # which makes the tables
        bare = database.bare(url)
        for number in range(runs + 1):
            bare.fill("queue://plain", messages, bodies)
            bare.fill(QUEUE, messages, bodies)
            begun = time.perf_counter()
            assert plain(bare, "queue://plain") == messages
            plain_rate = messages / (time.perf_counter() - begun)
            before = adapter.summary.total.published
            begun = time.perf_counter()
            adapter.drain()
            seconds = time.perf_counter() - begun
            assert adapter.summary.total.published - before == messages, adapter.summary.total.as_dict()
            if number:  # the first run warms up
                plain_rates.append(plain_rate)
                rates.append(messages / seconds)
        bare.close()
    print(
        f"{name}: events a second: adapter {spread(rates)}, bare statements {spread(plain_rates)}, "
        f"ratio {ratio_of(rates, plain_rates):.2f}",
        flush=True,
    )
    return rates


PROCRASTINATE: Final = """
import asyncio, json, sys, time
import procrastinate

url, messages, runs, concurrency = sys.argv[1], *map(int, sys.argv[2:])
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
seen = 0


@app.task(queue="in")
async def take(body):
    global seen
    if not json.loads(body)["CustomerId"]:
        raise ValueError("no id")
    seen += 1


async def main():
    bodies = sys.stdin.read().splitlines()
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for number in range(runs + 1):
            before = seen
            await take.batch_defer_async(*[{"body": body} for body in bodies])
            begun = time.perf_counter()
            await app.run_worker_async(
                queues=["in"], concurrency=concurrency, wait=False, install_signal_handlers=False
            )
            seconds = time.perf_counter() - begun
            assert seen - before == messages, seen - before
            if number:
                print(messages / seconds)


asyncio.run(main())
"""


def measure_procrastinate(python: str, url: str, messages: int, runs: int, concurrency: int) -> list[float]:
    """Events a second of a worker of procrastinate on the same server; its jobs end as rows, too."""
    script = [python, "-c", PROCRASTINATE, conninfo_of(url), *map(str, (messages, runs, concurrency))]
    bodies = b"\n".join(json_body(number) for number in range(messages))
    done = subprocess.run(script, input=bodies, stdout=subprocess.PIPE, check=True)
    return [float(line) for line in done.stdout.split()]


def measure_events_of(name: str, database: Database, where: str, arguments: argparse.Namespace) -> None:
    with scratch(where) as directory:
        rates = measure_events(name, database, directory, arguments.messages, arguments.runs)
    if name == "postgresql" and arguments.procrastinate:
        others = measure_procrastinate(
            arguments.procrastinate,
            database.new_url(),
            arguments.jobs,
            arguments.runs,
            arguments.concurrency,
        )
        times = statistics.median(rates) / statistics.median(others)
        print(
            f"{name}: procrastinate {spread(others)} events a second, the adapter {times:.1f} times as many"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; none = all")
    parser.add_argument("--on", choices=OPEN, help="one database only")
    parser.add_argument(
        "--programs", type=Path, help="of another PostgreSQL, such as /usr/lib/postgresql/15/bin"
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--backlogs", type=int, nargs="+", default=BACKLOGS)
    parser.add_argument("--churn", type=int, default=200_000, help="messages that come and go")
    parser.add_argument("--messages", type=int, default=10_000, help="of a run of events")
    parser.add_argument("--disk", help="a directory on a disk, measured instead of tmpfs")
    parser.add_argument("--procrastinate", metavar="PYTHON", help="a Python that has procrastinate")
    parser.add_argument("--jobs", type=int, default=2_000, help="of a run of procrastinate")
    parser.add_argument("--concurrency", type=int, default=64, help="of procrastinate")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}: expected {', '.join(PARTS)}")
    where = arguments.disk or "/dev/shm"
    print(machine())
    only = arguments.on
    if arguments.programs:
        only = f"postgresql-{version_of(arguments.programs)}"
        OPEN[only] = partial(postgres_server, programs=arguments.programs)
    for part in arguments.parts or PARTS:
        for name in (only,) if only else VERSIONS if part == "archived" else DATABASES:
            with OPEN[name](where) as database:
                print(f"{part} on {name}, load {os.getloadavg()[0]:.1f}", flush=True)
                if part == "claims":
                    measure_claims(name, database, arguments.runs)
                elif part == "backlog":
                    measure_backlog(name, database, arguments.backlogs, arguments.runs * 10)
                elif part == "archived":
                    measure_archived(name, database, arguments.runs * 20)
                elif part == "churn":
                    measure_churn(name, database, arguments.churn, arguments.runs * 10)
                else:
                    measure_events_of(name, database, where, arguments)


if __name__ == "__main__":
    main()
