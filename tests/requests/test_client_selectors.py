"""Replies that are found by a response selector, among real strangers."""

from __future__ import annotations

from typing import Any

import pytest

from connector.businessobjects.definition import Verb
from connector.messaging.client import ReceivedMessage
from connector.messaging.message import Message
from connector.status import ReturnCode
from tests.requests.world import (
    IN_MEMORY,
    PATIENCE,
    REPLIES,
    Replying,
    World,
    all_greeted,
    ask,
    body_of,
    done,
    greet,
)

LIVES = {"Meta": {"TimeToLive": "60000"}}
"""A broker drops a message that has expired."""
EQUAL = Verb("Find", "response_selector=Who = '{1}':Name")
ALIKE = Verb("Find", "response_selector=Who LIKE '{1}':Name")

HOSTILE = [
    *("x' OR '1' = '1", "' OR TRUE OR 'x' = '", "' OR Who IS NOT NULL OR Who = '", "'", "''", "%", "_", "\\"),
    *("\\' OR 1=1 OR Who = '", "{1}", "{2}{1}{{", "{A:B};{C:D}", "a\nb\tc", "x' --", "Zoë 💶"),
]


def strangers() -> list[Message]:
    """Messages of others that a selector made of text alone might take."""
    found = []
    for number, who in enumerate(["x", "1", "", "anybody", "a%b", "TRUE", None]):
        message = Message(b"stranger %d" % number)
        if who is not None:
            message.set_property("Who", who)
        message.set_property("ResponseResult", "VALCHANGE")
        found.append(message)
    return found


def asked(name: str, number: object = 1) -> dict[str, Any]:
    """The data of a request whose reply has this name."""
    return {"CustomerId": str(number), "Name": name}


def echo(request: ReceivedMessage, replying: Replying) -> None:
    """Answers with the name as a property, and without any correlation."""
    name = body_of(request)["Name"]
    data = {"CustomerId": "found", "Name": name}
    replying.reply(request, data, correlation_id="", properties={"Who": name})


def test_a_reply_that_came_and_does_not_match_is_named_with_its_properties(world: World) -> None:
    def other(request: ReceivedMessage, replying: Replying) -> None:
        replying.reply(request, {}, correlation_id=request.message_id, properties={"Who": "another"})

    world.application(other)
    client = world.client(EQUAL)
    result = client.request_async("Customer.Find", asked("Ann"), timeout=500).result(PATIENCE)
    assert "and does not match the response selector" in (result.message or "")
    assert "Who='another'" in (result.message or "")
    assert "Who = 'Ann'" in (result.message or "")


@pytest.mark.parametrize("verb", [EQUAL, ALIKE], ids=["=", "LIKE"])
def test_a_value_is_a_value_whatever_it_says(world: World, verb: Verb) -> None:
    world.application(echo)
    client = world.client(verb)
    world.send(REPLIES, *strangers())
    results = done([client.request_async("Customer.Find", asked(name)) for name in HOSTILE])
    found = [(result.status, result.object["CustomerId"], result.object["Name"]) for result in results]
    assert found == [(ReturnCode.VALCHANGE, "found", name) for name in HOSTILE]
    assert len(world.replies) == 7
    assert {message.delivery_count for message in world.replies} == {1}


def test_selectors_find_replies_on_a_temporary_queue_beside_those_to_other_requests(world: World) -> None:
    def answer(request: ReceivedMessage, replying: Replying) -> None:
        (echo if body_of(request)["Verb"] == "Find" else greet)(request, replying)

    world.application(answer)
    client = world.client(EQUAL, reply_to_destination=None)
    found = [client.request_async("Customer.Find", asked(f"n{n}")) for n in range(40)]
    others = [ask(client, n) for n in range(40)]
    assert [result.object["Name"] for result in done(found)] == [f"n{n}" for n in range(40)]
    assert all_greeted(others)
    assert world.late == []


def test_a_reply_that_comes_too_late_for_its_selector_stays_where_it_is(world: World) -> None:
    """Nobody can say any more whose it is."""
    client = world.client(EQUAL)
    client.request("Customer.Find", {**asked("n"), **LIVES}, timeout=50)
    replying = world.replying()
    replying.reply(world.request_on_queue(), {}, correlation_id="", properties={"Who": "n"})
    world.application(echo)
    assert client.request("Customer.Find", asked("other", 2)).good
    assert (len(world.replies), world.late) == (2, [])  # also from the application


def correlated(request: ReceivedMessage, replying: Replying) -> None:
    """Answers as :func:`echo`, and says which request it answers."""
    name = body_of(request)["Name"]
    replying.reply(request, {"CustomerId": str(len(name)), "Name": name}, properties={"Who": name})


def test_a_reply_to_an_earlier_request_is_not_the_answer_to_the_same_question_asked_again(
    world: World,
) -> None:
    client = world.client(EQUAL)
    question = {**asked("n"), **LIVES}
    client.request("Customer.Find", question, timeout=50)
    earlier = world.request_on_queue()
    replying = world.replying()
    replying.reply(earlier, {"CustomerId": "stale"}, properties={"Who": "n"})
    world.application(correlated)
    results = [client.request("Customer.Find", question) for _ in range(3)]
    assert [result.object["CustomerId"] for result in results] == ["1", "1", "1"]
    outcomes = [message.properties["connector_outcome"] for message in world.late]
    assert outcomes == ["late_reply", "late_reply"]  # also from the application
    assert world.replies == []


def test_of_equal_questions_each_gets_the_reply_that_names_it(world: World) -> None:
    client = world.client(EQUAL)
    futures = [client.request_async("Customer.Find", asked("n", number)) for number in range(5)]
    replying = world.replying()
    for request in reversed(world.requests_on_queue(5)):
        number = body_of(request)["CustomerId"]
        replying.reply(request, {"CustomerId": f"answer {number}", "Name": "n"}, properties={"Who": "n"})
    assert [result.object["CustomerId"] for result in done(futures)] == [f"answer {n}" for n in range(5)]


def test_a_second_reply_that_a_selector_finds_is_no_answer_to_the_next_question(world: World) -> None:
    client = world.client(EQUAL)
    first = client.request_async("Customer.Find", asked("n"))
    request = world.request_on_queue()
    replying = world.replying()
    for text in ("first", "second"):
        replying.reply(request, {"CustomerId": text, "Name": "n"}, properties={"Who": "n"})
    assert done([first])[0].object["CustomerId"] == "first"
    assert client.request("Customer.Find", asked("n", 2), timeout=200).good is False
    assert [one.properties["connector_outcome"] for one in world.late] == ["duplicate_reply"]


@IN_MEMORY
def test_a_selector_that_no_provider_understands_is_refused_and_the_text_says_where(world: World) -> None:
    client = world.client(Verb("Find", "response_selector=Who LIKE {{1}"))
    result = client.request("Customer.Find", {"CustomerId": "1"})
    assert (result.status, result.refused) == (ReturnCode.FAIL, True)
    assert (result.message or "").startswith("Customer.Find: its response selector: ")
    assert world.requests == []
