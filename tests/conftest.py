"""Fixtures for all tests, the marks of slow ones, and the option of tests with servers."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests import measures
from tests.postgres import database, own_postgres, postgres

__all__ = ["database", "own_postgres", "postgres"]

for _name in ("fork", "_exit"):
    # slipcover lets each forked process report what it has run, which takes longer than most tests
    setattr(os, _name, getattr(getattr(os, _name), "__wrapped__", getattr(os, _name)))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so. The processes of tests would never see Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("busy", deadline=None)  # a busy machine takes longer for one example
settings.load_profile("busy")

_HERE = Path(__file__).parent
_SLOW = {f"{file}::{function}" for file, one in measures.read().items() for function in one.slow}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that were slow when they were measured."""
    for item in items:
        if item.nodeid.partition("[")[0] in _SLOW:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Lets the garbage collector look at new objects only, here and in the many forked workers."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--servers",
        action="store_true",
        help="Also run tests/servers: real brokers and a Spark cluster.",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves the tests with servers out, unless asked for: they fetch the brokers from Maven Central."""
    is_servers = collection_path == _HERE / "servers"
    return True if is_servers and not config.getoption("--servers") else None
