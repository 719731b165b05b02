"""How many files this process may open (``ulimit -n``)."""

from __future__ import annotations

import resource


def raise_open_files(wanted: int) -> int:
    """Asks the system for the right to open ``wanted`` files, where this process may open fewer.

    Returns:
        how many it may open now: at least ``wanted``, or all that the hard limit allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    allowed = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
