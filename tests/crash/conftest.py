"""Deployments in memory: the root on tmpfs where there is one, so that the tests wait for no disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.harness import Deployment

Deploy = Callable[..., Deployment]


@pytest.fixture
def deploy(tmp_path: Path) -> Iterator[Deploy]:
    """Makes deployments; ends their processes and removes their roots afterwards."""
    shared = Path("/dev/shm")
    in_memory = shared.is_dir() and os.access(shared, os.W_OK | os.X_OK)
    base = Path(tempfile.mkdtemp(prefix="connector-crash-", dir=shared if in_memory else tmp_path))
    made: list[Deployment] = []

    def make(**settings: Any) -> Deployment:
        number = len(made)
        deployment = Deployment(tmp_path / f"deployment{number}", base / f"root{number}", **settings)
        made.append(deployment)
        return deployment

    yield make
    for deployment in made:
        deployment.close()
    shutil.rmtree(base, ignore_errors=True)
