"""The key ``rate`` of an input: this instance claims no more, waits without polling, and loses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from connector.config.loading import load
from connector.config.resolved import as_document
from connector.errors import ConfigurationError
from connector.events.claiming import claim_round_robin
from connector.events.rates import RateLimit
from connector.messaging.destination import Destination
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.polling import Poller
from connector.testing.deployment import InProcessAdapter
from tests.brokers.engine import world
from tests.brokers.engine.provider import LentProvider
from tests.events.conftest import Bench, EventDeployment, noted, serving
from tests.tables import rows
from tests.waiting import wait_for

BODY = '{"BusinessObject": "Order", "Verb": "Create", "Id": "1"}'


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_second_is_claimed_at_once_and_then_what_the_rate_allows() -> None:
    clock = Time()
    limit = RateLimit(50.0, clock)
    assert (limit.allowed(), limit.seconds()) == (50, 0)
    limit.note(50)
    assert limit.allowed() == 0
    assert limit.seconds() == pytest.approx(0.1), "five messages are worth a poll"
    clock.now += limit.seconds()
    assert limit.allowed() == 5
    assert limit.seconds() == pytest.approx(0)
    clock.now += 3600
    assert limit.allowed() == 50


def test_a_slow_rate_has_room_for_one() -> None:
    clock = Time()
    limit = RateLimit(1 / 3600, clock)
    assert limit.allowed() == 1
    limit.note(1)
    assert (limit.allowed(), round(limit.seconds())) == (0, 3600)
    clock.now += limit.seconds() / 2
    assert limit.allowed() == 0
    clock.now += limit.seconds()
    assert limit.allowed() == 1


class Endless:
    """A poller that always has more."""

    is_full = False

    def __init__(self, name: str) -> None:
        self.destination = Destination("queue", name)

    def claim(self, cycle: int, numbers: range) -> Sequence[Any]:
        return [type("Claim", (), {"sequence": number, "from_": self}) for number in numbers]


def test_a_poll_claims_less_of_an_input_with_a_rate() -> None:
    a, b = Endless("a"), Endless("b")
    pollers = cast("list[Poller]", [a, b])
    rates = [RateLimit(2.0, Time()), RateLimit(None)]
    taken = claim_round_robin(pollers, 3, 1, 10, None, rates)
    assert [claim.sequence for claim in taken.claims] == [10, 11, 12, 13, 15]
    assert taken.full == {a.destination, b.destination}
    taken = claim_round_robin(pollers, 3, 2, 0, None, rates)
    assert [claim.sequence for claim in taken.claims] == [1, 3, 5]


@rows("rate", ["50/s", "30/m", "7/h", "60/m", "100/h"])
def test_a_rate_is_shown_as_it_is_meant(bench: Bench, rate: str) -> None:
    deployment = bench.deploy(InputDestination=[{"destination": "queue://orders", "rate": rate}])
    (shown,) = as_document(deployment.configuration)["connector"]["InputDestination"]
    assert shown["rate"] == {"60/m": "1/s"}.get(rate, rate)
    deployment.write(
        "adapter.yaml", (bench.directory / "adapter.yaml").read_text().replace(rate, shown["rate"])
    )
    assert as_document(deployment.configuration)["connector"]["InputDestination"] == [shown]


@rows("rate", ["50", "0/s", "-1/s", "1.5/s", "50/d", "50 / s", "1000000000/s", "fast"])
def test_no_rate(bench: Bench, rate: str) -> None:
    bench.deploy(InputDestination=[{"destination": "queue://orders", "rate": rate}])
    with pytest.raises(ConfigurationError, match="expected messages a second, minute or hour") as refused:
        load(bench.directory / "adapter.yaml", {})
    mistakes = [one for one in refused.value.problems if not one.warning]
    assert [one.path for one in mistakes] == ["connector.InputDestination[0].rate"]


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
    messages = [Message(BODY.encode(), delivery_mode=mode) for _ in range(number)]
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


def test_a_service_waits_for_the_rate_and_polls_again_by_itself(
    bench: Bench, section: Mapping[str, str]
) -> None:
    deployment = deploy(bench, "20/s", section)
    with deployment.running() as adapter:
        check_service(
            adapter, lambda number: send(deployment, number), lambda: adapter.summary.total.published
        )


def assert_rate(done: Callable[[], int], number: int, rate: int, began: float) -> None:
    """Watches a service until ``number`` events are done. The first poll comes after ``began``.

    The first second of events comes at once. A busy machine is late, but never early.
    """

    def is_done() -> bool:
        found = done()
        passed = time.monotonic() - began
        assert found <= rate * (1 + passed), f"{found} events after {passed} s"
        return found >= number

    wait_for(is_done, what="all events")
    assert time.monotonic() - began >= number / rate - 1


@rows("quantity", [1, 100])
def test_a_rate_holds_over_seconds(bench: Bench, quantity: int) -> None:
    deployment = deploy(bench, "50/s", PollQuantity=quantity, order="none")
    send(deployment, 150)
    began = time.monotonic()
    with deployment.running() as adapter, serving(adapter):
        assert_rate(lambda: adapter.summary.total.published, 150, 50, began)


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
