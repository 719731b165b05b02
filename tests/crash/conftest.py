"""The fixture that makes deployments for the crash tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.harness import Deployment, deployments

Deploy = Callable[..., Deployment]


@pytest.fixture
def deploy(tmp_path: Path) -> Iterator[Deploy]:
    """Makes deployments; ends their processes and removes their roots afterwards."""
    with deployments(tmp_path) as make:
        yield make
