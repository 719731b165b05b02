"""One line of each group and minute, and how many lines it stands for."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.events.grouped_log import GroupedLog
from connector.operate.reasons import group_id
from connector.text.alike import mask
from tests.tables import rows

LOG = logging.getLogger("connector.events")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    return [(one.__dict__["reason"], one.__dict__.get("number", 1)) for one in caplog.records]


def test_alike_lines_are_written_once_a_minute_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = GroupedLog(LOG, clock)
    for number in range(5):
        log.warning("no", extra={"reason": f"order {number} is wrong", "destination": "queue://a"})
    log.warning("no", extra={"reason": "order 1 is wrong", "destination": "queue://b"})
    log.warning("no", extra={"reason": "another", "destination": "queue://a"})
    log.flush()
    assert lines(caplog) == [("order 0 is wrong", 1), ("order 1 is wrong", 1), ("another", 1)]
    clock.now = 61.0
    caplog.clear()
    log.warning("no", extra={"reason": "order 7 is wrong", "destination": "queue://a"})
    assert lines(caplog) == [("order 7 is wrong", 5)]


def test_what_no_line_stands_for_is_counted_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    log = GroupedLog(LOG, Clock())
    for _ in range(3):
        log.error("no", extra={"reason": "why"}, exc_info=ValueError("x"))
    log.flush(all_groups=True)
    log.flush(all_groups=True)
    assert lines(caplog) == [("why", 1), ("why", 2)]
    assert [one.exc_info is not None for one in caplog.records] == [True, False]


def test_groups_without_end_take_no_memory_without_end(caplog: pytest.LogCaptureFixture) -> None:
    log = GroupedLog(LOG, Clock())
    for number in range(3000):
        log.error("no", extra={"reason": "why", "place": str(number)})
    assert len(caplog.records) == 3000
    log.error("no", extra={"reason": "why", "place": "2999"})
    assert len(caplog.records) == 3000


@rows(
    "text, masked",
    [
        ("order 17 of 'Miller' is wrong", "order # of '...' is wrong"),
        ('ID:ab-12 says "x y" and `z`', "# says '...' and '...'"),
        ("Smith's order isn't paid", "Smith's order isn't paid"),
        ("ConnectionError: [Errno 111] to 10.0.0.1:80", "ConnectionError: [Errno #] to #"),
        ("", ""),
    ],
)
def test_what_differs_between_alike_texts_is_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@given(st.text(max_size=3000))
def test_any_text_is_masked_into_a_group(text: str) -> None:
    masked = mask(text)
    assert len(masked) <= 500
    assert len(group_id("malformed", "", "", masked)) == 10


@rows("text", ["a" * 1_000_000, "'" * 1_000_000, "'a" * 500_000, "1" * 1_000_000])
def test_a_hostile_text_ends(text: str) -> None:
    assert len(mask(text)) <= 500
