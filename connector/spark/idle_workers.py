"""Removes the complaints of Python workers that Spark ends because they are idle.

After a minute without work Spark closes the connection of a worker, and PySpark's daemon prints the traceback
of a BrokenPipeError. Nothing is wrong then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_BEGIN: Final = "Traceback (most recent call last):"
_END: Final = "BrokenPipeError: [Errno 32] Broken pipe"
_FRAME: Final = re.compile(
    r'  File "[^"]*[/\\]pyspark[/\\]daemon\.py", line [0-9]+, in (manager|worker)'
    r"|    code = worker\(sock, authenticated\)|    outfile\.flush\(\)|    [ ^~]+"
)


def without_idle_workers(lines: Iterable[str]) -> Iterator[str]:
    """Yields the lines without those of workers that were idle.

    The lines of several workers may be mixed. A traceback of anything else is yielded as a whole.
    """
    held: list[str] = []
    depth = 0
    for line in lines:
        if line == _BEGIN:
            depth += 1
            held.append(line)
        elif not held:
            yield line
        elif line == _END and any("outfile.flush()" in one for one in held):
            depth -= 1
            held.append(line)
            if not depth:
                held.clear()
        elif _FRAME.fullmatch(line):
            held.append(line)
        elif line.startswith(" ") or line == _END:  # of another traceback
            yield from (*held, line)
            held.clear()
            depth = 0
        else:
            yield line
    yield from held
