"""Memory of all processes of a service: idle, and after every fifth of 100,000 messages.

The sum of PSS, in which pages that processes share count once. ``python -m benchmarks.memory [--messages N]``
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common import deployment, fill, json_body, machine, scratch

WARM_UP = 1000
PARTS = 5
PATIENCE = 300.0


def descendants(pid: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [pid]
    for one in found:
        found.extend(child for child, parent in parents.items() if parent == one)
    return found


def megabytes(pid: int) -> dict[str, float]:
    """PSS of a process and its descendants by command, with their number."""
    sums: dict[str, float] = {}
    for one in descendants(pid):
        try:
            name = Path(f"/proc/{one}/comm").read_text().strip()
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        pss = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
        sums[name] = sums.get(name, 0.0) + pss / 1024
    return sums


def report(what: str, pid: int) -> None:
    sums = megabytes(pid)
    parts = ", ".join(f"{name} {size:.0f}" for name, size in sorted(sums.items()))
    print(f"{what}: {sum(sums.values()):.0f} MB ({parts})", flush=True)


def await_archived(root: Path, count: int) -> None:
    """Waits until so many messages are in the archive."""
    deadline = time.monotonic() + PATIENCE
    target = root / "archive" / "incoming" / "target"
    while not target.is_dir() or len(os.listdir(target)) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} events within {PATIENCE:.0f} s")
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    arguments = parser.parse_args()
    print(machine())
    with scratch() as directory:
        file = deployment(directory, ["in"])
        root, part = directory / "data", arguments.messages // PARTS
        fill(root, "in", WARM_UP, json_body)
        run = subprocess.Popen([sys.executable, "-m", "connector.cli", "run", "-c", str(file)])
        try:
            await_archived(root, WARM_UP)
            time.sleep(5)
            report("idle", run.pid)
            for number in range(PARTS):
                fill(root, "in", part, json_body, start=(number + 1) * 1_000_000)
                await_archived(root, WARM_UP + part * (number + 1))
                report(f"after {part * (number + 1):,} messages", run.pid)
            time.sleep(5)
            report("idle again", run.pid)
        finally:
            run.terminate()
            run.wait()


if __name__ == "__main__":
    main()
