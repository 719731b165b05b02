"""Recovers from thousands of crash states: ``python -m tests.crash_states``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.crash_states.planted import PLANTS
from tests.crash_states.runs import DISKS, Bench, Disk, cases_of
from tests.crash_states.scenarios import SCENARIOS, Scenario
from tests.crash_states.states import KINDS
from tests.crash_states.world import ChildFailed, Job
from tests.crashing.world import warm_up
from tests.quick_folder import quick_folder

_SHARES: Final = (0.6, 0.3, 0.1)
"""The share of states of each disk."""
_MOST_TOLD: Final = 3
"""Failures of one scenario that are told in full."""


def main() -> int:
    """Runs the command. Returns the number of failures, at most 100."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash_states", description=__doc__)
    parser.add_argument("--states", type=int, default=3000, help="number of states (default: 3000)")
    parser.add_argument("--seed", type=int, default=1, help="chooses the states (default: 1)")
    names = [one.name for one in SCENARIOS]
    parser.add_argument("--scenario", action="append", choices=names, help="only this one; may be repeated")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="side by side")
    parser.add_argument("--plant", choices=list(PLANTS), help="a fault to be found, once for each disk")
    arguments = parser.parse_args()
    chosen = [one for one in SCENARIOS if not arguments.scenario or one.name in arguments.scenario]
    warm_up(["dropbox"])
    if arguments.plant:
        PLANTS[arguments.plant]()
    began = time.monotonic()
    with quick_folder(Path(tempfile.gettempdir())) as directory:
        bench = Bench(directory)
        for scenario in chosen:
            for disk in DISKS:
                bench.world(scenario, disk)
        number = arguments.states / len(chosen)
        jobs = [
            _Work(bench, scenario, disk, max(1, round(number * share)), arguments.seed, bool(arguments.plant))
            for disk, share in zip(DISKS, _SHARES, strict=True)
            for scenario in chosen
        ]
        answers = list(_side_by_side(jobs, arguments.processes))
    counts: Counter[str] = Counter()
    failures = 0
    for found, failed in answers:
        counts += found
        failures += failed
    seconds = time.monotonic() - began
    kinds = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS)
    print(f"{counts.total()} states in {seconds:.0f} s ({kinds}), seed {arguments.seed}: {failures} failures")
    return min(failures, 100)


class _Work:
    """The states of one scenario. With ``stops`` the first failure is the last."""

    def __init__(
        self, bench: Bench, scenario: Scenario, disk: Disk, number: int, seed: int, stops: bool
    ) -> None:
        self._bench = bench
        self._scenario = scenario
        self._disk = disk
        self._number = number
        self._seed = seed
        self._stops = stops
        self.title = f"{scenario.name}, {disk.name}"

    def __call__(self) -> tuple[Counter[str], list[str]]:
        cases = cases_of(self._bench, self._scenario, self._disk, self._number, self._seed)
        counts: Counter[str] = Counter()
        failures: list[str] = []
        for case in cases:
            counts[case.state.kind] += 1
            if wrong := self._bench.run(case):
                failures.append(f"{wrong}\n{case.text() if len(failures) < _MOST_TOLD else case.title}")
                if self._stops:
                    break
        return counts, failures


def _side_by_side(jobs: Sequence[_Work], processes: int) -> Iterator[tuple[Counter[str], int]]:
    """Runs jobs in forked processes, and tells what each has found."""
    waiting, running = list(jobs), list[tuple[_Work, Job[tuple[Counter[str], list[str]]]]]()
    while waiting or running:
        while waiting and len(running) < processes:
            work = waiting.pop(0)
            running.append((work, Job(work)))
        Job.wait([job for _, job in running])
        for one in list(running):
            work, job = one
            if not job.is_over:
                continue
            running.remove(one)
            try:
                counts, failures = job.result()
            except ChildFailed as failure:
                counts, failures = Counter(), [f"{work.title}: {failure}"]
            kinds = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
            print(f"{work.title}: {counts.total()} states ({kinds}), {len(failures)} failures", flush=True)
            for failure_ in failures[:_MOST_TOLD]:
                print(f"--- seed {work._seed}: {failure_}", flush=True)
            yield counts, len(failures)


if __name__ == "__main__":
    sys.exit(main())
