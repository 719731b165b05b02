"""Records the runs of scenarios, and lets a fresh process recover each state of them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.crash_states.operations import Nodes, Recording, text_of
from tests.crash_states.scenarios import Scenario
from tests.crash_states.states import JOURNALED, KILLED, ORDERED, UNORDERED, State, States
from tests.crash_states.world import (
    ChildFailed,
    World,
    assert_true_to_the_run,
    in_child,
    run_state,
)


@dataclass(frozen=True)
class Disk:
    """What is promised on what disk.

    Args:
        name: for a reader.
        durability: of the provider.
        keeps_order: whether the product takes the file system for one that keeps the order of all names.
        tables: what a loss of power may take. Empty = nothing is promised after a loss of power.
    """

    name: str
    durability: str
    keeps_order: bool
    tables: tuple[str, ...]


_OF_RECOVERY: Final = 10
"""Most states of one recorded recovery."""

DISKS: Final = (
    Disk("durable", "batch", False, (ORDERED, UNORDERED)),
    Disk("durable on a journal", "batch", True, (JOURNALED,)),
    Disk("not durable", "none", True, ()),
)


@dataclass(frozen=True)
class Case:
    """A state of a record of a scenario.

    Args:
        scenario: of the run.
        on: the disk.
        recording: of the run, or of a recovery in an earlier state.
        state: of the recording.
        path: the states before, for a reader.
    """

    scenario: Scenario
    on: Disk
    recording: Recording
    state: State
    path: tuple[str, ...] = ()

    @property
    def depth(self) -> int:
        return len(self.path) + 1

    @property
    def title(self) -> str:
        return f"{self.scenario.name}, {self.on.name}, crash {self.depth}"

    def text(self) -> str:
        """Tells a reader the crash and the disk that it has left."""
        lines = [self.title, *self.path, self.state.text(self.recording)]
        return "\n".join([*lines, "the disk:", text_of(self.state.disk(self.recording))])


class Bench:
    """The place of the worlds of one process.

    Args:
        directory: of the deployments.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._worlds: dict[tuple[str, str], World] = {}

    def world(self, scenario: Scenario, disk: Disk) -> World:
        """Returns the deployment of a scenario."""
        key = scenario.name, disk.name
        if key not in self._worlds:
            name = f"{scenario.name}-{disk.name}".replace(" ", "-")
            self._worlds[key] = world = scenario.make(self._directory / name, disk.durability)
            assert world.configuration  # read once, before any fork
        return self._worlds[key]

    def record(self, scenario: Scenario, disk: Disk) -> Recording:
        """Records the run of a scenario. Checks that the record is true, and that the run is right."""
        world = self.world(scenario, disk)

        def prepare() -> list[Any]:
            world.begin(keeps_order=disk.keeps_order)
            scenario.setup(world)
            return world.facts

        world.facts = []
        facts = in_child(prepare)

        def act() -> Recording:
            world.facts = list(facts)
            if world.database.exists():
                world.facts.append(("database", world.database.read_bytes()))
            world.begin(keeps_order=disk.keeps_order)
            return world.record(scenario.act)

        recording = in_child(act)
        _compare(world, recording)
        return recording

    def record_recovery(self, case: Case) -> Recording:
        """Records the recovery in a state."""
        world = self.world(case.scenario, case.on)
        facts, nodes = case.state.facts(case.recording), case.state.disk(case.recording)

        def act() -> Recording:
            def recover(world: World) -> Recording:
                world.facts = list(facts)
                world.begin(keeps_order=case.on.keeps_order)
                return world.record(case.scenario.recover)

            return run_state(world, nodes, facts, recover)

        recording = in_child(act)
        _compare(world, recording)
        return recording

    def run(self, case: Case) -> str:
        """Lets a fresh process recover a state. Returns what is wrong. Empty = nothing."""
        world = self.world(case.scenario, case.on)
        nodes, facts = case.state.disk(case.recording), case.state.facts(case.recording)

        def recover(world: World) -> None:
            world.begin(keeps_order=case.on.keeps_order)
            case.scenario.recover(world)
            is_killed = all(fact[1] == KILLED for fact in world.facts if fact[0] == "crash")
            if not is_killed and world.leftovers():
                world.run()  # nobody knew whose these were, and the next start removes them
            case.scenario.check(world)

        try:
            in_child(lambda: run_state(world, nodes, facts, recover))
        except ChildFailed as failure:
            return str(failure)
        return ""


def _compare(world: World, recording: Recording) -> None:
    end = len(recording.operations)
    rebuilt: Nodes = State(KILLED, end).disk(recording)
    assert_true_to_the_run(world, recording, rebuilt)


def cases_of(bench: Bench, scenario: Scenario, disk: Disk, number: int, seed: int) -> list[Case]:
    """Records a scenario and returns about ``number`` cases of it.

    A fifth of them is after a second crash, in the recovery from one of the others.
    """
    chance = random.Random(f"{seed} {scenario.name} {disk.name}")
    recording = bench.record(scenario, disk)
    second = number // 5
    states = States(recording, disk.tables).choose(chance, number - second)
    cases = [Case(scenario, disk, recording, state) for state in states]
    for first in chance.sample(cases, min(len(cases), -(-second // _OF_RECOVERY))):
        try:
            recovery = bench.record_recovery(first)
        except ChildFailed:
            continue  # the case itself is among those that are run, and tells the failure
        path = (*first.path, first.state.text(first.recording))
        for state in States(recovery, disk.tables).choose(chance, min(second, _OF_RECOVERY)):
            cases.append(Case(scenario, disk, recovery, state, path))
    return cases
