"""The fixture that makes deployments for the crash tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.harness import Deployment, deployments

Deploy = Callable[..., Deployment]


@pytest.fixture
def deploy(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Deploy]:
    """Makes deployments; ends their processes and removes their roots afterwards.

    Those of a module with ``JAVA = False`` run without Spark.
    """
    with deployments(tmp_path) as make:
        yield functools.partial(make, java=getattr(request.module, "JAVA", True))
