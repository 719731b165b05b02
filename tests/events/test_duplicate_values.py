"""Duplicates by values of the object, or by the body (``duplicate_key``), through poll cycles."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.config.loading import check
from connector.errors import ConfigurationError, Problem
from connector.events.run.event_keys import object_keys
from connector.messaging.claim import value_key
from connector.messaging.destination import parse_destination
from connector.messaging.state_store import PublishedIds
from connector.service.assembly import make_provider
from connector.testing.definitions import definitions_of
from connector.testing.deployment import InProcessAdapter
from tests.cli.in_process import Commands
from tests.events.conftest import OBJECTS, SPLIT, Bench, EventDeployment, handler, outcomes_of, with_rules
from tests.events.test_retry_later import SOON, drain
from tests.tables import rows

BY_ID = "{CustomerId}"
CUSTOMERS = parse_destination("queue://customers")
NO_RULES = with_rules("  Note_Create: {InputFormat: NOTE}\n")
BEFORE = "it was published before: duplicate_key {}".format


def body(number: object = "1", name: str | None = "", **more: object) -> str:
    """A customer, whose name says what its processes do."""
    values = {"BusinessObject": "Customer", "CustomerId": number, "Name": name, **more}
    return json.dumps({key: value for key, value in values.items() if value is not None})


def lines(*numbers: int, **more: str) -> str:
    """Customers, each on a line. Those that ``more`` names do what it says."""
    return "\n".join(body(str(number), more.get(f"c{number}", "")) for number in numbers)


def deploy(bench: Bench, key: str = BY_ID, **settings: Any) -> EventDeployment:
    defaults = {"order": "none", "InputDestination": "queue://customers", "duplicate_key": key}
    return bench.deploy(**{**defaults, **settings})


def deploy_split(bench: Bench, **settings: Any) -> EventDeployment:
    return deploy(bench, objects=SPLIT, DataHandlerMimeType="application/jsonl", **settings)


def drop(deployment: EventDeployment, **bodies: str | bytes) -> None:
    """Drops messages by the last part of their id, in this order."""
    for identity, text in bodies.items():
        deployment.drop("customers", text, f"4.{identity}.T")


def kinds(adapter: InProcessAdapter) -> Counter[str]:
    return Counter(str(kind) for kind, _ in outcomes_of(adapter).values())


def numbers(bench: Bench, who: str = "a") -> list[str]:
    """The customers that a process was called with."""
    return [call["values"]["CustomerId"] for call in bench.calls() if call["who"] == who]


@rows("quantity", [1, 2, 100])
@rows("parallelism", [1, 3])
@rows("order, parallel", [("none", 1), ("destination", 1), ("none", 4)])
def test_two_messages_with_one_key_are_published_once(
    bench: Bench, quantity: int, parallelism: int, order: str, parallel: int
) -> None:
    """In one batch, and in two batches side by side."""
    bench = bench.again()
    deployment = deploy(bench, PollQuantity=quantity, order=order, parallel=parallel)
    drop(deployment, a=body("1"), b=body("2"), c=body("1", Age=3), d=body("2"), e=body("3"))
    adapter = deployment.drain(parallelism=parallelism)
    assert kinds(adapter) == {"published": 3, "duplicate": 2}
    assert sorted(numbers(bench)) == ["1", "2", "3"]
    copies = deployment.messages("archive")
    reasons = {one.properties.get("connector_reason") for one in copies}
    assert reasons == {None, BEFORE("1"), BEFORE("2")}
    assert Counter(one.properties["connector_outcome"] for one in copies) == {"published": 3, "duplicate": 2}
    assert deployment.names("customers") == deployment.names("customers", "processing") == []


def test_a_key_counts_over_batches_and_restarts_on_each_store(
    bench: Bench, section: Mapping[str, str]
) -> None:
    deployment = deploy(bench, provider=section)
    for again in range(2):
        with deployment.running() as adapter:
            for number in "121":
                deployment.send("queue://customers", body(number))
                adapter.drain()
        if not again and section.get("type") == "memory":
            break
    assert numbers(bench) == ["1", "2"]


WHERE: Mapping[str, Mapping[str, Any]] = {
    "connector": {"duplicate_key": BY_ID},
    "input": {
        "duplicate_key": None,
        "InputDestination": [{"destination": "queue://customers", "duplicate_key": BY_ID}],
    },
    "input in place of the connector": {
        "duplicate_key": "body",
        "InputDestination": [{"destination": "queue://customers", "duplicate_key": BY_ID}],
    },
    "two inputs": {"InputDestination": ["queue://customers", "queue://orders"]},
    "elimination": {"DuplicateEventElimination": True},
}


@rows("where", WHERE)
def test_a_key_counts_within_one_input_and_is_that_of_the_input(bench: Bench, where: str) -> None:
    bench = bench.again()
    deployment = deploy(bench, **WHERE[where])
    drop(deployment, a=body("1"), b=body("1", Age=2), c=body("2"))
    deployment.drop("orders", body("1"), "4.d.T")
    deployment.drain()
    assert sorted(numbers(bench)) == ["1", "1", "2"] if where == "two inputs" else ["1", "2"]


def test_an_id_counts_beside_the_key(bench: Bench) -> None:
    deployment = deploy(bench)
    deployment.drop("customers", body("1"), "4.x.T....copy1")
    deployment.drop("customers", body("2"), "4.x.T....copy2")
    deployment.drain()
    found = Counter(one.properties["connector_outcome"] for one in deployment.messages("archive"))
    assert found == {"published": 1, "duplicate": 1}
    assert numbers(bench) == ["1"]


KEYS: Mapping[str, tuple[str, list[str]]] = {
    "several attributes": ("{CustomerId}-{Age}", [body("1", Age=1), body("1", Age=2), body("1", Age=1)]),
    "a verb": (BY_ID, [body("1"), body("1", Verb="Update"), body("1", Name="other")]),
    "a header": ("{Meta.Priority}/{CustomerId}", [body("1"), body("2"), body("1", Name="other")]),
    "the body": ("body", [body("1"), body("1", Name="other"), body("1")]),
}


@rows("what", KEYS)
def test_a_key_is_what_its_template_makes_of_the_object(bench: Bench, what: str) -> None:
    bench = bench.again()
    key, bodies = KEYS[what]
    deployment = deploy(bench, key, objects=NO_RULES)
    drop(deployment, **dict(zip("abc", bodies, strict=True)))
    assert kinds(deployment.drain()) == {"published": 2, "duplicate": 1}
    assert bench.called() == ["ID:a", "ID:b"]


def test_a_packed_body_counts_as_what_it_holds(bench: Bench) -> None:
    deployment = deploy(bench, "body", unpack="gzip")
    data = body("1").encode()
    drop(deployment, a=gzip.compress(data, 1, mtime=1), b=gzip.compress(data, 9, mtime=2))
    assert kinds(deployment.drain()) == {"published": 1, "duplicate": 1}


def test_an_object_without_its_key_has_failed(bench: Bench) -> None:
    deployment = deploy(bench, "{Name}")
    drop(deployment, null=body("1", None), blank=body("2", " "), some=body("3", "b: fail"))
    reasons = {one: reason for one, (_, reason) in outcomes_of(deployment.drain()).items()}
    assert reasons["ID:null"] == "duplicate_key needs Name, which is not set"
    assert reasons["ID:blank"] == "duplicate_key needs Name, which is blank"
    assert (numbers(bench), deployment.ids("archive")) == (["3"], ["ID:some"])
    assert deployment.properties("error", "ID:null")["connector_kind"] == "malformed"


def test_what_nobody_wants_needs_no_key(bench: Bench) -> None:
    a = {"object": "Customer", "verbs": ["Create"], "process": "processes:a"}
    deployment = deploy(bench, "{Name}", subscriptions=[a], objects=NO_RULES)
    drop(deployment, a=body("1", None, Verb="Update"), b="{", c=body("1", "x"))
    found = outcomes_of(deployment.drain())
    assert [str(found[f"ID:{one}"][0]) for one in "abc"] == ["unsubscribed", "failed", "published"]


@rows("order", ["none", "destination"])
@rows("first", ["a: fail", "a: unsubscribed"])
def test_an_event_that_is_not_published_does_not_keep_its_key(bench: Bench, order: str, first: str) -> None:
    bench = bench.again()
    deployment = deploy(bench, order=order)
    drop(deployment, a=body("1", first), b=body("1"), c=body("1"))
    adapter = deployment.drain()
    assert kinds(adapter)["published"] == kinds(adapter)["duplicate"] == 1
    assert bench.called() == ["ID:a", "ID:b"]
    assert outcomes_of(adapter)["ID:c"][1] == BEFORE("1")


def test_a_copy_waits_for_what_comes_again_later(bench: Bench) -> None:
    a = {"object": "*", "process": "processes:a", "name": "a", "retry_later": SOON}
    deployment = deploy(bench, subscriptions=[a])
    with deployment.running() as adapter:
        drop(deployment, a=body("1", "a: temporary-until 1"))
        adapter.drain()
        drop(deployment, b=body("1"))
        adapter.drain()
    assert deployment.ids("archive") == []
    with deployment.running() as adapter:  # knows of the wait from the message
        drop(deployment, c=body("1"))
        adapter.drain()
    drain(deployment)
    assert set(bench.called()) == {"ID:a"}
    outcomes = Counter(one.properties["connector_outcome"] for one in deployment.messages("archive"))
    assert outcomes == {"published": 1, "duplicate": 2}


def test_the_keys_of_what_waits_are_read_at_the_start(bench: Bench) -> None:
    rules = {"first": "1h", "most": "1h"}
    a = {"object": "*", "process": "processes:a", "name": "a", "retry_later": rules}
    deployment = deploy(bench, subscriptions=[a])
    drop(deployment, a=body("1", "a: temporary-until 1"))
    deployment.drain()
    drop(deployment, b=body("1"), c=body("2"))
    deployment.drain()
    assert numbers(bench) == ["1", "2"], "the copy waits for the first one"


@contextmanager
def neighbour(deployment: EventDeployment, *digests: str) -> Iterator[PublishedIds]:
    """The window of a living neighbour, which has keys in flight."""
    provider = make_provider(deployment.configuration)
    with closing(provider.connect("test", "neighbour")) as connection:
        window = provider.state("test").window(connection.client_id, 100)
        window.reserve([value_key(CUSTOMERS, "", one) for one in digests])
        yield window


def digest_of(deployment: EventDeployment, number: str) -> str:
    """The digest of the key of a customer."""
    definitions = definitions_of(deployment.directory / "metaobjects")
    (found,) = object_keys(
        BY_ID, [(BusinessObject(definitions, "Customer", "Create", {"CustomerId": number}), "")]
    )
    return found.digest


@rows("order", ["none", "destination"])
def test_a_copy_of_what_a_neighbour_has_in_flight_goes_back_until_that_is_known(
    bench: Bench, order: str
) -> None:
    bench = bench.again()
    deployment = deploy(bench, order=order)
    digest = digest_of(deployment, "1")
    drop(deployment, w=body("3"), x=body("1"), y=body("2"))
    with neighbour(deployment, digest) as window, deployment.running() as adapter:
        for _ in range(3):
            adapter.poll()
        meanwhile = ["ID:w", "ID:y"] if order == "none" else ["ID:w"]
        assert bench.called() == meanwhile, "what is before it runs, and what is behind it waits"
        assert ("ID:x", 1) in deployment.deliveries("customers")
        window.release()
        adapter.drain()
    assert sorted(bench.called()) == ["ID:w", "ID:x", "ID:y"]


def test_records_are_duplicates_each_for_itself(bench: Bench) -> None:
    deployment = deploy_split(bench)
    drop(deployment, a=lines(1, 2), b=lines(2, 3, 3), c=lines(3, 1), d=lines(4))
    adapter = deployment.drain()
    assert sorted(numbers(bench)) == ["1", "2", "3", "4"]
    found = outcomes_of(adapter)
    twice = "its message has it twice: duplicate_key 3"
    assert found["ID:b"] == ("published", f"record 1: {BEFORE('2')}; record 3: {twice}")
    assert found["ID:c"] == ("duplicate", f"{BEFORE('3')}; {BEFORE('1')}")
    assert (found["ID:a"][0], found["ID:d"][0]) == ("published", "published")


def test_a_message_whose_record_fails_keeps_no_key(bench: Bench) -> None:
    deployment = deploy_split(bench, order="destination")
    drop(deployment, a=lines(1, 2, c2="a: fail"), b=lines(1, 3), c=lines(3))
    found = outcomes_of(deployment.drain())
    assert [str(found[f"ID:{one}"][0]) for one in "abc"] == ["failed", "published", "published"]
    assert found["ID:b"][1] == f"record 2: {BEFORE('3')}", "it has waited"
    deployment.move("error", "customers", lines(1, 2))
    assert outcomes_of(deployment.drain())["ID:a"] == ("published", f"record 1: {BEFORE('1')}")
    assert numbers(bench) == ["1", "2", "3", "1", "2"]


READS = """
import os
text = body.decode()
mark = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mark." + text)
again = os.path.exists(mark)
open(mark, "w").close()
if text == "exit" and not again:
    os._exit(7)
if text == "late" and not again:
    raise ValueError("not yet")
number = text + (" again" if text == "changes" and again else "")
return BusinessObject(self.definitions, "Customer", "Create", {"CustomerId": number})
"""
HEAD = "from connector.businessobjects.instance import BusinessObject"


def test_a_key_that_comes_out_differently_fails_its_event(bench: Bench) -> None:
    deployment = deploy(bench, DataHandlerMimeType="text/own", more={"datahandlers": "./own.py"})
    deployment.write("own.py", handler("text/own", reads=READS, head=HEAD))
    drop(deployment, a="changes", b="late", c="same")
    found = {one: reason for one, (_, reason) in outcomes_of(deployment.drain(isolated=True)).items()}
    differently = "duplicate_key came out differently: the first conversion had"
    assert found["ID:a"] == f"{differently} another key, the second changes again"
    assert found["ID:b"] == f"{differently} no key, the second late"
    assert bench.called() == ["ID:c"]


def test_a_conversion_that_ends_its_process_runs_once_more_alone(bench: Bench) -> None:
    deployment = deploy(bench, DataHandlerMimeType="text/own", more={"datahandlers": "./own.py"})
    deployment.write("own.py", handler("text/own", reads=READS, head=HEAD))
    drop(deployment, a="exit", b="same", c="exit")
    found = outcomes_of(deployment.drain(isolated=True))
    assert Counter(str(kind) for kind, _ in found.values()) == {"published": 2, "duplicate": 1}
    assert sorted(numbers(bench)) == ["exit", "same"]


def test_nothing_is_called_before_the_keys_are_reserved(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr("connector.faults.point", lambda place: seen.append((place, len(bench.calls()))))
    deployment = deploy(bench)
    drop(deployment, a=body("1"))
    deployment.drain()
    places = [place for place, _ in seen]
    assert places.index("keys.found") < places.index("keys.reserved") < places.index("begin")
    assert {calls for place, calls in seen if place.startswith("keys.")} == {0}


def test_a_replay_says_that_it_becomes_a_duplicate_and_again_passes_the_window(bench: Bench) -> None:
    deployment = deploy(bench)
    drop(deployment, a=body("1"))
    deployment.drain()
    call = Commands(deployment.directory)
    assert call("replay", "archive", "--json").document["duplicates"] == 1
    assert call("replay", "archive", "--again", "--yes", "--json").document["moved"] == 1
    deployment.drain()
    drop(deployment, b=body("1"))
    deployment.drain()
    assert bench.called() == ["ID:a", "ID:a"]
    history = call("history", "ID:b", "--json").document["events"]
    assert [(event["what"], event["reason"]) for event in history] == [("duplicate", BEFORE("1"))]


def test_explain_shows_the_key(bench: Bench) -> None:
    deployment = deploy(bench, "{CustomerId}-{Name}")
    drop(deployment, a=body("1", "x"), b=body("2", None))
    call = Commands(deployment.directory, "explain")
    assert "duplicate_key 1-x\n" in call("a").stdout
    assert call("a", "--json").document["duplicate_key"] == "1-x"
    assert "reason: duplicate_key needs Name, which is not set" in call("b").stdout


MISTAKES: Mapping[str, tuple[Any, str]] = {
    "a typo": ("{CustomerID}", "no attribute CustomerID"),
    "a suggestion": ("{CustomerID}", "did you mean 'CustomerId'?"),
    "no brace": ("CustomerId", "expected name, body, or attributes in braces"),
    "a single brace": ("{CustomerId", "single {"),
    "no name": ("{{x}}", "names no attribute"),
    "a word": ("boddy", "did you mean 'body'?"),
    "a list": ("{Address}", "no attribute Address with a single value"),
}


@rows("what", MISTAKES)
@rows("place", ["connector", "input"])
def test_check_finds_mistakes(bench: Bench, what: str, place: str) -> None:
    bench = bench.again()
    key, expected = MISTAKES[what]
    settings: dict[str, Any] = {"key": key}
    if place == "input":
        entry = {"destination": "queue://customers", "duplicate_key": key}
        settings = {"key": BY_ID, "InputDestination": [entry]}
    with pytest.raises(ConfigurationError) as raised:
        deploy(bench, **settings).configuration  # noqa: B018
    (problem,) = [one for one in raised.value.problems if "duplicate_key" in str(one)]
    assert expected in str(problem)


def found_in(deployment: EventDeployment) -> list[Problem]:
    """What the check says of duplicate_key."""
    problems = check(deployment.directory / "adapter.yaml", {})
    return [one for one in problems if "duplicate_key" in one.path]


def test_check_knows_the_objects_that_an_input_brings(bench: Bench) -> None:
    both = [{"object": one, "process": "processes:a", "name": one} for one in ("Customer", "Order")]
    with pytest.raises(ConfigurationError, match="Order has no attribute CustomerId"):
        deploy(bench.again(), subscriptions=both, objects=NO_RULES).configuration  # noqa: B018
    deployment = deploy(bench.again(), subscriptions=both, objects=OBJECTS)
    assert not found_in(deployment)
    inputs = ["queue://customers", "queue://orders"]
    deployment = deploy(bench.again(), subscriptions=both, objects=NO_RULES, InputDestination=inputs)
    (warning,) = found_in(deployment)
    assert warning.warning
    assert "Order has no attribute CustomerId" in str(warning)
