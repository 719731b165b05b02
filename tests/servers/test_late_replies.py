"""Late replies on a ReplyToDestination at a real broker: a copy for a while, then the queue keeps them."""

from __future__ import annotations

from connector.messaging.message import Message
from connector.requests.client import RequestClient
from connector.status import ReturnCode
from tests.requests.world import LATE, REPLIES, World, body_of, customer, is_greeted
from tests.servers.conftest import AT_ARTEMIS
from tests.waiting import wait_for

pytestmark = AT_ARTEMIS


def time_out(client: RequestClient, world: World) -> Message:
    """Makes a request that nobody answers in time. Returns its message."""
    result = client.request("Customer.Retrieve", customer(1, TimeToLive="600000"), timeout=50)
    assert result.status is ReturnCode.APPRESPONSETIMEOUT
    return world.request_on_queue()


def names(world: World, late: bool) -> list[str]:
    """The replies of the test that have a copy, or that stay."""
    found = [body_of(one)["Name"] for one in world.browse(LATE if late else REPLIES)]
    return [name for name in found if name.startswith("late")]


def test_a_late_reply_gets_its_copy_while_late_replies_are_taken(world: World) -> None:
    client = world.client(late_replies_for=600.0)
    request = time_out(client, world)
    replying = world.replying()
    for count in (1, 2):
        replying.reply(request, {"CustomerId": "1", "Name": f"late {count}"})
        wait_for(lambda count=count: len(names(world, True)) == count, what=f"{count} copies")  # type: ignore[misc]
    assert sorted(names(world, True)) == ["late 1", "late 2"]
    assert names(world, False) == []
    assert {one.correlation_id for one in world.browse(LATE)} == {request.message_id}


def test_a_reply_that_comes_after_late_replies_for_stays_in_its_queue(world: World) -> None:
    client = world.client(late_replies_for=0.2)
    request = time_out(client, world)
    world.application()  # answers it, too, and the later requests
    replying = world.replying()
    sent = 0

    def stays() -> bool:
        """Sends one more late reply. What the client takes is taken when later calls are answered."""
        nonlocal sent
        sent += 1
        replying.reply(request, {"CustomerId": "1", "Name": f"late {sent}"})
        for number in range(3):
            assert is_greeted(client.request("Customer.Retrieve", customer(number)), number)
        return f"late {sent}" in names(world, False)

    wait_for(stays, what="a late reply that stays")
    client.stop()
    assert names(world, False) == [f"late {sent}"]
    assert sorted(names(world, True)) == sorted(f"late {number}" for number in range(1, sent))
