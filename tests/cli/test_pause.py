"""`connector pause` and `connector resume` where nobody runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connector.cli.app import run
from connector.user import operator_name


@pytest.fixture
def call(deployment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command in the deployment. Returns status, answer and errors."""
    monkeypatch.chdir(deployment)

    def do(*arguments: str) -> tuple[int, str, str]:
        status = run(arguments)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return do


def test_a_pause_lasts_and_status_shows_it(call: Any) -> None:
    assert call("pause", "orders", "--reason", "the shop is closed") == (0, "queue://orders is paused\n", "")
    assert call("pause", "queue://orders", "queue://customers") == (
        0,
        "queue://customers is paused\nqueue://orders was paused before\n",
        "",
    )
    document = json.loads(call("status", "--json")[1])
    assert [(one["what"], one["kind"], one["by"], one["reason"]) for one in document["paused"]] == [
        ("queue://customers", "input", operator_name(), ""),
        ("queue://orders", "input", operator_name(), "the shop is closed"),
    ]
    assert "the shop is closed" in call("status")[1]
    status, answer, _ = call("resume", "orders", "--json")
    found = json.loads(answer)
    assert (status, found["changed"], found["unchanged"]) == (0, ["queue://orders"], [])
    assert [one["what"] for one in found["paused"]] == ["queue://customers"]
    assert found["paused"] == [document["paused"][0]]
    assert call("resume", "--all") == (0, "queue://customers is resumed\n", "")
    assert call("resume", "--all") == (0, "nothing is paused\n", "")
    assert call("resume", "orders") == (0, "queue://orders was not paused\n", "")
    assert "paused by operators: nothing" in call("status")[1]


def test_all_means_every_input(call: Any) -> None:
    inputs = [one["destination"] for one in json.loads(call("status", "--json")[1])["inputs"]]
    found = json.loads(call("pause", "--all", "--json")[1])
    assert found["changed"] == inputs


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "expected WHAT, an input or the name of a subscription, or --all"),
        (["orders", "--all"], "expected WHAT"),
        (["ordres"], "no input and no subscription 'ordres', did you mean 'queue://orders'?"),
        (["orders", "~"], "no input and no subscription '~'; there are queue://orders, "),
    ],
)
def test_a_wrong_call_changes_nothing(call: Any, verb: str, arguments: list[str], text: str) -> None:
    status, answer, errors = call(verb, *arguments)
    assert (status, answer) == (2, "")
    assert text in " ".join(errors.split())
    assert json.loads(call("status", "--json")[1])["paused"] == []
