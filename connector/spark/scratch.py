"""Private directories for the files of Spark, removed with the process that made them."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from connector.state.locked_file import LockedFile


class Scratch:
    """A private directory under the temporary directory, removed with the owner.

    A killed owner cannot remove the directory. So each owner holds a file in the directory. A new owner first
    removes the directories of dead owners.
    """

    _PREFIX = "connector-spark-"
    _LONGEST = 60
    """Most characters of the path, because a Unix socket inside must have a path of at most 107."""

    def __init__(self) -> None:
        base = Path(tempfile.gettempdir())
        if len(str(base)) > self._LONGEST:
            base = Path("/tmp")
        self._sweep(base)
        self.path = Path(tempfile.mkdtemp(prefix=self._PREFIX, dir=base))
        self._file = LockedFile.hold(str(self.path / "lock"))

    def remove(self) -> None:
        """Removes the directory with all files. Repeatable."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._file is not None:
            self._file.abandon()

    @classmethod
    def _sweep(cls, base: Path) -> None:
        for lock_file in base.glob(f"{cls._PREFIX}*/lock"):
            try:
                status = lock_file.stat()
            except OSError:
                continue
            # The owner of a new directory may not hold the file yet.
            if status.st_uid != os.getuid() or time.time() - status.st_mtime <= 60:
                continue
            file = LockedFile.take_over(str(lock_file))
            if file is not None:
                shutil.rmtree(lock_file.parent, ignore_errors=True)
                file.abandon()
