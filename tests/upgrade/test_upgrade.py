"""Data of version 0.2.0 with messages in flight: no message is lost, and none comes twice without a sign.

Version 0.2.0 made the data, by a program that ``git log -p -- tests/upgrade/make.py`` shows. It ran as root
below ``/srv/adapter``, on the host ``host-a``. Two adapters were killed while each of them was in a delivery:

* ``billing`` has claims without an in-progress destination, eliminates duplicates, sends, serves requests and
  polls a durable subscription.
* ``ledger`` has an in-progress destination, with one event in doubt from an earlier crash.

An archive for each kind keeps empty directories, links and times. That of PostgreSQL has a dump. The business
processes have written the file ``deliveries`` of each.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import tarfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, inspect

from connector.errors import ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.sql import schema
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.database_page import move
from tests.forked_command import PipedProcess
from tests.postgres import PostgresServer

pytestmark = pytest.mark.process

FOLDER = Path(__file__).parent
SECTIONS: dict[str, dict[str, Any]] = {
    "dropbox": {"provider": {"type": "dropbox", "root": "./data", "create": True}},
    "sqlite": {
        "provider": {"type": "sql", "url": "sqlite:///./data/messages.db"},
        "state": {"directory": "./state"},
    },
    "postgresql": {"provider": {"type": "sql", "url": "${DATABASE}"}},
}

SETTLED = ["done-1", "answered-1", "price-1"]
"""In the archive of 0.2.0."""
WAITING = ["waiting-1", "waiting-2", "waiting-3"]
CLAIMED = ["claimed-1", "claimed-2"]
INVOICES = ["held-invoice-1", "done-invoice-2", "held-invoice-2", "claimed-invoice-1", "waiting-invoice-1"]
IN_DOUBT = ["held-1", "held-invoice-1", "held-invoice-2"]


@dataclass
class Upgraded:
    """A deployment with data of 0.2.0.

    Args:
        kind: of the data.
        directory: of the deployment.
        url: of the database. Empty for a dropbox.
    """

    kind: str
    directory: Path
    url: str

    def run(self, *arguments: str) -> str:
        """Runs a command to its end and returns its output. Spark has no part in that."""
        deliveries = str(self.directory / "deliveries")
        with PipedProcess(
            *arguments, cwd=self.directory, DELIVERIES=deliveries, DATABASE=self.url
        ) as process:
            output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        return output

    def drain(self, adapter: str) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads(self.run("run", "-c", adapter, "--drain", "--json"))
        return summary

    def messages(self, queue: str) -> list[Message]:
        """The messages of a queue, those that are claimed among them."""
        settings, data = Settings(self.url), self.directory / "data"
        provider = SqlProvider(settings) if self.url else DropboxProvider(data)
        with closing(provider.existing()) as connection:
            return list(connection.browse(parse_destination(queue)))

    def numbers(self, queue: str) -> Counter[str]:
        """How often the message of each number is in a queue."""
        return Counter(json.loads(one.body)["Number"] for one in self.messages(queue))

    def deliveries(self, word: str) -> dict[str, list[int]]:
        """The delivery counts of each number, in their order."""
        found: dict[str, list[int]] = {}
        for line in (self.directory / "deliveries").read_text().splitlines():
            what, number, count = line.split()
            if what == word:
                found.setdefault(number, []).append(int(count))
        return found

    def send_again(self, number: str) -> None:
        """Moves a message from the archive to its input, as an operator does."""
        if self.kind == "dropbox":
            target = self.directory / "data" / "orders" / "incoming" / "target"
            files = (self.directory / "data" / "archive" / "incoming" / "target").iterdir()
            (found,) = (file for file in files if f'"{number}"' in file.read_text())
            found.rename(target / found.name)
            return
        archived = execute(
            self.url,
            "SELECT r.id, m.body FROM message_reference r JOIN message m ON m.id = r.message "
            "WHERE r.channel = 'queue://archive'",
        )
        (found_id,) = (row[0] for row in archived if f'"{number}"'.encode() in bytes(row[1]))
        move(self.url, found_id, "queue://orders")


def unpack(kind: str, directory: Path, server: PostgresServer | None = None) -> Upgraded:
    shutil.copytree(FOLDER / "deployment", directory)
    for name in ("billing.yaml", "ledger.yaml"):
        sections = "".join(f"{key}: {json.dumps(value)}\n" for key, value in SECTIONS[kind].items())
        (directory / name).write_text(sections + (directory / name).read_text())
    with tarfile.open(FOLDER / f"{kind}.tar.xz") as archive:
        # Python 3.11.2 has no filters yet, and 3.14 has another default.
        archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
        archive.extractall(directory)
    url = f"sqlite:///{directory}/data/messages.db" if kind == "sqlite" else ""
    if server is not None:
        name = server.make_database()
        url = server.url(name)
        with server.connect(name) as connection:
            connection.execute((directory / "dump.sql").read_bytes())
            # whatever the clock of this machine says, and whenever this server has started
            connection.execute("UPDATE public.process SET beat = now() - interval '1 hour', lease = 1")
    return Upgraded(kind, directory, url)


def server_of(kind: str, request: pytest.FixtureRequest) -> PostgresServer | None:
    return request.getfixturevalue("postgres") if kind == "postgresql" else None


@pytest.fixture(params=["dropbox", "sqlite", "postgresql"])
def upgraded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Upgraded]:
    yield unpack(request.param, tmp_path / "deployment", server_of(request.param, request))
    shutil.rmtree(tmp_path / "deployment")


def test_data_of_0_2_0_with_messages_in_flight_is_processed(upgraded: Upgraded) -> None:
    upgraded.send_again("done-1")
    ledger, billing = upgraded.drain("ledger.yaml"), upgraded.drain("billing.yaml")
    assert (ledger["failed"], billing["failed"], ledger["in_doubt"], billing["in_doubt"]) == (0, 0, 0, 0)
    assert billing["duplicates"] == 1

    expected = [*SETTLED, "done-2", "held-1", *CLAIMED, *WAITING, "waiting-4", "price-2", "price-3"]
    assert upgraded.numbers("archive") == Counter(expected)
    assert upgraded.numbers("ledger-archive") == Counter(INVOICES)
    assert upgraded.numbers("error") == Counter(["bad-1"])
    assert upgraded.numbers("unsubscribed") == Counter(["unwanted-1"])
    for queue in ("orders", "questions", "invoices", "in-progress"):
        assert upgraded.numbers(queue) == Counter()
    assert upgraded.numbers("erp") == Counter(["done-1", "done-2", "held-1", *CLAIMED, *WAITING])

    begun, ended = upgraded.deliveries("begin"), upgraded.deliveries("end")
    again = {*IN_DOUBT}
    if upgraded.url:
        again.add("done-2")  # 0.2.0 wrote what a task sends at the end of the task
    once = {*expected, *INVOICES, "bad-1"} - again
    assert begun == {**{number: [1] for number in once}, **{number: [1, 2] for number in again}}
    assert {number: len(counts) for number, counts in ended.items()} == {
        **dict.fromkeys(set(begun) - {"bad-1"}, 1),
        **dict.fromkeys(again - {*IN_DOUBT}, 2),
    }

    asked = {one.message_id: one.body for one in upgraded.messages("archive")}
    replies = upgraded.messages("replies")
    assert upgraded.numbers("replies") == Counter(["answered-1", "waiting-4"])
    assert all(json.loads(asked[one.correlation_id]) == json.loads(one.body) for one in replies)
    backlog = upgraded.run(
        *("receive", "-c", "billing.yaml", "topic://prices", "--subscription", "audit"),
        *("--client-id", "audit", "--count", "9", "--json"),
    )
    received = [json.loads(json.loads(line)["body"])["Number"] for line in backlog.splitlines()]
    assert received == ["price-1", "price-2", "price-3"]


# -- the tables ------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql"])
def database_of_0_2_0(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return unpack(request.param, tmp_path / "deployment", server_of(request.param, request)).url


def tables_of(url: str) -> dict[str, tuple[set[str], set[str]]]:
    """The names of columns and indexes by table."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy does not know the type xid8
        found = inspect(connection)
        return {
            table: (
                {column["name"] for column in found.get_columns(table)},
                {str(index["name"]) for index in found.get_indexes(table)},
            )
            for table in found.get_table_names()
        }


def execute(url: str, *statements: str) -> list[Any]:
    """Returns the rows of the last statement."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        for statement in statements:
            result = connection.exec_driver_sql(statement)
        return [tuple(row) for row in result] if result.returns_rows else []


LATEST = 1 + len(schema.MIGRATIONS)
VERSION = "SELECT version FROM schema_version"
GROUPS = """
    SELECT m.group_id, r.claimed_group FROM message_reference r JOIN message m ON m.id = r.message
    WHERE m.group_id IS NOT NULL ORDER BY r.id
"""


def test_tables_of_0_2_0_become_those_of_a_new_database(
    database_of_0_2_0: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = database_of_0_2_0
    new = f"sqlite:///{tmp_path}/new.db" if url.startswith("sqlite") else request.getfixturevalue("database")
    assert execute(url, VERSION) == [(1,)]
    for one in (url, new):
        SqlProvider(Settings(one)).connect().close()
    assert execute(url, VERSION) == [(LATEST,)]
    assert tables_of(url) == tables_of(new)
    assert execute(url, GROUPS) == [("group-1", "group-1"), ("group-1", None)]


PAGE = (FOLDER.parents[1] / "docs/how-to/upgrade.md").read_text("utf-8")
BACK = dict(re.findall(r"```sql name=back-(\w+)\n(.*?)```", PAGE, re.DOTALL))
"""The statements that go back to 0.2.0, by the kind of the database."""


@pytest.mark.parametrize("dropped", [(), ("ALTER TABLE client DROP COLUMN process",)])
@pytest.mark.parametrize("kind", BACK)
def test_tables_of_version_1_with_columns_of_version_2_are_accepted(
    kind: str, dropped: Sequence[str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """After a way back to 0.2.0, and of a build between the two versions."""
    url = f"sqlite:///{tmp_path}/new.db" if kind == "sqlite" else request.getfixturevalue("database")
    SqlProvider(Settings(url)).connect().close()
    expected = tables_of(url)
    execute(url, *BACK[kind].split(";"), *dropped)
    assert execute(url, VERSION) == [(1,)]
    SqlProvider(Settings(url)).connect().close()
    assert tables_of(url) == expected
    assert execute(url, VERSION) == [(LATEST,)]


KILLED = """
import os, signal, sys
from sqlalchemy import Engine, event
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider

url, number = sys.argv[1], int(sys.argv[2])
changes = 0

@event.listens_for(Engine, "after_cursor_execute")
def kill(connection, cursor, statement, *others):
    global changes
    if statement.split()[0] in ("ALTER", "CREATE", "UPDATE", "DO", "DROP"):
        changes += 1
        if changes == number:
            os.kill(os.getpid(), signal.SIGKILL)

SqlProvider(Settings(url)).connect().close()
"""


def test_a_migration_that_is_killed_leaves_the_old_tables(database_of_0_2_0: str) -> None:
    url = database_of_0_2_0
    old = tables_of(url)
    number = 0
    while True:
        number += 1
        with PipedProcess(url, number, script=KILLED) as process:
            process.communicate()
        if execute(url, VERSION) == [(LATEST,)]:
            break
        assert process.returncode == -signal.SIGKILL
        assert tables_of(url) == old
    assert number > 5
    SqlProvider(Settings(url)).connect().close()


def test_instances_that_start_at_once_migrate_the_tables_once(database_of_0_2_0: str) -> None:
    code = KILLED.replace("url, number", "sys.stdin.readline()\nurl, number", 1)
    started = [PipedProcess(database_of_0_2_0, 0, script=code) for _ in range(3)]
    for one in started:
        one.stdin.write("go\n")
        one.stdin.flush()
    assert [(one.communicate()[1], one.returncode) for one in started] == [("", 0)] * 3
    assert execute(database_of_0_2_0, VERSION) == [(LATEST,)]


def test_who_only_looks_says_how_the_tables_are_migrated(database_of_0_2_0: str) -> None:
    with pytest.raises(ProviderError, match=rf"schema version 1, .* needs {LATEST}: .*run or send"):
        SqlProvider(Settings(database_of_0_2_0)).existing()
    assert execute(database_of_0_2_0, VERSION) == [(1,)]
