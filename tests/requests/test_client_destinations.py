"""Where requests go and replies come from: queues, topics, temporary queues, what cannot be written."""

from __future__ import annotations

import shutil
from dataclasses import replace

from connector.messaging.destination import parse_destination
from connector.status import ReturnCode
from tests.requests.world import (
    LATE,
    REPLIES,
    REQUESTS,
    World,
    all_greeted,
    ask,
    body_of,
    customer,
    done,
    is_greeted,
)
from tests.waiting import wait_for


def test_without_a_reply_destination_replies_come_to_a_temporary_queue(world: World) -> None:
    application = world.application()
    client = world.client(reply_to_destination=None)
    assert all_greeted([ask(client, number) for number in range(20)])
    (name,) = {request.reply_to for request in application.requests}
    assert name is not None
    assert name.startswith("queue://")
    assert name != str(REPLIES)
    client.stop()
    wait_for(
        lambda: name not in {str(info.destination) for info in world.looking.destinations()}, what="it ended"
    )


def test_without_temporary_queues_a_request_needs_a_reply_destination(world: World) -> None:
    capabilities = replace(world.provider.capabilities, temporary_destinations=False)
    client = world.client(reply_to_destination=None, capabilities=capabilities)
    result = client.request("Customer.Retrieve", customer(1))
    assert result.status is ReturnCode.FAIL
    assert "ReplyToDestination" in (result.message or "")
    assert world.requests == []
    assert client.request("Customer.Create", customer(1)).good
    world.application()
    assert is_greeted(client.request("Customer.Retrieve", customer(2, ReplyToDestination=str(REPLIES))), 2)


def test_a_destination_that_nothing_can_be_sent_to_fails_its_requests_only(world: World) -> None:
    """Though all of them may be sent in one commit."""
    world.block(parse_destination("queue://blocked"))
    world.application()
    client = world.client()
    wrong = ("queue://blocked", "topic://a/b", "orders~EXPIRED")
    places = [*wrong, *[str(REQUESTS)] * 2] * 6
    futures = [ask(client, number, OutputDestination=place) for number, place in enumerate(places)]
    for number, result in enumerate(done(futures)):
        if number % 5 > 2:
            assert is_greeted(result, number)
        else:
            assert result.status in (ReturnCode.FAIL, ReturnCode.APPRESPONSETIMEOUT)
            name = wrong[number % 5].rpartition("/")[2]
            assert name in (result.message or "")


def test_a_request_may_be_sent_to_a_topic_and_the_first_reply_is_the_answer(stored: World) -> None:
    applications = [stored.application(queue="topic://ask") for _ in range(2)]
    client = stored.client()
    for number in range(5):
        result = client.request("Customer.Retrieve", customer(number, OutputDestination="topic://ask"))
        assert is_greeted(result, number)
    wait_for(lambda: all(len(one.requests) == 5 for one in applications), what="both have answered all")
    wait_for(lambda: stored.replies == [], what="the second replies are put aside")
    to_nobody = customer(1, OutputDestination="topic://nobody")
    assert client.request("Customer.Retrieve", to_nobody, timeout=50).status is ReturnCode.APPRESPONSETIMEOUT


def test_of_very_many_reply_destinations_only_those_in_use_are_taken_from(world: World) -> None:
    world.application()
    client = world.client(session_pool_size_for_requests=500)
    places = ["queue://slow", *(f"queue://replies-{number}" for number in range(1, 121))]
    futures = [ask(client, number, ReplyToDestination=place) for number, place in enumerate(places)]
    assert all_greeted(futures)
    again = client.request("Customer.Retrieve", customer(1, ReplyToDestination="queue://replies-1"))
    assert is_greeted(again, 1)
    sources = client._listener._sources  # nothing else shows how many consumers there are
    assert len(sources.destinations) <= 70


def test_a_reply_destination_that_cannot_be_taken_from_is_refused_and_harms_no_other(dropbox: World) -> None:
    dropbox.application()
    client = dropbox.client()
    waiting = ask(client, 1, OutputDestination="queue://slow")
    dropbox.requests_on_queue(1, parse_destination("queue://slow"))
    dropbox.root.joinpath("odd").write_text("a file where the queue should be")
    refused = client.request("Customer.Retrieve", customer(2, ReplyToDestination="queue://odd"))
    assert (refused.status, refused.refused) == (ReturnCode.FAIL, True)
    assert "odd" in (refused.message or "")
    assert [body_of(message)["CustomerId"] for message in dropbox.requests] == []
    assert not waiting.done()
    assert is_greeted(client.request("Customer.Retrieve", customer(3)), 3)


def test_a_reply_destination_that_breaks_while_replies_are_awaited_fails_these_only(dropbox: World) -> None:
    client = dropbox.client()
    broken = ask(client, 1, ReplyToDestination="queue://odd", OutputDestination="queue://slow")
    waiting = ask(client, 2, OutputDestination="queue://slow")
    dropbox.requests_on_queue(2, parse_destination("queue://slow"))
    shutil.rmtree(dropbox.root / "odd" / "incoming" / "target")
    (dropbox.root / "odd" / "incoming" / "target").write_text("a file where the folder should be")
    (result,) = done([broken])
    assert result.status is ReturnCode.APPRESPONSETIMEOUT
    assert "queue://odd" in (result.message or "")
    assert not waiting.done()


def test_no_reply_is_awaited_where_late_replies_are_copied_to(world: World) -> None:
    client = world.client()
    result = client.request("Customer.Retrieve", customer(1, ReplyToDestination=str(LATE)))
    assert (result.status, result.refused) == (ReturnCode.FAIL, True)
    assert "late_replies" in (result.message or "")
    assert world.requests == []
