"""Commands and the console move messages of operators: kills lose nothing, and the next call goes on."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from contextlib import closing
from typing import Final

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.forked_command import PipedProcess

OF_FILES: Final = ("claim:7", "settle.record", "settle.committing", "settle.finished", "settle.move:3")
"""Places and counts. A commit is of 500 messages, and the command that dies has begun the first one."""


def _fail(messages: Sequence[Message]) -> None:
    """Makes them what an adapter has put into its error destination."""
    for number, message in enumerate(messages):
        message.set_property("connector_outcome", "failed")
        message.set_property("connector_kind", "refused" if number % 7 else "timeout")
        message.set_property("connector_origin_destination", "queue://back")


def _send(deployment: CrashDeployment, queue: str, messages: Sequence[Message]) -> list[str]:
    with closing(deployment.provider.connect()) as connection:
        return connection.send(parse_destination(queue), messages)


@pytest.mark.parametrize(
    ("provider_type", "verb", "arguments", "number", "places"),
    [
        ("dropbox", "replay", [], 1400, OF_FILES),
        ("sqlite", "move", ["error", "back"], 700, ("claim:7", "settle.committing")),
        (
            "postgresql",
            "discard",
            ["error"],
            700,
            ("claim.uncommitted:2", "settle.record", "settle.finished"),
        ),
    ],
)
def test_a_command_that_is_killed_loses_nothing_and_goes_on(
    deploy: Deploy, verb: str, arguments: Sequence[str], number: int, places: Sequence[str]
) -> None:
    """One command after the other over the same messages. Each first takes over from the one before.

    Six of seven messages are meant, so that some are left for the last place.
    """
    deployment = deploy()
    deployment.drain()  # makes the root
    sent = [Message(b"body") for _ in range(number)]
    _fail(sent)
    ids = _send(deployment, "queue://error", sent)
    meant = [identity for place, identity in enumerate(ids) if place % 7]
    arguments = [*arguments, "--kind", "refused", "--yes", "--json"]
    for place in places:
        run = deployment.start(*arguments, verb=verb, fault=f"{place}=kill")
        assert run.wait() == -signal.SIGKILL, run.errors
        run.await_gone()
    run = deployment.start(*arguments, verb=verb)
    assert run.wait() == 0, run.errors
    done = json.loads(run.output)
    assert done["moved"] == done["matched"]
    assert deployment.ids("archive" if verb == "discard" else "back") == dict.fromkeys(meant, 1)
    assert deployment.ids("error") == dict.fromkeys(set(ids) - set(meant), 1)
    assert [path for path in deployment.leftovers() if "error" not in path] == []


CORRECT: Final = """
import sys
from connector.config.loading import load
from connector.messaging.destination import parse_destination
from connector.service.orders import correct_message

identity = sys.argv[1]
correct_message(load("adapter.yaml"), parse_destination("queue://error"), identity, b"corrected", by="eva")
"""
"""What the console calls, in a process of its own."""


def _correct(deployment: CrashDeployment, identity: str, fault: str = "") -> tuple[int, str]:
    """Returns the exit status and the errors."""
    directory = deployment.directory
    with PipedProcess(identity, script=CORRECT, cwd=directory, CONNECTOR_FAULT=fault) as process:
        _, errors = process.communicate()
        return process.wait(), errors


def _bodies(deployment: CrashDeployment, queue: str) -> list[bytes]:
    with closing(deployment.provider.existing()) as connection:
        return sorted(one.body for one in connection.browse(parse_destination(queue)))


@pytest.mark.parametrize(
    ("provider_type", "before", "after"),
    [
        ("dropbox", ["claim"], ["settle.record", "settle.committing", "settle.move", "settle.move:2"]),
        ("sqlite", ["claim", "claim.uncommitted"], ["settle.record", "settle.committing"]),
    ],
)
def test_a_correction_that_is_killed_is_made_once_or_not_at_all(
    deploy: Deploy, before: list[str], after: list[str]
) -> None:
    """PostgreSQL has the places of SQLite."""
    deployment = deploy()
    deployment.drain()  # makes the root
    places = [*before, *after, "settle.finished"]
    messages = [Message(place.encode()) for place in places]
    _fail(messages)
    ids = _send(deployment, "queue://error", messages)
    _send(deployment, "queue://back", [Message(b"waits")])
    for place, identity in zip(places, ids, strict=True):
        status, errors = _correct(deployment, identity, f"{place}=kill")
        assert status == -signal.SIGKILL, errors
        status, errors = _correct(deployment, identity)
        if status:  # the kill came after the commit
            assert f"{identity} is not in queue://error any more" in errors
            assert place not in before
    assert _bodies(deployment, "back") == [*[b"corrected"] * len(places), b"waits"]
    assert _bodies(deployment, "archive") == sorted(place.encode() for place in places)
    assert deployment.ids("error") == {}
    assert deployment.leftovers() == []
