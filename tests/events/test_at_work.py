"""The journal names the event at work before it is converted, and at no other time."""

from __future__ import annotations

from pathlib import Path

from connector.events.task import Task
from connector.events.task_settings import WorkItem
from connector.limits.control import RunnerControl
from connector.messaging.state_store import CycleJournal
from connector.service.assembly import make_task_settings
from connector.state.journal import JournalFile
from tests.events.conftest import Bench
from tests.tables import rows

PROCESS = """\
import pathlib
from connector import NotActive

HERE = pathlib.Path(__file__).parent


def a(bo, event):
    number = len(list(HERE.glob("seen.*")))
    HERE.joinpath(f"seen.{number}").write_bytes(HERE.joinpath("journal").read_bytes())
    if bo["Id"] == "inactive":
        raise NotActive("not now")
"""


def run(bench: Bench, *bodies: str, order_groups: list[list[int]]) -> tuple[list[CycleJournal], CycleJournal]:
    """Runs events as a worker does; returns the journal as each call of the process saw it, and the last."""
    deployment = bench.deploy(processes=PROCESS)
    for number, body in enumerate(bodies):
        deployment.drop("orders", body, f"4.{number}.T")
    connection = deployment.provider.connect("test", "one")
    poller = connection.poller(deployment.configuration.connector.inputs[1].destination)
    claims = [claim for number in range(len(bodies)) if (claim := poller.take(1, number)) is not None]
    task_settings = make_task_settings(deployment.configuration, deployment.provider, connection.access())
    items: list[list[WorkItem]] = [
        [(claims[n].sequence, str(claims[n].destination), claims[n].reference, 0) for n in group]
        for group in order_groups
    ]
    path = bench.directory / "journal"
    task = Task(task_settings, str(deployment.directory), RunnerControl())
    try:
        task.run(JournalFile(str(path)), items)
    finally:
        task.close()
        poller.close()
        connection.abandon()
    seen = sorted(bench.directory.glob("seen.*"), key=lambda file: int(file.suffix[1:]))
    return [_read(file) for file in seen], _read(path)


def _read(path: Path) -> CycleJournal:
    found = CycleJournal()
    JournalFile(str(path)).read(found)
    return found


def order(identity: str = "") -> str:
    return f'{{"BusinessObject": "Order", "Id": "{identity}"}}'


@rows("order_groups", [[[0, 1, 2]], [[0], [], [1, 2]], [[0], [1], [2]]])
def test_each_event_is_at_work_while_it_is_processed_and_none_at_the_end(
    bench: Bench, order_groups: list[list[int]]
) -> None:
    seen, end = run(bench, order(), order(), order(), order_groups=order_groups)
    assert [one.at_work for one in seen] == [{0: 1}, {1: 1}, {2: 1}]
    assert (end.at_work, set(end.done)) == ({}, {0, 1, 2})


def test_an_event_without_a_delivery_is_named_too(bench: Bench) -> None:
    seen, end = run(bench, order(), "{broken", order(), order_groups=[[0, 1, 2]])
    assert [one.at_work for one in seen] == [{0: 1}, {2: 1}]
    assert b"D 0" in (data := (bench.directory / "journal").read_bytes())
    assert b"A 1\nA 2\n" in data
    assert end.at_work == {}


def test_what_comes_after_an_event_that_is_given_back_is_not_at_work(bench: Bench) -> None:
    seen, end = run(bench, order("inactive"), order(), order_groups=[[0, 1]])
    assert [one.at_work for one in seen] == [{0: 1}]
    assert end.at_work == {}
    assert b"A 1" not in (bench.directory / "journal").read_bytes()
