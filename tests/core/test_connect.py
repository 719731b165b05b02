"""Connecting by URL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from connector.errors import ConfigurationError, ConnectorError, ProviderError
from connector.messaging import connect
from tests.core.conftest import next_of
from tests.tables import rows
from tests.waiting import beside


def sent(root: Path) -> int:
    """How many orders are in a directory."""
    return len(list((root / "orders/incoming/target").iterdir()))


def test_a_directory_is_a_provider_and_counts_from_where_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in (f"dropbox:{tmp_path}/data?create=true", "dropbox:./data?create=true"):
        with connect(url, durability="none") as connection, connection.session() as session:
            session.send("orders", "1")
    assert sent(tmp_path / "data") == 2


def test_a_directory_that_is_missing_or_empty_is_made_only_where_the_url_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        ProviderError, match=r"is missing: is the file system mounted\?.*\?create=true in the URL"
    ):
        connect(f"dropbox:{tmp_path}/mq")
    with pytest.raises(ProviderError, match="is empty: is the file system mounted"):
        connect(f"dropbox:{tmp_path}?create=false")
    assert list(tmp_path.iterdir()) == []
    connect(f"dropbox:{tmp_path}?create=true").close()
    connect(f"dropbox:{tmp_path}").close()


def test_one_name_is_one_memory_within_a_process_and_another_is_another() -> None:
    urls = ("memory:test_connect", "memory:test_connect", "memory:test_connect_b")
    one, same, other = (connect(url) for url in urls)
    with one, same, other:
        one.session().send("orders", "1")
        assert other.session().consumer("orders").receive_nowait() is None
        assert next_of(same.session().consumer("orders")).value == "1"


def test_a_deployment_names_its_provider(tmp_path: Path) -> None:
    file = tmp_path / "adapter.yaml"
    file.write_text(
        "provider: {type: dropbox, root: ./data, create: true}\nconnector: {ApplicationName: a}\n"
    )
    with connect(str(file), client_id="billing") as connection, connection.session() as session:
        assert connection.client_id == "billing"
        session.send("orders", "1")
    assert sent(tmp_path / "data") == 1
    with pytest.raises(ConfigurationError, match="no-such"):
        connect(str(tmp_path / "no-such.yaml"))
    with pytest.raises(TypeError):
        connect(str(file), durability="none")


NO_PROVIDER = r"names no provider; there are .*dropbox:\.\.\., .*memory:\.\.\."


@rows(
    "url, options, error, words",
    [
        *(
            (url, {}, ConnectorError, NO_PROVIDER)
            for url in ("", "/var/mq", "rabbit:host", "dropboxx:/tmp/x")
        ),
        ("dropbox:ROOT?create=yes", {}, ValueError, r"'\?create=yes' .* expected \?create=true"),
        ("dropbox:ROOT?create=true", {"durabilty": "none"}, TypeError, "durabilty"),
        ("dropbox:ROOT?create=true", {"durability": "some"}, ValueError, "no durability"),
        ("dropbox:", {}, ValueError, "needs a directory"),
    ],
)
def test_a_url_that_names_no_provider_or_an_option_that_it_does_not_have_is_an_error(
    tmp_path: Path, url: str, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        connect(url.replace("ROOT", str(tmp_path)), **options)


@rows(
    "url, meant",
    [
        ("postgres://u:secret@h/d", "sql:postgresql+psycopg://..."),
        ("postgresql+psycopg://u:secret@h/d", "sql:postgresql+psycopg://..."),
        ("sqlite:///./m.db", "sql:sqlite:///FILE"),
    ],
)
def test_the_url_of_a_database_names_the_provider_and_never_a_password(url: str, meant: str) -> None:
    with pytest.raises(ConnectorError) as refused:
        connect(url)
    assert f"did you mean '{meant}'" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.process
def test_a_program_that_connects_does_not_import_what_reads_a_configuration() -> None:
    program = (
        "import sys; from connector.messaging import connect; connect('memory:').close(); "
        "sys.exit(any(name in sys.modules for name in ('pydantic', 'yaml', 'connector.config')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=240).returncode == 0


def test_a_connection_may_begin_stopped(tmp_path: Path) -> None:
    with connect(f"dropbox:{tmp_path}?create=true", start=False, client_id="billing") as connection:
        assert connection.client_id == "billing"
        session = connection.session()
        session.send("orders", "1")
        consumer = session.consumer("orders")
        assert consumer.receive_nowait() is None
        waiting = beside(next_of, consumer)
        connection.start()
        assert waiting.result(120).value == "1"
