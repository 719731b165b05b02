"""Request clients, applications and strangers on real providers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.requests.world import PROVIDERS, STORES, World, a_world


@pytest.fixture(params=PROVIDERS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A world on one provider, and on the other."""
    with a_world(request.param, tmp_path) as made:
        yield made


@pytest.fixture(params=STORES)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A world on one local provider, and on the other."""
    with a_world(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def dropbox(tmp_path: Path) -> Iterator[World]:
    """A world on a directory."""
    with a_world("dropbox", tmp_path) as made:
        yield made
