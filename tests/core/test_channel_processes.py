"""Channels of several processes on one root; some are killed (JBoss Messaging Core, 2.3 and 5)."""

from __future__ import annotations

import itertools
import os
import signal
import textwrap
from collections.abc import Iterator

import pytest

from connector.core.channels import Channels
from connector.errors import ClaimLost
from tests.core.channel_world import DELIVERED, NEW, NOT_COMMITTED, Recorder, World, a_world, texts
from tests.forked_command import PipedProcess
from tests.waiting import wait_for

PRELUDE = """
    import select, sys, time
    from connector.core.channels import Channels
    from connector.messaging.message import Message
    from connector.stores.dropbox.provider import DropboxProvider
    from tests.core.channel_world import Recorder

    channels = Channels(DropboxProvider(sys.argv[1], create=True))
    queue = channels.queue("orders")

    def say(*words):
        print(*words, flush=True)
"""


@pytest.fixture
def world() -> Iterator[World]:
    with a_world("dropbox") as made:
        yield made


def start(world: World, program: str, *, fault: str = "") -> PipedProcess:
    """A process with its own channels on the root, running a program."""
    script = textwrap.dedent(PRELUDE) + textwrap.dedent(program)
    return PipedProcess(world.directory, script=script, CONNECTOR_FAULT=fault)


def line(process: PipedProcess) -> str:
    return process.stdout.readline().strip()


def kill(process: PipedProcess) -> None:
    process.end()


def test_2_3_processes_share_the_messages_of_one_queue(world: World) -> None:
    program = """
        receiver = Recorder()
        queue.add_receiver(receiver)
        say("ready")
        while not select.select([sys.stdin], [], [], 0.001)[0]:
            queue.deliver()
        channels.close()
        say(*receiver.bodies)
    """
    processes = [start(world, program) for _ in range(2)]
    assert [line(process) for process in processes] == ["ready", "ready"]
    queue = world.open().queue("orders")
    for number in range(200):
        queue.handle(world.message(str(number)))
    wait_for(lambda: not queue.browse())
    got = [process.communicate("end", timeout=30)[0].split() for process in processes]
    numbers = [[int(word) for word in words] for words in got]
    assert sorted(itertools.chain(*numbers)) == list(range(200))
    assert [sorted(own) for own in numbers] == numbers  # 9.1.1, in every process


def test_a_message_of_another_process_is_found_at_the_next_delivery(world: World) -> None:
    process = start(world, 'queue.handle(Message(body=b"1")); channels.close(); say("sent")')
    assert line(process) == "sent"
    process.communicate()
    receiver = Recorder()
    queue = world.open().queue("orders")
    queue.add_receiver(receiver)
    assert receiver.bodies == ["1"]


DELIVER_AND_WAIT = """
    receiver = Recorder(answer=False)
    queue.add_receiver(receiver)
    queue.handle(Message(body=b"1"))
    say(receiver.ids[0])
    time.sleep(60)
"""


def test_what_a_killed_process_was_delivered_comes_again_flagged(world: World) -> None:
    process = start(world, DELIVER_AND_WAIT)
    identity = line(process)
    kill(process)
    queue = world.open().queue("orders")
    assert [message.message_id for message in queue.messages(NEW)] == [identity]
    with pytest.raises(ClaimLost):
        queue.acknowledge(identity, "r")
    receiver = Recorder()
    queue.add_receiver(receiver)
    assert (receiver.ids, receiver.flags) == ([identity], [True])


def test_a_process_that_runs_takes_over_from_one_that_is_killed(world: World) -> None:
    channels = world.open()
    queue = channels.queue("orders")
    process = start(world, DELIVER_AND_WAIT)
    identity = line(process)
    assert channels.take_over() == 0
    assert [message.message_id for message in queue.messages(DELIVERED)] == [identity]
    kill(process)
    assert channels.take_over() == 1
    assert [message.message_id for message in queue.messages(NEW)] == [identity]


def test_5_1_what_a_killed_process_had_not_committed_never_was(world: World) -> None:
    process = start(
        world,
        """
        transaction = channels.transaction()
        queue.handle(Message(body=b"1"), transaction)
        say("sent")
        time.sleep(60)
        """,
    )
    assert line(process) == "sent"
    kill(process)
    queue = world.open().queue("orders")
    assert queue.browse() == queue.messages(NOT_COMMITTED) == []
    working = os.path.join(world.directory, "orders", "incoming", "working")
    assert os.listdir(working) == []


@pytest.mark.parametrize(
    ("place", "committed"), [("settle.record", False), ("settle.committing", True), ("settle.move:2", True)]
)
def test_6_2_1_a_commit_that_is_killed_is_whole_or_not_at_all(
    world: World, place: str, committed: bool
) -> None:
    send(world, "order")
    process = start(
        world,
        """
        receiver = Recorder("r", answer=False)
        queue.add_receiver(receiver)
        with channels.transaction() as transaction:
            queue.acknowledge(receiver.ids[0], "r", transaction)
            channels.queue("bills").handle(Message(body=b"bill"), transaction)
            channels.queue("copies").handle(Message(body=b"copy"), transaction)
        """,
        fault=f"{place}=kill",
    )
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    channels = world.open()
    orders, bills, copies = (channels.queue(name) for name in ("orders", "bills", "copies"))
    assert texts(orders.browse()) == ([] if committed else ["order"])
    assert texts(bills.browse()) == (["bill"] if committed else [])
    assert texts(copies.browse()) == (["copy"] if committed else [])


def send(world: World, body: str) -> None:
    with Channels(world.provider) as channels:
        channels.queue("orders").handle(world.message(body))
