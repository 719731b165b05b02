"""A query of the source ``events`` dies. Each message is one row, and is archived once."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import pytest

from connector.service.source.data_source import EventsDataSource
from connector.service.source.lot_stream import LotStream
from tests.spark.events_query import start
from tests.spark.test_events_source import Run, browse, count, fill, make, names, place, run, task
from tests.stores.dropbox.steps import dying
from tests.tables import rows
from tests.waiting import wait_for

__all__ = ["place", "run"]

pytestmark = pytest.mark.timeout(1800)  # some starts of Java, on a busy machine


class Query:
    """The batches of a query, in the order of Spark, with what Spark keeps of them: no Spark is needed."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._offsets: list[dict[str, Any]] = []
        self.table: list[list[str]] = []
        """The first column of each batch that has been committed."""

    def run(self, *, dies: str = "") -> None:
        """Takes all that waits, or dies at a place of faults."""
        source = EventsDataSource(self._options)
        stream = source.streamReader(source.schema())
        assert isinstance(stream, LotStream)
        ended = False
        with dying(dies):
            self._batches(stream)
            ended = True
        assert ended is not bool(dies), f"{dies} was not reached"
        stream._lots._connection.abandon()

    def _batches(self, stream: LotStream) -> None:
        stream.prepareForTriggerAvailableNow()
        begin = self._offsets[-2] if len(self._offsets) > 1 else stream.initialOffset()
        while True:
            if len(self._offsets) == len(self.table):
                begin = self._offsets[-1] if self._offsets else begin
                offset = stream.latestOffset(begin, stream.getDefaultReadLimit())
                if offset == begin:
                    return
                self._offsets.append(offset)
                if len(self._offsets) > 1:
                    stream.commit(begin)  # when the next batch is in the checkpoint
            parts = stream.partitions(begin, self._offsets[-1])
            self.table.append(
                [row[0] for part in parts for row in stream.read(pickle.loads(pickle.dumps(part)))]
            )


@rows(
    "place_of_death",
    [
        f"{name}:{nth}"
        for name in ("lot.number", "lot.claimed", "lot.list", "lot.row", "lot.settling", "lot.settled")
        for nth in (1, 2, 12)
        if nth < 12 or name == "lot.row"
    ],
)
def test_a_query_that_dies_at_each_step_loses_and_doubles_nothing(
    tmp_path: Path, place_of_death: str
) -> None:
    """Steps within a lot: ``tests/stores/test_lots.py``, and the crash states."""
    fill(make(tmp_path), 0, 25)
    query = Query(task(tmp_path, maxMessagesPerTrigger="10")["options"])
    query.run(dies=place_of_death)
    query.run()
    assert [len(batch) for batch in query.table] == [10, 10, 5]
    assert sorted(one for batch in query.table for one in batch) == names(0, 25)
    assert count(tmp_path, "in") == 0
    archived = [one.message_id for one in browse(tmp_path, "archive")]
    assert len(archived) == len(set(archived)) == 25


@pytest.mark.process
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
