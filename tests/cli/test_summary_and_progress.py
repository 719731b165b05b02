"""What people see of a run: the live line while it goes on, the table and the reasons at its end."""

from __future__ import annotations

import io
import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from connector.cli.common import BadArgument
from connector.cli.progress import Progress
from connector.cli.summary import print_summary, write_summary
from connector.events.outcome import Outcome
from connector.events.summary import Summary
from connector.printable import printable
from connector.status import OutcomeKind


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def settle(summary: Summary, kind: str, reason: str | None = None, *, discarded: bool = False) -> None:
    summary.count_outcome("queue://a", "ID:1", Outcome(OutcomeKind(kind), reason=reason), discarded=discarded)


def test_archived_are_published_and_duplicates_that_have_a_copy(capsys: pytest.CaptureFixture[str]) -> None:
    summary = Summary(["queue://a"])
    settle(summary, "published")
    settle(summary, "published", discarded=True)
    settle(summary, "duplicate", "it was published before")
    settle(summary, "failed", "no")
    print_summary(summary, as_json=False)
    head, _, row = capsys.readouterr().out.splitlines()[:3]
    titles = head.replace("in error", "in_error").replace("no copy kept", "discarded").split()
    numbers = {"claimed": 4, "published": 2, "archived": 2, "in_error": 1, "unsubscribed": 0}
    expected = {"destination": "queue://a", **numbers, "duplicate": 1, "discarded": 1}
    assert dict(zip(titles, row.split(), strict=True)) == {name: str(one) for name, one in expected.items()}


def test_equal_reasons_are_told_once_and_the_most_frequent_comes_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = Summary(["queue://a"])
    for number in range(30):
        settle(summary, "failed", f"no account for {chr(65 + number)}")  # digits alone would be alike
    for reason, number in (("rare", 2), ("late", 9), ("frequent", 20)):
        for _ in range(number):
            settle(summary, "failed", reason)
    settle(summary, "unsubscribed", "nobody")
    settle(summary, "unsubscribed", "nobody")
    settle(summary, "duplicate", "it was published before")
    print_summary(summary, as_json=False)
    output = capsys.readouterr().out
    assert "before" not in output, "a duplicate needs no reason"
    lines = output.partition("In error:\n")[2].splitlines()
    expected = ["20 x queue://a: frequent", "9 x queue://a: late", "2 x queue://a: rare"]
    assert [line.strip() for line in lines[:3]] == expected
    assert lines[3].strip() == "1 x queue://a: no account for A"
    monkeypatch.setattr("connector.cli.summary.is_json", lambda: True)
    print_summary(summary, as_json=False)
    found = json.loads(capsys.readouterr().out)["reasons"]
    numbers = [one["number"] for one in found]
    assert numbers == sorted(numbers, reverse=True)
    assert [one["reason"] for one in found[:4]] == ["frequent", "late", "rare", "nobody"]


def test_a_reason_from_a_stranger_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    summary = Summary(["queue://a"])
    settle(summary, "failed", "\x1b[2J\x07 gone\r\u202e")
    print_summary(summary, as_json=False)
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.isprintable()
    assert r"\x1b[2J\x07 gone \u202e" in line
    assert printable("Ærø & Søn, 100 €") == "Ærø & Søn, 100 €"


def test_the_summary_in_a_file_is_the_document(tmp_path: Path) -> None:
    summary = Summary(["queue://a"])
    settle(summary, "published")
    write_summary(summary, tmp_path / "summary.json")
    assert json.loads((tmp_path / "summary.json").read_bytes()) == summary.as_dict()
    with pytest.raises(BadArgument, match=r"--summary .*/missing/summary\.json: No such file"):
        write_summary(Summary(), tmp_path / "missing/summary.json")


def test_the_last_count_is_shown_however_soon_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    summary = Summary(["queue://a"])
    with Progress(summary) as progress:
        settle(summary, "published")
        progress.update()
        settle(summary, "failed", "no")
        progress.update()
        progress.update(last=True)
        progress.update(last=True)
    lines = [line.partition(":")[2] for line in stderr.getvalue().splitlines()]
    assert lines == [" 1 published", " 1 published, 1 in error"]


def test_the_last_line_is_not_repeated_with_another_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr, now = io.StringIO(), [0.0]
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr("connector.cli.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    summary = Summary(["queue://a"])
    with Progress(summary) as progress:
        settle(summary, "published")
        for now[0] in (0.5, 0.7):
            progress.update(last=now[0] > 0.5)
    assert stderr.getvalue() == "1 event, 2 a second: 1 published\n"


def test_on_a_terminal_what_is_logged_and_printed_stands_above_the_live_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("COLUMNS", "80")
    log = logging.getLogger("connector")
    handler = logging.StreamHandler(stderr)
    monkeypatch.setattr(log, "handlers", [handler])
    summary = Summary(["queue://a"])
    with Progress(summary) as progress:
        settle(summary, "published")
        progress.update()
        log.error("watch out")
        print("from a worker", file=sys.stderr)
    assert handler.stream is stderr
    assert sys.stderr is stderr
    assert _screen(stderr.getvalue()) == ["watch out", "from a worker", "1 event: 1 published"]
    monkeypatch.setenv("COLUMNS", "12")
    with Progress(summary) as progress:
        progress.update()
        assert _screen(stderr.getvalue())[-1] == "1 event: 1 ", "it is cut to the width of the terminal"


def _screen(written: str) -> list[str]:
    """The lines that a terminal shows after what was written to it."""
    shown = []
    for line in written.split("\n"):
        shown.append(line.rpartition("\r\x1b[K")[2])
    return [line for line in shown if line]
