"""The site of the documentation, built by ``script/docs``."""

from __future__ import annotations

import functools
import hashlib
import subprocess
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
SITE: Final = REPOSITORY / "website/site"
_STAMP: Final = SITE / ".built-from"
_INPUTS: Final = ("*.md", "docs/**/*", "connector/**/*", "website/*", "website/theme/**/*", "script/*")


@functools.cache
def build() -> subprocess.CompletedProcess[str]:
    """Builds and checks :data:`SITE`, once for the same inputs. The first time makes ``.venv/docs``."""
    digest = _digest()
    if _STAMP.exists():
        built, _, said = _STAMP.read_text("utf-8").partition("\n")
        if built == digest:
            return subprocess.CompletedProcess("script/docs", 0, said, "")
    done = subprocess.run(
        [REPOSITORY / "script/docs"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode == 0:
        _STAMP.write_text(f"{digest}\n{done.stdout}", "utf-8")
    return done


def _digest() -> str:
    found = {path for pattern in _INPUTS for path in REPOSITORY.glob(pattern) if path.is_file()}
    digest = hashlib.sha256()
    for path in sorted(found):
        if path.suffix != ".pyc":
            content = path.read_bytes()
            digest.update(f"{path.relative_to(REPOSITORY)} {len(content)}\n".encode() + content)
    return digest.hexdigest()
