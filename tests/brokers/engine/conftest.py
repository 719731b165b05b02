"""An adapter over the broker in this process, and processes at the same broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.server import serving
from tests.brokers.engine.world import deploy, running
from tests.forked_command import PipedProcess
from tests.stores.conftest import children, root
from tests.waiting import wait_for

__all__ = ["children", "root"]

Run = Callable[..., tuple[int, str]]


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


@pytest.fixture
def run(root: Path, tmp_path: Path, provider: LentProvider) -> Iterator[Run]:
    """Runs a function of run_adapter.py in a process group of its own, at the broker of this process.

    Takes what CONNECTOR_FAULT may say, the name of the function and its argument. Returns the exit status and
    the output, when the broker has rolled back what the process has left.
    """
    with serving(provider.broker, root / "socket"):

        def run(fault: str = "", name: str = "drain", argument: object = tmp_path) -> tuple[int, str]:
            script = f"import sys\nfrom tests.brokers.engine.run_adapter import {name}\n{name}(*sys.argv[1:])"
            given = argument, root / "state", root / "socket"
            with PipedProcess(*given, script=script, CONNECTOR_FAULT=fault) as process:
                output, errors = process.communicate(timeout=120)
            wait_for(lambda: all(one.ended for one in provider.broker.connections), what="the rollback")
            assert process.returncode in (0, -9), errors
            return process.returncode, output

        yield run
