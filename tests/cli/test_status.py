"""`connector status` and `connector takeover` where nobody runs: they make nothing, and load no Spark."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from connector.config.loading import load
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.subscription import TopicSubscription
from connector.service.assembly import make_provider
from tests.cli.in_process import Commands


def test_before_the_first_run_there_is_nothing_to_see_and_nothing_is_made(call: Commands) -> None:
    before = sorted(call.directory.rglob("*"))
    document = call("status", "--json").document
    assert (document["instances"], document["batches"], document["workers"]) == ([], [], [])
    assert {one["waiting"] for one in document["inputs"]} == {0}
    assert "none runs" in call("status").stdout
    taken = call("takeover")
    assert (taken.returncode, taken.stderr) == (0, "no clients\n")
    assert sorted(call.directory.rglob("*")) == before


def test_a_subscription_is_counted_as_an_input(call: Commands) -> None:
    topic = "{destination: topic://prices, subscription: all}"
    call.change("adapter.yaml", "InputDestination:\n", f"InputDestination:\n    - {topic}\n")
    configuration = load(call.directory / "adapter.yaml")
    provider = make_provider(configuration)
    name = configuration.connector.application_name
    connection = provider.connect(name, "a", client_id=name)
    wanted = TopicSubscription(parse_destination("topic://prices"), "all", name, durable=True, shared=True)
    connection.poller(wanted).close()
    connection.send(parse_destination("topic://prices"), [Message(b"1"), Message(b"2")])
    inputs = call("status", "--json").document["inputs"]
    assert [one["waiting"] for one in inputs if one["destination"] == "topic://prices"] == [2]
    connection.close()


def test_a_client_is_taken_over_by_hand_only_on_the_operators_word(call: Commands) -> None:
    provider = make_provider(load(call.directory / "adapter.yaml"))
    alive, dead = provider.connect("demo", "a"), provider.connect("demo", "b")
    dead.abandon()
    lines = call("takeover").stdout.splitlines()
    assert lines[0].split() == ["client", "application", "instance", "host", "pid", "state", "since"]
    assert {(line.split()[0], line.split()[5]) for line in lines[1:]} == {
        (alive.client_id, "alive"),
        (dead.client_id, "dead"),
    }
    misspelt = f"{alive.client_id[:-1]}_"
    for arguments, expected, words in (
        ([alive.client_id], 2, "may be alive"),
        ([misspelt, "--it-is-dead"], 2, f"did you mean {alive.client_id!r}?"),
        ([dead.client_id, "--it-is-dead"], 1, "its lock is free"),
        ([dead.client_id], 1, "its lock is free"),
        ([alive.client_id, "--it-is-dead"], 0, ""),
        ([alive.client_id, "--it-is-dead"], 1, "was declared dead before"),
    ):
        done = call("takeover", *arguments)
        assert (done.returncode, words in done.stderr) == (expected, True), done.stderr
    alive.abandon()


@pytest.mark.process
@pytest.mark.parametrize("verb", ["status", "takeover"])
def test_they_load_neither_spark_nor_java(interpret: Callable[[str], list[str]], verb: str) -> None:
    (found,) = interpret(
        f"import sys; from connector.cli.app import run; sys.stdout = sys.stderr; run([{verb!r}]); "
        "sys.stdout = sys.__stdout__; "
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'pyspark', 'py4j', 'numpy'}))"
    )
    assert found == "[]"
