"""Raises the number of files that this process may open (``ulimit -n``)."""

from __future__ import annotations

import resource


def raise_open_files(wanted: int) -> int:
    """Raises the limit of open files to ``wanted`` if it is lower. Returns what the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    allowed = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
