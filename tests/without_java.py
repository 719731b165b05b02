"""The command ``connector`` without Spark: driver, journals and watched workers are the real ones.

For tests of what Spark has no part in. A start of Spark costs more than all the rest of such a test.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
from collections.abc import Callable
from functools import partialmethod

from connector.cli.__main__ import main


def _use_no_spark() -> None:
    from connector.service.adapter import Adapter
    from connector.service.assembly import spark_section
    from connector.spark import early_java
    from connector.testing.pipeline import InProcessPipeline
    from tests.forked_pipeline import ForkedPipeline

    def make_pipeline(adapter: Adapter, _output: Callable[[str], None] | None) -> InProcessPipeline:
        cores = re.search(r"\d+", spark_section(adapter.configuration).master or "")
        # What forks while another thread uses SQLite or Java inherits locks that nobody releases
        is_forked = adapter.configuration.provider.type != "dropbox" or adapter.configuration.databases
        make = ForkedPipeline if is_forked else InProcessPipeline
        made = make(adapter.configuration.directory, parallelism=int(cores[0]) if cores else 2)
        made.launch()  # forks before the adapter connects
        return made

    early_java.begin = lambda arguments: None
    Adapter._make_pipeline = make_pipeline  # type: ignore[assignment, method-assign]


def _use_test_settings() -> None:
    """Lets an adapter wait for less long, and one with a database be on another machine."""
    from connector.service.adapter import Adapter
    from connector.stores.sql import processes
    from connector.stores.sql.database import Settings

    for owner, name in ((Adapter, "recovery_interval"), (Settings, "lease"), (Settings, "busy")):
        if seconds := os.environ.get(f"TEST_{name.upper()}"):
            arguments = {name: float(seconds)}
            owner.__init__ = partialmethod(owner.__init__, **arguments)  # type: ignore[assignment]
    if machine := os.environ.get("TEST_MACHINE"):
        processes.this_machine = lambda: machine  # type: ignore[assignment]


def start() -> None:
    """Runs the command of ``sys.argv``. Ends the process."""
    _use_test_settings()
    if "run" in sys.argv[1:]:  # no other verb has a pipeline
        _use_no_spark()
        faulthandler.register(signal.SIGUSR2)  # where a run stands that does not end, and its runners
    main()


if __name__ == "__main__":
    start()
