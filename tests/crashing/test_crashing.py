"""Five hundred deaths of adapters, each followed by a takeover, and nothing is lost or doubled.

``python -m tests.crashing --crashes 10000`` has as many as one likes, with a new seed each time.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import forked_command
from tests.crashing.planted import PLANTS

pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]
REPOSITORY = Path(__file__).parents[2]


def crash(*arguments: object, module: str = "__main__") -> subprocess.CompletedProcess[str]:
    """Runs a command. Its process has one thread and nothing open, so that it may fork."""
    script = f"import sys; from tests.crashing.{module} import main; sys.exit(main())"
    return forked_command.run(arguments, cwd=REPOSITORY, script=script, timeout=1200)


@pytest.mark.parametrize(
    ("store", "crashes", "seed"),
    [("dropbox", 400, 373), ("broker", 60, 373), ("sqlite", 30, 373), ("postgresql", 10, 373)],
)
def test_whatever_dies_where_each_message_is_in_one_place_and_its_effects_are_as_promised(
    store: str, crashes: int, seed: int
) -> None:
    done = crash("--store", store, "--crashes", crashes, "--seed", seed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{crashes} crashes in " in done.stdout


def test_each_planted_fault_is_found() -> None:
    done = crash("--plant", "all", "--crashes", 60, "--seed", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [line.partition(" ")[0] for line in done.stdout.splitlines() if " is found after " in line]
    assert found == list(PLANTS)


def test_the_example_that_dies_at_each_of_its_places_has_as_many_rows_and_invoices_as_orders() -> None:
    done = crash(module="order_to_invoice")
    assert done.returncode == 0, done.stdout + done.stderr
    deaths, _, places = done.stdout.partition(" deaths: ")
    assert int(deaths) >= 30
    passed = {one.partition(" ")[0] for one in places.split(", ")}
    of_steps = {"claim", "begin", "deliver", "done", "settle.committing", "settle.move", "delayed.move"}
    assert passed >= {*of_steps, "transaction.returned", "transaction.committed", "timer.sent", "once.noted"}
