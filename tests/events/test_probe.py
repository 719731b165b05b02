"""The probe: differences by which workers cannot process the events of a driver."""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

from connector.events.probe import differences, versions
from connector.status import VERSION
from tests.tables import rows


class Answer(NamedTuple):
    executor: str
    answer: bytes
    error: str = ""


def of(**facts: Any) -> list[Answer]:
    return [
        Answer("host-1", json.dumps({**json.loads(versions()), "python": "/opt/python", **facts}).encode())
    ]


def test_a_worker_like_the_driver_differs_in_nothing() -> None:
    assert differences(of()) == []


@rows(
    "facts, words",
    [
        (
            {"version": "3.9"},
            [
                "host-1, /opt/python is Python 3.9, the adapter runs ",
                sys.executable,
                "set PYSPARK_PYTHON or spark.pyspark.python",
            ],
        ),
        (
            {"connector": "0.0.1"},
            [f"has loaded the connector 0.0.1, the adapter is {VERSION}; restart the Spark application"],
        ),
        ({"packages": {"msgspec": None}}, ["host-1, /opt/python has no msgspec: install msgspec=="]),
    ],
)
def test_a_difference_is_named_with_its_remedy(facts: dict[str, Any], words: list[str]) -> None:
    (found,) = differences(of(**facts))
    assert all(word in found for word in words), found


def test_a_worker_that_cannot_work_is_named_with_its_reason() -> None:
    assert differences([Answer("host-1", b"", "no disk")]) == ["host-1: no disk"]
