"""The rules of Qpid JMS for making, sharing, changing and removing subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from connector.errors import SubscriptionError
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import SubscriptionInfo
from tests.provider_suite.base import PRICES, SuiteBase, needs
from tests.provider_suite.subscriptions import PASSING, SHARED, UNSHARED, Client
from tests.provider_suite.topics import RATES


@needs("topics")
@needs("administers")
class SubscriptionRuleTests(SuiteBase):
    def test_an_unshared_durable_subscription_needs_a_client_id(self, client: Client) -> None:
        with pytest.raises(SubscriptionError, match="client id"):
            client().poller(replace(UNSHARED, client_id=""))

    def test_an_unshared_durable_subscription_has_one_consumer(self, client: Client) -> None:
        first, second = client(), client()
        poller = first.poller(UNSHARED)
        for connection in (first, second):
            with pytest.raises(SubscriptionError, match="own"):
                connection.poller(UNSHARED)
        poller.close()
        second.poller(UNSHARED)

    def test_one_of_the_other_kind_is_refused_where_a_subscription_has_its_name(self, client: Client) -> None:
        for wanted, other in ((SHARED, UNSHARED), (UNSHARED, SHARED)):
            poller = client().poller(wanted)
            with pytest.raises(SubscriptionError, match="own"):
                client().poller(other)
            poller.close()
            with pytest.raises(SubscriptionError, match="own"):
                client().poller(other)
            client().unsubscribe("own", "billing")

    def test_other_details_make_an_inactive_unshared_subscription_anew(self, client: Client) -> None:
        connection = client()
        for other in (
            replace(UNSHARED, topic=RATES),
            replace(UNSHARED, selector="a = 1"),
            replace(UNSHARED, no_local=True),
        ):
            connection.poller(UNSHARED).close()
            self.send(connection, PRICES, "old")
            poller = connection.poller(other)
            assert poller.take(1, 0) is None
            assert [info.subscription for info in connection.subscriptions()] == [other]
            message = self.text("new")
            message.set_property("a", 1)
            client().send(other.topic, [message])
            assert self.rest_soon(connection, poller, 1) == ["new"]
            poller.close()

    def test_other_details_of_an_active_unshared_subscription_are_refused(self, client: Client) -> None:
        first, second = client(), client()
        poller = first.poller(UNSHARED)
        with pytest.raises(SubscriptionError):
            second.poller(replace(UNSHARED, topic=RATES))
        self.send(second, PRICES, "1")
        assert self.rest_soon(first, poller, 1) == ["1"]

    def test_other_details_of_an_active_shared_subscription_are_refused(self, client: Client) -> None:
        first, second = client(), client()
        for wanted in (SHARED, PASSING):
            poller = first.poller(wanted)
            for other in (replace(wanted, topic=RATES), replace(wanted, selector="a = 1")):
                with pytest.raises(SubscriptionError, match="own"):
                    second.poller(other)
            self.send(second, PRICES, "1")
            assert self.rest_soon(first, poller, 1) == ["1"]
            poller.close()

    def test_other_details_make_an_inactive_shared_subscription_anew(self, client: Client) -> None:
        connection = client()
        for other in (replace(SHARED, topic=RATES), replace(SHARED, selector="a = 1")):
            connection.poller(SHARED).close()
            self.send(connection, PRICES, "old")
            poller = connection.poller(other)
            assert poller.take(1, 0) is None
            assert [info.subscription for info in connection.subscriptions()] == [other]
            poller.close()

    def test_a_shared_subscription_needs_no_client_id_and_each_client_id_has_its_own(
        self, client: Client
    ) -> None:
        connection = client()
        pollers = [connection.poller(replace(SHARED, client_id=client_id)) for client_id in ("", "a", "b")]
        self.send(connection, PRICES, "1")
        assert [self.rest_soon(connection, poller, 1) for poller in pollers] == [["1"]] * 3

    def test_a_durable_and_a_non_durable_subscription_of_one_name_are_unrelated(self, client: Client) -> None:
        connection = client()
        for durable in (UNSHARED, SHARED):
            lasting, passing = connection.poller(durable), connection.poller(PASSING)
            self.send(connection, PRICES, "1")
            assert self.rest_soon(connection, passing, 1) == ["1"]
            passing.close()
            assert self.rest_soon(connection, lasting, 1) == ["1"]
            lasting.close()
            connection.unsubscribe("own", "billing")

    def test_unsubscribing_removes_a_durable_subscription_with_its_messages(self, client: Client) -> None:
        connection = client()
        for wanted in (UNSHARED, SHARED):
            connection.poller(wanted).close()
            self.send(connection, PRICES, "old")
            removed = connection.unsubscribe("own", "billing")
            assert removed == SubscriptionInfo(wanted, consumers=0, waiting=1, in_progress=0)
            assert connection.subscriptions() == []
            poller = connection.poller(wanted)
            assert poller.take(1, 0) is None
            poller.close()
            connection.unsubscribe("own", "billing")

    def test_who_ends_a_subscription_is_warned_of_what_is_lost_and_only_then(
        self, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        connection = client()
        connection.poller(UNSHARED).close()
        connection.poller(replace(UNSHARED, selector="TRUE")).close()
        connection.unsubscribe("own", "billing")
        assert caplog.text == ""
        ends: tuple[Callable[[], object], ...] = (
            lambda: connection.unsubscribe("own", "billing"),
            lambda: connection.poller(replace(UNSHARED, topic=RATES)),
        )
        for end, reason in zip(ends, ("", "made anew with other details"), strict=True):
            connection.poller(UNSHARED).close()
            self.send(connection, PRICES, "1", "2")
            caplog.clear()
            end()
            (warning,) = caplog.records
            assert warning.getMessage() == "the messages of a subscription were removed with the subscription"
            said = vars(warning)
            assert (said["subscription"], said["destination"]) == ("own", str(PRICES))
            assert (said["lost"], reason in said["reason"]) == ("2 waiting", True)

    def test_a_subscription_with_a_consumer_cannot_be_removed(self, client: Client) -> None:
        first, second = client(), client()
        for wanted in (UNSHARED, SHARED):
            poller = first.poller(wanted)
            for connection in (first, second):
                with pytest.raises(SubscriptionError, match="own"):
                    connection.unsubscribe("own", "billing")
            self.send(second, PRICES, "1")
            assert self.rest_soon(first, poller, 1) == ["1"]
            poller.close()
            first.unsubscribe("own", "billing")

    def test_a_subscription_with_an_unacknowledged_message_cannot_be_removed(self, client: Client) -> None:
        connection = client()
        poller = connection.poller(UNSHARED)
        self.send(connection, PRICES, "1")
        claim = self.take_soon(poller)
        poller.close()
        for other in (connection, client()):
            with pytest.raises(SubscriptionError, match=r"own.*has 1 message not acknowledged"):
                other.unsubscribe("own", "billing")
            with pytest.raises(SubscriptionError, match=r"own.*has 1 message not acknowledged"):
                other.poller(replace(UNSHARED, selector="JMSPriority > 4"))
        connection.settle([Settlement(claim)])
        connection.unsubscribe("own", "billing")
        assert connection.subscriptions() == []

    def test_an_unknown_subscription_cannot_be_removed(self, client: Client) -> None:
        connection = client()
        connection.poller(UNSHARED).close()
        for name, client_id in (("no-such", "billing"), ("own", "another"), ("own", "")):
            with pytest.raises(SubscriptionError, match=name):
                connection.unsubscribe(name, client_id)
        assert len(connection.subscriptions()) == 1

    def test_a_non_durable_subscription_cannot_be_unsubscribed(self, client: Client) -> None:
        connection = client()
        connection.poller(PASSING)
        with pytest.raises(SubscriptionError):
            connection.unsubscribe("own", "billing")

    def test_a_claim_outlives_its_consumer(self, client: Client) -> None:
        """Closing a consumer takes no message away from the worker that processes it."""
        connection = client()
        poller = connection.poller(SHARED)
        self.send(connection, PRICES, "1", "2")
        claims = [self.take_soon(poller, sequence=number) for number in range(2)]
        poller.close()
        assert self.load(connection, claims[0]).body == b"1"
        connection.settle([Settlement(claims[0]), Settlement(claims[1], give_back=True, delivery_count=1)])
        again = connection.poller(SHARED)
        assert self.take_soon(again, sequence=2).delivery_count == 1
        assert again.take(1, 3) is None
