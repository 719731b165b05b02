"""Many callers at once. A thousand of them: ``python -m tests.requests.soak``."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.requests.soak import soak
from tests.requests.world import a_world, shared_memory

pytestmark = pytest.mark.process


@pytest.mark.parametrize("pool", [300, 20])
def test_many_callers_each_have_their_own_answer_once(pool: int) -> None:
    with (
        tempfile.TemporaryDirectory(dir=shared_memory()) as directory,
        a_world("dropbox", Path(directory)) as world,
    ):
        assert soak(world, callers=300, seconds=0.5, pool=pool, applications=2)
