"""Connecting by URL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from connector.errors import ConfigurationError, ConnectorError, ProviderError
from connector.messaging import connect
from tests.tables import rows


def test_a_directory_is_a_provider(tmp_path: Path) -> None:
    with connect(f"dropbox:{tmp_path}/mq?create=true") as connection, connection.session() as session:
        session.send("orders", "1")
    assert len(list((tmp_path / "mq/orders/incoming/target").iterdir())) == 1


def test_a_relative_directory_counts_from_where_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with connect("dropbox:./data?create=true", durability="none") as connection:
        connection.session().send("orders", "1")
    assert (tmp_path / "data/orders").is_dir()


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
    with pytest.raises(ValueError, match=r"'\?create=yes' .* expected \?create=true"):
        connect(f"dropbox:{tmp_path}?create=yes")


def test_one_name_is_one_memory_within_a_process_and_another_is_another() -> None:
    with (
        connect("memory:test_connect") as one,
        connect("memory:test_connect") as same,
        connect("memory:test_connect_b") as other,
    ):
        one.session().send("orders", "1")
        assert other.session().consumer("orders").receive_nowait() is None
        message = same.session().consumer("orders").receive(120)
        assert message is not None
        assert message.value == "1"


def test_a_deployment_names_its_provider(tmp_path: Path) -> None:
    file = tmp_path / "adapter.yaml"
    provider = "provider: {type: dropbox, root: ./data, create: true}"
    file.write_text(f"{provider}\nconnector: {{ApplicationName: a}}\n")
    with connect(str(file), client_id="billing") as connection, connection.session() as session:
        assert connection.client_id == "billing"
        session.send("orders", "1")
    assert len(list((tmp_path / "data/orders/incoming/target").iterdir())) == 1
    with pytest.raises(ConfigurationError, match="no-such"):
        connect(str(tmp_path / "no-such.yaml"))
    with pytest.raises(TypeError):
        connect(str(file), durability="none")


@rows("url", ["", "/var/mq", "rabbit:host", "dropboxx:/tmp/x"])
def test_a_url_that_names_no_provider_is_answered_with_those_there_are(url: str) -> None:
    known = r"names no provider; there are .*dropbox:\.\.\., .*memory:\.\.\."
    with pytest.raises(ConnectorError, match=known):
        connect(url)


def test_an_option_that_the_provider_does_not_have_is_an_error_and_a_directory_has_to_be_named(
    tmp_path: Path,
) -> None:
    with pytest.raises(TypeError, match="durabilty"):
        connect(f"dropbox:{tmp_path}?create=true", durabilty="none")
    with pytest.raises(ValueError, match="no durability"):
        connect(f"dropbox:{tmp_path}?create=true", durability="some")
    with pytest.raises(ValueError, match="needs a directory"):
        connect("dropbox:")


@pytest.mark.process
def test_a_program_that_connects_does_not_import_what_reads_a_configuration() -> None:
    program = (
        "import sys; from connector.messaging import connect; connect('memory:').close(); "
        "sys.exit(any(name in sys.modules for name in ('pydantic', 'yaml', 'connector.config')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=120).returncode == 0


def test_a_connection_may_begin_stopped(tmp_path: Path) -> None:
    with connect(f"dropbox:{tmp_path}?create=true", start=False, client_id="billing") as connection:
        session = connection.session()
        session.send("orders", "1")
        assert session.consumer("orders").receive_nowait() is None
        connection.start()
        assert session.consumer("orders").receive(120) is not None
        assert connection.client_id == "billing"


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
