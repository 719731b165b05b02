"""PostgreSQL answers each statement that an adapter repeats by an index, whatever its statistics say.

The statements come from the calls of an adapter and of those who look at it. Version 18 plans otherwise than
those before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg
import pytest
from sqlalchemy import Engine, event

from connector.messaging.destination import parse_destination
from connector.messaging.history import HistoryRow
from connector.messaging.message import Message
from connector.messaging.retention import Retention
from connector.messaging.settlement import Settlement
from connector.messaging.state_store import CycleJournal, StateStore
from connector.messaging.subscription import TopicSubscription
from connector.stores.sql.database import DatabaseClient, MessageDatabase, Settings
from connector.stores.sql.provider import SqlProvider
from connector.stores.sql.statement import driver_of
from connector.stores.sql.watch import Notifier, SqlWatch
from tests.postgres import OLDER, PostgresServer, end_signs_of_life, new_server
from tests.stores.sql.conftest import ARCHIVE, ORDERS, PRICES
from tests.tables import Table

IN_PROGRESS, ERROR = parse_destination("queue://progress"), parse_destination("queue://error")
JIT_ABOVE_COST: Final = 100_000
"""Of PostgreSQL's default settings: a plan that seems to cost more is compiled before it runs."""
_ARCHIVED: Final = """
INSERT INTO message (headers, properties, body) SELECT '{}', '{}', ''
    FROM generate_series(1, 6000);
INSERT INTO message_reference (message, channel) SELECT id, 'queue://archive' FROM message WHERE id NOT IN
    (SELECT message FROM message_reference)
"""
_WAITING: Final = "UPDATE message_reference SET channel = 'queue://orders' WHERE channel = 'queue://archive'"
_SETTLED: Final = "UPDATE message_reference SET channel = 'queue://archive' WHERE channel = 'queue://orders'"
STATES: Final = {
    "fresh": (),
    "6,000 archived": (_ARCHIVED,),
    "6,000 archived, analyzed": (_ARCHIVED, "ANALYZE"),
    "analyzed while empty, then 6,000 waiting": ("ANALYZE", _ARCHIVED, _WAITING),
    "analyzed with 6,000 waiting, then all archived": (_ARCHIVED, _WAITING, "ANALYZE", _SETTLED),
}
"""What has been done to a database -> the statements that do it. Autovacuum comes too late for all."""
_OF_A_START: Final = re.compile("pg_catalog|pg_type|schema_version|set_config|current_schema|BEGIN|LISTEN")
"""In statements of a new connection, or of no table."""


_WHOLE: Final = re.compile(r"SCAN (message|message_reference|held)\b(?! USING INDEX message_reference_due)")
"""A plan of SQLite that reads each row of a table. Few rows are delayed."""
_OLD: Final = {"connector_origin_destination": "queue://orders", "connector_time": "2020-01-01T00:00:00.000Z"}
"""Of a copy that was kept long enough."""


class Statement(NamedTuple):
    """A statement that the driver has executed."""

    text: str
    values: Any


@pytest.fixture(scope="module")
def older() -> Iterator[PostgresServer]:
    with new_server(programs=OLDER) as server:
        yield server


@pytest.fixture(params=["postgres", "older"])
def server(request: pytest.FixtureRequest) -> PostgresServer:
    found: PostgresServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Statement]:
    """The statements that this process has executed since, each with its first values."""
    seen: dict[str, Statement] = {}
    execute = psycopg.Cursor.execute

    def record(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        text = str(query)
        if not _OF_A_START.search(text) and text.split()[0] in _EXPLAINED:
            seen.setdefault(re.sub(r"_\d+\b", "", text), Statement(text, params))
        return execute(self, query, params, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", record)
    return seen


_NAMED: Final = re.compile(r"%\(([^)]+)\)s")
_EXPLAINED: Final = ("SELECT", "UPDATE", "DELETE", "INSERT", "WITH")


def use(provider: SqlProvider) -> None:
    """Does what an adapter repeats, idle or not, and what those repeat who look at it."""
    state = provider.state("shop")
    instance = state.instance("one")
    connection = provider.connect("shop", "one")
    window = state.window("one", 100)
    orders = {
        "plain": connection.poller(ORDERS),
        "in progress": connection.poller(ORDERS, IN_PROGRESS),
        "by group": connection.poller(ORDERS, by_group=True),
        "selected": connection.poller(ORDERS, selector="region = 'EU'"),
        "selected by group": connection.poller(ORDERS, selector="region = 'EU'", by_group=True),
    }
    connection.poller(TopicSubscription(PRICES)).claim(1, range(5))
    waiter = connection.waiter()
    assert waiter is not None
    for cycle, (name, poller) in enumerate(orders.items()):
        messages = [Message(b"1", priority=9) for _ in range(3)]
        for message in messages:
            message.set_property("region", "EU")
            message.set_property("JMSXGroupID", "one")
        connection.send(ORDERS, messages)
        waiter.begin()
        claims = poller.claim(10 + cycle, range(3))
        assert len(claims) == 3, name
        access = connection.access().open()
        access.load(claims[0].reference, 1000)
        window.reserve([f"{cycle}"])
        first = Settlement(claims[0], copy_to=ARCHIVE, published=f"{cycle}", properties=_OLD)
        connection.settle([first, Settlement(claims[1], copy_to=ERROR), Settlement(claims[2])])
        poller.has_news()
        poller.due_in()
        waiter.wait(0)
        poller.claim(20 + cycle, range(3))
    connection.send(PRICES, [Message(b"1")])
    list(connection.leftovers(IN_PROGRESS, at_start=False))
    connection.find_unowned(IN_PROGRESS)
    connection.prune([Retention(ARCHIVE, 3600.0)])
    connection.delete_temporary(connection.temporary("queue"))
    use_state(state, "one")
    for queue in (ORDERS, ARCHIVE, ERROR):
        provider.waiting(queue)
    provider.clients()
    provider.batches(IN_PROGRESS)
    connection.destinations()
    instance.note({"last_good_poll": 1.0})
    connection.close()
    instance.close()


def use_state(state: StateStore, client: str) -> None:
    """Does what tasks and operators repeat with the state of an application."""
    history = state.history("one")
    history.append([HistoryRow(time=1.0, what="published", ids=["1"])])
    history.prune(0.0)
    state.control().read()
    state.instances()
    journals = state.journals(client, "one")
    journals.make()
    task = journals.file(1, 1, 1)
    journal = task.open()
    for sequence in range(3):
        journal.begin(sequence)
        journal.check()
        journal.done(sequence, b"{}")
    journals.running()
    journal.close()
    task.read(CycleJournal())
    journals.seal([task])
    journals.forget(1)
    journals.forget()


def plans_of(
    database: MessageDatabase, statements: Iterable[Statement]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yields each statement as it is explained, and the nodes of its plan, beginning with the root."""
    with database.transaction(reads=True) as connection, driver_of(connection) as driver:
        for text, values in statements:
            names = list(dict.fromkeys(_NAMED.findall(text)))
            numbered = text
            for number, name in enumerate(names, 1):
                numbered = numbered.replace(f"%({name})s", f"${number}")
            generic = f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {numbered.replace('%%', '%')}"
            for query, given in ((f"EXPLAIN (FORMAT JSON) {text}", values), (generic, None)):
                plan = driver.execute(query, given).fetchone()[0][0]
                yield query, list(_nodes(plan["Plan"]))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for one in plan.get("Plans", ()):
        yield from _nodes(one)


def test_an_index_answers_each_statement_whatever_the_statistics_say(
    server: PostgresServer, executed: dict[str, Statement]
) -> None:
    names = {state: server.make_database() for state in STATES}
    url = server.url(names["fresh"])
    use(SqlProvider(Settings(url)))
    end_signs_of_life(url)
    statements = list(executed.values())
    assert len(statements) > 60
    with Table() as table:
        for state, name in names.items():
            database = MessageDatabase(Settings(server.url(name)))
            database.prepare(make=True)
            with server.connect(name) as connection:
                connection.execute("ALTER TABLE message_reference SET (autovacuum_enabled = off)")
                for one in STATES[state]:
                    connection.execute(one)
            for text, nodes in plans_of(database, statements):
                with table.row(state, text):
                    assert not [one for one in nodes if one["Node Type"] == "Seq Scan"]
                    assert not [one for one in nodes if one.get("Disabled")]
                    assert nodes[0]["Total Cost"] < JIT_ABOVE_COST
                    indexes = {one.get("Index Name", "")[len("message_reference_") :] for one in nodes}
                    # the ones that wait, the best first, and no others
                    if "AS MATERIALIZED" in text and "unnest" not in text:
                        assert indexes & {"new", "changed"} == {"new"}
                    if "pg_snapshot_xmin" in text and "published" not in text:
                        assert indexes & {"new", "changed"} == {"changed"}
                    if "connector_time" in text and "SELECT" in text:
                        assert "copies" in indexes


def test_sqlite_reads_the_whole_of_no_table_of_messages(root: Path) -> None:
    """Reads an index of some of the rows as a whole at most."""
    url, seen = f"sqlite:///{root}/whole.db", dict[str, None]()

    def trace(connection: Any, _: object) -> None:
        connection.set_trace_callback(lambda text: seen.setdefault(text))

    event.listen(Engine, "connect", trace)
    try:
        use(SqlProvider(Settings(url)))
    finally:
        event.remove(Engine, "connect", trace)
    statements = [one for one in seen if one.startswith(_EXPLAINED)]
    assert len(statements) > 60
    with (
        MessageDatabase(Settings(url)).transaction(reads=True) as connection,
        driver_of(connection) as driver,
        Table() as table,
    ):
        for text in statements:
            with table.row(text):
                plan = [row[3] for row in driver.execute(f"EXPLAIN QUERY PLAN {text}")]
                assert not [one for one in plan if _WHOLE.match(one)]
                if "connector_time' END" in text:
                    assert any("INDEX message_reference_copies" in one for one in plan)


def test_a_notice_wakes_a_watch_once(root: Path) -> None:
    class Told(Notifier):
        def interval(self, *, selects: bool) -> float:
            return 1.0

    looks = []
    watch = SqlWatch(DatabaseClient(MessageDatabase(Settings(f"sqlite:///{root}/new.db"))), {}, Told())
    watch.notify(None)
    watch.wait_for_news(lambda: looks.append(1) or False, 0.05)  # type: ignore[func-returns-value]
    assert len(looks) < 3
