"""Lets adapters die thousands of times, and counts what became of the messages.

    python -m tests.crashing [--crashes 500] [--store STORE] [--seed N] [--world N] [--plant NAME]

Each death is the end of a forked process at a named place, or at any place. The next process takes over.
After some deaths all is drained and counted. Prints the number of crashes and messages, and the seed. Status
1 = a promise is broken: then the seed, the world, the places of its deaths and its directory are printed.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.crashing.scenario import STORES, Scenario
from tests.crashing.world import Broken, World, hooks, warm_up
from tests.postgres import PostgresServer, new_server
from tests.quick_folder import quick_folder

DEATHS = 12
"""Of one world."""


def main() -> int:
    """Runs worlds until there were as many crashes as wanted. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--crashes", type=int, default=500)
    parser.add_argument("--store", choices=STORES, action="append", help="default: each in turn")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--world", type=int, default=None, help="only this one")
    parser.add_argument("--plant", default="", help="a fault of tests.crashing.planted that is to be found")
    options = parser.parse_args()
    seed = random.randrange(1 << 30) if options.seed is None else options.seed
    stores = options.store or list(STORES)
    print(f"seed {seed}", flush=True)
    warm_up()
    with ExitStack() as stack:
        base = stack.enter_context(quick_folder(Path(tempfile.gettempdir())))
        server = stack.enter_context(new_server()) if "postgresql" in stores else None
        hook = stack.enter_context(hooks(base))
        return _run(base, seed, stores, options.crashes, options.world, server, hook)


def _run(
    base: Path,
    seed: int,
    stores: list[str],
    crashes: int,
    only: int | None,
    server: PostgresServer | None,
    hook: str,
) -> int:
    began, deaths, messages, repeated, lives = time.monotonic(), 0, 0, 0, 0
    number = 0 if only is None else only
    while deaths < crashes and (only is None or number == only):
        choices = random.Random(f"{seed}/{number}")
        store = stores[number % len(stores)]
        directory = base / f"world{number}"
        database = server.make_database() if server is not None and store == "postgresql" else ""
        url = f"sqlite:///{directory}/messages.db"
        if server is not None and database:
            url = server.url(database)
        scenario = Scenario.draw(store, choices)
        shop = choices.choice((url, f"sqlite:///{directory}/shop.db"))
        if store in ("dropbox", "broker"):
            url, shop = "", f"sqlite:///{directory}/shop.db"
        world = World(directory, scenario, choices, url, shop, f"{hook}/{directory.name}/{{CustomerId}}")
        try:
            world.run(min(DEATHS, crashes - deaths))
        except Broken as broken:
            kept = Path(tempfile.mkdtemp(prefix="connector-crashing-")) / directory.name
            shutil.copytree(directory, kept, ignore=shutil.ignore_patterns("socket"))
            print(f"BROKEN in world {number}, seed {seed}\n{broken}\nlook at {kept}", flush=True)
            print(f"again: python -m tests.crashing --seed {seed} --world {number}", flush=True)
            return 1
        finally:
            if server is not None and database:
                server.drop_database(database)
        shutil.rmtree(directory)
        deaths, messages, number = deaths + world.deaths, messages + len(world.sent), number + 1
        repeated, lives = repeated + world.repeated, lives + len(world.history)
        if number % 10 == 0:
            print(f"{deaths} crashes, {messages} messages", flush=True)
    processor = sum(
        sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(
        f"{deaths} crashes in {lives} lives of {number} worlds, {messages} messages, lost 0, doubled 0, "
        f"{repeated} calls repeated as promised, {processor:.1f} s of processor time, "
        f"{time.monotonic() - began:.0f} s, seed {seed}",
        flush=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
