"""A query of the source ``events`` dies at each step. Each message is one row, and is archived once."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.spark.events_query import start
from tests.spark.test_events_source import Run, browse, count, fill, names, place, run, task
from tests.waiting import wait_for

__all__ = ["place", "run"]

pytestmark = pytest.mark.timeout(1800)  # some starts of Java, on a busy machine

EACH = 30

STEPS = ("lot.claimed=kill", "lot.row:5=kill", "lot.settling=kill", "lot.settled=kill")
"""Steps of the source. Those within a lot are in ``tests/stores/test_lots.py``, and in the crash states."""


def test_a_query_that_is_killed_at_each_step_loses_and_doubles_nothing(place: Path, run: Run) -> None:
    """The process that claims and settles dies, or a task."""
    for number, fault in enumerate(STEPS):
        fill(place, number * EACH, EACH)
        said = run(task(place, ("fails", {}), maxMessagesPerTrigger="10"), fault=fault)
        assert said["0 fails"], f"{fault} was not reached"
    said = run(task(place, ("query", {}), ("rows", {}), maxMessagesPerTrigger="10"))
    assert said["1 rows"] == names(0, len(STEPS) * EACH)
    assert count(place, "in") == 0
    assert len({one.message_id for one in browse(place, "archive")}) == len(STEPS) * EACH
    assert count(place, "archive") == len(STEPS) * EACH


@pytest.mark.process
def test_a_whole_program_that_is_killed_loses_and_doubles_nothing(place: Path, run: Run) -> None:
    fill(place, 0, 40)
    query = task(place, ("query", {}), maxMessagesPerTrigger="10")
    process = start(place, query, fault="lot.settling:2=pause", CONNECTOR_FAULT_DIRECTORY=str(place))
    wait_for(lambda: list(place.glob("lot.*")) or process.poll() is not None, 600, "a pause")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (mark,) = place.glob("lot.*")
    paused = int(mark.name.rpartition(".")[2])
    with contextlib.suppress(ProcessLookupError):  # the end of Java may have ended it
        os.kill(paused, signal.SIGKILL)
    said = run(task(place, ("query", {}), ("rows", {}), maxMessagesPerTrigger="10"))
    assert said["1 rows"] == names(0, 40)
    assert [count(place, one) for one in ("in", "archive")] == [0, 40]
