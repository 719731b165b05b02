"""Requests of deployments at real brokers, and of programs that know nothing of the adapter."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest

import connector
from tests.requests.world import done
from tests.servers.asking import (
    answer_by_jms,
    ask_by_jms,
    ask_by_message,
    asking,
    calls,
    is_named,
    serving,
)
from tests.servers.conftest import AT_ARTEMIS, AT_BROKER_J, in_turn
from tests.servers.rhea import ask_by_rhea, rhea_answers

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy

pytestmark = pytest.mark.process


@AT_BROKER_J
def test_instances_and_commands_that_share_a_reply_destination_get_their_own_replies(
    broker: Broker, deploy: Deploy
) -> None:
    """One instance asks from workers of Spark."""
    server = serving(broker, deploy)
    asker = asking(broker, deploy, server.input, ReplyToDestination="queue://NAME.replies", PollQuantity=4)
    answers, instances = server.start(), [asker.start(java=True), asker.start()]
    asker.wait_for_log(" ready ", count=2)
    asker.fill(40)
    members = [set(instance.members()) for instance in instances]
    for number in range(3):
        body = json.dumps({"CustomerId": f"c{number}"})
        (found,) = asker.lines("request", "Customer.Retrieve", body=body)
        assert (found["status"], found["object"]["Name"]) == ("VALCHANGE", f"name of c{number}")
    asker.wait_for(lambda: len(asker.customers(asker.archive)) == 40, "40 events that ask")
    for run in (*instances, answers):
        run.stop()
    callers = set(asker.workers())
    assert all(callers & pids for pids in members), "each instance has asked"
    for deployment in (asker, server):
        assert deployment.messages(deployment.error) == []
        assert deployment.leftovers() == []
    assert asker.bodies(f"{asker.name}.replies") == []
    assert sorted(calls(asker).values()) == [1] * 40
    assert sorted(calls(server).values()) == [1] * 83  # the commands ask once, and an event tells, too
    assert "a reply came for which no request waits" not in asker.log()


@AT_ARTEMIS
def test_a_reply_and_the_end_of_its_event_are_one_transaction(broker: Broker, deploy: Deploy) -> None:
    server = serving(broker, deploy)
    replies = f"{server.name}.replies"
    identity = ask_by_message(server, 7, f"queue://{replies}")
    server.start("--drain", fault="settle.committing=killgroup").wait()
    assert calls(server) == {"7": 1}
    assert server.messages(replies) == server.messages(server.archive) == []
    server.work()
    (reply,) = server.messages(replies)
    assert (reply.correlation_id, json.loads(reply.body)["Name"]) == (identity, "name of 7")
    assert server.customers(server.archive) == ["7"]
    assert calls(server) == {"7": 1}, "what the process has answered is still known"
    assert server.leftovers() == []


# -- programs that know nothing of the adapter ---------------------------------------------------------------

_IDS: Final = [
    "'one'",
    "'ID:two'",
    "t.wrap_ulong(77)",
    "t.wrap_uuid(Buffer.alloc(16, 7))",
    "t.wrap_binary(Buffer.from([1, 2, 255]))",
]
"""Ids of every type of AMQP. JMS has one of them."""


def test_foreign_programs_ask_the_adapter(broker: Broker, deploy: Deploy) -> None:
    """Each answer is found by its correlation id."""
    server = serving(broker, deploy)
    with server.serving():
        ids = f"[{', '.join(_IDS)}]"
        by_rhea = ask_by_rhea(broker, server.input, ids)
        without_ids = ask_by_rhea(broker, server.input, ids, "correlation_id")
        by_jms = ask_by_jms(broker, server.input, len(_IDS))
    for lines in (by_rhea, without_ids, by_jms):
        assert len(lines) == len(_IDS)
        for position, line in enumerate(sorted(lines)):
            number, result, body = line.split(" ", 2)
            answer = json.loads(body)
            found = number, result, answer["CustomerId"], answer["Name"]
            assert found == (str(position), "VALCHANGE", number, f"name of {number}")
    assert server.messages(server.error) == []
    assert len(server.messages(server.archive)) == 3 * len(_IDS)


@contextlib.contextmanager
def answering(program: str, broker: Broker, questions: str, count: int) -> Iterator[None]:
    """A program that takes requests, and then answers the last one first."""
    if program == "jms":
        with ThreadPoolExecutor(1) as pool:
            answers = pool.submit(answer_by_jms, broker, questions, count)
            yield
            answers.result(120)
        return
    with subprocess.Popen(rhea_answers(broker, questions, count)) as process:
        try:
            yield
            assert process.wait(120) == 0
        finally:
            process.kill()


@in_turn("program", "jms", "rhea")
def test_foreign_programs_answer_the_adapter(broker: Broker, deploy: Deploy, program: str) -> None:
    """Three requests have a temporary queue, and three a ReplyToDestination."""
    questions = deploy(broker).input
    askers = (
        asking(broker, deploy, questions),
        asking(broker, deploy, questions, ReplyToDestination="queue://NAME.replies"),
    )
    files = [one.directory / "adapter.yaml" for one in askers]
    with (
        answering(program, broker, questions, 6),
        connector.Adapter.from_file(files[0]) as one,
        connector.Adapter.from_file(files[1]) as other,
    ):
        futures = [
            (one, other)[number % 2].request_async("Customer.Retrieve", {"CustomerId": str(number)})
            for number in range(6)
        ]
        assert all(is_named(result, number) for number, result in enumerate(done(futures)))
