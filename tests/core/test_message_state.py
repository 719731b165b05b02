"""The order of messages in a channel. Their states are shown by test_channel_machine."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from connector.core.message_state import order_key


@given(
    st.lists(
        st.tuples(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 1 << 60), st.text()), max_size=20
    )
)
def test_messages_come_by_priority_then_age_then_name(messages: list[tuple[int, int, str]]) -> None:
    ordered = sorted(messages, key=lambda message: order_key(*message))
    for first, second in itertools.pairwise(ordered):
        assert first[0] >= second[0]
        if first[0] == second[0]:
            assert first[1:] <= second[1:]
