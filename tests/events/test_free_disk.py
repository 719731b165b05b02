"""``min_free``: while the disk has less, inputs are not claimed, and everybody is told."""

from __future__ import annotations

import json
import logging
import shutil
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import pytest

from connector.cli.app import run
from connector.config.loading import load
from connector.config.resolved import as_document, as_yaml
from connector.errors import ConfigurationError
from connector.events.free_disk import FreeDisk, shortage_of
from connector.limits.free_space import MinFree
from connector.status import ReturnCode
from tests.events.conftest import IN_MEMORY, Bench, serving
from tests.tables import rows
from tests.waiting import wait_for

BODY = '{"BusinessObject": "Order", "Verb": "Create", "Id": "1"}'
ENDLESS = {"min_free": "1000TB"}
SHORT, ROOM = "the disk is almost full, so nothing is claimed", "the disk has room again"
Usage = namedtuple("Usage", "total used free")


def texts(caplog: pytest.LogCaptureFixture) -> Sequence[str]:
    return [record.message for record in caplog.records if record.message in (SHORT, ROOM)]


def test_each_poll_looks_at_the_disk_but_once_a_second_while_it_is_full(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now, free, looks = 0.0, 9, 0

    def look(path: str) -> Usage:
        nonlocal looks
        looks += 1
        return Usage(1000, 1000 - free, free)

    monkeypatch.setattr(shutil, "disk_usage", look)
    disk = FreeDisk("/data", MinFree(percent=1), lambda: now)
    with caplog.at_level(logging.INFO):
        found = []
        for now, free in ((0.0, 10), (0.5, 9), (1.0, 9), (1.5, 10), (2.0, 8), (3.0, 10), (4.0, 10)):  # noqa: B007
            found.append(bool(disk.shortage()))
    assert found == [False, True, True, False, True, False, False]
    assert looks == 6
    assert texts(caplog) == [SHORT, ROOM] * 2


def test_a_disk_that_is_not_there_is_not_full() -> None:
    assert shortage_of(None, MinFree(size=10**18)) == ""
    assert shortage_of("/no/such/directory", MinFree(size=10**18)) == ""
    assert "are free on the disk of /, less than min_free (953,674,316,406.3 MiB)" in shortage_of(
        "/", MinFree(size=10**18)
    )


def test_a_disk_that_lacks_a_byte_shows_two_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 30, 0, (8 << 20) - 1))
    shown = "7.9 MiB are free on the disk of /data, less than min_free (8.0 MiB)"
    assert shortage_of("/data", MinFree(size=8 << 20)) == shown


@rows(
    "text, least",
    [
        ("1%", 20),
        ("0.5%", 10),
        ("100%", 2000),
        ("0", 0),
        ("0%", 0),
        ("500", 500),
        ("500B", 500),
        ("5KB", 5000),
        ("5KiB", 5120),
        ("500MB", 500_000_000),
        ("2GiB", 2 << 30),
        ("1000TB", 10**15),
        ("1TiB", 1 << 40),
    ],
)
def test_a_share_or_a_size(bench: Bench, text: str, least: int) -> None:
    deployment = bench.deploy(more={"min_free": text})
    configuration = deployment.configuration
    assert configuration.min_free.of(2000) == least
    deployment.write("adapter.yaml", as_yaml(as_document(configuration)))
    assert deployment.configuration.min_free == configuration.min_free


@rows("text", ["101%", "-1%", "1 %", "%", "5XB", "5iB", "much", "1.5GB"])
def test_neither(bench: Bench, text: str) -> None:
    bench.deploy(more={"min_free": text})
    with pytest.raises(ConfigurationError, match="expected a share of the disk such as 1%") as refused:
        load(bench.directory / "adapter.yaml", {})
    assert [one.path for one in refused.value.problems if not one.warning] == ["min_free"]


def test_the_default_is_a_hundredth(bench: Bench) -> None:
    assert bench.deploy().configuration.min_free == MinFree(percent=1.0)


@pytest.mark.parametrize("kind", ["dropbox", "sql"])
def test_below_it_nothing_is_claimed_and_status_says_so(
    bench: Bench,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    provider = {"type": "sql", "url": "sqlite:///./m.db"} if kind == "sql" else None
    deployment = bench.deploy(provider=provider, InputDestination=["queue://orders"], more=ENDLESS)
    deployment.send("queue://orders", BODY)
    monkeypatch.chdir(bench.directory)
    with caplog.at_level(logging.INFO), deployment.running() as adapter:
        for _ in range(2):
            report = adapter.drain()
            assert (report.code, report.claimed) == (ReturnCode.APPRESPONSETIMEOUT, 0)
            assert "less than min_free" in report.reason
        assert run(["status", "--json"]) == 0
        assert "less than min_free" in json.loads(capsys.readouterr().out)["disk_shortage"]
        assert run(["status"]) == 0
        assert capsys.readouterr().out.splitlines()[1].startswith("  nothing is claimed: ")
    assert bench.calls() == []
    assert len(deployment.messages("queue://orders")) == 1
    assert texts(caplog) == [SHORT]


def test_a_provider_without_a_disk_has_no_limit(bench: Bench) -> None:
    deployment = bench.deploy(provider=IN_MEMORY, InputDestination=["queue://orders"], more=ENDLESS)
    deployment.send("queue://orders", BODY)
    with deployment.running() as adapter:
        assert adapter.drain().code is ReturnCode.SUCCEED
    assert len(bench.calls()) == 1


def test_a_service_waits_for_room_and_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = bench.deploy(InputDestination=["queue://orders"], PollFrequency=100)
    free, total, looks = 0, 1 << 30, 0

    def look(path: Any) -> Usage:
        nonlocal looks
        looks += 1
        return Usage(total, total - free, free)

    with caplog.at_level(logging.INFO), deployment.running() as adapter:
        monkeypatch.setattr("connector.events.free_disk.shutil.disk_usage", look)
        with serving(adapter):
            wait_for(lambda: looks >= 2)
            deployment.send("queue://orders", BODY)
            wait_for(lambda: looks >= 3)
            assert bench.calls() == []
            free = total
            wait_for(lambda: len(bench.calls()) == 1)
    assert texts(caplog) == [SHORT, ROOM]
