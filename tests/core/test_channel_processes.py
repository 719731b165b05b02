"""Channels of several processes on one root, of which one is killed (JBoss Messaging Core, 2.3 and 5)."""

from __future__ import annotations

import itertools
import os
import textwrap

import pytest

from connector.errors import ClaimLost
from tests.core.channel_world import DELIVERED, NEW, World
from tests.core.conftest import ON_DISK
from tests.forked_command import PipedProcess
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, ON_DISK]

PRELUDE = """
    import select, sys
    from connector.core.channels import Channels
    from connector.messaging.message import Message
    from connector.stores.dropbox.provider import DropboxProvider
    from tests.core.channel_world import Recorder

    channels = Channels(DropboxProvider(sys.argv[1], create=True))
    queue = channels.queue("orders")

    def say(*words):
        print(*words, flush=True)
"""


def start(world: World, program: str) -> PipedProcess:
    """A process with its own channels on the root, running a program."""
    return PipedProcess(world.directory, script=textwrap.dedent(PRELUDE) + textwrap.dedent(program))


def line(process: PipedProcess) -> str:
    return process.stdout.readline().strip()


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
    world.send(*map(str, range(200)))
    wait_for(lambda: not world.queue.browse())
    got = [process.communicate("end", timeout=120)[0].split() for process in processes]
    numbers = [[int(word) for word in words] for words in got]
    assert sorted(itertools.chain(*numbers)) == list(range(200))
    assert [sorted(own) for own in numbers] == numbers  # 9.1.1, in every process


def test_a_process_that_runs_takes_over_from_one_that_is_killed(world: World) -> None:
    program = """
        receiver = Recorder(answer=False)
        queue.add_receiver(receiver)
        queue.handle(Message(body=b"1"))
        queue.handle(Message(body=b"never"), channels.transaction())
        say(receiver.ids[0])
        sys.stdin.read()
    """
    queue = world.queue
    process = start(world, program)
    identity = line(process)
    assert world.channels.take_over() == 0
    assert [message.message_id for message in queue.messages(DELIVERED)] == [identity]
    process.end()
    assert world.channels.take_over() == 1
    assert [message.message_id for message in queue.messages(NEW)] == [identity]
    with pytest.raises(ClaimLost):
        queue.acknowledge(identity, "r")
    receiver = world.add()
    assert (receiver.ids, receiver.flags) == ([identity], [True])
    assert os.listdir(os.path.join(world.directory, "orders", "incoming", "working")) == []
