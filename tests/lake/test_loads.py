"""Objects of events come to their tables in lots: each once, and what cannot be loaded is told."""

from __future__ import annotations

import contextlib
import gc
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable
from sqlalchemy import NullPool, create_engine, text

from connector.config.loading import load
from connector.lake.loads import _load
from connector.lake.lot_load import LotLoad
from connector.lake.settings import LotsEntry
from connector.lake.sink import load_queue
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import GroupSettlement
from connector.service.adapter import Adapter
from connector.service.assembly import make_provider
from connector.spark.pipeline import SparkPipeline
from connector.status import ReturnCode
from connector.testing.deployment import Deployment
from tests.cli.in_process import call
from tests.stores.dropbox.steps import Died, at, die
from tests.waiting import wait_for

OBJECTS = """
business_object: Order
verbs: {Create: }
attributes: {Id: {type: Integer, key: true}, Day: String, Price: Decimal}
"""

LOADS = """
import json, os, pathlib
from connector import Failed, TemporaryFailure

HERE = pathlib.Path(__file__).parent

def _say(name, dataframe, lot):
    ids = sorted(row["Id"] for row in dataframe.select("Id").collect())
    said = [lot.number, lot.attempt, lot.app_id, lot.count, ids]
    with open(HERE / name, "a") as file:
        file.write(json.dumps(said) + "\\n")

def orders(dataframe, lot):
    _say("calls", dataframe, lot)

def away(dataframe, lot):
    _say("calls", dataframe, lot)
    if (HERE / "away").exists():
        raise TemporaryFailure("the lake is away")

def broken(dataframe, lot):
    _say("calls", dataframe, lot)
    if (HERE / "broken").exists():
        raise ValueError("no such column")
"""

FILES = {"object": "Order", "name": "lake", "dataframe": {"format": "parquet", "path": "./lake"}}
TABLE = {"object": "Order", "name": "shop", "dataframe": {"format": "table", "table": "shop.orders"}}
FUNCTION = {"object": "Order", "name": "calls", "load": "loads:orders", "every": "1h"}


class Bench(Deployment):
    """A deployment with loads."""

    def __init__(self, directory: Path, spark: SparkPipeline) -> None:
        super().__init__(directory, metaobjects=OBJECTS)
        self._spark, self._session = spark, spark.session()
        self.write("loads.py", LOADS)
        self.engine = create_engine(f"sqlite:///{directory / 'shop.db'}")

    def configure(self, *subscriptions: dict[str, Any], database: str = "", **connector: Any) -> None:
        """Writes adapter.yaml. With a database, the messages and the table are there."""
        dropbox = {"type": "dropbox", "root": "./data", "create": True, "durability": "none"}
        document = {
            "provider": {"type": "sql", "url": database} if database else dropbox,
            "connector": {
                "ApplicationName": "shop",
                "instance": "one",
                "InputDestination": "queue://in",
                "ArchiveDestination": "queue://archive",
                "ErrorDestination": "queue://error",
                "UnsubscribedDestination": "queue://unsubscribed",
                "DataHandlerMimeType": "application/json",
                "PollFrequency": 100,
                "PollQuantity": 100,
                **connector,
            },
            "databases": {"shop": {"url": database or "sqlite:///shop.db"}},
            "subscriptions": list(subscriptions),
            "metaobjects": "./metaobjects",
        }
        self.write("adapter.yaml", yaml.safe_dump(document, sort_keys=False))

    def make_table(self, check: str = "id > 0") -> None:
        with self.engine.begin() as connection:
            statement = f'CREATE TABLE orders ("Id" INTEGER CHECK ({check}), "Day" TEXT, "Price" NUMERIC)'
            connection.execute(text(statement.replace("(id", '("Id"')))

    def fill(self, *numbers: int, day: str = "mo") -> None:
        for number in numbers:
            body = {"BusinessObject": "Order", "Verb": "Create", "Id": number, "Day": day, "Price": 1.5}
            self.drop("in", json.dumps(body))

    @contextlib.contextmanager
    def adapter(self) -> Iterator[Adapter]:
        with Adapter.from_file(self.directory / "adapter.yaml", spark=self._session) as adapter:
            yield adapter

    def drain(self, code: ReturnCode = ReturnCode.SUCCEED) -> str:
        """Runs an adapter until everything is loaded, and returns the reason of a failure."""
        with self.adapter() as adapter:
            report = adapter.drain()
        assert report.code is code, report.reason
        return report.reason

    def die(self, name: str, place: str) -> None:
        """Lets a loader die at a place, with the first lot of a subscription."""
        configuration = load(self.directory / "adapter.yaml")
        (entry,) = (one for one in configuration.subscriptions if one.name == name)
        assert isinstance(entry, LotsEntry)
        queue = load_queue("shop", "one", name)
        connection = make_provider(configuration).connect()
        lot = connection.lots.claim(queue, queue.name, entry.size)
        assert lot is not None
        lots = LotLoad(_load(configuration, entry, "one"), self._spark, lambda: False)
        with pytest.raises(Died), at(place, die):
            lots.run(connection, lot, 1, is_half=False)
        connection.abandon()

    def calls(self) -> list[list[Any]]:
        try:
            return [json.loads(line) for line in (self.directory / "calls").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def lake(self) -> list[int]:
        frame = self._session.read.parquet(str(self.directory / "lake"))
        return sorted(row["Id"] for row in frame.select("Id").collect())

    def table(self) -> list[int]:
        with self.engine.connect() as connection:
            return sorted(connection.execute(text('SELECT "Id" FROM orders')).scalars())

    def waiting(self, subscription: str) -> int:
        return self.provider.waiting(load_queue("shop", "one", subscription)).number

    def errors(self) -> list[dict[str, Any]]:
        return [dict(message.properties) for message in self.messages("error")]


@pytest.fixture
def bench(local: SparkPipeline, tmp_path: Path) -> Bench:
    return Bench(tmp_path, local)


def test_each_subscription_gets_each_object_once(bench: Bench) -> None:
    bench.make_table()
    bench.configure(FILES, TABLE, {**FUNCTION, "size": 4})
    bench.fill(*range(1, 11))
    bench.drain()
    assert bench.lake() == bench.table() == [*range(1, 11)]
    assert [(number, attempt, count) for number, attempt, _, count, _ in bench.calls()] == [
        *((1, 1, 4), (2, 1, 4), (3, 1, 2))
    ]
    assert sorted(number for *_, ids in bench.calls() for number in ids) == [*range(1, 11)]
    assert len(bench.messages("archive")) == 10
    assert [bench.waiting(name) for name in ("lake", "shop", "calls")] == [0, 0, 0]


def test_a_loader_that_dies_at_each_step_loses_and_doubles_nothing(bench: Bench) -> None:
    """A function gets the number of a lot with the same objects again. Steps within a lot: tests/stores."""
    bench.make_table("id >= 0")
    delta = {"object": "Order", "name": "delta", "dataframe": {"format": "delta", "path": "./delta"}}
    loads = [{**one, "size": 4} for one in (FILES, delta, TABLE, FUNCTION)]
    bench.configure(*loads)
    steps = {
        "lake": ("load.saved", "lot.settled"),
        "delta": ("load.written", "load.claimed"),
        "shop": ("load.written", "lot.settled"),
        "calls": ("load.written", "load.claimed"),
    }
    for number in range(2):
        bench.fill(*range(number * 6, number * 6 + 6))
        with bench.running() as adapter:  # no Spark, so the objects wait
            adapter.drain()
        for name, places in steps.items():
            bench.die(name, places[number])
        bench.drain()
    expected = [*range(12)]
    delta_ids = DeltaTable(str(bench.directory / "delta")).to_pyarrow_table(columns=["Id"])["Id"].to_pylist()
    assert bench.lake() == bench.table() == sorted(delta_ids) == expected
    lots = {number: ids for number, *_, ids in bench.calls()}
    assert all(lots[number] == ids for number, *_, ids in bench.calls())
    assert len(bench.calls()) > len(lots)
    assert sorted(one for ids in lots.values() for one in ids) == expected
    assert bench.errors() == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the dead: its connection to the table
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("place", ["load.written", "lot.settled"])
def test_a_loader_that_dies_with_all_in_a_database_loses_and_doubles_nothing(
    bench: Bench, database: str, place: str
) -> None:
    bench.engine = create_engine(database, poolclass=NullPool)
    bench.make_table()
    bench.configure({**TABLE, "size": 4}, database=database)
    with contextlib.closing(make_provider(load(bench.directory / "adapter.yaml")).connect()) as connection:
        bodies = [
            {"BusinessObject": "Order", "Verb": "Create", "Id": one, "Day": "mo"} for one in range(1, 7)
        ]
        connection.send(parse_destination("in"), [Message(json.dumps(one).encode()) for one in bodies])
    with bench.running() as adapter:
        adapter.drain()
    bench.die("shop", place)
    bench.drain()
    assert bench.table() == [*range(1, 7)]
    gc.collect()  # here, and not in another test


def test_a_lot_waits_for_its_size_or_for_its_age(bench: Bench) -> None:
    old = {**FUNCTION, "name": "old", "size": 100, "every": "500ms"}
    bench.configure({**FUNCTION, "size": 3}, old)
    with bench.adapter() as adapter:
        bench.fill(1, 2)
        adapter.poll()
        wait_for(lambda: any("/old/" in call[2] for call in bench.calls()))
        assert bench.waiting("calls") == 2
        bench.fill(3)
        adapter.poll()
        wait_for(lambda: any("/calls/" in call[2] for call in bench.calls()))
    (called,) = [call for call in bench.calls() if "/calls/" in call[2]]
    assert called[-1] == [1, 2, 3]


def test_what_a_renamed_subscription_has_left_is_told(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.configure(FUNCTION)
    bench.fill(1, 2)
    with bench.adapter() as adapter:
        adapter.poll()
    bench.configure({**FUNCTION, "name": "renamed"})
    bench.drain()
    (warning,) = [one for one in caplog.records if "no subscription loads" in one.message]
    assert vars(warning)["destination"] == load_queue("shop", "one", "calls")
    assert vars(warning)["number"] == 2
    caplog.clear()
    bench.configure(FUNCTION)
    bench.drain()
    assert bench.calls()[-1][-1] == [1, 2]
    assert "no subscription loads" not in caplog.text


def test_a_poll_ends_when_what_is_due_is_loaded(bench: Bench) -> None:
    bench.configure({**FUNCTION, "size": 2})
    bench.fill(1, 2, 3)
    with bench.adapter() as adapter:
        adapter.poll()
        assert [call[-1] for call in bench.calls()] == [[1, 2]]
        assert bench.waiting("calls") == 1


def test_a_lot_that_failed_for_a_while_is_loaded_again_as_it_was(bench: Bench) -> None:
    bench.configure({**FUNCTION, "load": "loads:away", "retry_later": {"first": "100ms", "factor": 1}})
    (bench.directory / "away").touch()
    bench.fill(1, 2)
    assert "the lake is away" in bench.drain(ReturnCode.APPRESPONSETIMEOUT)
    with bench.adapter() as adapter:
        adapter.start()
        wait_for(lambda: len(bench.calls()) > 2)
        (row,) = wait_for(lambda: adapter.loads)  # there is none for a moment at each try
        assert (row["subscription"], row["state"], row["lot"]) == ("calls", "repeats", 1)
        bench.fill(3)
        adapter.poll()
        (bench.directory / "away").unlink()
        assert wait_for(lambda: not adapter.loads)
        assert adapter.drain().code is ReturnCode.SUCCEED
    *again, last = bench.calls()
    assert {(number, tuple(ids)) for number, _, _, _, ids in again} == {(1, (1, 2))}
    attempts = [attempt for _, attempt, *_ in again]
    assert attempts[0] == 1
    assert attempts[1:] == sorted(attempts[1:])
    assert min(attempts[1:]) == 2
    assert (last[0], last[1], last[-1]) == (2, 1, [3])


def test_a_function_that_failed_stops_its_load_alone(bench: Bench, command: Callable[..., str]) -> None:
    bench.configure({**FUNCTION, "load": "loads:broken"}, FILES)
    (bench.directory / "broken").touch()
    bench.fill(1, 2)
    with bench.adapter() as adapter:
        report = adapter.drain()
        (row,) = adapter.loads
    assert report.code is ReturnCode.APPRESPONSETIMEOUT
    assert (row["subscription"], row["state"]) == ("calls", "stopped")
    for part in (
        "ValueError: no such column",
        "the lot 1 of shop/calls/",
        "connector lot connector.shop.load",
    ):
        assert part in row["reason"]
    queues = command("queues")
    assert all(one.endswith(" load") for one in queues.splitlines() if one.startswith("queue://connector."))
    assert "lot 1 connector.shop.load.one.calls (without an owner)" in queues
    assert bench.lake() == [1, 2]
    assert bench.errors() == []
    (bench.directory / "broken").unlink()
    bench.drain()
    assert [(number, attempt, ids) for number, attempt, _, _, ids in bench.calls()] == [
        (1, 1, [1, 2]),
        (1, 2, [1, 2]),
    ]


@pytest.mark.parametrize("bad", [(1,), (8,), (3, 4), (1, 5, 8)])
def test_an_object_that_a_table_refuses_fails_alone(bench: Bench, bad: tuple[int, ...]) -> None:
    bench.make_table(f"id NOT IN ({', '.join(map(str, bad))})".replace("id", '"Id"'))
    bench.configure(TABLE, FILES)
    bench.fill(*range(1, 9))
    bench.drain()
    assert bench.table() == [number for number in range(1, 9) if number not in bad]
    assert bench.lake() == [*range(1, 9)]
    assert sorted(json.loads(one.body)["Id"] for one in bench.messages("error")) == list(bad)
    for properties in bench.errors():
        known = {
            name: properties.get(f"connector_{name}")
            for name in ("outcome", "kind", "object", "subscription")
        }
        assert known == {"outcome": "failed", "kind": "refused", "object": "Order", "subscription": "shop"}
        assert "CHECK constraint" in str(properties["connector_reason"])
        assert properties["connector_event_id"]
        assert properties["connector_origin_destination"] == str(load_queue("shop", "one", "shop"))


def test_a_table_that_fails_as_a_whole_fails_no_object(bench: Bench) -> None:
    bench.configure(FILES)
    (bench.directory / "lake").write_text("no directory")
    bench.fill(1, 2, 3)
    reason = bench.drain(ReturnCode.APPRESPONSETIMEOUT)
    assert "The table itself fails" in reason
    assert bench.errors() == []
    (bench.directory / "lake").unlink()
    bench.drain()
    assert bench.lake() == [1, 2, 3]


def test_a_database_without_the_table_fails_no_object(bench: Bench) -> None:
    bench.configure(TABLE)
    bench.fill(1, 2, 3)
    reason = bench.drain(ReturnCode.APPRESPONSETIMEOUT)
    assert "The table itself fails: DatabaseProblem: the database shop" in reason
    assert "has no table orders" in reason
    assert bench.errors() == []
    bench.make_table()
    bench.drain()
    assert bench.table() == [1, 2, 3]


def test_a_lost_database_stops_the_load_and_fails_no_object(bench: Bench) -> None:
    bench.make_table()
    bench.configure({**TABLE, "retry_later": {"attempts": 2, "first": "50ms"}})
    with bench.adapter() as adapter:
        os.rename(bench.directory / "shop.db", bench.directory / "away.db")
        (bench.directory / "shop.db").mkdir()
        bench.fill(1, 2)
        adapter.poll()
        adapter.drain()
        (row,) = wait_for(lambda: [one for one in adapter.loads if one["state"] == "stopped"])
    assert "Whether it was written is not known" in row["reason"]
    assert row["attempt"] == 3
    assert bench.errors() == []
    (bench.directory / "shop.db").rmdir()
    os.rename(bench.directory / "away.db", bench.directory / "shop.db")
    bench.drain()
    assert bench.table() == [1, 2]


def test_an_object_that_is_no_row_fails_alone(bench: Bench) -> None:
    bench.write(
        "metaobjects/objects.yaml",
        OBJECTS.replace("Day: String", "Day: {type: Date, app_specific_info: spark=date}"),
    )
    bench.configure(FILES)
    bench.fill(1, 3, day="2026-03-01")
    bench.fill(2, day="2026-03-01T10:00:00")
    bench.drain()
    assert bench.lake() == [1, 3]
    ((properties),) = bench.errors()
    assert properties["connector_kind"] == "malformed"
    assert "Day" in str(properties["connector_reason"])


@pytest.mark.parametrize("number", [2, 7])
def test_messages_that_are_older_than_the_table_stop_the_load(bench: Bench, number: int) -> None:
    bench.configure(FILES)
    bench.fill(1)
    bench.drain()
    (first,) = (bench.directory / "lake").glob("lot=*-1")
    first.with_name(f"{first.name.removesuffix('-1')}-{number}").mkdir()  # as a later lot would have left it
    bench.fill(2)
    reason = bench.drain(ReturnCode.APPRESPONSETIMEOUT)
    assert f"the table holds the lot {number} of shop/lake/" in reason
    assert "the number of the lot here is 2" in reason
    assert bench.lake() == [1]


def test_a_sequence_that_is_made_anew_replaces_nothing(bench: Bench) -> None:
    bench.configure(FILES)
    bench.fill(1, 2)
    bench.drain()
    os.rename(bench.directory / "data", bench.directory / "lost")
    for record in (bench.directory / ".connector").glob("*"):
        record.unlink()
    bench.configure(FILES)
    bench.fill(3, 4)
    bench.drain()
    assert bench.lake() == [1, 2, 3, 4]
    assert len({name.name[-1] for name in (bench.directory / "lake").glob("lot=*")}) == 1


def test_nothing_is_loaded_while_the_subscription_is_paused(
    bench: Bench, command: Callable[..., str]
) -> None:
    bench.configure({**FUNCTION, "every": "100ms"})
    bench.fill(1)
    with bench.running() as adapter:  # no Spark, so the object waits
        adapter.drain()
    command("pause", "calls")
    with bench.adapter() as adapter:
        assert adapter.drain().code is ReturnCode.SUCCEED
        assert (bench.calls(), bench.waiting("calls")) == ([], 1)
        command("resume", "calls")
        wait_for(lambda: adapter.poll() and bench.calls())
    assert [call[-1] for call in bench.calls()] == [[1]]


@pytest.fixture
def command(bench: Bench) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        answer = call(bench.directory, *arguments)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run


def test_a_lot_that_was_settled_by_hand_is_not_loaded(bench: Bench) -> None:
    bench.configure({**FUNCTION, "load": "loads:broken"})
    (bench.directory / "broken").touch()
    bench.fill(1)
    bench.drain(ReturnCode.APPRESPONSETIMEOUT)
    queue = load_queue("shop", "one", "calls")
    operator = bench.provider.connect()
    lot = operator.lots.claim(parse_destination(str(queue)), queue.name, 1)
    assert lot is not None
    lot.settle([GroupSettlement(lot.claims)])
    operator.close()
    bench.drain()
    assert len(bench.calls()) == 1
