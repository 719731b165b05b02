"""LIKE means what one regular expression says, and never holds the process."""

from __future__ import annotations

import re
import time
from contextvars import copy_context
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.errors import SelectorError
from connector.messaging import selector
from connector.messaging.message import Message
from connector.messaging.selector import callers_selector, compile_selector
from connector.messaging.selectors import like
from connector.messaging.selectors.like import like_pattern, patience
from tests.tables import rows

TEXTS = st.text("ab\n.%", max_size=14)
PATTERNS = st.text("ab.\n%_", max_size=10)


def fits(text: str, value: str) -> bool:
    """What a pattern means."""
    wild = {"%": ".*", "_": "."}
    expression = "".join(wild.get(one, re.escape(one)) for one in text)
    return re.fullmatch(expression, value, re.DOTALL) is not None


@given(PATTERNS, TEXTS, st.integers(1, 30))
def test_a_pattern_means_the_same_however_it_is_searched(text: str, value: str, steps: int) -> None:
    with mock.patch.object(like, "_STEPS", steps), mock.patch.object(like, "_LONG", steps):
        assert like_pattern(text).matches(value) is fits(text, value)


@given(st.text("ab%_!", max_size=8), TEXTS)
def test_an_escaped_character_means_itself(text: str, value: str) -> None:
    escaped = re.sub("[%_!]", r"!\g<0>", text)
    for given_text, found in ((escaped, text == value), (f"%{escaped}%", text in value)):
        assert like_pattern(given_text, "!").matches(value) is found


LONG = 120_000
SLOW = ("%b%", "%ab%a%", "%a_b%", "%_b%", "a%a_a%b%a", "_%b_%", f"%{'_' * 4000}b%", f"%{'a' * 4000}b%x")


@rows("text", [*SLOW, f"%{'a_' * 2000}b%", f"%{'_a%' * 1000}b_%"])
def test_a_search_in_a_long_value_looks_at_the_clock(text: str) -> None:
    def search() -> None:
        patience.set(time.monotonic() - 1)
        with pytest.raises(SelectorError, match=r"in a value of 120,00. characters takes too long"):
            like_pattern(text).matches("a" * LONG + ("x" if text.endswith("x") else ""))
        assert like_pattern(text).matches("c" * 100) is False

    copy_context().run(search)


@rows("piece", [f"{'_' * 1000}b", f"{'a_' * 500}b", f"b_{'a' * 1000}", "_b", "a_b"])
def test_other_threads_run_between_two_parts_of_a_search(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    monkeypatch.setattr(like, "_look_at_the_clock", looks.append)
    monkeypatch.setattr(like, "_STEPS", 1000)
    assert like_pattern(f"%a%{piece}%").matches("a" * 10_000) is False
    assert len(looks) >= 9000 * len(piece) // 1100, "at most 1000 comparisons each"


def test_the_selector_of_a_caller_is_bounded_and_means_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Message(b"", message_id="ID:7", properties={"a": "a" * LONG})
    short = Message(b"", message_id="ID:8", properties={"a": "aab"})
    for text in ("a LIKE '%_b%'", "a LIKE 'a%'", "a = 'aab' OR a IS NULL", "a NOT LIKE '%b%a%'"):
        for message in (long, short):
            assert callers_selector(text).matches(message) is compile_selector(text).matches(message)
    monkeypatch.setattr(selector, "_MOST_SECONDS", -1.0)
    with pytest.raises(SelectorError, match=r"^ID:7: a search with LIKE in a value of 120,000 characters"):
        callers_selector("a LIKE '%_b%'").matches(long)
    assert callers_selector("a LIKE '%_b%'").matches(short)
    assert compile_selector("a LIKE '%_b%'").matches(long) is False, "nobody else is bounded"


@rows("text", ["a = '{}'", "a LIKE '%{}%'", "a IN ('{}')", "{} IS NULL", "a = 1 OR {} IS NULL"])
def test_a_selector_of_a_caller_that_is_too_long_is_not_even_read(text: str) -> None:
    with pytest.raises(SelectorError, match=r"found \d+,\d+ characters, expected 4,096 at most"):
        callers_selector(text.format("x" * 4096))
    callers_selector(text.format("x" * 4000))
