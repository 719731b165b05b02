"""The reference page of requests names every property and every result, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from connector.businessobjects.metadata import READERS
from connector.requests.replies import RESULTS
from connector.requests.result import GOOD
from connector.status import ReturnCode

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/requests.md").read_text("utf-8")


def rows(heading: str, pattern: str) -> list[tuple[str, ...]]:
    """The rows under a heading that are so."""
    part = re.split(r"^#+ ", PAGE.partition(f"\n{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(rf"^\| {pattern} \|", part, re.MULTILINE)


def test_the_table_of_properties_is_that_of_the_readers() -> None:
    assert sorted(rows("## Properties", r"`(\w+)`")) == sorted(READERS)


def test_the_table_of_replies_is_that_of_the_results() -> None:
    described = rows("## Replies", r"`(\w+)` \| `(\w+)`")
    assert described == [(name, code.name) for name, code in RESULTS.items()]


def test_the_numbers_of_return_codes_are_those_that_requests_answer() -> None:
    described = dict(rows("## Return codes", r"`(\w+)` \| (-?\d+)"))
    assert described == {code.name: str(code.value) for code in RESULTS.values()}


def test_what_is_not_negative_went_well_but_valdupes() -> None:
    well = {code for code in RESULTS.values() if code.value >= 0} - {ReturnCode.VALDUPES}
    assert well == GOOD
