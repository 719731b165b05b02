"""A correction of a failed message that is killed, and made again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment

JAVA = False

CORRECT = """
import sys
from connector.config.loading import load
from connector.messaging.destination import parse_destination
from connector.service.orders import correct_message

directory, queue, identity, body = sys.argv[1:]
source = parse_destination(queue)
correct_message(load(f"{directory}/adapter.yaml"), source, identity, body.encode(), by="eva")
"""
"""What the console calls, in a process of its own."""
STEPS = {
    "dropbox": (
        "claim",
        "settle.record",
        "settle.committing",
        "settle.move",
        "settle.move:2",
        "settle.finished",
    ),
    "sqlite": ("claim", "claim.uncommitted", "settle.record", "settle.committing", "settle.finished"),
}
"""The places of a settlement. PostgreSQL has those of SQLite."""


def _correct(deployment: CrashDeployment, identity: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CORRECT, deployment.directory, "queue://error", identity, "corrected"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CONNECTOR_FAULT": fault},
        cwd=deployment.directory,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def _bodies(deployment: CrashDeployment, queue: str) -> list[bytes]:
    connection = deployment.provider.existing()
    try:
        return sorted(one.body for one in connection.browse(parse_destination(queue)))
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("provider_type", "step"), [(provider, step) for provider, steps in STEPS.items() for step in steps]
)
def test_a_correction_that_is_killed_is_made_once_or_not_at_all(deploy: Deploy, step: str) -> None:
    deployment = deploy()
    deployment.drain()  # makes the root
    error, back = parse_destination("queue://error"), parse_destination("queue://back")
    connection = deployment.provider.connect()
    messages = [Message(b"1"), Message(b"2")]
    for message in messages:
        message.set_property("connector_outcome", "failed")
        message.set_property("connector_origin_destination", str(back))
    identity, other = connection.send(error, messages)
    connection.send(back, [Message(b"waits")])
    connection.close()

    first = _correct(deployment, identity, f"{step}=kill")
    assert first.returncode == -signal.SIGKILL, first.stderr
    second = _correct(deployment, identity)
    if second.returncode:  # the kill came after the commit
        assert f"{identity} is not in queue://error any more" in second.stderr
        assert step.startswith("settle")
    assert _bodies(deployment, "back") == [b"corrected", b"waits"]
    assert _bodies(deployment, "archive") == [b"1"]
    assert deployment.ids("error") == {other: 1}
    assert [path for path in deployment.leftovers() if "error" not in path] == []
