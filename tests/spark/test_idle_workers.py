"""Idle workers that Spark ends leave no lines in the log. All other lines stay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connector.spark.idle_workers import without_idle_workers

IDLE = """\
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/pyspark/daemon.py", line 264, in manager
    code = worker(sock, authenticated)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/venv/lib/python3.11/site-packages/pyspark/daemon.py", line 95, in worker
    outfile.flush()
BrokenPipeError: [Errno 32] Broken pipe
""".splitlines()

OTHERS = [
    """\
Traceback (most recent call last):
  File "/deployment/processes.py", line 3, in book
    raise ValueError("no")
ValueError: no
""".splitlines(),
    """\
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/pyspark/daemon.py", line 264, in manager
    code = worker(sock, authenticated)
  File "/venv/lib/python3.11/site-packages/pyspark/daemon.py", line 95, in worker
    worker_main(infile, outfile)
OSError: no
""".splitlines(),
    ["a line of a process"],
    ["BrokenPipeError: [Errno 32] Broken pipe"],
    ["    an indented line"],
    ['{"event": "summary"}'],
    [""],
]


@given(st.lists(st.sampled_from([IDLE, *OTHERS])))
def test_only_what_idle_workers_say_is_removed(parts: list[list[str]]) -> None:
    lines = [line for part in parts for line in part]
    expected = [line for part in parts if part is not IDLE for line in part]
    assert list(without_idle_workers(lines)) == expected


@given(st.data(), st.integers(1, 4))
def test_workers_that_end_together_may_mix_their_lines(data: st.DataObject, workers: int) -> None:
    rest = [list(IDLE) for _ in range(workers)] + [["a line of a process", "another"]]
    lines = []
    while any(rest):
        lines.append(data.draw(st.sampled_from([part for part in rest if part])).pop(0))
    assert list(without_idle_workers(lines)) == ["a line of a process", "another"]


def test_what_is_held_at_the_end_is_shown() -> None:
    assert list(without_idle_workers(IDLE[:3])) == IDLE[:3]
