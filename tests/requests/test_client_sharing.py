"""Several clients, and strangers, on one reply queue: each takes what is its own."""

from __future__ import annotations

import threading

from connector.messaging.message import Message
from connector.requests.plan import Matching
from tests.requests.world import LATE, REPLIES, World, customer, done, is_greeted, soon


def test_two_clients_and_a_stranger_share_one_reply_queue(world: World) -> None:
    world.application()
    clients = [world.client(), world.client()]
    session = world.session()
    taken: list[bytes] = []
    stop = threading.Event()

    def stranger() -> None:
        """Asks and answers on the same queue, by a selector of its own."""
        consumer = session.consumer(REPLIES, "JMSType = 'STRANGER'")
        number = 0
        while not stop.is_set():
            session.send(REPLIES, Message(b"%d" % number, type="STRANGER", delivery_mode=world.mode))
            received = consumer.receive(timeout=5.0)
            assert received is not None
            taken.append(received.body)
            number += 1
        consumer.close()

    thread = threading.Thread(target=stranger)
    thread.start()
    futures = [
        client.request_async("Customer.Retrieve", customer(number))
        for number in range(60)
        for client in clients
    ]
    results = done(futures)
    stop.set()
    thread.join()
    assert [is_greeted(result, index // 2) for index, result in enumerate(results)] == [True] * 120
    assert taken == [b"%d" % number for number in range(len(taken))]
    assert (world.bodies(REPLIES), world.bodies(LATE)) == ([], [])


def test_a_late_reply_is_put_aside_by_the_client_that_had_asked(world: World) -> None:
    asked, neighbour = world.client(late_replies=None), world.client()
    asked.request("Customer.Retrieve", customer(1), timeout=0)
    assert neighbour.request("Customer.Retrieve", customer(2), timeout=0).status.name == "APPRESPONSETIMEOUT"
    for request in world.requests_on_queue(2):
        world.replying().reply(request, {"CustomerId": "1"})
    soon(lambda: world.bodies(REPLIES) == [], "both are put aside")
    assert len(world.bodies(LATE)) == 1  # the neighbour's; the other client keeps none


def test_replies_may_name_their_request_by_its_correlation_id(world: World) -> None:
    matching = Matching("JMSCorrelationID", "JMSCorrelationID")
    world.application(
        lambda request, replying: replying.reply(
            request,
            {"CustomerId": "1", "Name": request.correlation_id},
            correlation_id=request.correlation_id,
        )
    )
    clients = [world.client(matching=matching), world.client(matching=matching)]
    futures = [
        client.request_async("Customer.Retrieve", customer(n)) for n in range(20) for client in clients
    ]
    results = done(futures)
    assert {result.status.name for result in results} == {"VALCHANGE"}
    assert len({result.object["Name"] for result in results}) == 40
    assert world.bodies(REPLIES) == []


def test_replies_may_name_their_request_by_a_property_on_either_side(world: World) -> None:
    world.application(
        lambda request, replying: replying.reply(
            request,
            {"CustomerId": "1", "Name": str(request.properties["callId"])},
            correlation_id="the same for all",
            properties={"answers": request.properties["callId"]},
        )
    )
    matching = Matching("callId", "answers")
    clients = [world.client(matching=matching), world.client(matching=matching)]
    futures = [
        client.request_async("Customer.Retrieve", customer(n)) for n in range(20) for client in clients
    ]
    results = done(futures)
    assert {result.status.name for result in results} == {"VALCHANGE"}
    assert len({result.object["Name"] for result in results}) == 40
    assert world.bodies(REPLIES) == []
