"""The fixture that makes deployments for the crash tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.harness import CrashDeployment, deployments

_HERE: Final = Path(__file__).parent
Deploy = Callable[..., CrashDeployment]


@pytest.fixture
def provider_type() -> str:
    """What the deployments of a test have their messages in: dropbox, sqlite or postgresql."""
    return "dropbox"


@pytest.fixture
def deploy(tmp_path: Path, request: pytest.FixtureRequest, provider_type: str) -> Iterator[Deploy]:
    """Makes deployments; ends their processes and removes their roots afterwards.

    They run without Spark, unless a test says ``java=True``: a start of Spark costs more than all the rest of
    most tests.
    """
    databases = {"sqlite": "sqlite:///{root}/messages.db"}
    if provider_type == "postgresql":
        databases["postgresql"] = request.getfixturevalue("database")
    with deployments(tmp_path) as make:
        yield functools.partial(make, java=False, database=databases.get(provider_type, ""))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder: what they show is how processes end."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.process)
