"""The key ``rate`` of an input: this instance claims no more, waits without polling, and loses nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from connector.config.loading import load
from connector.config.resolved import as_document
from connector.errors import ConfigurationError
from connector.events.claiming import claim_round_robin
from connector.events.rates import RateLimit
from connector.messaging.destination import Destination
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.service.loop import Service
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine import world
from tests.brokers.engine.provider import LentProvider
from tests.events.conftest import Bench
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
    assert (limit.allowed(), limit.seconds()) == (5, pytest.approx(0))
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
    rates = [RateLimit(2.0, Time()), RateLimit(None)]
    taken = claim_round_robin([a, b], 3, 1, 10, None, rates)  # type: ignore[list-item]
    assert [claim.sequence for claim in taken.claims] == [10, 11, 12, 13, 15]
    assert taken.full == {a.destination, b.destination}
    taken = claim_round_robin([a, b], 3, 2, 0, None, rates)  # type: ignore[list-item]
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


@pytest.fixture(params=["dropbox", "memory", "sqlite", "postgresql"])
def section(request: pytest.FixtureRequest) -> Mapping[str, str] | None:
    """The section of each provider. None = that of the bench, a directory."""
    if request.param == "postgresql":
        return {"type": "sql", "url": request.getfixturevalue("database")}
    sections = {"memory": {"type": "memory"}, "sqlite": {"type": "sql", "url": "sqlite:///./messages.db"}}
    return sections.get(request.param)


def deploy(bench: Bench, rate: str, section: Mapping[str, str] | None = None, **connector: Any) -> Deployment:
    deployment = bench.deploy(
        InputDestination=["queue://fast", {"destination": "queue://orders", "rate": rate}],
        **{"PollQuantity": 100, "PollFrequency": 60_000, **connector},
    )
    if section is not None:
        document = yaml.safe_load((bench.directory / "adapter.yaml").read_text())
        document["provider"] = dict(section)
        deployment.write("adapter.yaml", yaml.safe_dump(document))
    return deployment


def test_a_drain_takes_its_time_and_everything(bench: Bench, section: Mapping[str, str] | None) -> None:
    deployment = deploy(bench, "20/s", section)
    for _ in range(40):
        deployment.send("queue://orders", BODY)
        deployment.send("queue://fast", BODY)
    began = time.monotonic()
    with deployment.running() as adapter:
        adapter.drain()
        taken = time.monotonic() - began
        assert adapter.summary.as_dict()["published"] == 80
    assert 1.0 <= taken < 10
    calls = [call["from"] for call in bench.calls()]
    assert calls[:40].count("queue://fast") >= 20, "the other input does not wait"


def test_a_drain_that_is_stopped_does_not_wait_for_the_rate(bench: Bench) -> None:
    deployment = deploy(bench, "1/h")
    for _ in range(2):
        deployment.send("queue://orders", BODY)
    with deployment.running() as adapter:
        timer = threading.Timer(1.0, adapter.request_stop)
        timer.start()
        began = time.monotonic()
        adapter.drain()
        timer.join()
        assert time.monotonic() - began < 5
    assert len(bench.calls()) == 1


@contextmanager
def serving(adapter: InProcessAdapter) -> Iterator[list[float]]:
    """A service in a thread. Yields the times at which it has polled."""
    polls: list[float] = []
    serve = adapter.serve

    def note(**how: Any) -> Any:
        if how.get("polls", True):
            polls.append(time.monotonic())
        return serve(**how)

    adapter.serve = note  # type: ignore[method-assign]
    service = Service(adapter)
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        yield polls
    finally:
        service.stop()
        thread.join()


def check_service(adapter: InProcessAdapter, send: Callable[[int], object], done: Callable[[], int]) -> None:
    """A service with 20/s: a backlog, silence, and one message while the bucket is empty."""
    send(60)
    began = time.monotonic()
    with serving(adapter) as polls:
        wait_for(lambda: done() == 60, what="the backlog")
        taken = time.monotonic() - began
        assert 1.9 <= taken < 10
        assert len(polls) < 15 * taken, "it does not spin"
        send(1)
        wait_for(lambda: done() == 61, what="a message that came while the rate allowed none")
        before = len(polls)
        time.sleep(1)
        assert len(polls) - before < 5, "it rests when nothing waits"


@pytest.mark.parametrize("order", ["destination", "none"])
def test_a_service_waits_for_the_rate_and_polls_again_by_itself(
    bench: Bench, section: Mapping[str, str] | None, order: str
) -> None:
    deployment = deploy(bench, "20/s", section, order=order)

    def send(number: int) -> None:
        for _ in range(number):
            deployment.send("queue://orders", BODY)

    with deployment.running() as adapter:
        check_service(adapter, send, lambda: adapter.summary.as_dict()["published"])


def assert_rate(done: Callable[[], int], number: int, rate: int, began: float) -> None:
    """Watches a service until ``number`` events are done. The first poll comes after ``began``.

    The first second of events comes at once. A busy machine is late, but never early.
    """
    while (found := done()) < number:
        passed = time.monotonic() - began
        assert found <= rate * (1 + passed), f"{found} events after {passed} s"
        assert passed < 10 * number / rate, f"only {found} events after {passed} s"
        time.sleep(0.02)
    assert time.monotonic() - began >= number / rate - 1


@pytest.mark.parametrize("quantity", [1, 100])
def test_a_rate_holds_over_seconds(bench: Bench, section: Mapping[str, str] | None, quantity: int) -> None:
    deployment = deploy(bench, "50/s", section, PollQuantity=quantity)
    connection = deployment.provider.connect()
    mode = PERSISTENT if deployment.provider.capabilities.reliable else NON_PERSISTENT
    messages = [Message(BODY.encode(), delivery_mode=mode) for _ in range(300)]
    connection.send(Destination("queue", "orders"), messages)
    connection.close()
    began = time.monotonic()
    with deployment.running() as adapter, serving(adapter):
        assert_rate(lambda: adapter.summary.as_dict()["published"], 300, 50, began)


def test_without_wake_a_rate_does_not_hasten_a_poll(bench: Bench) -> None:
    deployment = deploy(bench, "1000/s", wake=False, PollQuantity=1)
    for _ in range(3):
        deployment.send("queue://orders", BODY)
    with deployment.running() as adapter, serving(adapter) as polls:
        time.sleep(0.5)
        assert len(polls) == 1
        assert len(bench.calls()) == 1


@pytest.mark.process
@pytest.mark.slow
@rows("order", ["destination", "none"])
def test_a_broker_lends_no_more_than_the_rate(tmp_path: Path, order: str) -> None:
    provider = LentProvider(tmp_path / "state")
    inputs = [{"destination": "queue://customers", "rate": "20/s"}, "queue://urgent"]
    deployment = world.deploy(tmp_path, InputDestination=inputs, PollFrequency=60_000, order=order)
    with InProcessAdapter(deployment.configuration, provider, isolated=True, parallelism=2) as adapter:
        world.send(provider, *[""] * 5, queue="urgent")
        check_service(
            adapter,
            lambda number: world.send(provider, *[""] * number),
            lambda: adapter.summary.destinations["queue://customers"].as_dict()["published"],
        )
        assert adapter.summary.as_dict()["published"] == 66
