"""Brokers that are slow, and queues that give nothing for a while. Nothing is concluded from silence."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pytest

from connector.brokers.engine.silence import BrokerSilent
from connector.brokers.jms import browsing
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from tests.proxy import Link, Proxy, proxy_to
from tests.servers.broker import FEW
from tests.servers.conftest import AT_ARTEMIS, RETRIES

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy

_SLOWEST: Final = float(os.environ.get("SLOWEST_FRAME", "1"))
"""Seconds of the slowest frame. The silence of a broker ends at 5, and the test then takes minutes."""


@AT_ARTEMIS
@pytest.mark.timeout(900)  # each answer takes up to 20 seconds
@pytest.mark.parametrize("in_progress", [False, True])
def test_slow_frames_and_paused_queues_cost_no_event(
    broker: Broker, deploy: Deploy, caplog: pytest.LogCaptureFixture, in_progress: bool
) -> None:
    """Nothing is lost, called too often or stranded."""
    caplog.set_level("INFO")
    with proxy_to(broker.port) as proxy:
        limit = {"ends": FEW, "provider": {"redelivery_limit": 3}}
        deployment = deploy(broker, in_progress=in_progress, port=proxy.port, connector=RETRIES, **limit)
        flag = deployment.raise_flag()
        sent = 0

        def fill(count: int = 1, name: str = "") -> None:
            nonlocal sent
            deployment.fill(count, name=name, first=sent)
            sent += count

        def phase(queue: str, delay: float, name: str, seen: Callable[[], bool], what: str) -> None:
            """Sends an event, and pauses a queue until something is seen."""
            broker.pause(queue)
            while proxy.delay < delay:
                proxy.delay += 0.25
                time.sleep(0.25)  # a broker ends a connection that is silent for too long
            fill(1, name)
            deployment.wait_for(seen, what, 300.0)
            broker.resume(queue)

        def is_called() -> bool:
            return str(sent - 1) in dict(deployment.calls())

        with deployment.serving() as adapter:
            inbound = adapter._connection.inbound
            assert inbound is not None
            fill(1, "inactive:flag")
            held, commits = (f"connector.{deployment.name}.{name}" for name in ("held", "commits"))
            if not in_progress:
                deployment.wait_for(lambda: bool(deployment.bodies(held)), "a held message")
                broker.pause(held)
                deployment.wait_for(lambda: "do not come" in str(inbound.closed), "the input waits")
            fill()
            flag.unlink()
            proxy.delay = 0.1
            broker.resume(held)
            deployment.wait_for(lambda: len(deployment.archived()) == sent, "the held message")
            polls = inbound._intake.cycle
            phase(
                deployment.input,
                *(0.25, ""),
                lambda: inbound._intake.cycle > polls + 1,
                "polls of a queue that gives nothing",
            )
            phase(deployment.error, 0.5, "raise:no", is_called, "the call of an event that fails")
            phase(deployment.archive, 1.0, "", is_called, "the call of an event that is archived")
            caplog.clear()
            if in_progress:
                phase(
                    deployment.in_progress,
                    *(_SLOWEST, ""),
                    lambda: "stays open" in caplog.text,
                    "a settlement whose messages do not come",
                )
            else:
                phase(commits, _SLOWEST, "", is_called, "the call of an event whose mark does not come")
            proxy.delay = 0.1
            deployment.wait_for(lambda: len(deployment.archived()) == sent - 1, "the other events", 300.0)
        proxy.go_on()
        inactive = sum(customer == "0" for customer, _ in deployment.calls())
        deployment.finish(sent, failed=[3], inactive=[0], twice=inactive - 1)


class _Deaf(Proxy):
    """A proxy that loses flow frames (AMQP 1.0, 2.7.4), with which a client asks for more messages."""

    losses = 0

    def link(self, client: socket.socket, server: socket.socket) -> Link:
        link = Link(client, server)
        request = link.request

        def lose(data: bytes) -> None:
            if self.losses and b"\x00\x53\x13" in data:
                self.losses -= 1
            else:
                request(data)

        link.request = lose  # type: ignore[method-assign]
        return link


@AT_ARTEMIS
def test_a_browser_without_an_answer_asks_once_more(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "FIRST_ANSWER", 0.5)
    monkeypatch.setattr(browsing, "ANSWER", 2.0)
    broker.empty()
    queue = parse_destination("queue://silence")
    with (
        contextlib.closing(_Deaf(broker.port)) as proxy,
        contextlib.closing(broker.provider(proxy.port).connect()) as connection,
    ):
        connection.send(queue, [Message(b"x", "T") for _ in range(30)])
        for losses in (1, 0):
            proxy.losses = losses
            assert len(list(connection.browse(queue))) == 30
        proxy.losses = 1000
        with pytest.raises(BrokerSilent, match="the messages of queue://silence are not known"):
            list(connection.browse(queue))
    broker.empty()
