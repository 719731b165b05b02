"""The requesting process is killed at each step: a neighbour loses nothing, and what was held comes free."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connector.errors import UnknownDestination
from connector.messaging.destination import parse_destination
from connector.requests.settings import ListenerIntervals
from tests.forked_command import PipedProcess
from tests.requests.world import (
    LATE,
    REPLIES,
    REQUESTS,
    World,
    body_of,
    customer,
    done,
    is_greeted,
)
from tests.waiting import wait_for

pytestmark = pytest.mark.process

_CALLER = "import sys\nfrom tests.requests.caller import main\nsys.exit(main())"
Start = Callable[..., PipedProcess]


@pytest.fixture
def caller(dropbox: World) -> Iterator[Start]:
    """Starts processes that make requests; those that are left are killed."""
    running: list[PipedProcess] = []

    def start(count: int, fault: str = "", *options: str) -> PipedProcess:
        words = (dropbox.root, count, *options)
        running.append(PipedProcess(*words, script=_CALLER, CONNECTOR_FAULT=fault))
        return running[-1]

    yield start
    for process in running:
        process.end()


def left_behind(root: Path) -> list[str]:
    """Files of the dead: neither messages that wait nor what is settled."""
    found = [path for folder in ("working", "processing") for path in root.glob(f"*/incoming/{folder}/*")]
    own = root / "dropboxmq"
    found += [
        *(own / "transaction" / "associated").iterdir(),
        *(own / "transaction" / "committing").iterdir(),
    ]
    return sorted(str(path.relative_to(root)) for path in found)


def take_over(world: World) -> None:
    """A client that starts looks after the dead."""
    stopped = world.client()
    stopped.request("Customer.Retrieve", customer("taker"), timeout=0)
    stopped.stop()


@pytest.mark.parametrize(
    ("fault", "sent", "left"),
    [
        ("settle.move=kill", False, []),  # before the request is seen
        ("settle.finished=kill", True, ["child-0"]),  # it is sent, and nobody waits any more
        ("claim=kill", True, ["child-0"]),  # the reply is claimed
        ("settle.move:2=kill", True, ["child-0"]),  # it has been read, and is not acknowledged
        ("settle.finished:2=kill", True, []),  # it is acknowledged, and its caller was never told
    ],
)
def test_a_client_that_dies_at_a_step_leaves_its_neighbour_alone_and_keeps_nothing(
    dropbox: World, caller: Start, fault: str, sent: bool, left: list[str]
) -> None:
    neighbour = dropbox.client()
    waiting = [neighbour.request_async("Customer.Retrieve", customer(number)) for number in range(5)]
    dropbox.requests_on_queue(5)
    killed = caller(1, fault)
    if sent:
        dropbox.requests_on_queue(6)
    else:
        assert killed.wait(120) == -signal.SIGKILL
        assert len(dropbox.browse(REQUESTS)) == 5
    application = dropbox.application()
    assert all(is_greeted(result, number) for number, result in enumerate(done(waiting)))
    assert killed.wait(120) == -signal.SIGKILL
    wait_for(lambda: len(application.requests) == 5 + sent, what="every request has been answered")
    application.end()
    take_over(dropbox)
    wait_for(lambda: left_behind(dropbox.root) == [], what="what the dead one held is free")
    replies = [body_of(message)["CustomerId"] for message in dropbox.browse(REPLIES)]
    assert [number for number in replies if number != "taker"] == left
    dropbox.application()
    assert is_greeted(neighbour.request("Customer.Retrieve", customer(9)), 9)


def test_a_client_that_dies_while_it_waits_leaves_its_replies_to_nobody(
    dropbox: World, caller: Start
) -> None:
    neighbour = dropbox.client()
    killed = caller(20)
    dropbox.requests_on_queue(20)
    waiting = [neighbour.request_async("Customer.Retrieve", customer(number)) for number in range(20)]
    dropbox.requests_on_queue(40)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    application = dropbox.application()
    assert all(is_greeted(result, number) for number, result in enumerate(done(waiting)))
    wait_for(lambda: len(application.requests) == 40, what="every request has been answered")
    application.end()
    assert len(dropbox.browse(REPLIES)) == 20
    assert dropbox.browse(LATE) == []
    assert left_behind(dropbox.root) == []


def test_what_a_dead_client_held_comes_free_while_a_neighbour_only_waits(
    dropbox: World, caller: Start
) -> None:
    neighbour = dropbox.client(intervals=ListenerIntervals(takeover=0.3))
    waiting = neighbour.request_async("Customer.Retrieve", customer(1, OutputDestination="queue://slow"))
    dropbox.request_on_queue(parse_destination("queue://slow"))
    killed = caller(1, "claim=kill")
    with dropbox.session() as session:
        request = session.consumer(REQUESTS).receive(120.0)
        assert request is not None
    dropbox.replying().reply(request, {"CustomerId": "child"})
    assert killed.wait(120) == -signal.SIGKILL
    wait_for(lambda: left_behind(dropbox.root) == [], what="what the dead one held is free")
    (reply,) = dropbox.browse(REPLIES)
    assert (reply.correlation_id, reply.delivery_count) == (request.message_id, 2)
    assert not waiting.done()


def test_a_client_that_dies_in_the_middle_of_its_replies_takes_none_of_a_neighbour_s(
    dropbox: World, caller: Start
) -> None:
    neighbour = dropbox.client()
    waiting = [neighbour.request_async("Customer.Retrieve", customer(number)) for number in range(30)]
    killed = caller(30, "claim:7=kill")
    dropbox.requests_on_queue(60)
    application = dropbox.application()
    assert all(is_greeted(result, number) for number, result in enumerate(done(waiting)))
    assert killed.wait(120) == -signal.SIGKILL
    wait_for(lambda: len(application.requests) == 60, what="every request has been answered")
    application.end()
    take_over(dropbox)
    wait_for(lambda: left_behind(dropbox.root) == [], what="what the dead one held is free")
    told = [line for line in killed.stdout.read().splitlines() if line.startswith("VALCHANGE")]
    left = [number for m in dropbox.browse(REPLIES) if (number := body_of(m)["CustomerId"]) != "taker"]
    settled = 30 - len(left)
    assert len(told) <= settled <= 6
    assert len(set(left)) == len(left)


def test_a_temporary_reply_queue_ends_with_the_process_that_made_it(dropbox: World, caller: Start) -> None:
    neighbour = dropbox.client(reply_to=None)
    waiting = neighbour.request_async("Customer.Retrieve", customer(1))
    own = dropbox.request_on_queue().reply_to
    killed = caller(1, "", "--temporary")
    (dead,) = {request.reply_to for request in dropbox.requests_on_queue(2)} - {own}
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    replying = dropbox.replying()
    for request in dropbox.browse(REQUESTS):
        if request.reply_to == dead:
            with pytest.raises(UnknownDestination, match="has ended"):
                replying.reply(request, {})
        else:
            replying.reply(request, {"CustomerId": "1", "Name": "name of 1"})
    (result,) = done([waiting])
    assert is_greeted(result, 1)
    take_over(dropbox)
    assert str(dead) not in {str(info.destination) for info in dropbox.looking.destinations()}
    assert not dropbox.root.joinpath(str(dead).removeprefix("queue://")).exists()
