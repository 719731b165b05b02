"""A stop of loads has an end, whatever they wait for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from connector.lake import loader as loader_module
from connector.lake import loads as loads_module
from connector.lake.loader import Loader
from connector.lake.loads import Loads
from tests.waiting import beside


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """An event for which something waits until the end of the test."""
    event = threading.Event()
    yield event
    event.set()


def test_loads_that_hang_share_the_time_of_a_stop(
    never: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hang in the provider, and Java does not answer to the cancel."""
    monkeypatch.setattr(loads_module, "_CANCEL_SECONDS", 0.1)
    monkeypatch.setattr(loader_module, "LotLoad", lambda *_: SimpleNamespace(cancel=lambda: never.wait()))
    load: Any = SimpleNamespace(subscription="lake")
    provider: Any = SimpleNamespace(connect=lambda: never.wait())
    loads = Loads.__new__(Loads)
    loads._loaders = [Loader(load, provider, provider, lambda: False) for _ in range(8)]
    for loader in loads._loaders:
        loader.start()
    beside(loads.stop, 0.1).result(60)
