"""The page of reference says what the server does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from connector.formats.plan import MAX_DEPTH
from connector.http import connections, throttled_log
from connector.http.actions import ACTIONS
from connector.http.answers import STATUS
from connector.http.calls import ServerLimits
from connector.http.idempotency import KeptAnswers
from connector.http.openapi import describe_requests
from tests.http.world import DEFINITIONS

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/http.md").read_text("utf-8")


def test_the_table_of_return_codes_is_that_of_the_server() -> None:
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|", PAGE, re.MULTILINE))
    assert rows == {code.name: str(status.value) for code, status in STATUS.items()}


def test_the_page_has_every_call_of_operators() -> None:
    rows = set(re.findall(r"^\| `([A-Z]+ /control/[^?`]+)[^|]*\|", PAGE, re.MULTILINE))
    assert rows == {f"{one.method} {one.path.replace(':path', '')}" for one in ACTIONS}


def test_every_status_that_is_described_has_its_row() -> None:
    operation = describe_requests(DEFINITIONS, True)["paths"]["/requests/Order/Create"]["post"]
    rows = set(re.findall(r"^\| (\d{3}) \|", PAGE, re.MULTILINE)) | {
        str(status.value) for status in STATUS.values()
    }
    assert rows == set(operation["responses"])


def test_the_limits_are_those_of_the_server() -> None:
    assert f"and {ServerLimits().body_seconds:g} s |" in PAGE
    assert f"and {ServerLimits().head_seconds:g} s |" in PAGE
    assert f"| idle connection | {connections.KEEP_ALIVE_SECONDS} s |" in PAGE
    assert f"| head | {connections.HEAD_BYTES >> 10} KiB, and" in PAGE
    assert f"every {throttled_log.SECONDS:g} s at most" in PAGE
    kept = inspect.signature(KeptAnswers).parameters["most_bytes"].default
    assert f"{kept >> 20} MiB" in PAGE
    assert f"nesting beyond {MAX_DEPTH})" in PAGE
