"""A query of the source ``events`` dies, without Spark. A real one: ``tests/servers/spark``."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from connector.lake.source.data_source import EventsDataSource
from connector.lake.source.lot_stream import LotStream
from tests.lake.test_events_source import browse, count, fill, make, names, task
from tests.stores.dropbox.steps import dying
from tests.tables import rows


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
