"""A folder for the files of a test, in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def quick_folder(directory: Path) -> Iterator[Path]:
    """A folder in memory where there is such a place, so that the tests wait for no disk."""
    shared = Path("/dev/shm")
    in_memory = shared.is_dir() and os.access(shared, os.W_OK | os.X_OK)
    base = Path(tempfile.mkdtemp(prefix="connector-crash-", dir=shared if in_memory else directory))
    try:
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)
