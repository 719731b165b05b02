"""A delivery delay at a broker: tried before the first delayed message, kept, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector.brokers.engine import delays
from connector.brokers.engine.client import BrokerMessagingConnection
from connector.brokers.engine.connection import RemoteConnection
from connector.errors import CapabilityError, ProviderError, SettlementError
from connector.messaging.client import AcknowledgeMode
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.testing.deployment import Deployment
from tests.brokers.engine.provider import ProviderForRequests
from tests.brokers.engine.world import OBJECTS, deploy, ids, running, send
from tests.waiting import now_ms, wait_for

ORDERS = parse_destination("queue://orders")
ARCHIVE = parse_destination("queue://archive")
ADVICE = "connector check --connect"


@pytest.fixture
def provider(root: Path) -> ProviderForRequests:
    return ProviderForRequests(root / "state")


def later() -> Message:
    return Message(b"later", delivery_time=now_ms() + 60_000)


def stored(provider: ProviderForRequests, queue: str) -> list[tuple[bytes, int]]:
    """The messages of a queue, also delayed ones, each with its time."""
    return [(one.message.body, one.due) for one in provider.broker.queues.get(queue, ())]


def test_a_broker_that_keeps_delays_is_tried_once_for_each_connection(provider: ProviderForRequests) -> None:
    connection, message = provider.connect(), later()
    connection.send(ORDERS, [Message(b"now")])
    assert not connection.broker.keeps_delays
    connection.send(ORDERS, [message])
    assert stored(provider, "orders") == [(b"now", 0), (b"later", message.delivery_time)]
    assert [one for one in provider.broker.queues if one.startswith("temporary")] == []
    provider.broker.keeps_delays = False
    connection.send(ORDERS, [later()])
    with pytest.raises(CapabilityError):
        provider.connect().send(ORDERS, [later()])


def test_a_slow_machine_tries_a_longer_delay(
    provider: ProviderForRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first delay is over when the messages are there."""
    monkeypatch.setattr(delays, "_ASKED_MS", 100)
    times = iter([now_ms() - 1000])
    monkeypatch.setattr(delays, "_now", lambda: next(times, now_ms()))
    connection = provider.connect()
    connection.send(ORDERS, [later()])
    assert connection.broker.keeps_delays
    provider.broker.keeps_delays = False
    times = iter([now_ms() - 1000])
    with pytest.raises(CapabilityError, match="the broker delivers at once: 1000 ms asked"):
        provider.connect().send(ORDERS, [later()])


def test_all_sessions_of_a_connection_know_it(provider: ProviderForRequests) -> None:
    with BrokerMessagingConnection(provider) as messaging:
        messaging.session().producer(ORDERS).send("1", delivery_delay=60_000)
        provider.broker.keeps_delays = False
        with messaging.session(AcknowledgeMode.TRANSACTED) as session:
            session.producer(ORDERS, delivery_delay=60_000).send("2")
            session.commit()
    assert [body for body, due in stored(provider, "orders") if due] == [b"1", b"2"]


@pytest.mark.parametrize("way", ["ignores", "refuses"])
def test_a_broker_that_does_not_keep_them_gets_no_delayed_message(
    provider: ProviderForRequests, way: str
) -> None:
    if way == "ignores":
        provider.broker.keeps_delays = False
    else:
        provider.broker.refuses = lambda queue, message: message.delivery_time > 0
    connection = provider.connect()
    reason = "the broker delivers at once: 500 ms asked" if way == "ignores" else "no right to send"
    with pytest.raises(CapabilityError, match=reason) as refused:
        connection.send(ORDERS, [Message(b"first"), later()])
    assert ADVICE in str(refused.value)
    with BrokerMessagingConnection(provider) as messaging:
        session = messaging.session(AcknowledgeMode.TRANSACTED)
        session.producer(ORDERS).send("sent")
        with pytest.raises(CapabilityError, match=reason):
            session.producer(ORDERS).send("later", delivery_delay=60_000)
        session.commit()
    assert stored(provider, "orders") == [(b"sent", 0)]
    provider.broker.keeps_delays, provider.broker.refuses = True, lambda queue, message: False
    connection.send(ORDERS, [later()])
    assert len(stored(provider, "orders")) == 2, "the broker was corrected"


def test_a_connection_that_breaks_says_nothing_about_delays(provider: ProviderForRequests) -> None:
    connection = provider.connect("shop", "one")

    def breaks(queue: str, message: Message) -> bool:
        provider.broker.connections[-1].close()
        return True

    provider.broker.refuses = breaks
    with pytest.raises(ProviderError):
        connection.send(ORDERS, [later()])
    with pytest.raises(ProviderError):
        connection.check_delays()


@pytest.mark.parametrize("in_progress", [False, True])
def test_a_settlement_with_a_delay_that_is_not_kept_settles_nothing(
    provider: ProviderForRequests, in_progress: bool
) -> None:
    provider.connect().send(ORDERS, [Message(b"event")])
    connection: RemoteConnection = provider.connect("shop", "one")
    poller = connection.poller(ORDERS, parse_destination("queue://progress") if in_progress else None)
    (claim,) = poller.claim(1, range(1))
    prepared = connection.access().open().prepare(parse_destination("queue://crm"), later(), "key")
    provider.broker.keeps_delays = False
    with pytest.raises(SettlementError, match=ADVICE):
        connection.settle([Settlement(claim, copy_to=ARCHIVE, sends=[prepared])])
    assert stored(provider, "crm") == stored(provider, "archive") == []
    assert [body for body, _ in stored(provider, "progress" if in_progress else "orders")] == [b"event"]
    connection.close()


def with_rule(directory: Path) -> Deployment:
    """A deployment whose messages to ``crm`` are delayed."""
    deployment = deploy(directory)
    rule = f"{OBJECTS}rules:\n  Customer_Create: {{DeliveryDelay: 60000}}\n"
    (metaobjects,) = (directory / "metaobjects").iterdir()
    metaobjects.write_text(rule)
    return deployment


@pytest.mark.parametrize("refused", [[], ["archive"]])
def test_a_rule_delays_what_is_sent_and_nothing_else(
    tmp_path: Path, provider: ProviderForRequests, refused: list[str]
) -> None:
    """After a refused settlement the message comes from the record of redelivered events."""
    provider.broker.refused.update(refused)
    sent = send(provider, "")
    before = now_ms()
    with running(with_rule(tmp_path), provider) as adapter:
        adapter.poll()
        after = now_ms()
        provider.broker.refused.clear()
        while not ids(provider, "archive"):  # a destination is not asked again at once
            adapter.drain()
    assert (ids(provider, "archive"), ids(provider, "crm")) == (sent, [])
    ((_, due),) = stored(provider, "crm")
    assert before + 60_000 <= due <= after + 60_000, "the time counts from the conversion"


def test_an_adapter_whose_rule_needs_a_delay_does_not_start_without(
    tmp_path: Path, provider: ProviderForRequests
) -> None:
    provider.broker.keeps_delays = False
    sent = send(provider, "")
    adapter = running(with_rule(tmp_path), provider)
    with pytest.raises(CapabilityError, match=ADVICE):
        adapter.start()
    assert ids(provider, "customers") == sent
    wait_for(lambda: all(one.ended for one in provider.broker.connections[1:]), what="the connection ends")
