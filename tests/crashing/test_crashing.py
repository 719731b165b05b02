"""Five hundred deaths of adapters, each followed by a takeover, and nothing is lost or doubled.

``python -m tests.crashing --crashes 10000`` has as many as one likes, with a new seed each time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crashing.planted import PLANTS

pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]
REPOSITORY = Path(__file__).parents[2]


def crash(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the command. Its process has one thread and nothing open, so that it may fork."""
    return subprocess.run(
        [sys.executable, "-m", "tests.crashing", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=1200,
    )


@pytest.mark.parametrize(
    ("store", "crashes"), [("dropbox", 330), ("broker", 80), ("sqlite", 70), ("postgresql", 20)]
)
def test_whatever_dies_where_each_message_is_in_one_place_and_its_effects_are_as_promised(
    store: str, crashes: int
) -> None:
    done = crash("--store", store, "--crashes", crashes, "--seed", 373)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{crashes} crashes in " in done.stdout


def test_each_planted_fault_is_found() -> None:
    done = crash("--plant", "all", "--crashes", 60, "--seed", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [line.partition(" ")[0] for line in done.stdout.splitlines() if " is found after " in line]
    assert found == list(PLANTS)
