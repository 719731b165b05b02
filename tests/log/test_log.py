"""The lines of the log, for people and for programs."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connector.log import JSON_BEGIN, LogSettings, is_json_line, set_up_logging

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
Log = Callable[..., str]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """Sets up the log, logs one line, and returns what is written."""
    logger = logging.getLogger("connector")
    before = logger.handlers[:], logger.propagate, logger.level
    monkeypatch.setattr("connector.log._json", False)  # as it was, afterwards

    def written(
        stream: io.StringIO, form: str, text: str, error: Exception | None = None, **fields: Any
    ) -> str:
        with contextlib.redirect_stderr(stream):
            set_up_logging(LogSettings(format=form))
        logging.getLogger("connector.events").warning(text, exc_info=error, extra=fields)
        return stream.getvalue()

    yield written
    logger.handlers[:], logger.propagate = before[0], before[1]
    logger.setLevel(before[2])


def test_a_line_for_people_has_time_level_text_logger_and_fields(log: Log) -> None:
    line = log(
        io.StringIO(), "console", "the poll ends", cycle=7, reason="two words", destination=None, n="x"
    )
    assert re.fullmatch(
        TIME + r" \[warning\] the poll ends \[connector\.events\] cycle=7 reason='two words' n=x\n", line
    )


def test_what_a_terminal_would_act_upon_is_escaped(log: Log) -> None:
    line = log(io.StringIO(), "console", "the poll ends", reason="two words\x1b[2J", n="ID:\x1b[2J")
    assert ("\x1b" in line, "two words\\x1b[2J" in line, "ID:\\x1b[2J" in line) == (False, True, True)


def test_a_traceback_stands_below_its_line(log: Log) -> None:
    first, *others = log(io.StringIO(), "console", "the poll ends", ValueError("no")).splitlines()
    assert first.endswith("[connector.events]")
    assert others[-1] == "ValueError: no"


def test_colors_are_for_terminals_and_change_no_text(log: Log) -> None:
    fields = {"cycle": 7, "reason": "two words"}
    plain, colored = (
        log(stream, "console", "the poll ends", **fields) for stream in (io.StringIO(), _Terminal())
    )
    assert "\x1b" not in plain
    without = re.sub(r"\x1b\[\d+m", "", colored)
    assert without != colored
    assert re.sub(TIME, "", without) == re.sub(TIME, "", plain)


def test_a_line_for_programs_is_an_object_that_begins_with_the_text(log: Log) -> None:
    line = log(
        io.StringIO(), "json", "the poll ends", ValueError("no"), cycle=7, reason="é", destination=None
    )
    found = json.loads(line)
    assert list(found) == ["event", "level", "logger", "cycle", "reason", "timestamp", "exception"]
    assert (found["event"], found["level"], found["logger"]) == (
        "the poll ends",
        "warning",
        "connector.events",
    )
    assert (found["cycle"], found["reason"]) == (7, "é")
    assert re.fullmatch(TIME, found["timestamp"])
    assert found["exception"].endswith("ValueError: no")
    assert line.startswith(JSON_BEGIN)
    assert line.isascii()
    assert is_json_line(line)
