"""Subscriptions that come and go while a transaction is sent to their topic."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from connector import faults
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.provider import DropboxProvider
from tests.contention.crew import Crew

PRICES = parse_destination("topic://prices")
AUDIT, LATE = (TopicSubscription(PRICES, name, durable=True, shared=True) for name in ("audit", "late"))


def send(connection: Connection, messages: list[Message]) -> None:
    connection.send(PRICES, messages)


def commit(connection: Connection, messages: list[Message]) -> None:
    access = connection.access().open()
    prepared = [access.prepare(PRICES, message, str(n)) for n, message in enumerate(messages)]
    access.sync()
    connection.settle([], prepared)


@pytest.mark.parametrize("sends", [send, commit])
def test_a_subscription_that_is_made_meanwhile_has_all_of_a_commit_or_nothing(
    workers: Crew, monkeypatch: pytest.MonkeyPatch, sends: Callable[[Connection, list[Message]], None]
) -> None:
    provider = DropboxProvider(workers.root, create=True, durable=False)
    with closing(provider.connect()) as sender, closing(provider.connect()) as other:
        for name in ("audit", "books"):
            other.poller(TopicSubscription(PRICES, name, durable=True, shared=True)).close()
        links = 0

        def point(place: str) -> None:
            nonlocal links
            links += place == "fanout.link"
            if links == 5 and place == "fanout.link":
                other.poller(LATE).close()

        monkeypatch.setattr(faults, "point", point)
        sends(sender, [Message(str(n).encode()) for n in range(10)])
        waiting = {info.subscription.name: info.waiting for info in other.subscriptions()}
    assert links >= 5
    assert waiting["audit"] == waiting["books"] == 10
    assert waiting["late"] in (0, 10)


@pytest.mark.parametrize("names", [["audit"], ["audit", "books"]])
def test_a_subscription_made_anew_meanwhile_gets_nothing_that_was_for_the_one_before(
    workers: Crew, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    anew = TopicSubscription(PRICES, "audit", durable=True, shared=True, selector="region = 'EU'")
    provider = DropboxProvider(workers.root, create=True, durable=False)
    with closing(provider.connect()) as sender, closing(provider.connect()) as other:
        for name in names:
            other.poller(TopicSubscription(PRICES, name, durable=True, shared=True)).close()
        replaced: list[str] = []

        def point(place: str) -> None:
            if place in ("settle.move", "settle.committing") and not replaced:
                replaced.append(place)
                other.poller(anew).close()

        monkeypatch.setattr(faults, "point", point)
        send(sender, [Message(b"no region")])
        waiting = {info.subscription.name: info.waiting for info in other.subscriptions()}
    assert replaced
    assert waiting == {"audit": 0} | ({"books": 1} if "books" in names else {})
