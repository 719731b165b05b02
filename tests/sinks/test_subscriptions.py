"""Who wants which business object."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connector.sinks.process.sink import ProcessSpec
from connector.sinks.subscriptions import Broker, Subscription
from tests.tables import rows


def subscription(object_name: str, *verbs: str, name: str = "s") -> Subscription:
    return Subscription(name, object_name, verbs or None, ProcessSpec("m:f"))


@rows(
    "pattern, names, others",
    [
        ("Order", ["Order"], ["order", "OrderLine", "MyOrder", ""]),
        ("Order*", ["Order", "OrderLine"], ["MyOrder", "order"]),
        ("*Line", ["OrderLine", "Line"], ["Lines"]),
        ("*", ["Order", "x"], []),
        ("Order?", ["Orders"], ["Order", "OrderLine"]),
    ],
)
def test_a_pattern_means_what_a_shell_means_by_it_with_case(
    pattern: str, names: list[str], others: list[str]
) -> None:
    wanted = [name for name in names + others if subscription(pattern).wants(name, "Create")]
    assert wanted == names


def test_without_verbs_every_verb_is_wanted_with_them_no_other() -> None:
    assert subscription("Order").wants("Order", "Anything")
    some = subscription("Order", "Create", "Update")
    assert [verb for verb in ("Create", "Update", "Delete", "create", "") if some.wants("Order", verb)] == [
        "Create",
        "Update",
    ]


names = st.sampled_from(["Order", "OrderLine", "Note"])
entries = st.lists(st.tuples(st.sampled_from(["*", "Order", "Order*", "N*"]), st.booleans()), max_size=6)


@given(entries, st.lists(st.tuples(names, st.sampled_from(["Create", "Delete"])), max_size=8))
def test_every_match_is_found_in_the_order_of_the_configuration_however_often_it_is_asked(
    configured: list[tuple[str, bool]], asked: list[tuple[str, str]]
) -> None:
    subscriptions = [
        subscription(pattern, *(["Create"] if only else []), name=str(n))
        for n, (pattern, only) in enumerate(configured)
    ]
    broker = Broker(subscriptions)
    for object_name, verb in asked * 2:
        expected = [s for s in subscriptions if s.wants(object_name, verb)]
        assert list(broker.subscribers(object_name, verb)) == expected
