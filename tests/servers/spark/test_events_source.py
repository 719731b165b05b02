"""A query of the source ``events`` is killed. Each message is one row, and is archived once."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.lake.events_query import start
from tests.lake.test_events_source import Run, browse, count, fill, names, place, run, task
from tests.waiting import wait_for

__all__ = ["place", "run"]

pytestmark = [pytest.mark.process, pytest.mark.timeout(1800)]  # some starts of Java, on a busy machine


def test_a_program_and_a_process_of_spark_that_are_killed_lose_and_double_nothing(
    place: Path, run: Run
) -> None:
    """The whole program dies while it settles. Then the process dies that claims and settles for Spark."""
    fill(place, 0, 30)
    query = task(place, ("query", {}), maxMessagesPerTrigger="10")
    process = start(place, query, fault="lot.settling=pause", CONNECTOR_FAULT_DIRECTORY=str(place))
    wait_for(lambda: list(place.glob("lot.*")) or process.poll() is not None, 600, "a pause")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (mark,) = place.glob("lot.*")
    paused = int(mark.name.rpartition(".")[2])
    with contextlib.suppress(ProcessLookupError):  # the end of Java may have ended it
        os.kill(paused, signal.SIGKILL)
    said = run(task(place, ("fails", {}), maxMessagesPerTrigger="10"), fault="lot.settled=kill")
    assert said["0 fails"], "the place was not reached"
    said = run(task(place, ("query", {}), ("rows", {}), maxMessagesPerTrigger="20"))
    assert said["1 rows"] == names(0, 30)
    archived = [one.message_id for one in browse(place, "archive")]
    assert len(archived) == len(set(archived)) == 30
    assert count(place, "in") == 0
