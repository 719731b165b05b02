"""What the world of crashes has found, each as a small test of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector import faults
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.provider import DropboxProvider

ORDERS = Destination("queue", "orders")
NEWS = Destination("topic", "news")


class Died(BaseException):
    """Nobody catches this, as nobody catches the end of a process."""


@pytest.mark.parametrize("place", ["fanout.link", "settle.record"])
def test_a_message_prepared_for_a_topic_outlives_its_client_until_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The journal of a dead client names the message, so the client that takes over has to find it."""
    provider = DropboxProvider(tmp_path / "root", create=True, durable=False)
    reader = provider.connect("other")
    subscription = TopicSubscription(NEWS, "reader", durable=True, shared=True)
    poller = reader.poller(subscription)
    reader.send(ORDERS, [Message(b"order")])
    dying = provider.connect("suite", "dying")
    claim = dying.poller(ORDERS).take(1, 0)
    assert claim is not None
    access = dying.access().open()
    prepared = access.prepare(NEWS, Message(b"news"), "key")
    access.sync()

    def die(reached: str) -> None:
        if reached == place:
            raise Died

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", die)
        with pytest.raises(Died):
            dying.settle([Settlement(claim, sends=[prepared])])
    dying.abandon()
    living = provider.connect("suite", "living")
    for leftover in living.leftovers(None, at_start=True):
        living.settle([Settlement(one, sends=[prepared]) for one in leftover.claims])
        leftover.forget()
    sent = poller.take(1, 0)
    assert sent is not None
    assert reader.access().open().load(sent.reference, 100).body == b"news"
    assert poller.take(1, 1) is None
    assert list(living.browse(ORDERS)) == []
    for connection in (living, reader):
        connection.close()
