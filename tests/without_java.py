"""The command ``connector`` without Spark: driver, journals and watched workers are the real ones.

For tests of what Spark has no part in. A start of Java costs more than all the rest of such a test.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from connector.adapter import Adapter
from connector.cli.__main__ import main
from connector.testing.pipeline import InProcessPipeline


def _make_pipeline(adapter: Adapter, _output: Callable[[str], None] | None) -> InProcessPipeline:
    return InProcessPipeline(adapter.configuration.directory, parallelism=2)


if __name__ == "__main__":
    Adapter._make_pipeline = _make_pipeline  # type: ignore[method-assign]
    sys.exit(main())
