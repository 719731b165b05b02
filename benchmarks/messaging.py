"""Enqueue and dequeue, each beside the bare system calls that do the same in the same run.

On tmpfs and on a disk, durable and not, one at a time and in batches of 64, through the provider and
through a session; and in memory, beside ``queue.PriorityQueue``.
``python -m benchmarks.messaging [--messages N] [--runs N] [--disk DIR] [--only WORD]``
"""

from __future__ import annotations

import argparse
import os
import queue
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import machine, scratch, spread
from connector.messaging import AcknowledgeMode, connect
from connector.messaging.destination import parse_destination
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.provider import Provider
from connector.messaging.settlement import Settlement
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.memory.provider import MemoryProvider

ORDERS = parse_destination("queue://orders")
BODY = b"x" * 1024
BATCH = 64
MANY = "64 at a time"
ONE = "one at a time"

Step = Callable[[int], object]
"""Enqueues or dequeues so many messages."""


@dataclass
class Subject:
    """Something with a queue: what is measured, or what it is measured against."""

    enqueue: Step
    dequeue: Step


# --- the bare calls -----------------------------------------------------------------------------------


def bare_files(root: Path, batch: int, durable: bool) -> Subject:
    """The same files, renames and syncs, written down one after the other.

    A message is written, (synced,) and renamed into ``target/``; taken by a rename, read, and renamed away.
    Several are made visible, or settled, by a record of their names that is (synced and) renamed first.
    """
    folders = {name: f"{root}/{name}" for name in ("working", "target", "processing", "processed", "log")}
    for path in folders.values():
        os.makedirs(path, exist_ok=True)
    working, target, processing, processed, log = folders.values()
    line = "dropboxmq --creator-version 1.1 --type sent --message-file {} --commit-file {}\n"
    serial = 0

    def write(path: str, data: bytes, sync: bool) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        os.write(descriptor, data)
        if sync:
            os.fdatasync(descriptor)
        os.close(descriptor)

    def sync_directory(path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(descriptor)
        os.close(descriptor)

    def move(pairs: list[tuple[str, str]], folder: str) -> None:
        if len(pairs) > 1:
            record = f"{log}/record"
            write(record, "".join(line.format(*pair) for pair in pairs).encode(), durable)
            os.rename(record, f"{log}/committing")
        for source, destination in pairs:
            os.rename(source, destination)
        if durable and folder:
            sync_directory(folder)
        if len(pairs) > 1:
            os.unlink(f"{log}/committing")

    def enqueue(count: int) -> None:
        nonlocal serial
        for _ in range(0, count, batch):
            pairs = []
            for _ in range(batch):
                serial += 1
                name = f"4.{serial:016d}-1.T"
                pairs.append((f"{working}/{name}", f"{target}/{name}"))
                write(pairs[-1][0], BODY, False)
            if durable:
                descriptors = [os.open(source, os.O_RDONLY) for source, _ in pairs]
                for descriptor in descriptors:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                for descriptor in descriptors:
                    os.fdatasync(descriptor)
                    os.close(descriptor)
            move(pairs, target)

    def dequeue(count: int) -> None:
        names = sorted(os.listdir(target))[:count]
        for first in range(0, count, batch):
            pairs = []
            for name in names[first : first + batch]:
                os.rename(f"{target}/{name}", f"{processing}/{name}-client")
                descriptor = os.open(f"{processing}/{name}-client", os.O_RDONLY | os.O_CLOEXEC)
                size = os.fstat(descriptor).st_size
                assert os.read(descriptor, size + 1) == BODY
                os.close(descriptor)
                pairs.append((f"{processing}/{name}-client", f"{processed}/{name}"))
            move(pairs, processed if len(pairs) > 1 else "")

    return Subject(enqueue, dequeue)


def bare_memory() -> Subject:
    waiting: queue.PriorityQueue[tuple[int, int, bytes]] = queue.PriorityQueue()

    def enqueue(count: int) -> None:
        for number in range(count):
            waiting.put((-4, number, BODY))

    def dequeue(count: int) -> None:
        for _ in range(count):
            assert waiting.get_nowait()[2] == BODY

    return Subject(enqueue, dequeue)


# --- ours ---------------------------------------------------------------------------------------------


@contextmanager
def of_provider(provider: Provider, batch: int) -> Iterator[Subject]:
    """Through the provider's contract: claim, load, settle."""
    connection = provider.connect()
    access = connection.access().open()
    poller = connection.poller(ORDERS)
    mode = PERSISTENT if provider.capabilities.reliable else NON_PERSISTENT
    cycle = 0

    def enqueue(count: int) -> None:
        for _ in range(0, count, batch):
            connection.send(ORDERS, [Message(BODY, delivery_mode=mode) for _ in range(batch)])

    def dequeue(count: int) -> None:
        nonlocal cycle
        for _ in range(0, count, batch):
            cycle += 1
            settlements = []
            for number in range(batch):
                claim = poller.take(cycle, number)
                assert claim is not None
                assert access.load(claim.reference, 1 << 20).body == BODY
                settlements.append(Settlement(claim))
            connection.settle(settlements)

    yield Subject(enqueue, dequeue)
    connection.close()


@contextmanager
def of_session(url: str, batch: int, **options: Any) -> Iterator[Subject]:
    """As a program does it: automatic acknowledgement, or transactions of 64."""
    mode = AcknowledgeMode.AUTO if batch == 1 else AcknowledgeMode.TRANSACTED
    with connect(url, **options) as connection:
        session = connection.session(mode)
        producer = session.producer("queue://orders")
        consumer = session.consumer("queue://orders")

        def enqueue(count: int) -> None:
            for number in range(count):
                producer.send(BODY)
                if batch > 1 and number % batch == batch - 1:
                    session.commit()

        def dequeue(count: int) -> None:
            for number in range(count):
                message = consumer.receive_nowait()
                assert message is not None
                assert message.body == BODY
                if batch > 1 and number % batch == batch - 1:
                    session.commit()

        yield Subject(enqueue, dequeue)


# --- measuring ----------------------------------------------------------------------------------------


def rate(step: Step, count: int) -> float:
    begun = time.perf_counter()
    step(count)
    return count / (time.perf_counter() - begun)


def compare(title: str, reference: str, subjects: dict[str, Subject], count: int, runs: int) -> None:
    """Prints rates, and by how much they are slower than the reference's: medians of runs that take turns."""
    rates: dict[str, dict[str, list[float]]] = {name: {"enqueue": [], "dequeue": []} for name in subjects}
    for number in range(runs + 1):
        for name, subject in subjects.items():
            for step in ("enqueue", "dequeue"):
                reached = rate(getattr(subject, step), count)
                if number:  # the first run warms up
                    rates[name][step].append(reached)
    for step in ("enqueue", "dequeue"):
        bare = rates[reference][step]
        print(f"{title}, {step}: {reference} {spread(bare)}/s")
        for name in [name for name in subjects if name != reference]:
            found = rates[name][step]
            ratio = statistics.median(b / a for a, b in zip(found, bare, strict=True))
            print(f"    {name} {spread(found)}/s: the reference is {ratio:.2f} times as fast", flush=True)


def measure_files(title: str, directory: Path, durable: bool, batch: int, count: int, runs: int) -> None:
    count = max(1, count // batch) * batch
    durability = "batch" if durable else "none"
    root = directory / f"{durability}-{batch}"
    with (
        of_provider(DropboxProvider(root / "provider", create=True, durable=durable), batch) as provider,
        of_session(f"dropbox:{root / 'session'}?create=true", batch, durability=durability) as session,
    ):
        bare = bare_files(root / "bare", batch, durable)
        subjects = {"bare calls": bare, "provider": provider, "session": session}
        compare(title, "bare calls", subjects, count, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2048, help="a run; less where a disk syncs")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--disk", default=tempfile.gettempdir(), help="a directory on a disk")
    parser.add_argument("--only", default="", help="what has this word in its title")
    arguments = parser.parse_args()
    print(machine())
    for place, where in (("tmpfs", "/dev/shm"), ("disk", arguments.disk)):
        for durable in (False, True):
            for batch in (1, BATCH):
                kind = "durable" if durable else "not durable"
                title = f"{place}, {kind}, {ONE if batch == 1 else MANY}"
                if arguments.only not in title:
                    continue
                slow = place == "disk" and durable
                count = arguments.messages // (16 if slow and batch == 1 else 1)
                with scratch(where) as directory:
                    measure_files(title, directory, durable, batch, count, arguments.runs)
    for batch in (1, BATCH):
        title = f"memory, {ONE if batch == 1 else MANY}"
        if arguments.only in title:
            with (
                of_provider(MemoryProvider(), batch) as provider,
                of_session(f"memory:benchmark-{batch}", batch) as session,
            ):
                subjects = {"PriorityQueue": bare_memory(), "provider": provider, "session": session}
                compare(title, "PriorityQueue", subjects, arguments.messages, arguments.runs)


if __name__ == "__main__":
    main()
