"""The requesting process is killed at each step: a neighbour loses nothing, and what was held comes free."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connector.errors import UnknownDestination
from connector.messaging.destination import parse_destination
from connector.requests.settings import ListenerIntervals
from tests.forked_command import PipedProcess
from tests.requests.caller import ASK
from tests.requests.world import REQUESTS, World, all_greeted, ask, body_of, customer, is_greeted
from tests.waiting import wait_for

pytestmark = pytest.mark.process

Start = Callable[..., PipedProcess]


@pytest.fixture
def caller(dropbox: World) -> Iterator[Start]:
    """Starts processes that make requests; those that are left are killed."""
    running: list[PipedProcess] = []

    def start(fault: str = "", *options: str) -> PipedProcess:
        running.append(PipedProcess(dropbox.root, *options, script=ASK, CONNECTOR_FAULT=fault))
        return running[-1]

    yield start
    for process in running:
        process.end()


def left_behind(root: Path) -> list[str]:
    """Files of the dead: neither messages that wait nor what is settled."""
    own = ("dropboxmq/transaction/associated", "dropboxmq/transaction/committing")
    folders = ("*/incoming/working", "*/incoming/processing", *own)
    return [str(path) for folder in folders for path in root.glob(f"{folder}/*")]


def is_free_after_a_takeover(world: World, *, starts: bool = True) -> None:
    """Waits until nothing of the dead is left. A client that starts looks after them."""
    if starts:
        taker = world.client()
        taker.request("Customer.Retrieve", customer("taker"), timeout=0)
        taker.stop()
    wait_for(lambda: left_behind(world.root) == [], what="what the dead one held is free")


def unanswered(world: World) -> list[str]:
    """The numbers of the replies that nobody has taken."""
    numbers = [body_of(message)["CustomerId"] for message in world.replies]
    return [number for number in numbers if number != "taker"]


@pytest.mark.parametrize(
    ("fault", "sent", "left"),
    [
        ("settle.move=kill", False, []),  # before the request is seen
        ("settle.finished=kill", True, ["child"]),  # it is sent, and nobody waits any more
        ("claim=kill", True, ["child"]),  # the reply is claimed
        ("settle.move:2=kill", True, ["child"]),  # it has been read, and is not acknowledged
        ("settle.finished:2=kill", True, []),  # it is acknowledged, and its caller was never told
    ],
)
def test_a_client_that_dies_at_a_step_leaves_its_neighbour_alone_and_keeps_nothing(
    dropbox: World, caller: Start, fault: str, sent: bool, left: list[str]
) -> None:
    neighbour = dropbox.client()
    waiting = [ask(neighbour, number) for number in range(5)]
    dropbox.requests_on_queue(5)
    killed = caller(fault)
    if sent:
        dropbox.requests_on_queue(6)
    else:
        assert killed.wait(120) == -signal.SIGKILL
        assert len(dropbox.requests) == 5
    application = dropbox.application()
    assert all_greeted(waiting)
    assert killed.wait(120) == -signal.SIGKILL
    wait_for(lambda: len(application.requests) == 5 + sent, what="every request has been answered")
    application.end()
    is_free_after_a_takeover(dropbox)
    assert unanswered(dropbox) == left
    dropbox.application()
    assert is_greeted(neighbour.request("Customer.Retrieve", customer(9)), 9)


def test_what_a_dead_client_held_comes_free_while_a_neighbour_only_waits(
    dropbox: World, caller: Start
) -> None:
    neighbour = dropbox.client(intervals=ListenerIntervals(takeover=0.3))
    waiting = ask(neighbour, 1, OutputDestination="queue://slow")
    dropbox.request_on_queue(parse_destination("queue://slow"))
    killed = caller("claim=kill")
    with dropbox.session() as session:
        request = session.consumer(REQUESTS).receive(120.0)
        assert request is not None
    dropbox.replying().reply(request, {"CustomerId": "child"})
    assert killed.wait(120) == -signal.SIGKILL
    is_free_after_a_takeover(dropbox, starts=False)
    (reply,) = dropbox.replies
    assert (reply.correlation_id, reply.delivery_count) == (request.message_id, 2)
    assert not waiting.done()


def test_a_temporary_reply_queue_ends_with_the_process_that_made_it(dropbox: World, caller: Start) -> None:
    neighbour = dropbox.client(reply_to_destination=None)
    waiting = [ask(neighbour, 0)]
    own = dropbox.request_on_queue().reply_to
    killed = caller("", "temporary")
    (dead,) = {request.reply_to for request in dropbox.requests_on_queue(2)} - {own}
    killed.kill()
    killed.wait()
    replying = dropbox.replying()
    for request in dropbox.requests:
        if request.reply_to == dead:
            with pytest.raises(UnknownDestination, match="has ended"):
                replying.reply(request, {})
        else:
            replying.reply(request, {"CustomerId": "0", "Name": "name of 0"})
    assert all_greeted(waiting)
    is_free_after_a_takeover(dropbox)
    assert str(dead) not in {str(info.destination) for info in dropbox.looking.destinations()}
    assert not dropbox.root.joinpath(str(dead).removeprefix("queue://")).exists()
