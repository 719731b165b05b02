"""Makes the class-data archive that lets Spark start faster (``python -m connector.spark``)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from connector.errors import PipelineError
from connector.java import find_java
from connector.spark.archive import make_archive
from connector.spark.pipeline import SparkPipeline
from connector.spark.settings import spark_jars
from connector.spark.worker import ECHO


@dataclass(frozen=True)
class _Training:
    master: str = "local[1]"
    python: None = None
    conf: dict[str, str] = field(default_factory=dict)


def _train(options: list[str]) -> None:
    with tempfile.TemporaryDirectory() as deployment:
        # Java writes the archive while it exits, which takes some seconds.
        pipeline = SparkPipeline(
            _Training(), Path(deployment), "training", jvm_options=options, stop_seconds=120
        )
        try:
            pipeline.start()
            pipeline.probe(ECHO, b"")
        finally:
            pipeline.stop()


def main() -> int:
    """Makes the archive if none exists. Returns 1 and prints the reason on failure."""
    try:
        make_archive(find_java(), spark_jars(), _train)
    except (OSError, PipelineError, subprocess.SubprocessError) as error:
        print(f"no class-data archive, Spark will start more slowly: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
