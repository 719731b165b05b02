"""The subscription rules of Qpid JMS: their texts, and all of them together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.core.subscriptions import Attach, Existing, check, decide, same_details
from connector.errors import DestinationError, SelectorError, SubscriptionError
from connector.messaging.destination import parse_destination
from connector.messaging.subscription import TopicSubscription
from tests.tables import Table

PRICES = parse_destination("topic://prices")
NEWS = parse_destination("topic://news")

UNSHARED = TopicSubscription(PRICES, name="audit", client_id="billing", durable=True)
SHARED = replace(UNSHARED, shared=True)
NON_DURABLE = replace(SHARED, durable=False)


# -- what may be asked for ---------------------------------------------------------------------------


def test_what_cannot_be_asked_for_is_refused_with_the_reason() -> None:
    wrong: list[tuple[TopicSubscription, type[Exception], str]] = [
        (replace(UNSHARED, client_id=""), SubscriptionError, "client id"),
        *(
            (replace(one, name=""), SubscriptionError, "needs a name")
            for one in (UNSHARED, SHARED, NON_DURABLE)
        ),
        (TopicSubscription(PRICES, name="audit"), SubscriptionError, "neither durable nor shared"),
        (replace(UNSHARED, topic=parse_destination("queue://orders")), DestinationError, "only topics"),
        (replace(UNSHARED, selector="price >"), SelectorError, "found the end"),
    ]
    with Table() as table:
        for subscription, error, reason in wrong:
            with table.row(subscription), pytest.raises(error, match=reason):
                check(subscription)


def test_all_else_may_be_asked_for() -> None:
    check(TopicSubscription(PRICES))
    check(replace(SHARED, client_id=""))
    for name in ("a.b", "a|b", "a b", "ü", "x" * 300):
        check(replace(UNSHARED, name=name, client_id=name))


def test_what_is_in_the_way_is_named() -> None:
    """Whether something is in the way is shown below."""
    other = replace(SHARED, topic=NEWS, selector="price > 3")
    cases = [
        (UNSHARED, Existing(SHARED, 0), "a shared durable subscription of that name exists"),
        (UNSHARED, Existing(UNSHARED, 1), "has a consumer already"),
        (SHARED, Existing(UNSHARED, 0), "a durable subscription of that name exists"),
        (replace(SHARED, no_local=True), Existing(SHARED, 1), "close the consumers first"),
        (other, Existing(SHARED, 1), "the topic topic://prices and no selector"),
    ]
    with Table() as table:
        for wanted, durable, words in cases:
            with table.row(wanted, durable), pytest.raises(SubscriptionError, match=words):
                decide(wanted, durable, None)


def test_what_the_table_of_all_cases_does_not_have() -> None:
    with pytest.raises(SubscriptionError, match="another instance of this application"):
        decide(replace(UNSHARED, selector="price > 3"), Existing(UNSHARED, 0, own=1), None)
    assert decide(UNSHARED, Existing(UNSHARED, 0, own=2), None) is Attach.USE
    without_name = TopicSubscription(PRICES)
    assert decide(without_name, Existing(UNSHARED, 1), Existing(NON_DURABLE, 1)) is Attach.CREATE
    its_consumers_have_died = Existing(NON_DURABLE, 0)
    assert decide(replace(NON_DURABLE, topic=NEWS), None, its_consumers_have_died) is Attach.REPLACE


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
_non_durable = _details.map(lambda one: replace(one, durable=False, shared=True))
_consumers = st.integers(0, 2)


@given(
    wanted=_details.filter(lambda one: one.durable or one.shared),
    durable=st.none() | st.builds(Existing, _details.map(lambda one: replace(one, durable=True)), _consumers),
    non_durable=st.none() | st.builds(Existing, _non_durable, st.integers(1, 2)),
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
