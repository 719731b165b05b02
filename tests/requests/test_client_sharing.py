"""Several clients, and strangers, on one reply queue: each takes what is its own."""

from __future__ import annotations

import pytest

from connector.businessobjects.definition import Attribute
from connector.messaging.client import ReceivedMessage
from connector.messaging.message import Message
from tests.requests.samples import matching
from tests.requests.world import (
    REPLIES,
    Replying,
    World,
    ask,
    body_of,
    customer,
    definitions,
    done,
    is_greeted,
)
from tests.waiting import wait_for


def test_two_clients_and_a_stranger_share_one_reply_queue(world: World) -> None:
    world.application()
    clients = [world.client(), world.client()]
    session = world.session()
    futures = []
    with session.consumer(REPLIES, "JMSType = 'STRANGER'") as stranger:
        for number in range(60):
            futures += [ask(one, number) for one in clients]
            session.send(REPLIES, Message(b"%d" % number, type="STRANGER", delivery_mode=world.mode))
            received = stranger.receive(timeout=240)
            assert received is not None
            assert received.body == b"%d" % number
    assert all(is_greeted(result, index // 2) for index, result in enumerate(done(futures)))
    assert world.replies == world.late == []


def test_a_late_reply_is_put_aside_by_the_client_that_had_asked(world: World) -> None:
    asked, neighbour = world.client(late_replies="discard"), world.client()
    asked.request("Customer.Retrieve", customer(1), timeout=0)
    assert neighbour.request("Customer.Retrieve", customer(2), timeout=0).status.name == "APPRESPONSETIMEOUT"
    for request in world.requests_on_queue(2):
        world.replying().reply(request, {"CustomerId": "1"})
    wait_for(lambda: world.replies == [], what="both are put aside")
    assert len(world.late) == 1  # the neighbour's; the other client keeps none


TYPED = {"Long": "-1099511627776", "Int": "7", "Double": "2.5", "Boolean": "true", "String": "O'Hara"}
"""A value of each type of a property."""


@pytest.mark.parametrize("by", ["correlation id", "property"])
def test_replies_may_name_their_request_by_its_correlation_id_or_a_property_on_either_side(
    world: World, by: str
) -> None:
    request_name, reply_name = ("callId", "answers") if by == "property" else ("JMSCorrelationID",) * 2

    def answer(request: ReceivedMessage, replying: Replying) -> None:
        identity = request.properties["callId"] if by == "property" else request.correlation_id
        data = {"CustomerId": "1", "Name": str(identity)}
        if by == "property":
            same = "the same for all"
            replying.reply(request, data, correlation_id=same, properties={"answers": identity or ""})
        else:
            replying.reply(request, data, correlation_id=request.correlation_id)

    world.application(answer)
    clients = [world.client(reply_matching=matching(request_name, reply_name)) for _ in range(2)]
    results = done([ask(one, n) for n in range(20) for one in clients])
    assert {result.status.name for result in results} == {"VALCHANGE"}
    assert len({result.object["Name"] for result in results}) == 40
    assert world.replies == []


@pytest.mark.parametrize("repeats_text", [False, True], ids=["as it is", "as text"])
def test_a_property_that_the_request_sets_itself_is_found_whatever_its_type(
    world: World, repeats_text: bool
) -> None:
    def repeat(request: ReceivedMessage, replying: Replying) -> None:
        found = TYPED[body_of(request)["CustomerId"]] if repeats_text else request.properties["callId"]
        replying.reply(request, {"CustomerId": "found"}, correlation_id="", properties={"answers": found})

    world.send(REPLIES, Message(b"a stranger's"))
    world.application(repeat)
    for kind, value in TYPED.items():
        call_id = Attribute("callId", "String", app_specific_info=f"name=callId;type={kind}")
        of = definitions(properties=(call_id,))
        client = world.client(reply_matching=matching("callId", "answers"), definitions=of)
        data = {"CustomerId": kind, "Meta": {"JMSProperties": {"callId": value}}}
        assert client.request("Customer.Retrieve", data).object["CustomerId"] == "found", kind
        client.stop()
    assert [message.body for message in world.replies] == [b"a stranger's"]
