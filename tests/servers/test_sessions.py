"""The tests of sessions at a real broker. The shipped suite has sessions at each broker."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from connector import messaging
from connector.brokers.engine.client import BrokerMessagingConnection
from connector.brokers.jars.locked import LOCK, cache_directory
from connector.brokers.jms.urls import QPID
from connector.errors import ProviderError
from tests.core import (
    test_acknowledgement,
    test_listeners,
    test_sessions,
    test_subscribers,
    test_transactions,
)
from tests.core.conftest import Connect, Watched
from tests.servers.broker import PASSWORD, USER
from tests.servers.conftest import CLIENT, Broker

_MODULES: Final = test_acknowledgement, test_listeners, test_sessions, test_subscribers, test_transactions
_SHOWS_WAITING: Final = (
    "a broker shows only waiting messages, so the test would pass without an acknowledgement"
)
_SAYS_NOT_WHOSE: Final = (
    "a broker makes the queue or topic that a client names, and does not tell whose a temporary one is"
)
_LOOKS_ONCE: Final = "the test looks once, and a busy broker shows a message a moment later; the suite waits"
_LEFT_OUT: Final[dict[str, str]] = {
    "test_stop_waits_for_the_listener_that_runs_and_start_goes_on": _LOOKS_ONCE,
    "test_auto_acknowledges_after_the_listener_not_before": _SHOWS_WAITING,
    "test_dups_ok_acknowledges_later_than_receive_returns": _SHOWS_WAITING,
    "test_a_durable_subscriber_that_dies_gets_its_message_again_flagged": (
        "brokers count the deliveries to a closed connection in different ways"
    ),
    "test_a_body_arrives_as_it_was_sent": "a map of JMS has no lists",
    "test_what_no_message_carries_and_no_consumer_of_a_queue_knows_is_refused": (
        "a broker says in words of its own what is wrong with a selector"
    ),
    "test_a_temporary_queue_ends_with_its_connection_not_with_the_session": _SAYS_NOT_WHOSE,
    "test_a_temporary_topic_reaches_every_consumer_of_its_connection_and_nobody_else_may_be_one": (
        _SAYS_NOT_WHOSE
    ),
}
"""Tests that do not hold at a broker, with the reason."""
_FIRST_IN_FIRST_OUT: Final = "a queue of Broker-J is first in, first out"
_FETCHED: Final = "Broker-J counts a delivery of what a client library has only fetched, and browses past it"
_ONLY_AT: Final = {
    "test_a_browser_takes_nothing_and_knows_selectors": ("artemis", _FIRST_IN_FIRST_OUT),
    "test_an_empty_selector_is_no_selector": ("artemis", _FETCHED),
    "test_close_from_many_threads_closes_once": ("artemis", _FETCHED),
    "test_close_rolls_back": ("artemis", _FETCHED),
    "test_recover_begins_again_with_the_oldest": ("artemis", _FETCHED),
    "test_acknowledging_twice_does_nothing_more": ("artemis", _FETCHED),
    "test_a_shared_subscription_ends_with_its_last_consumer": (
        "broker_j",
        "Artemis ends such a subscription a moment after its consumer",
    ),
    "test_the_claims_of_a_dead_session_come_again_and_its_sends_never": ("artemis", _FETCHED),
    "test_a_late_acknowledgement_fails_and_touches_nothing": (
        "broker_j",
        "a closed connection of Qpid JMS counts no delivery of an unacknowledged message at Artemis",
    ),
    "test_a_browser_of_a_temporary_queue_that_has_ended_is_an_error": (
        "artemis",
        "Broker-J lets nobody browse a temporary queue, so that this error is another one",
    ),
}
"""Tests that hold at one of the two brokers, and why not at the other."""

session = test_transactions.session
billing = test_subscribers.billing

for _module in _MODULES:
    globals().update(
        (name, test)
        for name, test in vars(_module).items()
        if name.startswith("test_")
        and name not in _LEFT_OUT
        and not {"connection", "connect", "session"}.isdisjoint(inspect.signature(test).parameters)
        and {"subscriptions", "late"}.isdisjoint(inspect.signature(test).parameters)
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" not in metafunc.fixturenames:
        return
    kind, _ = _ONLY_AT.get(metafunc.function.__name__, ("artemis", ""))
    metafunc.parametrize("server", [kind], indirect=True)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Broker:
    """Artemis, unless a test holds at Broker-J alone."""
    found: Broker = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def provider(server: Broker) -> Iterator[Watched]:
    server.empty()
    yield Watched(server.provider())
    server.empty()  # other tests look into the queue of dead letters


@pytest.fixture
def connect(provider: Watched) -> Iterator[Connect]:
    """Connects to the broker of the test; closed after it."""
    made: list[BrokerMessagingConnection] = []

    def new(**options: object) -> BrokerMessagingConnection:
        made.append(BrokerMessagingConnection(provider, **options))  # type: ignore[arg-type]
        return made[-1]

    yield new
    for connection in made:
        try:
            connection.close()
        except ProviderError:
            if not provider.killed:
                raise


@pytest.fixture
def connection(connect: Connect) -> BrokerMessagingConnection:
    made = connect()
    assert isinstance(made, BrokerMessagingConnection)
    return made


def test_a_program_connects_by_url(artemis: Broker, tmp_path: Path) -> None:
    """By a deployment: test_clients.py."""
    artemis.empty()
    options: dict[str, Any] = {
        "ApplicationUserName": USER,
        "ApplicationPassword": PASSWORD,
        "packages": CLIENT,
    }
    lock = cache_directory().parent / "tests" / "client" / LOCK
    (tmp_path / LOCK).write_text(lock.read_text())
    for connection in (
        messaging.connect(artemis.url, directory=tmp_path, **options),
        messaging.connect(f"jms:{artemis.url}", directory=tmp_path, factory=QPID, **options),
    ):
        with connection, connection.session() as session:
            session.send("queue://orders", "1")
            message = session.consumer("queue://orders").receive(60)
            assert message is not None
            assert message.value == "1"
