"""Kills adapters again and again, at random steps and moments, and counts what became of the messages.

    python -m tests.crash.soak [--seconds 600] [--seed N] [--cluster] [--in-progress]

Runs until the time is over, then drains and checks: nothing lost, each message archived once, no
more repeated deliveries than kills allow, none of them silent. Prints the counts after each kill;
status 1 when a promise is broken, with the directory that holds everything.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.crash.harness import CrashDeployment, assert_settled_once, deployments, on
from tests.runs import Run
from tests.spark.standalone import StandaloneCluster
from tests.waiting import wait_for

PLACES = {
    "claim": 100,
    "task.connect": 1,
    "task.assigned": 20,
    "task.taken": 10,
    "begin": 40,
    "deliver": 40,
    "done": 40,
    "task.answered": 10,
    "settle.record": 3,
    "settle.committing": 3,
    "settle.move": 150,
    "settle.finished": 3,
}
"""Named places, and about how often one run comes there."""
QUEUES = ("a", "b", "c")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long; default 600")
    parser.add_argument("--seed", type=int, default=None, help="repeats the choices of an earlier soak")
    parser.add_argument("--cluster", action="store_true", help="on a standalone cluster instead of local[2]")
    parser.add_argument("--in-progress", action="store_true", help="with InProgressDestination, Reprocess")
    options = parser.parse_args()
    seed = random.randrange(1 << 30) if options.seed is None else options.seed
    directory = Path(tempfile.mkdtemp(prefix="connector-soak-"))
    print(f"seed {seed}, in {directory}", flush=True)
    with ExitStack() as stack:
        spark = {}
        if options.cluster:
            cluster = StandaloneCluster(directory / "cluster")
            stack.callback(cluster.stop)
            cluster.start()
            spark = on(cluster)
        make = stack.enter_context(deployments(directory))
        connector: dict[str, Any] = {
            "PollQuantity": 50,
            "DuplicateEventElimination": True,
            "max_attempts": 1000,
        }
        if options.in_progress:
            connector["InProgressDestination"] = "queue://in-progress"
        try:
            _soak(make(inputs=QUEUES, connector=connector, spark=spark), random.Random(seed), options.seconds)
        except AssertionError as broken:
            print(f"BROKEN: {broken}\nseed {seed}, look at {directory}", flush=True)
            input("Enter removes the messages. ") if sys.stdin.isatty() else None
            return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


def _soak(deployment: CrashDeployment, choices: random.Random, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    ids: list[str] = []
    kills = 0
    while time.monotonic() < deadline:
        for queue in QUEUES:
            ids += deployment.fill(queue, choices.choices(["", "sleep:0.005", "sleep:0.05"], k=40))
        runs = [_start(deployment, choices) for _ in range(choices.choice((1, 1, 2)))]
        for run in runs:
            kills += _end(run, choices)
        _report(deployment, ids, kills)
    deployment.drain(timeout=600)
    repeated = assert_settled_once(deployment, ids, kills=kills, tasks=2)
    print(f"{len(ids)} messages, {kills} kills: lost 0, archived twice 0, {repeated} deliveries repeated")


def _start(deployment: CrashDeployment, choices: random.Random) -> Run:
    place = choices.choice((*PLACES, "", ""))
    return deployment.start(
        "--drain", fault=f"{place}:{choices.randint(1, PLACES[place])}=pause" if place else ""
    )


def _end(run: Run, choices: random.Random) -> int:
    """Kills it, the driver alone or all of it, where it waits or after a while; 0 if it was done before."""
    run.await_start()
    patience = time.monotonic() + choices.uniform(0.5, 6.0)
    wait_for(
        lambda: time.monotonic() > patience or run.process.poll() is not None or any(run.faults.iterdir())
    )
    if run.process.poll() is not None:
        assert run.process.returncode in (0, 1, -signal.SIGKILL), run.errors
        run.kill_everything()
        return 0
    kill: Callable[[Run], None] = choices.choice((Run.signal_driver, Run.kill_everything))
    kill(run)
    run.go_on()
    run.process.wait(120)
    if choices.random() < 0.5:  # else the next run starts while tasks of this one still live
        run.await_gone(120)
    return 1


def _report(deployment: CrashDeployment, ids: list[str], kills: int) -> None:
    archived = len(deployment.names("archive"))
    delivered = sum(deployment.begun().values())
    print(f"{kills} kills, {len(ids)} sent, {delivered} delivered, {archived} archived", flush=True)


if __name__ == "__main__":
    sys.exit(main())
