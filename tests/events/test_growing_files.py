"""``min_age``: a file that a partner writes straight into ``target/`` is taken when it is complete."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connector.config.loading import load
from connector.errors import ConfigurationError
from connector.service.status_document import StatusReader
from connector.stores.dropbox import growing_files
from tests.events.conftest import ORDER, Bench, EventDeployment, noted
from tests.tables import rows
from tests.waiting import wait_for

Move = Callable[[float], None]
AGE = 0.2


def deploy(bench: Bench, min_age: str = "200ms", **connector: Any) -> EventDeployment:
    slow = {"destination": "queue://slow", "min_age": min_age}
    return bench.deploy(InputDestination=[slow, "queue://orders"], **{"order": "none", **connector})


def target(deployment: EventDeployment) -> Path:
    """The directory that partners write into."""
    deployment.send("queue://slow", ORDER)
    root: Path = vars(deployment.configuration.provider)["root"]
    (file,) = root.rglob("slow/**/target/*")
    file.unlink()
    return file.parent


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Move:
    """Moves the clock of the looks."""
    passed = [0.0]
    moved = SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0])
    monkeypatch.setattr(growing_files, "time", moved)

    def move(seconds: float) -> None:
        passed[0] += seconds

    return move


def test_a_file_is_taken_when_two_looks_have_found_it_the_same(bench: Bench, clock: Move) -> None:
    deployment = deploy(bench, "60s")
    folder = target(deployment)
    partial, kept = folder / "partial", folder / "kept"
    with deployment.running() as adapter:
        partial.write_text(ORDER[:5])
        kept.write_text(ORDER)
        os.utime(kept, (1, 1))  # as scp -p does
        assert [adapter.poll().claimed for _ in range(2)] == [0, 0]
        clock(59)
        assert adapter.poll().claimed == 0, "whatever its time stamps say"
        clock(2)
        partial.write_text(ORDER)
        assert adapter.poll().claimed == 1
        clock(59)
        assert adapter.poll().claimed == 0
        clock(2)
        assert adapter.poll().claimed == 1
    assert (
        sorted(deployment.ids("archive")) == ["ID:kept", "ID:partial"] or len(deployment.ids("archive")) == 2
    )


@rows("change", ["size", "mtime", "another file", "another name", "gone"])
def test_a_change_between_the_looks_begins_anew(bench: Bench, change: str) -> None:
    deployment = deploy(bench, "60s")
    file = target(deployment) / "file"
    passed = [0.0]
    with pytest.MonkeyPatch.context() as patch, deployment.running() as adapter:
        patch.setattr(
            growing_files, "time", type("Clock", (), {"monotonic": staticmethod(lambda: passed[0])})
        )
        file.write_text(ORDER)
        assert adapter.poll().claimed == 0
        passed[0] = 61.0
        if change == "size":
            file.write_text(ORDER + " ")
        elif change == "mtime":
            os.utime(file, (1, 1))
        elif change == "another name":
            file.rename(file.with_name("other"))
        else:
            file.unlink()
            if change == "another file":
                file.write_text(ORDER)
        assert adapter.poll().claimed == 0
        passed[0] = 122.0
        assert adapter.poll().claimed == (change != "gone")


def test_a_complete_file_that_changes_before_it_is_claimed_stays(bench: Bench, clock: Move) -> None:
    deployment = deploy(bench, "60s", PollQuantity=1)
    folder = target(deployment)
    with deployment.running() as adapter:
        for name in ("a", "b"):
            (folder / name).write_text(ORDER)
            os.utime(folder / name, (1, 1))
        adapter.poll()
        clock(61)
        assert adapter.poll().claimed == 1
        (left,) = [one for one in folder.iterdir() if not one.name.startswith(".")]
        left.write_text(ORDER + " ")
        assert adapter.poll().claimed == 0


def test_a_drain_waits_until_files_are_complete(bench: Bench) -> None:
    deployment = deploy(bench)
    file = target(deployment) / "file"
    file.write_text(ORDER[:5])

    def grow() -> None:
        for end in (10, 15, len(ORDER)):
            time.sleep(AGE / 2)
            with file.open("a") as opened:
                opened.write(ORDER[file.stat().st_size : end])

    thread = threading.Thread(target=grow)
    thread.start()
    with deployment.running() as adapter:
        report = adapter.drain()
    thread.join()
    assert (report.claimed, len(deployment.ids("archive"))) == (1, 1)


def test_a_service_looks_again_when_a_file_may_be_complete_and_rests_meanwhile(bench: Bench) -> None:
    deployment = deploy(bench, PollFrequency=60_000)
    folder = target(deployment)
    with deployment.running() as adapter, noted(adapter) as polls:
        wait_for(lambda: polls)
        began = time.monotonic()
        (folder / "file").write_text(ORDER)
        wait_for(lambda: deployment.ids("archive"))
        took = time.monotonic() - began
    assert took >= AGE
    assert len(polls) <= 8, "it looks twice, and a batch ends"


def test_a_file_that_grows_wakes_a_service_once(bench: Bench) -> None:
    deployment = deploy(bench, "400ms", PollFrequency=60_000)
    folder = target(deployment)
    with deployment.running() as adapter, noted(adapter) as polls:
        wait_for(lambda: polls)
        for character in ORDER:
            with (folder / "file").open("a") as opened:
                opened.write(character)
            time.sleep(0.005)
        grew = len(polls)
        wait_for(lambda: deployment.ids("archive"))
        (folder / "another").write_text(ORDER)
        wait_for(lambda: len(deployment.ids("archive")) == 2)
    assert grew <= 6, "the first poll, one for the first part, and a look now and then"


def test_instances_look_for_themselves_and_take_a_file_once(bench: Bench, clock: Move) -> None:
    deployment = deploy(bench, "60s", instance=None)
    folder = target(deployment)
    with deployment.running() as first, deployment.running() as second:
        (folder / "file").write_text(ORDER)
        assert first.poll().claimed == 0
        clock(61)
        assert second.poll().claimed == 0, "it has looked once"
        assert first.poll().claimed == 1
        clock(61)
        assert second.poll().claimed == 0


def test_a_file_is_as_old_as_its_last_change(bench: Bench) -> None:
    deployment = deploy(bench, "60s")
    file = target(deployment) / "file"
    file.write_text(ORDER)
    os.utime(file, (1, 1))
    status = StatusReader(deployment.configuration, deployment.provider).read()
    (row,) = [one for one in status["inputs"] if one["destination"] == "queue://slow"]
    assert (row["waiting"], row["age"] < 60) == (1, True)
    assert not any("oldest_waiting" in one.text for one in status["reasons"])


def test_other_inputs_take_a_file_at_once(bench: Bench) -> None:
    deployment = deploy(bench, "60s")
    deployment.send("queue://orders", ORDER)
    with deployment.running() as adapter:
        assert adapter.poll().claimed == 1


@rows(
    "provider, destination, words",
    [
        ({"type": "memory"}, "queue://slow", "min_age with the provider memory"),
        ({"type": "sql", "url": "sqlite:///./messages.db"}, "queue://slow", "min_age with the provider sql"),
        ({}, "queue://slow~EXPIRED", "into which nobody writes files"),
    ],
)
def test_min_age_is_for_files_of_partners(
    bench: Bench, provider: dict[str, Any], destination: str, words: str
) -> None:
    inputs = [{"destination": destination, "min_age": "2s"}]
    deployment = bench.deploy(provider=provider, InputDestination=inputs)
    with pytest.raises(ConfigurationError) as caught:
        load(deployment.directory / "adapter.yaml", thorough=True, in_process=True)
    (problem,) = (one for one in caught.value.problems if one.path.startswith("connector.InputDestination"))
    assert words in problem.found
    assert problem.path == "connector.InputDestination[0].min_age"
