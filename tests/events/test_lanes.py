"""Lanes: which events run one after the other, and how lanes are spread over tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from connector.events.lanes import lane_key, make_lanes, spread
from connector.messaging.destination import Destination
from connector.messaging.message import Message


@dataclass
class Taken:
    """A claim, as far as order is concerned."""

    sequence: int
    destination: Destination
    group_id: str | None
    cycle: int = 1
    delivery_count: int = 0
    message_id: str = ""
    duplicate_key: str = ""
    reference: object = field(default="")

    def headers(self) -> Message:
        return Message(message_id=self.message_id)


claims = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from([None, "g1", "g2", "g3"])), max_size=60
).map(lambda pairs: [Taken(n, Destination("queue", d), g) for n, (d, g) in enumerate(pairs)])
orders = st.sampled_from(["destination", "group", "none"])


@given(orders, claims, st.integers(1, 9))
def test_every_event_is_in_exactly_one_task(order: str, taken: list[Taken], partitions: int) -> None:
    tasks = spread(make_lanes(order, taken), partitions)
    found = sorted(item[0] for task in tasks for lane in task for item in lane)
    assert found == list(range(len(taken)))


@given(orders, claims, st.integers(1, 9))
def test_events_of_one_key_are_in_one_lane_in_the_order_in_which_they_were_taken(
    order: str, taken: list[Taken], partitions: int
) -> None:
    keys: dict[object, set[int]] = {}
    for number, lane in enumerate(
        lane for task in spread(make_lanes(order, taken), partitions) for lane in task
    ):
        assert [item[0] for item in lane] == sorted(item[0] for item in lane)
        for item in lane:
            key = lane_key(order, taken[item[0]])
            if key is not None:
                keys.setdefault(key, set()).add(number)
    assert all(len(lanes) == 1 for lanes in keys.values())


@given(orders, claims)
def test_events_without_a_key_wait_for_nobody(order: str, taken: list[Taken]) -> None:
    for lane in make_lanes(order, taken):
        if lane_key(order, taken[lane[0][0]]) is None:
            assert len(lane) == 1


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(1, 9))
def test_no_task_has_more_than_the_longest_lane_above_another(lengths: list[int], partitions: int) -> None:
    lanes = [[(0, "queue://a", "", 0)] * length for length in lengths]
    loads = [sum(map(len, task)) for task in spread(lanes, partitions)]
    assert len(loads) <= partitions
    assert min(loads) >= 1
    assert max(loads) - min(loads) <= max(lengths)


def test_equal_groups_of_two_destinations_are_two_keys() -> None:
    taken = [Taken(0, Destination("queue", "a"), "g"), Taken(1, Destination("queue", "b"), "g")]
    assert len(make_lanes("group", taken)) == 2
