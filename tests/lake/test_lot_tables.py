"""Each table holds a lot once, however often the lot is written, and knows the last number of a sequence."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from sqlalchemy import create_engine, text

from connector.databases.settings import DatabaseSettings
from connector.errors import DatabaseProblem
from connector.lake.lot_tables import (
    DatabaseWriter,
    DeltaWriter,
    FilesWriter,
    LoadLot,
    LotWriter,
    describing,
    is_away,
    load_reason,
    make_frame,
)
from connector.spark.pipeline import SparkPipeline
from tests.waiting import wait_for

SCHEMA = StructType([StructField("id", IntegerType()), StructField("day", StringType())])
FILES = ("parquet", "orc", "json", "csv")
APP = "shop/Order ./lake: %2F*{x}=ü/5f0c"
Rows = Sequence[tuple[Any, ...]]


@pytest.fixture
def session(local: SparkPipeline) -> SparkSession:
    return local.session()


class Bench:
    """A table, and what it holds.

    Args:
        kind: a format of files, ``delta`` or ``table``.
    """

    def __init__(self, session: SparkSession, directory: Path, kind: str, partitions: Sequence[str]) -> None:
        self.session, self.kind = session, kind
        self.path = directory / "lake" / "orders"
        self.engine = create_engine(f"sqlite:///{directory / 'shop.db'}")
        self.writer = self._make(partitions)

    def _make(self, partitions: Sequence[str]) -> LotWriter:
        if self.kind == "delta":
            return DeltaWriter(str(self.path), partitions)
        if self.kind == "table":
            with self.engine.begin() as connection:
                connection.execute(text("CREATE TABLE orders (id INTEGER CHECK (id < 100), day TEXT)"))
            return DatabaseWriter(DatabaseSettings("shop", str(self.engine.url)), "orders")
        path = str(self.path) if self.kind != "orc" else f"file://{self.path}"  # orc as a URL
        options = {"header": "true"} if self.kind == "csv" else {}
        return FilesWriter(self.kind, path, partitions, options)

    def write(self, number: int, rows: Rows, app_id: str = APP) -> None:
        frame = make_frame(self.session, SCHEMA, rows)
        self.writer.write(frame, LoadLot(number, app_id, 1, len(rows), "orders"))

    def withdraw(self, number: int, rows: Rows = ()) -> bool:
        empty = make_frame(self.session, SCHEMA, [])
        return self.writer.withdraw(empty, LoadLot(number, APP, 1, len(rows), "orders"))

    def last(self, app_id: str = APP) -> int:
        return self.writer.last_number(self.session, app_id)

    def rows(self) -> list[tuple[Any, ...]]:
        if self.kind == "table":
            with self.engine.connect() as connection:
                return sorted(map(tuple, connection.execute(text("SELECT id, day FROM orders"))))
        if self.kind == "delta":
            from deltalake import DeltaTable

            found = DeltaTable(str(self.path)).to_pyarrow_table().to_pylist()
            return sorted((one["id"], one["day"]) for one in found)
        reader = self.session.read.format(self.kind).option("header", "true")
        frame = reader.schema("id INT, day STRING") if self.kind in ("csv", "json") else reader
        return sorted((row["id"], row["day"]) for row in frame.load(str(self.path)).collect())


@pytest.fixture(params=[*FILES, "delta", "table"])
def bench(request: pytest.FixtureRequest, session: SparkSession, tmp_path: Path) -> Bench:
    partitions = ["day"] if request.param in ("parquet", "delta") else []
    return Bench(session, tmp_path, request.param, partitions)


def test_a_lot_that_is_written_again_is_there_once(bench: Bench) -> None:
    assert bench.last() == 0
    bench.write(1, [(1, "mo"), (2, "tu")])
    bench.write(4, [(3, "mo")])
    bench.write(4, [(3, "mo")])
    assert bench.rows() == [(1, "mo"), (2, "tu"), (3, "mo")]
    assert bench.last() == 4


def test_sequences_do_not_meet(bench: Bench) -> None:
    other = APP.replace("5f0c", "5f0c-1")  # a prefix of the directories of the first
    bench.write(1, [(1, "mo")])
    bench.write(1, [(2, "mo")], other)
    bench.write(12, [(3, "mo")], other)
    assert bench.rows() == [(1, "mo"), (2, "mo"), (3, "mo")]
    assert (bench.last(), bench.last(other), bench.last("another")) == (1, 12, 0)


def test_a_lot_is_withdrawn_if_the_table_can_be_written(bench: Bench) -> None:
    bench.write(1, [(1, "mo")])
    assert bench.withdraw(2)
    assert bench.rows() == [(1, "mo")]
    bench.write(3, [(3, "tu")])
    assert bench.rows() == [(1, "mo"), (3, "tu")]


def test_a_lot_that_was_written_after_all_is_not_withdrawn_unseen(bench: Bench) -> None:
    bench.write(1, [(1, "mo")])
    bench.write(2, [(2, "mo")])
    is_certain = bench.withdraw(2)
    assert bench.rows() == ([(1, "mo")] if is_certain else [(1, "mo"), (2, "mo")])
    assert is_certain == (bench.kind in FILES)


def test_a_lot_with_a_row_that_is_refused_is_not_written(session: SparkSession, tmp_path: Path) -> None:
    bench = Bench(session, tmp_path, "table", [])
    bench.write(1, [(1, "mo")])
    with pytest.raises(Exception, match="CHECK"):
        bench.write(2, [(number, "mo") for number in range(2, 200)])
    assert (bench.rows(), bench.last()) == ([(1, "mo")], 1)
    assert bench.withdraw(2)


def test_the_rows_of_a_lot_can_be_told_from_others(session: SparkSession, tmp_path: Path) -> None:
    bench = Bench(session, tmp_path, "parquet", ["day"])
    app = "shop/Order/5f0c"
    bench.write(1, [(1, "mo")], app)
    bench.write(2, [(2, "mo"), (3, "tu")], app)
    found = session.read.parquet(str(bench.path)).where(f"lot = '{app}-2'").select("id", "day").collect()
    assert sorted(found) == [Row(id=2, day="mo"), Row(id=3, day="tu")]


def test_a_missing_table_is_named(session: SparkSession, tmp_path: Path) -> None:
    writer = DatabaseWriter(DatabaseSettings("shop", f"sqlite:///{tmp_path / 'empty.db'}"), "orders")
    with pytest.raises(DatabaseProblem, match=r"the database shop .* has no table orders"):
        writer.write(make_frame(session, SCHEMA, [(1, "mo")]), LoadLot(1, APP, 1, 1, "orders"))


def test_jobs_carry_the_description_and_the_tags(session: SparkSession) -> None:
    context = session.sparkContext
    description = "shop: load orders, lot 7, 2 rows, attempt 1"
    tags = ("connector-shop", "connector-load-1")
    began = threading.Event()

    def work() -> None:
        with describing(session, tags, description):
            began.set()
            context.parallelize(range(1), 1).map(_wait).count()

    def jobs() -> list[tuple[str, set[str]]]:
        store = context._jsc.sc().statusStore().jobsList(None)  # as Spark's UI reads it
        found = [store.apply(number) for number in range(store.size())]
        return [
            (one.description().get(), set(one.jobTags().mkString("|").split("|")))
            for one in found
            if one.description().isDefined()
        ]

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(work)
        assert began.wait(120)
        wait_for(lambda: description in dict(jobs()))
        assert set(tags) <= dict(jobs())[description]
        context.cancelJobsWithTag(tags[1])
        with pytest.raises(Exception, match="cancelled"):
            running.result(120)
    assert set(context.getJobTags()) == set()
    assert context.getLocalProperty("spark.job.description") is None


def _wait(number: int) -> int:
    """Runs until the job is cancelled."""
    threading.Event().wait()
    return number


def test_few_rows_are_few_files(session: SparkSession, tmp_path: Path) -> None:
    bench = Bench(session, tmp_path, "parquet", [])
    bench.write(1, [(number, "mo") for number in range(100)])
    assert len(list(bench.path.glob("*/part-*"))) == 1


def test_a_lot_of_files_appears_as_a_whole(session: SparkSession, tmp_path: Path) -> None:
    bench = Bench(session, tmp_path, "parquet", ["day"])
    bench.write(1, [(1, "mo")])
    (lot,) = bench.path.iterdir()
    left = lot.with_name(f".{lot.name}.new") / "0a1b" / "_temporary"
    left.mkdir(parents=True)  # as a dead process leaves it
    with pytest.raises(Exception, match="TASK_WRITE_FAILED") as failed:
        bench.write(1, [(1, "mo"), (2, "x" * 300)])
    assert re.search(r"failed while writing.*\(java.io.IOException: ", load_reason(failed.value), re.DOTALL)
    assert not is_away(failed.value)
    assert bench.rows() == [(1, "mo")]
    bench.write(1, [(1, "mo")])
    assert [one.name for one in bench.path.iterdir()] == [lot.name]
