"""Messages that an operator moves back with a command or with `mv`, and names that come again."""

from __future__ import annotations

import json
import signal
import time

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message, PropertyValue
from connector.stores.dropbox.provider import DropboxProvider
from tests.crash.conftest import EVERY_PROVIDER, Deploy
from tests.crash.harness import CrashDeployment

JAVA = False


def _move(deployment: CrashDeployment, source: str, target: str) -> None:
    for name in deployment.names(source):
        deployment.folder(source).joinpath(name).rename(deployment.folder(target) / name)


def _properties(deployment: CrashDeployment, queue: str) -> dict[str, PropertyValue]:
    """The properties of the one message of a queue, however long its name is."""
    (message,) = DropboxProvider(deployment.root).existing().browse(parse_destination(queue))
    return message.properties


def test_a_repaired_message_goes_only_to_those_who_had_not_confirmed(deploy: Deploy) -> None:
    """Three subscribers: one confirmed, one failed, one is a queue that is sent to when all is well."""
    deployment = deploy(
        subscriptions=[
            {"object": "Customer", "name": "second", "process": "processes:second"},
            {"object": "Customer", "name": "copy", "destination": "queue://copies"},
        ],
        connector={"DuplicateEventElimination": True},
    )
    (deployment.directory / "broken").touch()
    ids = deployment.fill("in", [""], second="flag:broken")
    deployment.drain()
    assert deployment.ids("error") == {ids[0]: 1}
    assert deployment.names("copies") == [], "what a failed event prepared is not sent"
    _move(deployment, "error", "in")
    deployment.drain()
    assert deployment.begun("store") == {ids[0]: 1}
    assert [d.count for d in deployment.deliveries() if d.subscription == "second" and d.word == "begin"] == [
        1,
        2,
    ]
    properties = _properties(deployment, "error")
    assert properties["connector_attempts"] == 2
    assert str(properties["connector_reason"]).startswith("second: ValueError: the flag is up (processes.py:")
    (deployment.directory / "broken").unlink()
    _move(deployment, "error", "in")
    deployment.drain()
    assert deployment.begun("store") == {ids[0]: 1}
    assert deployment.begun("second") == {ids[0]: 3}
    assert deployment.ids("archive") == {ids[0]: 1}
    properties = _properties(deployment, "archive")
    assert (properties["connector_attempts"], properties["connector_outcome"]) == (3, "published")
    assert "connector_reason" not in properties
    assert len(deployment.names("copies")) == 1
    assert deployment.leftovers() == []


def test_an_archived_message_moved_back_is_a_duplicate_and_a_bare_name_that_comes_again_is_not(
    deploy: Deploy,
) -> None:
    """The same file is the same message wherever it has been; a new file of the same name is another."""
    deployment = deploy(connector={"DuplicateEventElimination": True})
    body = '{"BusinessObject": "Customer", "Verb": "Create", "CustomerId": "1", "Name": ""}'
    structured = deployment.fill("in", [""])
    deployment.drop("in", body, "report.json")
    deployment.drain()
    assert deployment.begun() == {structured[0]: 1, "report.json": 1}

    _move(deployment, "archive", "in")
    run = deployment.drain()
    assert run.summary["duplicates"] == 2
    assert run.summary["published"] == 0
    assert all("connector_outcomeS=duplicate" in name for name in deployment.names("archive"))
    assert set(deployment.begun().values()) == {1}

    time.sleep(0.01)  # clocks of file systems are coarse
    deployment.drop("in", body, "report.json")  # next day
    run = deployment.drain()
    assert run.summary["published"] == 1
    assert deployment.begun()["report.json"] == 2
    assert len(deployment.names("archive")) == 3
    assert deployment.leftovers() == []


def test_two_copies_in_one_cycle_without_elimination_both_reach_a_queue(deploy: Deploy) -> None:
    """What each of them sends is prepared for itself, although their ids are equal."""
    deployment = deploy(
        subscriptions=[{"object": "Customer", "name": "copy", "destination": "queue://copies"}]
    )
    body = '{"BusinessObject": "Customer", "Verb": "Create", "CustomerId": "1", "Name": ""}'
    deployment.drop("in", body, "4.1700000000000000-t-1.T")
    deployment.drop("in", body, "5.1700000000000000-t-1.T")
    deployment.drain()
    assert deployment.begun() == {"ID:1700000000000000-t-1": 2}
    assert len(deployment.names("copies")) == 2
    assert deployment.leftovers() == []


STEPS = (
    "claim:7",
    "claim:550",
    "claim.uncommitted:2",
    "settle.record",
    "settle.record:2",
    "settle.committing",
    "settle.committing:2",
    "settle.move:3",
    "settle.move:550",
    "settle.finished",
    "settle.finished:2",
)
"""Places and counts, for two commits of 500 and 100 messages. Not every provider has every place."""
NUMBER = 700


def _steps() -> list[tuple[str, str]]:
    """Each provider with the places that its settlement has."""
    missing = {
        "dropbox": ("claim.uncommitted",),
        **dict.fromkeys(("sqlite", "postgresql"), ("settle.move",)),
    }
    return [
        (provider, step)
        for provider in EVERY_PROVIDER
        for step in STEPS
        if step.partition(":")[0] not in missing[provider]
    ]


def _commands() -> list[tuple[str, str, str]]:
    """A replay with each place, and the other commands with one place of their second commit."""
    replays = [(provider, step, "replay") for provider, step in _steps()]
    others = [
        (provider, "settle.committing:2", what) for provider in EVERY_PROVIDER for what in ("move", "discard")
    ]
    return replays + others


@pytest.mark.parametrize(("provider_type", "step", "what"), _commands())
def test_a_command_that_is_killed_loses_nothing_and_goes_on(deploy: Deploy, step: str, what: str) -> None:
    deployment = deploy()
    deployment.drain()  # makes the root
    error = parse_destination("queue://error")
    sent = [Message(b"body") for _ in range(NUMBER)]
    for number, message in enumerate(sent):
        message.set_property("connector_outcome", "failed")
        message.set_property("connector_kind", "refused" if number % 7 else "timeout")
        message.set_property("connector_origin_destination", "queue://back")
    connection = deployment.provider.connect()
    ids = connection.send(error, sent)
    connection.close()
    meant = [identity for number, identity in enumerate(ids) if number % 7]
    arguments = {"replay": [], "move": ["error", "back"], "discard": ["error"]}[what]
    target = "archive" if what == "discard" else "back"
    arguments += ["--kind", "refused", "--yes", "--json"]

    run = deployment.start(*arguments, verb=what, fault=f"{step}=kill", java=False)
    assert run.wait() == -signal.SIGKILL, run.errors
    run.await_gone()
    run = deployment.start(*arguments, verb=what, java=False)
    assert run.wait() == 0, run.errors
    done = json.loads(run.output)
    assert done["moved"] == done["matched"]
    assert deployment.ids(target) == dict.fromkeys(meant, 1)
    assert deployment.ids("error") == dict.fromkeys(set(ids) - set(meant), 1)
    assert [path for path in deployment.leftovers() if "error" not in path] == []
