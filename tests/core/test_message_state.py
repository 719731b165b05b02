"""The states of a message, and the only ways from one to the next."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from connector.core.message_state import MessageState, order_key
from tests.core.transitions import TRANSITIONS, Transition

_WAYS = {(state, transition): to for (state, transition), to in TRANSITIONS.items()}


def _walks(length: int) -> list[list[MessageState]]:
    """Every history of a message of at most ``length`` steps."""
    walks: list[list[MessageState]] = [[to] for (state, _), to in _WAYS.items() if state is None]
    found = list(walks)
    for _ in range(length):
        walks = [[*walk, to] for walk in walks for (state, _), to in _WAYS.items() if state is walk[-1]]
        found.extend(walks)
    return found


def test_what_is_removed_never_comes_back() -> None:
    assert [transition for state, transition in _WAYS if state is MessageState.REMOVED] == []


def test_nothing_is_delivered_before_it_was_new() -> None:
    for walk in _walks(6):
        for before, after in itertools.pairwise(walk):
            if after is MessageState.DELIVERED:
                assert before is MessageState.NEW


def test_a_message_is_delivered_again_only_after_it_was_given_back() -> None:
    into_new = {transition for (state, transition), to in _WAYS.items() if to is MessageState.NEW and state}
    assert into_new == {Transition.COMMIT, Transition.GIVE_BACK}


def test_from_every_state_a_message_can_leave_the_channel() -> None:
    for state in (MessageState.NOT_COMMITTED, MessageState.NEW, MessageState.DELIVERED):
        reached, front = {state}, {state}
        while front:
            front = {to for (source, _), to in _WAYS.items() if source in front} - reached
            reached |= front
        assert MessageState.REMOVED in reached


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
            assert first[1] <= second[1]
            if first[1] == second[1]:
                assert first[2] <= second[2]
