"""An adapter over the broker in this process, and processes at the same broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, running
from tests.stores.conftest import children, root

__all__ = ["children", "root"]


@pytest.fixture
def provider(root: Path) -> LentProvider:
    return LentProvider(root / "state")


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return deploy(tmp_path)


@pytest.fixture
def adapter(deployment: Deployment, provider: LentProvider) -> Iterator[InProcessAdapter]:
    with running(deployment, provider) as adapter:
        yield adapter
