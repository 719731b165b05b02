"""A crew of workers for one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contention.crew import Crew, crew


@pytest.fixture
def workers() -> Iterator[Crew]:
    with crew() as workers:
        yield workers
