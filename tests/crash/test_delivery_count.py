"""The delivery count of an event, its message and its dynamic meta-object is one number at every attempt.

The harness compares the three, with the redelivered flags, whenever a process is called.
"""

from __future__ import annotations

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment

JAVA = False


def _counts(deployment: CrashDeployment) -> list[int]:
    """The delivery count at each call."""
    return [delivery.count for delivery in deployment.deliveries() if delivery.word == "begin"]


@pytest.mark.parametrize("in_progress", [None, "queue://in-progress"])
def test_it_counts_on_when_a_worker_dies_and_when_a_repaired_message_is_moved_back(
    deploy: Deploy, in_progress: str | None
) -> None:
    deployment = deploy(connector={"InProgressDestination": in_progress, "max_attempts": 2})
    deployment.fill("in", ["kill"])
    deployment.drain()
    assert _counts(deployment) == [1, 2]
    (name,) = deployment.names("error")
    deployment.folder("error").joinpath(name).rename(deployment.folder("in") / name)
    deployment.drain()
    assert _counts(deployment) == [1, 2, 3, 4]
    assert deployment.leftovers() == []
