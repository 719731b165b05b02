"""Keys of the section ``connector`` that an input has for itself. The connector's hold for the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from connector.config.loading import load
from connector.config.resolved import as_document, as_yaml
from connector.errors import ConfigurationError
from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.operate.lives import read_life
from connector.service.reload import ReloadRefused, check_changes
from connector.service.status_document import StatusReader
from connector.status import OutcomeKind
from tests.events.conftest import ORDER, Bench, EventDeployment, customer, handler, logged
from tests.tables import rows

Deploy = Callable[..., EventDeployment]
FAILS, UNWANTED = customer("a: fail"), ORDER
OWN = {
    "destination": "queue://prices",
    "ArchiveDestination": "queue://price-archive",
    "ErrorDestination": "queue://price-errors",
    "UnsubscribedDestination": "queue://price-rest",
}
OF_CUSTOMERS = ({"object": "Customer", "process": "processes:a", "name": "a"},)
COPIES = ("archive", "error", "unsubscribed", "price-archive", "price-errors", "price-rest")


@pytest.fixture(params=["dropbox", "memory"])
def deploy(request: pytest.FixtureRequest, bench: Bench) -> Deploy:
    """Makes deployments with the input ``orders`` and others, in a directory or in memory."""

    def make(*inputs: Mapping[str, Any], **connector: Any) -> EventDeployment:
        others = ["queue://orders", *inputs]
        return bench.deploy(provider={"type": request.param}, InputDestination=others, **connector)

    return make


def copies(deployment: EventDeployment) -> dict[str, list[str]]:
    """The ids in each destination of copies that has messages."""
    return {name: ids for name in COPIES if (ids := deployment.ids(name))}


def send_each(deployment: EventDeployment, queue: str, **properties: Any) -> list[str]:
    """Sends a message that is published, one that fails, and one that nobody wants."""
    bodies = (customer(), FAILS, UNWANTED)
    return [deployment.send(queue, body, properties=properties) for body in bodies]


def reason(deployment: EventDeployment, queue: str) -> str:
    """The reason of the only message of a queue."""
    (copy,) = deployment.messages(queue)
    return str(copy.properties["connector_reason"])


def test_copies_go_to_the_destinations_of_their_input_and_the_history_says_so(deploy: Deploy) -> None:
    deployment = deploy(OWN, subscriptions=OF_CUSTOMERS)
    sent = {queue: send_each(deployment, queue) for queue in ("orders", "prices")}
    deployment.drain()
    found = dict(zip(COPIES, [*sent["orders"], *sent["prices"]], strict=True))
    assert copies(deployment) == {name: [identity] for name, identity in found.items()}
    history = deployment.provider.existing_state("test").history()
    for name, identity in found.items():
        (event,) = read_life(history, identity).events
        assert event.row.to == f"queue://{name}"


def test_inputs_of_one_queue_have_the_destinations_of_their_selectors(deploy: Deploy) -> None:
    queue, error = {"destination": "queue://prices"}, "ErrorDestination"
    eu = {**queue, "selector": "region = 'EU'", error: "queue://price-errors"}
    us = {**queue, "selector": "region = 'US'"}
    deployment = deploy(eu, us)
    ids = [deployment.send("prices", "{", properties={"region": name}) for name in ("EU", "US", "EU")]
    deployment.drain()
    assert copies(deployment) == {"error": [ids[1]], "price-errors": [ids[0], ids[2]]}


def test_what_was_taken_from_an_input_that_is_gone_goes_to_the_destinations_of_the_connector(
    bench: Bench,
) -> None:
    copies = bench.deploy(InputDestination=["queue://orders", OWN]).configuration.connector.copies
    for queue, error in (("gone", "error"), ("orders", "error"), ("prices", "price-errors")):
        named = Input(Destination("queue", queue))
        assert str(copies.of(OutcomeKind.FAILED, named)) == f"queue://{error}"


def test_the_error_destinations_of_all_inputs_are_counted(bench: Bench) -> None:
    deployment = bench.deploy(InputDestination=["queue://orders", OWN], more={"health": {"error_waiting": 2}})
    for queue in ("orders", "prices", "prices"):
        deployment.send(queue, "{")
    deployment.drain()
    status = StatusReader(deployment.configuration, deployment.provider).read()
    assert status["error_waiting"] == 3
    assert any(one.text.startswith("the error destination has 3 ") for one in status["reasons"])


def test_copies_of_an_input_are_kept_as_long_as_those_of_the_connector(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = bench.deploy(InputDestination=["queue://orders", OWN], keep_error="1ms")
    for queue in ("orders", "prices"):
        deployment.send(queue, "{")
    with caplog.at_level("INFO", "connector"):
        deployment.drain()
        deployment.drain()
    removed = {one["destination"] for one in logged(caplog, "old copies were removed")}
    assert (removed, copies(deployment)) == ({"queue://error", "queue://price-errors"}, {})


def test_an_input_has_its_own_limit_of_bodies(deploy: Deploy) -> None:
    less = {"destination": "queue://prices", "max_body": 10, "ErrorDestination": "queue://price-errors"}
    more = {"destination": "queue://notes", "max_body": "1MiB"}
    deployment = deploy(less, more, max_body=100)
    big = customer("x" * 200)
    for queue, body in (("orders", ORDER), ("orders", big), ("prices", ORDER), ("notes", big)):
        deployment.send(queue, body)
    deployment.drain()
    assert (len(deployment.ids("archive")), deployment.configuration.paths.max_body) == (2, 1 << 20)
    assert reason(deployment, "error").endswith("more than max_body (100 bytes)")
    assert reason(deployment, "price-errors").endswith("more than max_body (10 bytes)")


def test_an_input_has_its_own_number_of_attempts(bench: Bench) -> None:
    once = {"destination": "queue://prices", "max_attempts": 1}
    deployment = bench.deploy(InputDestination=["queue://customers", once], max_attempts=2)
    ids = [deployment.send(queue, customer("a: exit 1")) for queue in ("prices", "customers")]
    found = deployment.outcomes(isolated=True)
    assert [found[identity][1].rpartition("; ")[2] for identity in ids] == [
        "it was tried once (max_attempts)",
        "it was tried 2 times (max_attempts)",
    ]


def test_an_input_has_its_own_number_of_attempts_for_what_is_rolled_back(bench: Bench) -> None:
    once = {"destination": "queue://prices", "max_attempts": 1}
    url = f"sqlite:///{bench.root}.db"
    deployment = bench.deploy(
        provider={"type": "sql", "url": url},
        more={"databases": {"own": {"url": url}}},
        subscriptions=[{**OF_CUSTOMERS[0], "transaction": "own"}],
        InputDestination=["queue://customers", once],
        ContainerManagedEvents="JMS",
        max_attempts=2,
    )
    ids = [deployment.send(queue, FAILS) for queue in ("prices", "customers")]
    found = deployment.outcomes()
    assert [found[identity][1].startswith("tried 2 times") for identity in ids] == [False, True]
    assert sorted(bench.called()) == sorted([*ids, ids[1]])


def test_an_input_has_its_own_time_for_a_conversion(bench: Bench) -> None:
    quick = {"destination": "queue://prices", "convert_timeout": "200ms", "DataHandlerMimeType": "text/slow"}
    deployment = bench.deploy(InputDestination=["queue://orders", quick], convert_timeout="60s")
    slow = handler("text/slow", reads="import threading\nthreading.Event().wait()")
    deployment.write("datahandlers.py", slow)
    file = deployment.directory / "adapter.yaml"
    deployment.write("adapter.yaml", file.read_text() + "datahandlers: ./datahandlers.py\n")
    failed, published = (deployment.send(queue, ORDER) for queue in ("prices", "orders"))
    found = deployment.outcomes(isolated=True)
    assert found[published] == ("published", "")
    assert found[failed][1].endswith("did not end within 0.2 s (convert_timeout)")


def test_an_input_has_its_own_data_handler_and_verb(deploy: Deploy, bench: Bench) -> None:
    xml = {"destination": "queue://prices", "DataHandlerMimeType": "text/xml", "DefaultVerb": "Cancel"}
    verb = {"destination": "queue://cancelled", "DefaultVerb": "Cancel"}
    deployment = deploy(xml, verb)
    ids = [deployment.send(queue, ORDER) for queue in ("orders", "cancelled")]
    ids.append(deployment.send("prices", "<Order><Id>1</Id></Order>"))
    deployment.drain()
    assert {call["id"]: call["verb"] for call in bench.calls()} == dict(
        zip(ids, ("Create", "Cancel", "Cancel"), strict=True)
    )


def test_a_reply_has_the_format_of_the_input_of_its_request(deploy: Deploy) -> None:
    xml = {"destination": "queue://prices", "DataHandlerMimeType": "text/xml"}
    deployment = deploy(
        xml,
        processes="def answer(order, event):\n    return order\n",
        subscriptions=[{"object": "Order", "process": "processes:answer", "reply": True}],
    )
    for queue, body in (("orders", ORDER), ("prices", "<Order><Id>1</Id></Order>")):
        deployment.send(queue, body, reply_to="queue://answers")
    deployment.drain()
    assert sorted(one.body[:6] for one in deployment.messages("answers")) == [b"<?xml ", b'{"Busi']


def test_a_data_handler_of_an_input_is_nearer_than_a_class_of_the_connector(bench: Bench) -> None:
    json = {"destination": "queue://prices", "DataHandlerMimeType": "application/json"}
    deployment = bench.deploy(
        InputDestination=["queue://orders", json],
        DataHandlerMimeType=None,
        DataHandlerClassName="handlers:Own",
    )
    deployment.write("handlers.py", handler("text/own", reads="raise ValueError('the class')"))
    by_class, by_type = (deployment.send(queue, ORDER) for queue in ("orders", "prices"))
    found = deployment.outcomes()
    assert found[by_type] == ("published", "")
    assert "the class" in found[by_class][1]


@rows("order, other", [("destination", "none"), ("none", "destination"), ("destination", "group")])
def test_an_input_has_its_own_order(bench: Bench, order: str, other: str) -> None:
    """With `order: destination` an event that comes later holds its input. The other input goes on."""
    first = {**OF_CUSTOMERS[0], "retry_later": {"first": "60s"}}
    inputs = ["queue://customers", {"destination": "queue://prices", "order": other}]
    deployment = bench.deploy(
        provider={"type": "memory"}, InputDestination=inputs, order=order, subscriptions=[first]
    )
    sent = {}
    for queue in ("customers", "prices"):
        sent[queue] = [deployment.send(queue, customer(name)) for name in ("a: temporary", "", "")]
    with deployment.running() as adapter:
        adapter.poll()
        adapter.poll()
        called = bench.called()
    for queue, said in (("customers", order), ("prices", other)):
        waits = said == "destination"
        assert [one for one in called if one in sent[queue]] == sent[queue][: 1 if waits else 3]


def test_the_resolved_configuration_shows_what_holds_for_each_input(bench: Bench) -> None:
    prices = {**OWN, "order": "none", "PollQuantity": 200, "max_body": "1MiB", "rate": "50/s"}
    deployment = bench.deploy(InputDestination=["queue://orders", prices], convert_timeout="20s")
    shown = as_document(deployment.configuration)
    of_connector = {
        "PollQuantity": 100,
        "parallel": 1,
        "order": "destination",
        "max_body": "16MiB",
        "unpack": "none",
        "max_attempts": 5,
        "convert_timeout": "20s",
        "ArchiveDestination": "queue://archive",
        "ErrorDestination": "queue://error",
        "UnsubscribedDestination": "queue://unsubscribed",
        "DataHandlerMimeType": "application/json",
        "DefaultVerb": "Create",
    }
    assert shown["connector"]["InputDestination"] == [
        {"destination": "queue://orders", **of_connector},
        {**of_connector, **prices},
    ]
    again = deployment.write("again.yaml", as_yaml(shown))
    assert as_document(load(again)) == shown


def test_an_input_with_an_order_of_its_own_is_shown_with_the_parallel_that_goes_with_it(bench: Bench) -> None:
    ordered = {"destination": "queue://prices", "order": "destination"}
    deployment = bench.deploy(InputDestination=["queue://orders", ordered], order="none", parallel=8)
    shown = as_document(deployment.configuration)
    inputs = shown["connector"]["InputDestination"]
    assert [(one["order"], one["parallel"]) for one in inputs] == [("none", 8), ("destination", 1)]
    assert as_document(load(deployment.write("again.yaml", as_yaml(shown)))) == shown


def test_inputs_without_keys_of_their_own_are_shown_as_they_are_written(bench: Bench) -> None:
    slow = {"destination": "queue://prices", "rate": "1/s"}
    deployment = bench.deploy(InputDestination=["queue://orders", slow])
    shown = as_document(deployment.configuration)["connector"]
    assert shown["InputDestination"] == ["queue://orders", slow]


LINES = [{"destination": "queue://prices", "selector": f"region = '{name}'"} for name in ("EU", "US")]


@rows(
    "inputs, mistake",
    [
        ([{**OWN, "ErrorDestination": "queue://orders"}], "the InputDestination too"),
        ([{**OWN, "ErrorDestination": "topic://news"}], "a copy that nobody subscribes to is lost"),
        ([{**OWN, "ArchiveDestination": "queue://error"}], "queue://error is the ErrorDestination too"),
        ([{**OWN, "DataHandlerMimeType": "text/xmll"}], "did you mean 'text/xml'?"),
        ([{**OWN, "DefaultVerb": "Creat"}], "did you mean 'Create'?"),
        ([{**OWN, "keep_error": "7d"}], "expected it under connector"),
        ([{**LINES[0], "order": "none"}, LINES[1]], "one order for all inputs of a destination"),
    ],
)
def test_a_mistake_in_a_key_of_an_input_is_named(
    bench: Bench, inputs: list[dict[str, Any]], mistake: str
) -> None:
    deployment = bench.deploy(InputDestination=["queue://orders", *inputs])
    with pytest.raises(ConfigurationError) as caught:
        load(deployment.directory / "adapter.yaml", thorough=True)
    (problem,) = (str(one) for one in caught.value.problems if not one.warning)
    assert mistake in problem
    assert "connector.InputDestination[" in problem


def test_destinations_of_every_input_are_as_good_as_those_of_the_connector(bench: Bench) -> None:
    deployment = bench.deploy(
        InputDestination=[OWN],
        ArchiveDestination=None,
        ErrorDestination=None,
        UnsubscribedDestination=None,
        keep_error="7d",
    )
    deployment.send("prices", "{")
    deployment.drain()
    assert copies(deployment).keys() == {"price-errors"}


def test_the_order_of_an_input_needs_a_restart(bench: Bench) -> None:
    deployment = bench.deploy(InputDestination=["queue://orders", "queue://prices"])
    before = deployment.configuration
    document = yaml.safe_load((deployment.directory / "adapter.yaml").read_text())
    document["connector"]["InputDestination"][1] = {"destination": "queue://prices", "order": "none"}
    after = load(deployment.write("after.yaml", yaml.safe_dump(document)))
    with pytest.raises(ReloadRefused, match="order of queue://prices"):
        check_changes(before, after)
