"""Lets adapters die thousands of times, and counts what became of the messages.

    python -m tests.crashing [--crashes 500] [--store STORE] [--seed N] [--world N] [--plant NAME]

Each death is the end of a forked process at a named place, or at any place. The next process takes over.
After some deaths all is drained and counted. Prints the number of crashes and messages, and the seed. Status
1 = a promise is broken: then the seed, the world, the places of its deaths and its directory are printed.
With ``--plant`` the product has a fault, and status 0 = the fault was found.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.crashing.planted import PLANTS, Plant
from tests.crashing.scenario import STORES, Scenario
from tests.crashing.world import Broken, World, hooks, warm_up
from tests.postgres import PostgresServer, new_server
from tests.quick_folder import quick_folder

DEATHS = 12
"""Of one world."""
DEATHS_WITH_A_FAULT = 4


@dataclass
class Worlds:
    """Makes worlds, one after the other.

    Args:
        base: the directory of all.
        seed: of all choices.
        stores: take turns.
        server: for PostgreSQL. None = not needed.
        hook: URL of the server for webhooks.
        plant: the fault that the product has. None = none.
    """

    base: Path
    seed: int
    stores: list[str]
    server: PostgresServer | None
    hook: str
    plant: Plant | None = None
    crashes: int = 0
    lives: int = 0
    messages: int = 0
    repeated: int = 0
    worlds: int = 0

    def run(self, number: int, crashes: int) -> None:
        """Runs one world.

        Args:
            number: of the world.
            crashes: the wanted number.

        Raises:
            Broken: a promise is broken. The text says how to repeat that.
        """
        choices = random.Random(f"{self.seed}/{number}")
        directory = self.base / f"world{number}"
        store = self.stores[number % len(self.stores)] if self.plant is None else self.plant.scenario.store
        scenario = Scenario.draw(store, choices) if self.plant is None else self.plant.scenario
        database, url, shop = "", "", f"sqlite:///{directory}/shop.db"
        if store == "sqlite":
            url = f"sqlite:///{directory}/messages.db"
        elif store == "postgresql":
            assert self.server is not None
            database = self.server.make_database()
            url = self.server.url(database)
        if url:
            shop = choices.choice((url, shop))
        hook = f"{self.hook}/{directory.name}/{{CustomerId}}"
        world = World(directory, scenario, choices, url, shop, hook)
        try:
            world.run(crashes)
        except Broken as broken:
            kept = Path(tempfile.mkdtemp(prefix="connector-crashing-")) / directory.name
            if self.plant is None:
                shutil.copytree(directory, kept, ignore=shutil.ignore_patterns("socket"))
            again = f"again: python -m tests.crashing --seed {self.seed} --world {number}"
            again += "".join(f" --store {one}" for one in self.stores)
            raise Broken(f"{broken}\nlook at {kept}\n{again}") from None
        finally:
            self.crashes += world.deaths
            self.lives += len(world.history)
            self.messages += len(world.sent)
            self.repeated += world.repeated
            self.worlds += 1
            shutil.rmtree(directory)
            if self.server is not None and database:
                self.server.drop_database(database)


def main() -> int:
    """Runs worlds until there were as many crashes as wanted. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--crashes", type=int, default=500)
    parser.add_argument("--store", choices=STORES, action="append", help="default: each in turn")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--world", type=int, default=None, help="only this one")
    parser.add_argument("--plant", choices=("all", *PLANTS), default=None, help="a fault that is to be found")
    options = parser.parse_args()
    seed = random.randrange(1 << 30) if options.seed is None else options.seed
    stores = options.store or list(STORES)
    print(f"seed {seed}", flush=True)
    with ExitStack() as stack:
        server = stack.enter_context(new_server()) if "postgresql" in stores and not options.plant else None
        warm_up([one for one in stores if one != "postgresql" or server], server)
        base = stack.enter_context(quick_folder(Path(tempfile.gettempdir())))
        if options.plant is not None:
            wanted = [name for name, plant in PLANTS.items() if options.plant in (name, "all")]
            missed = [name for name in wanted if not _find(name, base, seed, options)]
            return 1 if missed else 0
        try:
            _run(Worlds(base, seed, stores, server, stack.enter_context(hooks(base))), options)
        except Broken as broken:
            print(f"BROKEN: {broken}", flush=True)
            return 1
    return 0


def _find(name: str, base: Path, seed: int, options: argparse.Namespace) -> bool:
    """Whether a planted fault is found. A child of this process has the fault."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1] == 0
    status = 1
    try:
        plant = PLANTS[name]
        plant.plant()
        worlds = Worlds(base / name, seed, [plant.scenario.store], None, "", plant)
        try:
            _run(worlds, options)
        except Broken as broken:
            first = str(broken).splitlines()[0]
            print(f"{name} is found after {worlds.crashes} crashes: {first}", flush=True)
            status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def _run(worlds: Worlds, options: argparse.Namespace) -> None:
    began = time.monotonic()
    deaths = DEATHS if worlds.plant is None else DEATHS_WITH_A_FAULT
    if options.world is not None:
        worlds.run(options.world, deaths)
    while options.world is None and worlds.crashes < options.crashes:
        worlds.run(worlds.worlds, min(deaths, options.crashes - worlds.crashes))
        if worlds.worlds % 10 == 0:
            print(f"{worlds.crashes} crashes, {worlds.messages} messages", flush=True)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(
        f"{worlds.crashes} crashes in {worlds.lives} lives of {worlds.worlds} worlds, "
        f"{worlds.messages} messages, "
        f"lost 0, doubled 0, {worlds.repeated} calls repeated as promised, "
        f"{sum(one.ru_utime + one.ru_stime for one in used):.1f} s of processor time, "
        f"{time.monotonic() - began:.0f} s, seed {worlds.seed}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
