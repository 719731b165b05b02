"""The fixture that makes deployments for the crash tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.harness import CrashDeployment, deployments
from tests.quick_folder import quick_folder

_HERE: Final = Path(__file__).parent
Deploy = Callable[..., CrashDeployment]


DATABASES = ("sqlite", "postgresql")
EVERY_PROVIDER = ("dropbox", *DATABASES)


@pytest.fixture
def provider_type() -> str:
    """What the deployments of a test have their messages in: one of :data:`EVERY_PROVIDER`."""
    return "dropbox"


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A folder for databases, see :func:`~tests.quick_folder.quick_folder`."""
    with quick_folder(tmp_path) as path:
        yield path


@pytest.fixture
def deploy(tmp_path: Path, request: pytest.FixtureRequest, provider_type: str) -> Iterator[Deploy]:
    """Makes deployments; ends their processes and removes their roots afterwards.

    Those of a module with ``JAVA = False`` run without Spark. So do those with a database: that Spark reaches
    the workers is shown with a dropbox.
    """
    java, database = getattr(request.module, "JAVA", True), ""
    if provider_type in DATABASES:
        java = False
        is_sqlite = provider_type == "sqlite"
        database = "sqlite:///{root}/messages.db" if is_sqlite else request.getfixturevalue("database")
    with deployments(tmp_path) as make:
        yield functools.partial(make, java=java, database=database)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder: what they show is how processes end."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.process)
