"""A crew of workers for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.contention.crew import Crew, crew

_HERE: Final = Path(__file__).parent


@pytest.fixture
def workers() -> Iterator[Crew]:
    with crew() as workers:
        yield workers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder: what they show is how processes end."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.process)
