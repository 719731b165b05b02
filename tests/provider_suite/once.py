"""A message is sent once by key: a key that is remembered sends nothing, and gives the first answer."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from connector.core.once_sender import OnceSender
from connector.errors import CapabilityError, ConnectorError
from connector.messaging.destination import Destination
from connector.messaging.once import OnceKey, SentOnce
from connector.messaging.provider import Connection, Provider
from connector.messaging.subscription import TopicSubscription
from tests.provider_suite.base import NOTES, ORDERS, PRICES, Connect, SuiteBase, look_again, needs

KEEP = 3600.0
ODD = "http/" + "k" * 300 + " é💶 '%_\\\n/../x"
"""A key with everything that a file name, a selector or SQL takes for something else."""
_ROUNDS = 10
_SENDERS = 4


def once(key: str, *, keep: float = KEEP, fingerprint: str = "", application: str = "suite") -> OnceKey:
    return OnceKey(application, key, keep, fingerprint)


@needs("sends_once", has=False)
class OnceRefusedTests(SuiteBase):
    def test_a_message_with_a_key_is_refused(self, connection: Connection) -> None:
        with pytest.raises(CapabilityError, match="once by key"):
            connection.send_once(ORDERS, self.text("1"), once("k"))
        with pytest.raises(CapabilityError, match="once by key"):
            connection.find_sent("suite", "k")


@needs("sends_once")
class OnceTests(SuiteBase):
    """Two instances are two connections here: clients that share nothing but the provider."""

    def test_a_new_key_sends_and_a_known_key_gives_the_first_answer(self, connection: Connection) -> None:
        first = connection.send_once(ORDERS, self.text("1"), once("k", fingerprint="one"))
        second = connection.send_once(NOTES, self.text("2"), once("k", fingerprint="two"))
        assert first == SentOnce(first.message_id, is_new=True, fingerprint="one")
        assert second == SentOnce(first.message_id, is_new=False, fingerprint="one")
        (message,) = connection.browse(ORDERS)
        assert message.message_id == first.message_id
        assert (message.body, message.properties["connector_key"]) == (b"1", "k")
        assert self.visible(connection, NOTES) == []

    def test_the_message_of_the_caller_stays_as_it_was(self, connection: Connection) -> None:
        sent = self.text("1", correlation_id="c")
        sent.set_property("region", "EU")
        connection.send_once(ORDERS, sent, once("k"))
        assert (sent.message_id, dict(sent.properties)) == (None, {"region": "EU"})
        got = self.load(connection, self.take(connection.poller(ORDERS)))
        assert (got.correlation_id, got.properties["region"]) == ("c", "EU")

    @pytest.mark.parametrize("key", ["k", ODD])
    def test_a_look_finds_a_key_and_sends_nothing(self, connection: Connection, key: str) -> None:
        assert connection.find_sent("suite", key) is None
        sent = connection.send_once(ORDERS, self.text("1"), once(key, fingerprint="f é"))
        assert connection.find_sent("suite", key) == SentOnce(
            sent.message_id, is_new=False, fingerprint="f é"
        )
        assert not connection.send_once(ORDERS, self.text("1"), once(key)).is_new
        assert self.bodies(connection, ORDERS) == ["1"]

    def test_the_keys_of_an_application_are_its_own(self, connection: Connection) -> None:
        for application in ("suite", "another", "suite"):
            connection.send_once(ORDERS, self.text(application), once("k", application=application))
        assert self.bodies(connection, ORDERS) == ["suite", "another"]
        assert connection.find_sent("a third", "k") is None

    def test_a_key_outlives_its_connection_and_the_message(self, connect: Connect) -> None:
        first = connect()
        sent = first.send_once(ORDERS, self.text("1"), once("k"))
        first.close()
        second = connect("")
        assert self.rest_soon(second, second.poller(ORDERS), 1) == ["1"]
        again = second.send_once(ORDERS, self.text("2"), once("k"))
        assert again == SentOnce(sent.message_id, is_new=False, fingerprint="")
        assert self.bodies(second, ORDERS) == []

    def test_a_key_whose_time_is_over_sends_again(self, connection: Connection) -> None:
        first = connection.send_once(ORDERS, self.text("1"), once("k", keep=0.05, fingerprint="one"))
        deadline = time.monotonic() + self.wait_timeout
        while connection.find_sent("suite", "k") is not None:
            assert time.monotonic() < deadline
            look_again()
        second = connection.send_once(ORDERS, self.text("2"), once("k", fingerprint="two"))
        assert second.is_new
        assert second.message_id != first.message_id
        assert connection.send_once(ORDERS, self.text("3"), once("k")).fingerprint == "two"
        assert self.bodies(connection, ORDERS) == ["1", "2"]

    def test_of_many_that_send_one_key_at_the_same_time_one_sends(
        self, provider: Provider, connection: Connection
    ) -> None:
        senders = [OnceSender(provider, "suite") for _ in range(_SENDERS)]
        together = threading.Barrier(_SENDERS)

        def send(sender: OnceSender) -> list[SentOnce]:
            answers = []
            for number in range(_ROUNDS):
                together.wait(self.wait_timeout)
                answers.append(sender.send(ORDERS, self.text(str(number)), key=f"k{number}", keep=KEEP))
            return answers

        with ThreadPoolExecutor(_SENDERS) as threads:
            answers = list(threads.map(send, senders))
        for sender in senders:
            sender.close()
        for same in zip(*answers, strict=True):
            assert len({one.message_id for one in same}) == 1
            assert sum(one.is_new for one in same) == 1
        assert self.bodies(connection, ORDERS) == [str(number) for number in range(_ROUNDS)]

    def test_threads_share_a_sender(self, provider: Provider, connection: Connection) -> None:
        sender = OnceSender(provider, "suite")
        with ThreadPoolExecutor(_SENDERS) as threads:
            numbers = [number // 2 for number in range(2 * _SENDERS)]
            answers = list(
                threads.map(lambda n: sender.send(ORDERS, self.text("x"), key=f"k{n}", keep=KEEP), numbers)
            )
        assert sum(one.is_new for one in answers) == _SENDERS
        assert sender.find("k0") == answers[0]._replace(is_new=False)
        sender.close()
        assert len(self.bodies(connection, ORDERS)) == _SENDERS

    def test_a_message_that_is_refused_leaves_no_key(
        self, connection: Connection, unwritable: Destination
    ) -> None:
        with pytest.raises(ConnectorError):
            connection.send_once(unwritable, self.text("1"), once("k"))
        assert connection.find_sent("suite", "k") is None
        assert connection.send_once(ORDERS, self.text("2"), once("k")).is_new
        assert self.bodies(connection, ORDERS) == ["2"]

    @pytest.mark.parametrize("wrong", [once(""), once("k", application=""), once("k", keep=0), once("\0")])
    def test_a_key_that_is_not_valid_sends_nothing(self, connection: Connection, wrong: OnceKey) -> None:
        with pytest.raises(ValueError, match="expected a"):
            connection.send_once(ORDERS, self.text("1"), wrong)
        assert self.visible(connection, ORDERS) == []

    @needs("topics")
    def test_at_a_topic_each_subscription_gets_the_message(self, connection: Connection) -> None:
        before = connection.send_once(PRICES, self.text("0"), once("nobody"))
        pollers = [
            connection.poller(TopicSubscription(PRICES, name, shared=True, durable=True)) for name in "ab"
        ]
        sent = [connection.send_once(PRICES, self.text("1"), once("k")) for _ in range(2)]
        assert [one.is_new for one in (before, *sent)] == [True, True, False]
        assert [self.rest_soon(connection, poller, 1) for poller in pollers] == [["1"], ["1"]]
        assert not connection.send_once(PRICES, self.text("2"), once("nobody")).is_new
