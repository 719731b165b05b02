"""The section ``provider`` with ``type: sql``: what is read and refused, and what never shows a password."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from connector.cli.app import run
from connector.config.loading import load
from connector.config.resolved import as_document, as_yaml
from connector.errors import ConfigurationError, ProviderError, WrongValue
from connector.messaging import connect
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.service.assembly import make_provider
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from connector.stores.sql.section import SqlSection
from tests.stores.sql.conftest import ORDERS
from tests.tables import rows

ADAPTER = """\
provider:
  type: sql
  url: {url}
connector:
  ApplicationName: demo
  InputDestination: queue://orders
  ArchiveDestination: queue://archive
  DataHandlerMimeType: application/json
subscriptions:
  - object: Order
    process: processes:book
metaobjects: ./metaobjects
"""
SQLITE = "sqlite:///./data/messages.db"
POSTGRESQL = "postgresql+psycopg://user:${PGPASSWORD}@127.0.0.1:5432/messages"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a deployment with a URL and more lines of the section; returns its directory."""
    (tmp_path / "metaobjects").mkdir()
    objects = "business_object: Order\nverbs: {Create: }\nattributes:\n  Id: {type: String, key: true}\n"
    (tmp_path / "metaobjects/objects.yaml").write_text(objects)
    (tmp_path / "processes.py").write_text("def book(order, event):\n    pass\n")
    monkeypatch.chdir(tmp_path)

    def make(url: str = SQLITE, *lines: str, end: str = "") -> Path:
        text = ADAPTER.format(url=json.dumps(url))
        text = text.replace("connector:", "".join(f"  {line}\n" for line in lines) + "connector:")
        (tmp_path / "adapter.yaml").write_text(text + end)
        return tmp_path

    return make


def test_a_file_is_relative_to_the_configuration(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write()
    configuration = load("adapter.yaml")
    monkeypatch.chdir("/")
    provider = make_provider(configuration)
    assert provider.check() is False
    assert not (directory / "data").exists(), "to look makes nothing"
    provider.connect().close()
    assert (directory / "data/messages.db").exists()
    assert provider.check() is True


def test_the_state_lies_beside_the_file_or_where_the_configuration_says(write: Write) -> None:
    directory = write()
    make_provider(load("adapter.yaml")).state("demo").instance("one").close()
    assert (directory / "data/messages.db.state").is_dir()
    write(SQLITE, end="state: {directory: ./state}\n")
    make_provider(load("adapter.yaml")).state("demo").instance("one").close()
    assert (directory / "state").is_dir()


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("mysql://user:s3cret@host/db", "a URL of 'mysql'"),
        ("postgresql+asyncpg://user:s3cret@host/db", "a URL of 'postgresql+asyncpg'"),
        ("sqlite://", "a URL of SQLite that does not name a file"),
        ("sqlite:///:memory:", "a URL of SQLite that does not name a file"),
        ("postgresql://user:s3cret@host", "a URL without host or database"),
        ("postgresql://user:s3@cret@host/db", "a host with '@'"),
        ("postgresql://user@host/db?password=s3cret", "a password behind '?'"),
        ("user:s3cret@host", "a text that is no URL"),
    ],
)
def test_another_url_is_refused_and_never_shown(write: Write, url: str, found: str) -> None:
    write(url)
    with pytest.raises(ConfigurationError) as refused:
        load("adapter.yaml")
    assert found in str(refused.value)
    assert "cret" not in str(refused.value)
    with pytest.raises((WrongValue, ValueError)) as wrong:
        connect(f"sql:{url}")
    assert "cret" not in str(wrong.value)


def test_nothing_shows_a_password(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PGPASSWORD", "s3/cret")
    write(POSTGRESQL)
    text = as_yaml(as_document(load("adapter.yaml")))
    assert "url: postgresql+psycopg://********@127.0.0.1:5432/messages" in text
    assert run(["config"]) == run(["check"]) == run(["schema"]) == 0
    provider = load("adapter.yaml").provider
    assert isinstance(provider, SqlSection)
    settings = Settings(provider.url)
    shown = "".join((*capsys.readouterr(), text, repr(settings), settings.title))
    assert "s3" not in shown
    assert "/cret" not in shown


def test_a_key_that_sqlite_does_not_have_is_a_mistake(write: Write) -> None:
    write(SQLITE, "schema: events")
    with pytest.raises(ConfigurationError, match="a schema with SQLite"):
        load("adapter.yaml")


def test_sqlite_works_with_a_local_master_only(write: Write) -> None:
    write(SQLITE, end="spark: {master: 'spark://host:7077'}\n")
    with pytest.raises(ConfigurationError, match=r"on one machine, and spark\.master is 'spark://"):
        load("adapter.yaml")
    write(POSTGRESQL.replace("${PGPASSWORD}", "p"), end="spark: {master: 'spark://host:7077'}\n")
    load("adapter.yaml")


def test_a_directory_that_cannot_be_made_is_an_error_of_the_provider(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProviderError, match=r"cannot make .*file.*: "):
        SqlProvider(Settings(f"sqlite:///{tmp_path}/file/messages.db")).connect()


def test_a_url_opens_a_provider(tmp_path: Path) -> None:
    with connect(f"sql:sqlite:///{tmp_path}/messages.db", durability="none") as connection:
        connection.session().producer("queue://orders").send("hello")
    assert os.path.exists(tmp_path / "messages.db")


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ProviderError, match=r"needs the package psycopg: pip install .*\[postgresql\]"):
        SqlProvider(Settings("postgresql+psycopg://user@127.0.0.1:1/db")).connect()


HARMLESS = [
    ("PGHOSTADDR", "127.0.0.9"),  # nobody listens there
    ("PGOPTIONS", "-c search_path=elsewhere -c default_transaction_read_only=on"),
    ("PGCLIENTENCODING", "LATIN1"),
    ("PGCLIENTENCODING", "SQL_ASCII"),
    ("PGDATESTYLE", "German"),
    ("PGTZ", "Asia/Tokyo"),
    ("PGHOST", "nowhere.invalid"),
    ("PGPORT", "1"),
    ("PGUSER", "nobody"),
    ("PGPASSWORD", "wrong"),
    ("PGDATABASE", "nowhere"),
    ("PGSYSCONFDIR", "/nowhere"),
    ("PGSERVICE", "other"),
    ("PGAPPNAME", "other"),
]

OTHER = """\
[other]
host=nowhere
hostaddr=127.0.0.9
port=1
user=nobody
client_encoding=LATIN1
options=-csearch_path=elsewhere
"""


@rows("name, value", HARMLESS)
def test_no_variable_leads_to_another_database_or_changes_a_message(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    (tmp_path / "services").write_text(OTHER)
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    for text, is_set in (("€ before", False), ("€ with", True), ("€ after", False)):
        monkeypatch.setenv(name, value) if is_set else monkeypatch.delenv(name, raising=False)
        with closing(SqlProvider(Settings(database)).connect("suite", "one")) as connection:
            connection.poller(ORDERS)  # makes the queue
            earlier = [one.type for one in connection.browse(ORDERS)]
            connection.send(ORDERS, [Message(text.encode(), type=text)])
            assert [one.type for one in connection.browse(ORDERS)] == [*earlier, text]
    with closing(SqlProvider(Settings(database)).connect("suite", "one")) as connection:
        claims = connection.poller(ORDERS).claim(1, range(9))
        assert [claim.headers().type for claim in claims] == ["€ before", "€ with", "€ after"]
        connection.settle([Settlement(claim) for claim in claims])


@rows(
    "name, value",
    [
        ("PGSERVICE", "nowhere"),
        ("PGSSLMODE", "require"),
        ("PGSSLMODE", "verify-full"),
        ("PGSSLMODE", "nonsense"),
        ("PGCHANNELBINDING", "require"),
        ("PGGSSENCMODE", "require"),
        ("PGREQUIREAUTH", "none"),
        ("PGTARGETSESSIONATTRS", "standby"),
    ],
)
def test_a_variable_that_keeps_the_server_away_is_named(
    database: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ProviderError) as refused:
        SqlProvider(Settings(f"{database}?connect_timeout=9")).connect("suite", "one")
    assert f"and at {name} in the environment" in str(refused.value)
