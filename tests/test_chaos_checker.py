from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tests.chaos_checker import Call, Found, Kind, Sent, check, report
from tests.tables import rows

_EVENT: Final = Kind(("archive", "crm"), {"store": 1})
_AGAIN: Final = Kind(("archive",), {"retry": 2})
_REQUEST: Final = Kind(("archive",), {"find": 1}, expires=True)

_GOOD: Final = Found(
    {
        "a": Sent(_EVENT),
        "b": Sent(_EVENT),
        "unknown": Sent(_EVENT, is_certain=False),
        "again": Sent(_AGAIN),
        "asked": Sent(_REQUEST),
        "late": Sent(_REQUEST),
    },
    [
        Call("a", "store", 0, 1, "w1", 1.0, 2.0),
        Call("b", "store", 0, 1, "w1", 3.0),
        Call("b", "store", 0, 2, "w2", 5.0, 6.0),
        Call("again", "retry", 0, 1, "w2", 7.0, 8.0),
        Call("again", "retry", 1, 1, "w2", 9.0, 10.0),
        Call("asked", "find", 0, 1, "w2", 11.0, 12.0),
    ],
    {"w1": 4.0},
    {"archive": ["a", "b", "again", "asked"], "crm": ["a", "b"]},
    expired={"expired": ["late"]},
)
"""``b`` was called by a worker that was killed. Nobody knows whether ``unknown`` was sent."""


def change(message: str, **values: Any) -> dict[str, Any]:
    """Returns all calls, with other values of those for a message."""
    changed = [one._replace(**values) if one.message == message else one for one in _GOOD.calls]
    return {"calls": changed}


def wrong(found: Found) -> dict[str, list[str]]:
    return {name: list(texts) for name, texts in check(found).items() if texts}


def test_what_kills_allow_is_no_fault() -> None:
    assert wrong(_GOOD) == {}
    assert "of them repeated, as kills allow           1" in report(_GOOD, check(_GOOD))


_AGAIN_BY_W1: Final = "b: store was called by w1 at 3.000"


def places(
    archive: Sequence[str] = _GOOD.places["archive"], crm: Sequence[str] = ("a", "b")
) -> dict[str, Any]:
    return {"places": {"archive": archive, "crm": crm}}


def calls(*more: Call, without: int | None = None) -> dict[str, Any]:
    return {"calls": [*(one for number, one in enumerate(_GOOD.calls) if number != without), *more]}


@rows(
    "figure, text, changes",
    [
        ("lost", "a: not in crm", places(crm=["b"])),
        ("lost", "a: not in archive, crm", places(["again", "asked", "b"], ["b"])),
        ("lost", "asked: find was called 0 times, not 1", calls(without=5)),
        ("lost", "again: retry was called 1 times, not 2", calls(without=4)),
        ("lost", "unknown: not in archive, crm", calls(Call("unknown", "store", 0, 1, "w2", 13.0))),
        ("doubled", "b: in crm 2 times", places(crm=["a", "b", "b"])),
        ("doubled", "again: in crm, and nobody sent it there", places(crm=["a", "again", "b"])),
        ("called too often", _AGAIN_BY_W1, {"killed": {}}),
        ("called too often", _AGAIN_BY_W1, calls(Call("asked", "find", 0, 2, "w1", 3.5))),
        ("called too often", _AGAIN_BY_W1, {**change("b", ended=4.0), "killed": {"w1": 20.0}}),
        ("repeated without saying so", "b: store was told the deliveries [1, 1]", change("b", delivery=1)),
        ("stranded", "a: in progress", {"waiting": {"progress": ["a"]}}),
        ("stranded", "a file", {"left": ["a file"]}),
        ("failed", "a: in error", {"failed": {"error": ["a"]}}),
        ("dead letters", "a: in DLQ", {"dead": {"DLQ": ["a"]}}),
        ("dead letters", "a: in expired", {"expired": {"expired": ["a", "late"]}}),
        ("wrong answers", "asked: Bob", {"wrong": ["asked: Bob"]}),
        ("unexpected errors", "a traceback", {"errors": ["a traceback"]}),
    ],
)
def test_each_fault_is_found_and_told_with_the_id(figure: str, text: str, changes: dict[str, Any]) -> None:
    found = replace(_GOOD, **changes)
    faults = wrong(found)
    assert any(one.startswith(text) for one in faults[figure]), faults
    assert f"{figure}: {text}" in report(found, check(found))


def test_a_message_that_is_elsewhere_is_not_lost_too() -> None:
    without = places(["again", "asked", "b"], ["b"])
    assert wrong(replace(_GOOD, **without, dead={"DLQ": ["a"]})) == {"dead letters": ["a: in DLQ"]}
