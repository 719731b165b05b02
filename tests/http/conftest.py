"""A server with one client, for the tests that need no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from connector.http.server import Server
from tests.http.shop import ADAPTER, on_database
from tests.http.webdriver import Browser, shared_browser
from tests.http.world import Script, client, serving
from tests.requests.world import World, a_world


@pytest.fixture(scope="session")
def shared() -> Iterator[tuple[Server, Script]]:
    """A server that all these tests ask: to start and stop one for each would take most of the time."""
    script = Script()
    with serving(script) as server:
        yield server, script


@pytest.fixture
def script(shared: tuple[Server, Script]) -> Script:
    """What answers the requests; as new."""
    return shared[1].again()


@pytest.fixture
def server(shared: tuple[Server, Script], script: Script) -> Server:
    """A server without tokens."""
    return shared[0]


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    """Its client."""
    with client(server) as made:
        yield made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A real request client, and applications. What each provider does is tested in ``tests/requests``."""
    with a_world("dropbox", tmp_path) as made:
        yield made


@pytest.fixture(params=[ADAPTER, on_database("sqlite:///./messages.db")], ids=["dropbox", "sqlite"])
def on_provider(request: pytest.FixtureRequest) -> str:
    """The configuration with a directory, and with a database."""
    return str(request.param)


@pytest.fixture(scope="module")
def chromium() -> Browser:
    """The browser that all tests share, as new."""
    return shared_browser()
