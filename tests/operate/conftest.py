"""What the tests of an operator's commands share: deployments, the providers, and a service in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from connector.service.loop import Service
from connector.testing.deployment import InProcessAdapter
from tests.events.conftest import bench

__all__ = ["bench"]


@pytest.fixture(params=["dropbox", "memory", "sqlite", "postgresql"])
def section(request: pytest.FixtureRequest) -> Mapping[str, str] | None:
    """The section of each provider. None = that of the bench, a directory."""
    if request.param == "postgresql":
        return {"type": "sql", "url": request.getfixturevalue("database")}
    sections = {"memory": {"type": "memory"}, "sqlite": {"type": "sql", "url": "sqlite:///./messages.db"}}
    return sections.get(request.param)


@contextmanager
def serving(adapter: InProcessAdapter) -> Iterator[None]:
    """A service in a thread."""
    service = Service(adapter)
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        yield
    finally:
        service.stop()
        thread.join()
