"""Hundreds of crash states are recovered from, and planted faults are found.

The states are those of ``python -m tests.crash_states``, whose process has one thread, so that it may fork.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import forked_command
from tests.crash_states.disk import Loss, disk_after
from tests.crash_states.operations import ROOT, Kind, Node, Operation, Recording, paths
from tests.crash_states.scenarios import SCENARIOS
from tests.crash_states.states import ALL, JOURNALED, KINDS, ORDERED, UNORDERED, State, States
from tests.tables import Table

_REPOSITORY = Path(__file__).resolve().parents[2]
_SHARDS = 3
_STATES = 75
"""The number of states of a shard. With those of second crashes some 100 come."""

A, B, FILE, OTHER = 1, 2, 3, 4


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    script = "import sys; from tests.crash_states.__main__ import main; sys.exit(main())"
    everything = ("--processes", 1, *arguments)
    return forked_command.run(everything, cwd=_REPOSITORY, script=script, timeout=900)


@pytest.mark.process
@pytest.mark.parametrize("shard", range(_SHARDS))
def test_every_state_is_recovered_from(shard: int) -> None:
    names = [f"--scenario={one.name}" for one in SCENARIOS[shard::_SHARDS]]
    done = command("--states", _STATES, *names)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert "0 failures" in last
    assert all(f" {kind}" in last and f" 0 {kind}" not in last for kind in KINDS), last


@pytest.mark.process
@pytest.mark.parametrize(
    ("plant", "scenario"),
    [
        ("skip the sync of a record", "destination"),
        ("skip the sync of bodies", "send"),
        ("skip the sync of settled messages", "send"),
        ("skip the order of names", "destination"),
    ],
)
def test_a_planted_fault_is_found(plant: str, scenario: str) -> None:
    done = command("--states", 60, "--scenario", scenario, "--plant", plant)
    assert done.returncode > 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith(" failures"), done.stderr
    for told in ("the disk:", "after operation", "--- seed 1:"):
        assert told in done.stdout


# -- what a crash leaves ------------------------------------------------------------------------------


def recording(*operations: Operation) -> Recording:
    """Returns the record of a run on a disk with the directories ``a`` and ``b`` and the file ``a/old``."""
    before = {
        ROOT: Node({"a": A, "b": B}),
        A: Node({"old": FILE}),
        B: Node({}),
        FILE: Node(None, b"old"),
    }
    return Recording(before, list(operations))


def create(name: str, node: int = OTHER, parent: int = A) -> Operation:
    return Operation(Kind.CREATE, node, parent, name)


def write(data: bytes, node: int = OTHER, offset: int = 0) -> Operation:
    return Operation(Kind.WRITE, node, offset=offset, data=data)


def move(node: int, parent: int, name: str, target: int, new: str) -> Operation:
    return Operation(Kind.RENAME, node, parent, name, target, new)


def sync(node: int) -> Operation:
    return Operation(Kind.SYNC, node)


def trees(made: Recording, kind: str) -> set[str]:
    """Returns the trees that a loss of power at the end leaves: the paths of files with their contents."""
    told = Recording(made.before, [*made.operations, Operation(Kind.MARK, fact=("told",))])
    states = States(told, [kind])
    found = (*states.singles(kind), *states.all_missing())
    return {tree(told, state) for state in found if state.end == len(told.operations)}


def tree(made: Recording, state: State) -> str:
    nodes = state.disk(made)
    return " ".join(
        f"{path}={nodes[number].content.decode()}"
        for path, number in sorted(paths(nodes).items())
        if not path.endswith("/")
    )


def test_a_write_that_was_not_synced_is_missing_or_zeros_or_cut() -> None:
    made = recording(create("new"), sync(A), write(b"text"))
    assert trees(made, ORDERED) == {"a/new= a/old=old", "a/new=\0\0\0\0 a/old=old", "a/new=te a/old=old"}
    assert trees(recording(*made.operations, sync(OTHER), create("x", 5, B)), ORDERED) == {
        "a/new=text a/old=old"
    }


def test_a_missing_name_takes_later_names_of_its_directory_along_where_directories_keep_their_order() -> None:
    made = recording(create("new"), create("newer", 5), create("elsewhere", 6, B))
    later = {"a/old=old", "a/new= a/newer= a/old=old"}
    assert trees(made, ORDERED) == {"a/old=old b/elsewhere=", "a/new= a/old=old b/elsewhere=", *later}
    assert trees(made, UNORDERED) == {
        "a/newer= a/old=old b/elsewhere=",
        "a/new= a/old=old b/elsewhere=",
        *later,
    }


def test_a_journal_keeps_the_order_of_all_names() -> None:
    made = recording(create("new"), create("elsewhere", 5, B), create("newer", 6))
    assert trees(made, JOURNALED) == {
        "a/old=old",
        "a/new= a/old=old",
        "a/new= a/old=old b/elsewhere=",
    }
    assert trees(recording(*made.operations, sync(6)), JOURNALED) == set()


def test_a_rename_is_atomic_and_a_second_one_needs_the_first() -> None:
    made = recording(move(FILE, A, "old", B, "once"), move(FILE, B, "once", A, "twice"))
    for kind in (ORDERED, UNORDERED, JOURNALED):
        with Table() as table, table.row(kind):
            assert trees(made, kind) == {"a/old=old", "b/once=old"}
    synced = recording(*made.operations, sync(A))
    with Table() as table:
        for kind in (ORDERED, UNORDERED, JOURNALED):
            with table.row(kind):
                assert trees(synced, kind) == set()


def test_a_sync_of_a_file_keeps_its_content_and_not_its_name_but_in_a_journal() -> None:
    made = recording(create("new"), write(b"text"), sync(OTHER))
    assert trees(made, UNORDERED) == trees(made, ORDERED) == {"a/old=old"}
    assert trees(made, JOURNALED) == set()


def test_a_killed_process_leaves_all_that_it_has_done() -> None:
    made = recording(create("new"), write(b"text"), sync(OTHER), Operation(Kind.REMOVE, FILE, A, "old"))
    assert [tree(made, state) for state in States(made, []).killed()] == [
        "a/old=old",
        "a/new= a/old=old",
        "a/new=text a/old=old",
        "a/new=text",
    ]


def test_the_state_with_all_missing_has_only_what_was_synced() -> None:
    made = recording(create("new"), sync(A), write(b"text"), create("other", 5, B))
    (state,) = (one for one in States(made, [UNORDERED]).all_missing() if one.end == 4 and _is_missing(one))
    assert state.kind == ALL
    assert tree(made, state) == "a/new= a/old=old"


def _is_missing(state: State) -> bool:
    return {loss for _, loss in state.lost} == {Loss.MISSING}


def test_an_overwritten_file_keeps_what_a_missing_write_would_have_changed() -> None:
    made = recording(write(b"N", FILE), write(b"ew", FILE, 1))
    assert disk_after(made, 2, {0: Loss.MISSING})[FILE].content == b"oew"
    assert disk_after(made, 2, {1: Loss.ZEROS})[FILE].content == b"N\0\0"
