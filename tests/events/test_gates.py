"""What lets inputs wait: the key ``rate`` of an input, and a disk with less than ``min_free``."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from connector.cli.app import run
from connector.config.loading import load
from connector.config.resolved import as_document, as_yaml
from connector.errors import ConfigurationError
from connector.events.claim.free_disk import FreeDisk, least_free, shortage_of
from connector.events.claim.intake import claim_round_robin
from connector.events.claim.polled_input import InputSettings, PolledInput
from connector.events.claim.rates import RateLimit
from connector.limits.free_space import MinFree
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.polling import Poller
from connector.status import ReturnCode
from connector.testing.deployment import InProcessAdapter
from tests.brokers.engine import world
from tests.brokers.engine.provider import LentProvider
from tests.events.conftest import IN_MEMORY, ORDER, Bench, EventDeployment, noted, serving
from tests.tables import rows
from tests.waiting import wait_for


def mistakes(bench: Bench, words: str) -> list[str]:
    """The places of the mistakes in a configuration, of which one is described with these words."""
    with pytest.raises(ConfigurationError, match=words) as refused:
        load(bench.directory / "adapter.yaml", {})
    return [one.path for one in refused.value.problems if not one.warning]


# -- rate: this instance claims no more, waits without polling, and loses nothing ------------------------


def test_a_second_is_claimed_at_once_and_then_what_the_rate_allows() -> None:
    now = 100.0
    limit = RateLimit(50.0, lambda: now)
    assert (limit.allowed(), limit.seconds()) == (50, 0)
    limit.note(50)
    assert limit.allowed() == 0
    assert limit.seconds() == pytest.approx(0.1), "five messages are worth a poll"
    now += limit.seconds()
    assert limit.allowed() == 5
    assert limit.seconds() == pytest.approx(0)
    now += 3600
    assert limit.allowed() == 50


def test_a_slow_rate_has_room_for_one() -> None:
    now = 100.0
    limit = RateLimit(1 / 3600, lambda: now)
    assert limit.allowed() == 1
    limit.note(1)
    assert (limit.allowed(), round(limit.seconds())) == (0, 3600)
    now += limit.seconds() / 2
    assert limit.allowed() == 0
    now += limit.seconds()
    assert limit.allowed() == 1


class Endless:
    """A poller that always has more."""

    is_full = False

    def claim(self, cycle: int, numbers: range) -> Sequence[Any]:
        return [type("Claim", (), {"sequence": number}) for number in numbers]


def endless(name: str, quantity: int = 3, rate: float | None = None) -> PolledInput:
    one = PolledInput(InputSettings(Input(Destination("queue", name)), None, quantity, rate))
    one.poller = cast(Poller, Endless())
    return one


def test_a_poll_claims_less_of_an_input_with_a_rate() -> None:
    a, b = inputs = [endless("a"), endless("b")]
    a.rate = RateLimit(2.0, lambda: 100.0)
    taken: list[Claim] = []
    claim_round_robin(inputs, taken, 1, 10)
    assert [(claim.sequence, claim.input) for claim in taken] == [
        (10, a.input), (12, a.input), (11, b.input), (13, b.input), (15, b.input)
    ]  # fmt: skip
    assert (a.is_full, b.is_full, a.poller.wakes) == (True, True, False)
    taken.clear()
    claim_round_robin(inputs, taken, 2, 0)
    assert [claim.sequence for claim in taken] == [1, 3, 5]


def test_each_input_gives_as_many_messages_as_it_says() -> None:
    taken: list[Claim] = []
    claim_round_robin([endless("a", 1), endless("b", 3), endless("c", 2)], taken, 1, 0)
    numbers: dict[str, list[int]] = {}
    for claim in taken:
        numbers.setdefault(str(claim.input), []).append(claim.sequence)
    assert numbers == {"queue://a": [0], "queue://b": [1, 4, 7], "queue://c": [2, 5]}


@rows("rate", ["50/s", "30/m", "7/h", "60/m", "100/h"])
def test_a_rate_is_shown_as_it_is_meant(bench: Bench, rate: str) -> None:
    deployment = deploy(bench, rate)
    shown = as_document(deployment.configuration)["connector"]["InputDestination"]
    assert shown[1]["rate"] == {"60/m": "1/s"}.get(rate, rate)
    text = (bench.directory / "adapter.yaml").read_text()
    deployment.write("adapter.yaml", text.replace(rate, shown[1]["rate"]))
    assert as_document(deployment.configuration)["connector"]["InputDestination"] == shown


@rows("rate", ["50", "0/s", "-1/s", "1.5/s", "50/d", "50 / s", "1000000000/s", "fast"])
def test_no_rate(bench: Bench, rate: str) -> None:
    deploy(bench, rate)
    words = "expected messages a second, minute or hour"
    assert mistakes(bench, words) == ["connector.InputDestination[1].rate"]


def deploy(
    bench: Bench, rate: str, section: Mapping[str, str] | None = None, **connector: Any
) -> EventDeployment:
    return bench.deploy(
        provider=section,
        InputDestination=["queue://fast", {"destination": "queue://orders", "rate": rate}],
        **{"PollQuantity": 100, "PollFrequency": 60_000, **connector},
    )


def send(deployment: EventDeployment, number: int, queue: str = "orders") -> None:
    mode = PERSISTENT if deployment.provider.capabilities.reliable else NON_PERSISTENT
    messages = [Message(ORDER.encode(), delivery_mode=mode) for _ in range(number)]
    with closing(deployment.provider.connect()) as connection:
        connection.send(Destination("queue", queue), messages)


def test_a_drain_takes_its_time_and_everything(bench: Bench, section: Mapping[str, str]) -> None:
    deployment = deploy(bench, "20/s", section)
    send(deployment, 40)
    send(deployment, 40, "fast")
    began = time.monotonic()
    adapter = deployment.drain()
    assert time.monotonic() - began >= 1.0
    assert adapter.summary.total.published == 80
    calls = [call["from"] for call in bench.calls()]
    assert calls[:40].count("queue://fast") >= 20, "the other input does not wait"


def test_a_drain_that_is_stopped_does_not_wait_for_the_rate(bench: Bench) -> None:
    deployment = deploy(bench, "1/h")
    send(deployment, 2)
    with deployment.running() as adapter, ThreadPoolExecutor(1) as threads:
        drained = threads.submit(adapter.drain)
        wait_for(bench.calls)
        adapter.request_stop()
        drained.result()
    assert len(bench.calls()) == 1


def check_service(
    adapter: InProcessAdapter, send_more: Callable[[int], object], done: Callable[[], int]
) -> None:
    """A service with 20/s: a backlog, and messages while the bucket is empty."""
    send_more(60)
    began = time.monotonic()
    with noted(adapter) as polls:
        wait_for(lambda: done() == 60, what="the backlog")
        taken = time.monotonic() - began
        assert taken >= 1.9
        assert len(polls) < 15 * taken, "it does not spin"
        for number in (61, 62):
            before = len(polls)
            send_more(1)
            wait_for(lambda: done() == number, what="a message")  # noqa: B023
            assert len(polls) - before < 5, "it rests when nothing waits"


def test_a_service_waits_for_the_rate_and_polls_by_itself(bench: Bench, section: Mapping[str, str]) -> None:
    deployment = deploy(bench, "20/s", section)
    with deployment.running() as adapter:
        check_service(
            adapter, lambda number: send(deployment, number), lambda: adapter.summary.total.published
        )


@rows("order", ["destination", "none"])
def test_a_broker_lends_no_more_than_the_rate(tmp_path: Path, order: str) -> None:
    provider = LentProvider(tmp_path / "state")
    inputs = [{"destination": "queue://customers", "rate": "20/s"}, "queue://urgent"]
    deployment = world.deploy(tmp_path, InputDestination=inputs, PollFrequency=60_000, order=order)
    with InProcessAdapter(deployment.configuration, provider, parallelism=2) as adapter:
        world.send(provider, *[""] * 5, queue="urgent")
        check_service(
            adapter,
            lambda number: world.send(provider, *[""] * number),
            lambda: adapter.summary.destinations["queue://customers"].as_dict()["published"],
        )
        assert adapter.summary.total.published == 67


# -- min_free: while the disk has less, nothing is claimed, and everybody is told ------------------------

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
    assert (looks, texts(caplog)) == (6, [SHORT, ROOM] * 2)


def test_a_disk_that_is_not_there_is_not_full(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = MinFree(size=10**18)
    assert shortage_of(None, endless) == shortage_of("/no/such/directory", endless) == ""
    shown = "are free on the disk of /, less than min_free (953,674,316,406.3 MiB)"
    assert shown in shortage_of("/", endless)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 30, 0, (8 << 20) - 1))
    shown = "7.9 MiB are free on the disk of /data, less than min_free (8.0 MiB)"
    assert shortage_of("/data", MinFree(size=8 << 20)) == shown, "a byte makes two numbers"


@rows(
    "text, least",
    [
        (None, 20),  # a hundredth
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
def test_a_share_or_a_size(bench: Bench, text: str | None, least: int) -> None:
    deployment = bench.deploy(more={"min_free": text} if text else {})
    configuration = deployment.configuration
    assert least_free(configuration.min_free, 2000) == least
    deployment.write("adapter.yaml", as_yaml(as_document(configuration)))
    assert deployment.configuration.min_free == configuration.min_free


@rows("text", ["101%", "-1%", "1 %", "%", "5XB", "5iB", "much", "1.5GB"])
def test_neither(bench: Bench, text: str) -> None:
    bench.deploy(more={"min_free": text})
    assert mistakes(bench, "expected a share of the disk such as 1%") == ["min_free"]


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
    deployment.send("queue://orders", ORDER)
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
    assert (bench.calls(), len(deployment.messages("queue://orders")), texts(caplog)) == ([], 1, [SHORT])


def test_a_provider_without_a_disk_has_no_limit(bench: Bench) -> None:
    deployment = bench.deploy(provider=IN_MEMORY, InputDestination=["queue://orders"], more=ENDLESS)
    deployment.send("queue://orders", ORDER)
    deployment.drain()
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
        monkeypatch.setattr("connector.events.claim.free_disk.shutil.disk_usage", look)
        with serving(adapter):
            wait_for(lambda: looks >= 2)
            deployment.send("queue://orders", ORDER)
            wait_for(lambda: looks >= 3)
            assert bench.calls() == []
            free = total
            wait_for(lambda: len(bench.calls()) == 1)
    assert texts(caplog) == [SHORT, ROOM]
