"""`connector pause` and `connector resume` where nobody runs."""

from __future__ import annotations

from connector.user import operator_name
from tests.cli.in_process import Commands
from tests.tables import rows


def test_a_pause_lasts_and_status_shows_it(call: Commands) -> None:
    def told(*arguments: str) -> str:
        done = call(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert told("pause", "orders", "--reason", "the shop is closed") == "queue://orders is paused\n"
    both = "queue://customers is paused\nqueue://orders was paused before\n"
    assert told("pause", "queue://orders", "queue://customers") == both
    document = call("status", "--json").document
    assert [(one["what"], one["kind"], one["by"], one["reason"]) for one in document["paused"]] == [
        ("queue://customers", "input", operator_name(), ""),
        ("queue://orders", "input", operator_name(), "the shop is closed"),
    ]
    assert "the shop is closed" in told("status")
    (found,) = call("resume", "orders", "--json").documents
    assert (found["changed"], found["unchanged"]) == (["queue://orders"], [])
    assert [one["what"] for one in found["paused"]] == ["queue://customers"]
    assert found["paused"] == [document["paused"][0]]
    assert told("resume", "--all") == "queue://customers is resumed\n"
    assert told("resume", "--all") == "nothing is paused\n"
    assert told("resume", "orders") == "queue://orders was not paused\n"
    assert "paused by operators: nothing" in told("status")


def test_all_means_every_input(call: Commands) -> None:
    inputs = [one["destination"] for one in call("status", "--json").document["inputs"]]
    found = call("pause", "--all", "--json").document
    assert found["changed"] == inputs


@rows("verb", ["pause", "resume"])
@rows(
    "arguments, text",
    [
        ([], "expected WHAT, an input or the name of a subscription, or --all"),
        (["orders", "--all"], "expected WHAT"),
        (["ordres"], "no input and no subscription 'ordres', did you mean 'queue://orders'?"),
        (["orders", "~"], "no input and no subscription '~'; there are queue://orders, "),
    ],
)
def test_a_wrong_call_changes_nothing(call: Commands, verb: str, arguments: list[str], text: str) -> None:
    assert text in " ".join(call(verb, *arguments).refusal().split())
    assert call("status", "--json").document["paused"] == []
