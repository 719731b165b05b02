"""Keeping PySpark from doing more to its process than the adapter wants."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


def silence_py4j() -> None:
    """A connection that breaks is reported by an error of ours, not by tracebacks on the terminal."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    root = logging.getLogger()
    if _not_from_py4j not in root.filters:
        root.addFilter(_not_from_py4j)
    if not root.handlers:
        # py4j also writes to the root logger itself, which would then get a handler to stderr.
        root.addHandler(logging.NullHandler())


def _not_from_py4j(record: logging.LogRecord) -> bool:
    return record.module not in ("java_gateway", "clientserver")


@contextmanager
def untouched_process() -> Iterator[None]:
    """Takes back what a new SparkContext does to its process: a SIGINT handler, an entry in sys.path."""
    path = list(sys.path)
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        sys.path[:] = path
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)


def stop_quietly(context: Any) -> None:
    """Takes a context apart on the Python side only: its JVM has ended already."""
    # Its accumulator server takes half a second to notice; nothing waits for it any more.
    server, context._accumulatorServer = getattr(context, "_accumulatorServer", None), None
    if server is not None:
        threading.Thread(target=server.shutdown, name="spark-accumulators", daemon=True).start()
    with suppress(Exception):
        context.stop()


def forget_context(gateway: Any) -> None:
    """PySpark keeps its gateway for the life of the process; the next pipeline has a JVM of its own."""
    if gateway is None:
        return
    from pyspark import SparkContext

    with SparkContext._lock:
        if SparkContext._gateway is gateway:
            SparkContext._gateway = None
            SparkContext._jvm = None
            SparkContext._active_spark_context = None
