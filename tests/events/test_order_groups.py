"""Lanes: which events run one after the other, and how lanes are spread over tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connector.events.order_groups import spread


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(1, 9))
def test_no_task_has_more_than_the_longest_lane_above_another(lengths: list[int], partitions: int) -> None:
    order_groups = [[(0, "queue://a", "", 0)] * length for length in lengths]
    loads = [sum(map(len, task)) for task in spread(order_groups, partitions)]
    assert sum(loads) == sum(lengths)
    assert len(loads) <= partitions
    assert min(loads) >= 1
    assert max(loads) - min(loads) <= max(lengths)
