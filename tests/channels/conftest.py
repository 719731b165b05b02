"""Channels on real providers: the directory and the memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.channels.world import PROVIDERS, World, a_world

ON_DISK = pytest.mark.parametrize("world", ["dropbox"], indirect=True)
IN_MEMORY = pytest.mark.parametrize("world", ["memory"], indirect=True)


@pytest.fixture(params=PROVIDERS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Channels on one provider, and on the other; closed after the test."""
    with a_world(request.param) as made:
        yield made
