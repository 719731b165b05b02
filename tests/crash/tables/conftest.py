"""The Spark and the Java of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.quick_folder import quick_folder
from tests.spark.conftest import local, printed
from tests.spark.warm_java import WarmJava

__all__ = ["local", "printed"]


@pytest.fixture(scope="session")
def warm_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmJava]:
    """A Java for drivers that are killed, one at a time."""
    with quick_folder(tmp_path_factory.mktemp("java")) as directory:
        java = WarmJava(directory)
        yield java
        java.stop()
