"""`connector run --once` and `--drain`: what they do, answer and exit with."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.in_process import Commands
from tests.crash.harness import CrashDeployment, deployments
from tests.runs import REPOSITORY

pytestmark = pytest.mark.process
Deploy = Callable[..., CrashDeployment]

OUTCOMES = ("published", "unsubscribed", "failed", "duplicates", "in_doubt", "later")
KEYS = {"claimed", *OUTCOMES, "expired", "discarded"}


@pytest.fixture
def deploy(tmp_path: Path) -> Iterator[Deploy]:
    """Makes deployments that run without Spark, which has no part in what a run says at its end."""
    with deployments(tmp_path) as make:
        yield functools.partial(make, java=False)


def test_once_is_one_round_robin_cycle_and_leaves_the_rest(deploy: Deploy) -> None:
    """The example of WBI Adapter for JMS: PollQuantity 2; A has 2, B has 1, C has 5."""
    deployment = deploy(inputs=("A", "B", "C"), connector={"PollQuantity": 2})
    sent = {queue: deployment.fill(queue, [""] * number) for queue, number in (("A", 2), ("B", 1), ("C", 5))}
    run = deployment.start("--once", "--json")
    assert run.wait() == 0, run.errors
    taken = [(event["destination"], event["id"]) for event in run.summary["events"]]
    turns = (("A", 0), ("B", 0), ("C", 0), ("A", 1), ("C", 1))
    assert taken == [(f"queue://{queue}", sent[queue][number]) for queue, number in turns]
    assert run.summary["destinations"]["queue://C"]["published"] == 2
    assert sorted(deployment.ids("C")) == sent["C"][2:]
    assert deployment.names("A") == deployment.names("B") == []


def test_the_summary_is_one_document_whose_numbers_add_up(deploy: Deploy) -> None:
    """Every outcome in two queues; processes print, and stdout has the document all the same."""
    deployment = deploy(inputs=("a", "b"), connector={"DuplicateEventElimination": True})
    good = deployment.fill("a", ["", "print:3", ""])
    failed = deployment.fill("b", ["raise:no such street"])
    deployment.drop("b", '{"BusinessObject": "Nobody", "Verb": "Create"}', "4.1700000000000000-t-90.T")
    deployment.drop("b", "{ no json", "4.1700000000000000-t-91.T")
    deployment.drop("b", "too late", "4.1700000000000000-t-92.T.1")
    body = '{"BusinessObject": "Customer", "Verb": "Create", "CustomerId": "1", "Name": ""}'
    deployment.drop("b", body, "4.1700000000000000-t-93.T")
    deployment.drop("b", body, "5.1700000000000000-t-93.T")
    run = deployment.drain()

    assert run.output.count("\n") == 1, "one line"
    summary = run.summary
    assert set(summary) == KEYS | {"destinations", "events"}
    expected = {"claimed": 8, "published": 4, "unsubscribed": 1, "failed": 2, "duplicates": 1, "expired": 1}
    assert {name: summary[name] for name in KEYS} == {**dict.fromkeys(KEYS, 0), **expected}
    assert set(summary["destinations"]) == {"queue://a", "queue://b"}
    for counts in (summary, *summary["destinations"].values()):
        assert counts["claimed"] == sum(counts[name] for name in OUTCOMES)
    for name in KEYS:
        assert sum(counts[name] for counts in summary["destinations"].values()) == summary[name]
    events = {event["id"]: event for event in summary["events"]}
    place = {"id": good[0], "destination": "queue://a", "object": "Customer", "verb": "Create"}
    assert events[good[0]] == {**place, "outcome": "published", "reason": None}
    assert events[failed[0]]["outcome"] == "failed"
    assert "no such street" in events[failed[0]]["reason"]
    assert events["ID:1700000000000000-t-90"]["outcome"] == "unsubscribed"
    assert len(deployment.names("b", "expired")) == 1


def test_without_destinations_for_copies_messages_are_counted_as_discarded(deploy: Deploy) -> None:
    copies = ("ArchiveDestination", "ErrorDestination", "UnsubscribedDestination")
    deployment = deploy(connector=dict.fromkeys(copies))
    deployment.fill("in", ["", "raise:bad"])
    run = deployment.drain()
    assert run.summary["discarded"] == run.summary["claimed"] == 2
    assert len(deployment.names("in", "processed")) == 2
    assert deployment.leftovers() == []


def test_a_drain_that_settles_nothing_ends_with_status_1_and_the_message_stays(deploy: Deploy) -> None:
    """A process that is not active: APPRESPONSETIMEOUT; later ones of the queue wait behind it."""
    deployment = deploy()
    (deployment.directory / "closed").touch()
    ids = deployment.fill("in", ["inactive:closed", "", ""])
    run = deployment.drain(status=1)
    assert "APPRESPONSETIMEOUT" in run.errors
    assert "store: NotActive: the flag is up" in run.errors
    assert run.summary["claimed"] == 0
    assert [name for name in deployment.names("in") if "JMSXDeliveryCount" in name] == []
    assert sorted(deployment.ids("in")) == ids
    assert deployment.begun() == {ids[0]: 1}
    (deployment.directory / "closed").unlink()
    deployment.drain()
    assert [d.count for d in deployment.deliveries() if d.word == "begin"] == [1, 1, 1, 1]
    assert sorted(deployment.ids("archive")) == ids
    assert deployment.leftovers() == []


def test_an_empty_drain_and_messages_in_error_are_no_failure_of_the_command(deploy: Deploy) -> None:
    deployment = deploy()
    assert deployment.drain().summary["claimed"] == 0
    deployment.fill("in", ["raise:bad"])
    run = deployment.start("--drain")
    assert run.wait() == 0
    assert "bad" in run.output, "the table shows why"
    assert "queue://in" in run.output


def test_a_wrong_call_or_configuration_ends_with_status_2_and_an_empty_stdout(deploy: Deploy) -> None:
    deployment = deploy()
    run = Commands(deployment.directory, "run")
    assert "exclude each other" in run("--once", "--drain").refusal()
    deployment.configure(PollQuantity="many")
    assert "connector.PollQuantity" in run("--once", "--json").refusal()
    assert not deployment.root.exists(), "nothing was made"
    deployment.root.write_text("a file where a directory has to be")
    deployment.root /= "below"
    deployment.configure(PollQuantity=1)
    assert f"provider.root: {deployment.root.parent} is not a directory" in run("--drain", "--json").refusal()


def test_too_few_open_files_are_named_and_not_left_to_java(deploy: Deploy) -> None:
    run = subprocess.run(
        ["sh", "-c", 'ulimit -n 64; exec "$0" -m connector.cli run --once', sys.executable],
        cwd=deploy().directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    assert "this process may open 64 files at a time, and Spark needs 512" in run.stderr
    assert "ulimit -n 4096" in run.stderr
    assert "at org.apache" not in run.stderr
