"""Fixtures for all tests, and the mark of slow ones."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.postgres import database, own_postgres, postgres

__all__ = ["database", "own_postgres", "postgres"]

for _name in ("fork", "_exit"):
    # slipcover lets each forked process report what it has run, which takes longer than most tests
    setattr(os, _name, getattr(getattr(os, _name), "__wrapped__", getattr(os, _name)))

settings.register_profile("busy", deadline=None)  # a busy machine takes longer for one example
settings.load_profile("busy")

_HERE = Path(__file__).parent
_SLOW = tuple(_HERE / name for name in ("crash", "contention", "demo", "spark"))
"""Folders of tests that start, kill and await real processes or Spark."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in _SLOW):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Lets the garbage collector look at new objects only, here and in the many forked workers."""
    gc.collect()
    gc.freeze()
