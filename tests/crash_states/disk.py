"""What a disk holds after a crash: a recorded run of which some operations are missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final

from tests.crash_states.operations import OF_DATA, ROOT, Kind, Node, Nodes, Operation, Recording


class Loss(Enum):
    """What becomes of an operation that is not on the disk."""

    MISSING = "missing"
    """It was never made. A write leaves the file shorter, or as it was."""
    ZEROS = "zeros"
    """The size of the file is on the disk, the bytes are not."""
    HALF = "half"
    """The first half of the bytes is on the disk."""


LOSSES_OF_DATA: Final = (Loss.MISSING, Loss.ZEROS, Loss.HALF)


def disk_after(recording: Recording, end: int, lost: Mapping[int, Loss]) -> Nodes:
    """Returns the disk after the first ``end`` operations, without those that are lost."""
    nodes = {number: node.copy() for number, node in recording.before.items()}
    for place, operation in enumerate(recording.operations[:end]):
        _apply(nodes, operation, lost.get(place))
    return nodes


def _apply(nodes: Nodes, operation: Operation, loss: Loss | None) -> None:
    kind, node = operation.kind, operation.node
    if kind is Kind.MKDIR:
        nodes[node] = Node({})
    elif kind is Kind.CREATE:
        nodes[node] = Node(None, b"", operation.time_ns)
    if kind in OF_DATA:
        _change(nodes[node], operation, loss)
        return
    if loss is not None or kind in (Kind.SYNC, Kind.MARK):
        return
    if kind is Kind.TOUCH:
        nodes[node].time_ns = operation.time_ns
        return
    if kind in (Kind.REMOVE, Kind.RENAME):
        entries = nodes[operation.parent].entries
        assert entries is not None
        if entries.get(operation.name) == node:
            del entries[operation.name]
    if kind is Kind.RENAME:
        _enter(nodes, operation.target, operation.new, node)
    elif kind is not Kind.REMOVE:
        _enter(nodes, operation.parent, operation.name, node)


def _enter(nodes: Nodes, directory: int, name: str, node: int) -> None:
    entries = nodes[directory].entries
    assert entries is not None
    entries[name] = node


def _change(node: Node, operation: Operation, loss: Loss | None) -> None:
    if loss is Loss.MISSING or (loss is not None and operation.kind is Kind.TRUNCATE):
        return
    node.time_ns = operation.time_ns
    content, at = node.content, operation.offset
    if operation.kind is Kind.TRUNCATE:
        node.content = content[:at].ljust(at, b"\0")
        return
    data = operation.data
    if loss is Loss.ZEROS:
        data = bytes(len(data))
    elif loss is Loss.HALF:
        data = data[: len(data) // 2]
    node.content = content[:at].ljust(at, b"\0") + data + content[at + len(data) :]


def write_disk(nodes: Nodes, directory: Path, watched: tuple[str, ...]) -> dict[int, int]:
    """Makes the files of a disk in a directory, in place of what was there.

    Returns the number of the node of each inode.

    Args:
        nodes: of the disk.
        directory: of the deployment.
        watched: names of the entries that belong to the disk.
    """
    for name in watched:
        shutil.rmtree(directory / name, ignore_errors=True)
    numbers: dict[int, int] = {}
    written: dict[int, str] = {}
    open_ = [(str(directory), ROOT)]
    while open_:
        path, number = open_.pop()
        for name, inside in (nodes[number].entries or {}).items():
            node, there = nodes[inside], f"{path}/{name}"
            if node.entries is not None:
                os.mkdir(there)
                numbers[os.stat(there).st_ino] = inside
                open_.append((there, inside))
            elif inside in written:
                os.link(written[inside], there)
            else:
                descriptor = os.open(there, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
                os.write(descriptor, node.content)
                numbers[os.fstat(descriptor).st_ino] = inside
                os.close(descriptor)
                os.utime(there, ns=(node.time_ns, node.time_ns))
                written[inside] = there
    return numbers
