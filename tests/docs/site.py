"""The site of the documentation, built by ``script/docs``."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SITE = REPOSITORY / "website/site"


@functools.cache
def build() -> subprocess.CompletedProcess[str]:
    """Builds and checks :data:`SITE`, once in this process. The first time of all makes ``.venv/docs``."""
    return subprocess.run(
        [REPOSITORY / "script/docs"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
