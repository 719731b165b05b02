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
from tests.tables import rows

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
    assert others[-1] == "  ValueError: no"


FORGED = "2026-11-27T00:00:00Z [info] forged line [connector.adapter] x=1"
ENDS = [*"\n\r\x85\u2028\u2029\v\f\x1c\x1e", "\r\n", "\n\n", "\x1b[2K\x1b[G", "\x9b1A"]


class _Told:
    """An object that tells what a stranger has written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _raise(text: str) -> Exception:
    try:
        raise KeyError("first") from ValueError(text)
    except KeyError as error:
        error.add_note(text)
        return error


@rows("end", ENDS)
@rows(
    "make",
    [
        lambda text: {"error": ValueError(text)},
        lambda text: {"error": _raise(text)},
        lambda text: {"error": ExceptionGroup(text, [ValueError(text)])},
        lambda text: {"reason": text},
        lambda text: {"reason": text.replace(" ", "_")},
        lambda text: {"values": [text, {text: text}]},
        lambda text: {"what": _Told(text)},
        lambda text: {"what": ValueError(text)},
        lambda text: {text: 1},
    ],
)
def test_a_message_forges_no_line_of_the_log(
    log: Log, end: str, make: Callable[[str], dict[str, Any]]
) -> None:
    line = log("console", **make(f"bad{end}{FORGED}{end}"))
    first, *others = line.removesuffix("\n").split("\n")
    assert re.match(TIME, first)
    assert all(one.startswith("  ") for one in others)
    assert all(one.isprintable() for one in (first, *others)), line
    assert "forged" in line


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
