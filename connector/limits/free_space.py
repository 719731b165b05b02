"""The key ``min_free``: how much of a disk has to be free."""

from __future__ import annotations

from typing import NamedTuple


class MinFree(NamedTuple):
    """A share of a disk, or a size.

    Args:
        percent: of the size of the disk.
        size: bytes.
    """

    percent: float = 0.0
    size: int = 0
