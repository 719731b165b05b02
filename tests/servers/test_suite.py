"""The provider jms passes the shipped suite on real brokers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from connector.messaging.destination import Destination, parse_destination
from connector.providers.jms.client import Factory
from connector.providers.jms.provider import JavaSettings, JmsProvider
from connector.providers.jms.urls import QPID, for_browsers, with_options
from connector.testing.provider import ProviderSuite
from connector.testing.provider_suite.subscription_names import SubscriptionNameTests
from connector.testing.provider_suite.subscription_rules import SubscriptionRuleTests
from connector.testing.provider_suite.subscriptions import SubscriptionTests
from connector.testing.provider_suite.temporary import TemporaryTests
from tests.servers.broker import PASSWORD, REFUSED, USER
from tests.servers.conftest import CLIENT, Broker, resolved


class BrokerSuite(ProviderSuite):
    able = JmsProvider.capabilities
    has_limit = False

    @pytest.fixture
    def server(self) -> Broker:
        """The broker."""
        raise NotImplementedError

    @pytest.fixture
    def provider(self, server: Broker, tmp_path: Path) -> JmsProvider:
        server.empty()
        plain = f"amqp://127.0.0.1:{server.port}"
        url = with_options(QPID, plain, 10)
        login = (USER, PASSWORD) if server.kind == "broker_j" else (None, None)
        java = JavaSettings((), resolved("client", CLIENT), ("-Xmx256m",))
        return JmsProvider(
            Factory(QPID, url, *login, browsing_url=for_browsers(QPID, plain)), java, tmp_path / "state"
        )

    @pytest.fixture
    def unwritable(self) -> Destination:
        return parse_destination(f"queue://{REFUSED}")


_TOPICS: Final = (
    "test_a_durable_subscriber_gets_what_came_while_it_was_away",
    "test_a_message_leaves_after_the_last_acknowledgement_of_its_subscriptions",
    "test_an_expired_message_of_a_subscription_is_counted_and_never_taken",
    "test_messages_of_a_subscription_come_by_priority_then_by_age",
    "test_one_commit_takes_from_a_subscription_and_sends_to_a_queue_and_a_topic",
    "test_one_subscription_settles_without_the_others",
    "test_subscriptions_are_listed_by_topic_name_and_client_id",
    "test_the_details_of_a_subscription_count_as_they_are_at_the_commit",
    "test_topics_and_their_subscriptions_are_listed",
    "test_what_is_given_back_goes_to_its_own_subscription_counted",
)
"""Connections of these tests use subscriptions without a client id or of several, and count their messages.
JMS has one client id a connection, and no counts: test_messages.py has the tests of a broker."""

_FETCHED: Final = (
    "test_a_claim_that_was_taken_over_cannot_be_settled_by_its_late_owner",
    "test_a_copy_that_somebody_has_claimed_stays",
    "test_a_copy_that_was_kept_long_enough_is_removed",
    "test_a_cycle_of_each_poller_is_settled_apart",
    "test_a_fenced_settlement_touches_nothing_where_one_claim_is_lost",
    "test_a_lost_transaction_does_not_stop_the_others_unless_fenced",
    "test_a_message_by_value_that_is_refused_is_refused_at_the_commit",
    "test_a_poller_by_group_takes_what_any_poller_takes",
    "test_a_prepared_message_is_seen_by_nobody_until_it_is_committed",
    "test_a_stopped_connection_delivers_nothing_and_continues_where_it_was",
    "test_a_transaction_that_is_rolled_back_leaves_the_count_only",
    "test_browsing_shows_what_waits_and_what_is_claimed_in_the_order_of_taking",
    "test_copies_are_those_of_single_settlements",
    "test_every_queue_has_a_time_of_its_own",
    "test_headers_of_any_length_survive_an_in_progress_destination",
    "test_no_more_are_claimed_than_there_are_numbers",
    "test_pruning_goes_on_where_the_time_was_too_short",
    "test_the_ids_and_the_order_of_the_messages_stay",
    "test_two_pollers_share_what_waits",
    "test_what_came_again_is_copied_without_its_delivery_count",
    "test_what_is_acknowledged_is_gone_and_the_rest_comes_again_flagged",
)
"""Several consumers of these tests take from one queue in turn. A JMS consumer has fetched messages ahead,
which the others get when it ends."""

_SERVER: Final = (
    "test_a_queue_and_a_topic_of_one_name_do_not_mix",
    "test_a_selector_may_ask_for_the_delivery_count",
    "test_an_unknown_destination_cannot_be_browsed",
    "test_every_message_class_arrives_as_such",
    "test_headers_arrive_as_they_were_sent",
)
"""A broker makes unknown queues, has one kind of address for a name, does not select by the count, and sets a
new time. An object message is only received. A map message has a map as its body."""

_STRICT: Final = (
    "test_a_late_message_of_high_priority_overtakes_within_seconds",
    "test_a_selector_sees_headers_and_properties",
    "test_a_transaction_with_a_message_that_has_expired_is_rolled_back_whole",
    "test_claims_come_by_priority_then_by_age",
    "test_messages_come_by_priority_then_by_age",
    "test_selected_messages_come_by_priority_then_by_age",
)
"""A queue of Broker-J is first in, first out, does not select by JMSXGroupID, and sends an expired
message."""

_LOCAL: Final = (SubscriptionTests, SubscriptionRuleTests, SubscriptionNameTests, TemporaryTests)
"""As with the topics. A temporary destination ends with its connection, not before."""


def leave_out(suite: type, names: Iterable[str]) -> None:
    """Takes tests out of a suite that do not fit a broker."""
    for name in names:
        assert hasattr(suite, name), name
        setattr(suite, name, None)


leave_out(BrokerSuite, (name for one in _LOCAL for name in vars(one) if name.startswith("test_")))
leave_out(BrokerSuite, (*_TOPICS, *_FETCHED, *_SERVER))


class TestArtemis(BrokerSuite):
    able = JmsProvider.capabilities

    @pytest.fixture
    def server(self, artemis: Broker) -> Broker:
        return artemis


class TestBrokerJ(BrokerSuite):
    able = JmsProvider.capabilities

    @pytest.fixture
    def server(self, broker_j: Broker) -> Broker:
        return broker_j


leave_out(TestBrokerJ, _STRICT)
