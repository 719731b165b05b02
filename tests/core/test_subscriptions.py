"""The subscription rules of Qpid JMS, one test a rule, then all of them together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.core.subscriptions import Attach, Existing, check, decide, same_details
from connector.errors import DestinationError, SelectorError, SubscriptionError
from connector.messaging.destination import parse_destination
from connector.messaging.subscription import TopicSubscription

PRICES = parse_destination("topic://prices")
NEWS = parse_destination("topic://news")

UNSHARED = TopicSubscription(PRICES, name="audit", client_id="billing", durable=True)
SHARED = replace(UNSHARED, shared=True)
NON_DURABLE = replace(SHARED, durable=False)


def others(subscription: TopicSubscription) -> list[TopicSubscription]:
    """The same subscription with each of its details changed."""
    return [
        replace(subscription, topic=NEWS),
        replace(subscription, selector="price > 3"),
        replace(subscription, no_local=True),
    ]


# -- what may be asked for ---------------------------------------------------------------------------


def test_an_unshared_durable_subscription_needs_a_client_id() -> None:
    with pytest.raises(SubscriptionError, match="client id"):
        check(replace(UNSHARED, client_id=""))


def test_a_shared_durable_subscription_needs_no_client_id() -> None:
    check(replace(SHARED, client_id=""))


@pytest.mark.parametrize("subscription", [UNSHARED, SHARED, NON_DURABLE])
def test_a_durable_or_shared_subscription_needs_a_name(subscription: TopicSubscription) -> None:
    with pytest.raises(SubscriptionError, match="needs a name"):
        check(replace(subscription, name=""))


def test_a_subscription_that_ends_with_its_only_consumer_has_no_name() -> None:
    with pytest.raises(SubscriptionError, match="neither durable nor shared"):
        check(TopicSubscription(PRICES, name="audit"))
    check(TopicSubscription(PRICES))


def test_a_queue_has_no_subscriptions() -> None:
    with pytest.raises(DestinationError, match="only topics"):
        check(replace(UNSHARED, topic=parse_destination("queue://orders")))


def test_a_selector_that_is_not_valid_is_refused() -> None:
    with pytest.raises(SelectorError):
        check(replace(UNSHARED, selector="price >"))


@pytest.mark.parametrize("name", ["a.b", "a|b", "a b", "ü", "x" * 300])
def test_a_name_may_have_dots_bars_and_anything_else(name: str) -> None:
    check(replace(UNSHARED, name=name, client_id=name))


# -- unshared durable --------------------------------------------------------------------------------


def test_an_unshared_durable_subscription_is_made_where_there_is_none() -> None:
    assert decide(UNSHARED, None, None) is Attach.CREATE


def test_an_unshared_durable_subscription_is_in_the_way_of_no_shared_non_durable_one() -> None:
    assert decide(UNSHARED, None, Existing(NON_DURABLE, 3)) is Attach.CREATE


@pytest.mark.parametrize("consumers", [0, 1])
def test_a_shared_durable_subscription_of_that_name_is_in_the_way_of_an_unshared_one(consumers: int) -> None:
    with pytest.raises(SubscriptionError, match="a shared durable subscription of that name exists"):
        decide(UNSHARED, Existing(SHARED, consumers), None)


def test_an_unshared_durable_subscription_has_one_consumer_at_a_time() -> None:
    with pytest.raises(SubscriptionError, match="has a consumer already"):
        decide(UNSHARED, Existing(UNSHARED, 1), None)


def test_the_consumer_of_an_unshared_durable_subscription_comes_back_to_it() -> None:
    assert decide(UNSHARED, Existing(UNSHARED, 0), None) is Attach.USE


@pytest.mark.parametrize("wanted", others(UNSHARED))
def test_an_inactive_unshared_durable_subscription_with_other_details_is_replaced(
    wanted: TopicSubscription,
) -> None:
    assert decide(wanted, Existing(UNSHARED, 0), None) is Attach.REPLACE


def test_instances_of_one_application_share_an_unshared_durable_subscription() -> None:
    assert decide(UNSHARED, Existing(UNSHARED, 0, own=2), None) is Attach.USE


def test_an_instance_does_not_replace_what_another_instance_consumes() -> None:
    with pytest.raises(SubscriptionError, match="another instance of this application"):
        decide(replace(UNSHARED, selector="price > 3"), Existing(UNSHARED, 0, own=1), None)


# -- shared durable ----------------------------------------------------------------------------------


def test_a_shared_durable_subscription_is_made_where_there_is_none() -> None:
    assert decide(SHARED, None, None) is Attach.CREATE


@pytest.mark.parametrize("consumers", [0, 1])
def test_an_unshared_durable_subscription_of_that_name_is_in_the_way_of_a_shared_one(consumers: int) -> None:
    with pytest.raises(SubscriptionError, match="a durable subscription of that name exists"):
        decide(SHARED, Existing(UNSHARED, consumers), None)


@pytest.mark.parametrize("consumers", [0, 1, 7])
def test_any_number_of_consumers_use_a_shared_durable_subscription(consumers: int) -> None:
    assert decide(SHARED, Existing(SHARED, consumers), None) is Attach.USE


@pytest.mark.parametrize("wanted", others(SHARED))
def test_a_shared_durable_subscription_with_other_details_is_in_the_way_while_active(
    wanted: TopicSubscription,
) -> None:
    with pytest.raises(SubscriptionError, match="close the consumers first"):
        decide(wanted, Existing(SHARED, 1), None)


@pytest.mark.parametrize("wanted", others(SHARED))
def test_a_shared_durable_subscription_with_other_details_is_replaced_while_inactive(
    wanted: TopicSubscription,
) -> None:
    assert decide(wanted, Existing(SHARED, 0), None) is Attach.REPLACE


# -- shared non-durable ------------------------------------------------------------------------------


def test_a_shared_non_durable_subscription_is_unrelated_to_a_durable_one_of_its_name() -> None:
    for durable in (UNSHARED, SHARED, *others(SHARED)):
        assert decide(NON_DURABLE, Existing(durable, 1), None) is Attach.CREATE


def test_any_number_of_consumers_use_a_shared_non_durable_subscription() -> None:
    assert decide(NON_DURABLE, None, Existing(NON_DURABLE, 5)) is Attach.USE


@pytest.mark.parametrize("wanted", others(NON_DURABLE))
def test_a_shared_non_durable_subscription_with_other_details_is_in_the_way_while_active(
    wanted: TopicSubscription,
) -> None:
    with pytest.raises(SubscriptionError, match="close the consumers first"):
        decide(wanted, None, Existing(NON_DURABLE, 1))


def test_a_shared_non_durable_subscription_whose_consumers_have_died_is_in_nobodys_way() -> None:
    assert decide(others(NON_DURABLE)[0], None, Existing(NON_DURABLE, 0)) is Attach.REPLACE


def test_the_difference_is_named() -> None:
    wanted = replace(SHARED, topic=NEWS, selector="price > 3")
    with pytest.raises(SubscriptionError, match="the topic topic://prices and no selector"):
        decide(wanted, Existing(SHARED, 1), None)


# -- without a name ----------------------------------------------------------------------------------


def test_a_subscription_without_a_name_is_always_a_new_one() -> None:
    wanted = TopicSubscription(PRICES)
    assert decide(wanted, Existing(UNSHARED, 1), Existing(NON_DURABLE, 1)) is Attach.CREATE


# -- all together ------------------------------------------------------------------------------------

_details = st.builds(
    TopicSubscription,
    topic=st.sampled_from([PRICES, NEWS]),
    name=st.just("audit"),
    client_id=st.just("billing"),
    durable=st.booleans(),
    shared=st.booleans(),
    selector=st.sampled_from(["", "price > 3"]),
    no_local=st.booleans(),
)
_consumers = st.integers(0, 2)


@given(
    wanted=_details.filter(lambda one: one.durable or one.shared),
    durable=st.none() | st.builds(Existing, _details.map(lambda one: replace(one, durable=True)), _consumers),
    non_durable=st.none()
    | st.builds(
        Existing, _details.map(lambda one: replace(one, durable=False, shared=True)), st.integers(1, 2)
    ),
)
def test_every_case_ends_as_the_table_says(
    wanted: TopicSubscription, durable: Existing | None, non_durable: Existing | None
) -> None:
    found = durable if wanted.durable else non_durable
    try:
        answer: Attach | None = decide(wanted, durable, non_durable)
    except SubscriptionError:
        answer = None
    expected: Attach | None
    match (found, wanted.shared):
        case (None, _):
            expected = Attach.CREATE
        case (Existing(there), shared) if there.shared != shared:
            expected = None
        case (Existing(there, consumers), False) if consumers:
            expected = None
        case (Existing(there), _) if same_details(there, wanted):
            expected = Attach.USE
        case (Existing(_, consumers), _):
            expected = None if consumers else Attach.REPLACE
    assert answer is expected
