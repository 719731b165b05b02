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
        form: str, error: Exception | None = None, stream: io.StringIO | None = None, **fields: Any
    ) -> str:
        stream = stream or io.StringIO()
        with contextlib.redirect_stderr(stream):
            set_up_logging(LogSettings(format=form))
        logging.getLogger("connector.events").warning("the poll ends", exc_info=error, extra=fields)
        return stream.getvalue()

    yield written
    logger.handlers[:], logger.propagate = before[0], before[1]
    logger.setLevel(before[2])


def test_a_line_for_people_has_time_level_text_logger_and_fields(log: Log) -> None:
    line = log("console", cycle=7, reason="two words\x1b[2J", destination=None, n="ID:\x1b[2J")
    start, end = re.split("(?=reason)", line)
    assert re.fullmatch(TIME + r" \[warning\] the poll ends \[connector\.events\] cycle=7 ", start)
    assert end == "reason='two words\\x1b[2J' n=ID:\\x1b[2J\n", "what a terminal would act upon is escaped"


def test_a_traceback_stands_below_its_line(log: Log) -> None:
    first, *others = log("console", ValueError("no")).splitlines()
    assert first.endswith("[connector.events]")
    assert others[-1] == "ValueError: no"


def test_colors_are_for_terminals_and_change_no_text(log: Log) -> None:
    fields = {"cycle": 7, "reason": "two words"}
    plain, colored = log("console", **fields), log("console", stream=_Terminal(), **fields)
    assert "\x1b" not in plain
    without = re.sub(r"\x1b\[\d+m", "", colored)
    assert without != colored
    assert re.sub(TIME, "", without) == re.sub(TIME, "", plain)


def test_a_line_for_programs_is_an_object_that_begins_with_the_text(log: Log) -> None:
    line = log("json", ValueError("no"), cycle=7, reason="é", destination=None)
    found = json.loads(line)
    assert re.fullmatch(TIME, found.pop("timestamp"))
    assert found.pop("exception").endswith("ValueError: no")
    expected = {"event": "the poll ends", "level": "warning", "logger": "connector.events"}
    assert list(found.items()) == [*expected.items(), ("cycle", 7), ("reason", "é")]
    assert line.startswith(JSON_BEGIN)
    assert line.isascii()
    assert is_json_line(line)
