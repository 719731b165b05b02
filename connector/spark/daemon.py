"""The process that forks the Python workers of the adapter's own local Spark.

Spark runs this module instead of ``pyspark.daemon``. The module imports what the driver has loaded for
events, and then becomes ``pyspark.daemon``. So all workers share the memory of one import.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

MODULE: Final = "connector.spark.daemon"
IMPORTS: Final = "CONNECTOR_WORKER_IMPORTS"
"""The environment variable with the path of a file of module names, a line each."""
CODE: Final = "CONNECTOR_WORKER_CODE"
"""The environment variable with the directory of the connector, which is the last entry of PYTHONPATH."""

_ENTRIES: Final = ("connector.events.run.worker", "connector.events.run.task", "connector.sinks.process.sink")
_OF_EVENTS: Final = (
    "connector.businessobjects.",
    "connector.core.",
    "connector.datahandlers.",
    "connector.formats.",
    "connector.messaging.",
    "connector.requests.",
    "connector.sinks.",
    "connector.state.",
    "connector.stores.",
    "connector.text.",
)


def modules_for_workers() -> list[str]:
    """Returns the modules of events that this process has loaded, without those that read a configuration."""
    loaded = [name for name in sorted(sys.modules) if name.startswith(_OF_EVENTS)]
    return [*_ENTRIES, *(name for name in loaded if not _reads_configuration(name))]


def _reads_configuration(name: str) -> bool:
    values = vars(sys.modules[name]).values()
    return any(str(getattr(value, "__module__", "")).startswith("connector.declare.") for value in values)


def _import(names: Iterable[str]) -> None:
    for name in names:
        with suppress(ImportError):  # the check of the workers names what is missing
            importlib.import_module(name)


def _leave_the_path() -> None:
    """Takes the connector out of PYTHONPATH, which the programs that a business process starts inherit."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    code = os.environ.pop(CODE, None)
    if code in entries:
        del entries[len(entries) - 1 - entries[::-1].index(code)]
        os.environ["PYTHONPATH"] = os.pathsep.join(entries)


def main() -> None:
    """Imports, and runs ``pyspark.daemon`` with the arguments of this process."""
    _leave_the_path()
    with suppress(OSError):
        _import(Path(os.environ.pop(IMPORTS, "")).read_text("utf-8").split())
    gc.collect()
    gc.freeze()  # the collector of a worker leaves the shared memory alone
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
