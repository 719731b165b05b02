"""The places at which tests make a process fail are those that are listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from connector import faults
from tests.tables import rows

PACKAGE = Path(faults.__file__).parent


def test_every_place_that_is_listed_exists_and_every_one_that_exists_is_listed() -> None:
    found = {
        place
        for path in PACKAGE.rglob("*.py")
        for place in re.findall(r"faults\.point\(\"([^\"]+)\"\)", path.read_text("utf-8"))
    }
    assert found == set(faults.PLACES)


@rows(
    "fault, said",
    [
        ("settle.recrod=kill", "there is no place 'settle.recrod'; there are claim, "),
        ("claim=die", "'claim=die' is not PLACE[:NTH]=kill|"),
        ("=kill", "'=kill' is not PLACE[:NTH]="),
    ],
)
def test_a_fault_that_could_never_happen_is_refused(fault: str, said: str) -> None:
    faults._Faults("claim=kill, fanout.link:2=enospc")
    with pytest.raises(ValueError) as refused:  # noqa: PT011 -- the words are below
        faults._Faults(fault)
    assert said in str(refused.value)
