"""Starts Java before the command ``run`` imports what it needs. Java and Python then load at the same time.

The start of Java depends on a few values of adapter.yaml. They are read here without any check. The pipeline
takes the early Java only if it would start Java in the same way. Otherwise the early Java is ended.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from connector.regular_file import read_regular
from connector.spark.launcher import FastStart, Launcher
from connector.spark.master import parse_master
from connector.spark.session import is_submitted

_NO_RUN: Final = {"-h", "--help"}
_CONFIG: Final = ("-c", "--config")
_LONGEST: Final = 1 << 20
"""Bytes of adapter.yaml that are read here. A longer file is cut, and then Java starts later or anew."""

_early: FastStart | None = None


def begin(arguments: Sequence[str]) -> None:
    """Starts Java if ``run`` with these arguments will surely need it. Raises nothing."""
    with suppress(Exception):  # the pipeline starts Java later, and reports what is wrong
        _begin(arguments)


def _begin(arguments: Sequence[str]) -> None:
    global _early
    import yaml

    if FastStart is None or is_submitted() or _NO_RUN.intersection(arguments):
        return
    path = Path(_config(arguments)).absolute()
    # Not by the loader in C: its stack overflows at hundreds of thousands of brackets.
    sections = yaml.safe_load(read_regular(path, _LONGEST))
    connector: Mapping[str, Any] = sections["connector"]
    # A provider that is away is waited for, and without an input there is nothing to do.
    if sections["provider"]["type"] != "dropbox" or not connector.get("InputDestination"):
        return
    spark = sections.get("spark") or {}
    settings = SimpleNamespace(
        master=spark.get("master"), python=spark.get("python"), conf=spark.get("conf") or {}
    )
    master = parse_master(settings.master or "local[*]")
    launcher = Launcher(
        settings,
        path.parent.resolve(),
        connector["ApplicationName"],
        output=None,
        jvm_options=None,
        stop_seconds=0.0,
    )
    if master.local and isinstance(java := launcher.make(master), FastStart):
        java.launch()
        _early = java
        atexit.register(_end)


def take_or_launch(java: FastStart) -> FastStart:
    """Returns a Java that runs: the early one if it was started as ``java`` would be, otherwise ``java``.

    Raises:
        PipelineError: Java cannot be run.
    """
    global _early
    early, _early = _early, None
    if early is not None:
        if early.take_place_of(java):
            return early
        early.stop()
    java.launch()
    return java


def _end() -> None:
    """Ends an early Java that no pipeline has taken."""
    if _early is not None:
        _early.stop()


def _config(arguments: Sequence[str]) -> str:
    """Returns the path of the configuration that the arguments name."""
    for position, argument in enumerate(arguments):
        if argument in _CONFIG:
            return arguments[position + 1]
        if argument.startswith("--config="):
            return argument.removeprefix("--config=")
    return os.environ.get("CONNECTOR_CONFIG", "adapter.yaml")
