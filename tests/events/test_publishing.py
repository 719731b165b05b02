"""Publishing: every subscription that matches gets the event, and what their answers come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connector.events.outcome import split_names
from connector.operate.lives import read_life
from connector.status import ReturnCode
from tests.events.conftest import A_AND_B, Bench, customer, logged, placeless
from tests.tables import Table, rows

A_AND_QUEUE = (
    {"object": "Customer", "process": "processes:a", "name": "a"},
    {"object": "Customer", "destination": "queue://crm", "name": "crm"},
)


NOBODY = "a: unsubscribed too small; b: unsubscribed"


def test_what_the_answers_of_two_processes_come_to(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    answers: dict[str, tuple[str, str, str, str | None]] = {
        "both return": ("", "published", "", "a;b"),
        "one raises": ("a: fail no stock", "failed", "a: ValueError: no stock", "b"),
        "both raise": ("a: fail x; b: fail y", "failed", "a: ValueError: x; b: ValueError: y", None),
        "one does not want it": ("a: unsubscribed", "published", "", "b"),
        "nobody wants it": (NOBODY, "unsubscribed", "a: Unsubscribed: too small; b: Unsubscribed", None),
        "one does not want it, one fails": ("a: unsubscribed; b: fail x", "failed", "b: ValueError: x", None),
        "temporary, no retries": ("b: temporary busy", "failed", "b: TemporaryFailure: busy", "a"),
        "SystemExit is an exception": ("a: interpreter 3", "failed", "a: SystemExit: 3", "b"),
        "an exception that cannot be shown": ("b: mute", "failed", "b: Mute", "a"),
    }
    deployment = bench.deploy(subscriptions=A_AND_B)
    ids = [f"ID:{number}" for number in range(len(answers))]
    deployment.drop_customers(**{str(n): row[0] for n, row in enumerate(answers.values())})
    found = deployment.outcomes()
    history = deployment.provider.existing_state("test").history()
    with Table() as table:
        for identity, (name, (_, kind, reason, delivered)) in zip(ids, answers.items(), strict=True):
            with table.row(name):
                outcome, said = found[identity]
                assert (outcome, placeless(said)) == (kind, reason)
                queue = {"published": "archive", "failed": "error"}.get(kind, kind)
                properties = deployment.properties(queue, identity)
                assert properties.get("connector_delivered") == delivered
                assert properties.get("connector_reason", "") == said
                if kind != "published":
                    lines = logged(caplog, "an event was not published")
                    assert [one["delivered"] for one in lines if one["message_id"] == identity] == [delivered]
                    (told,) = read_life(history, identity).events
                    assert (";".join(told.as_dict().get("delivered", ())) or None) == delivered
    assert bench.called("a") == bench.called("b") == ids
    lines = logged(caplog, "a business process has failed")
    assert [line["message_id"] for line in lines] == [ids[n] for n in (1, 2, 2, 5, 6, 7, 8)]


# -- repair ------------------------------------------------------------------------------------------


def test_a_repaired_event_keeps_who_has_confirmed_and_the_event_before_it(bench: Bench) -> None:
    """Also when the repair goes wrong. What waits for the others to confirm is not sent."""
    subscriptions = ({**A_AND_B[0], "name": "a;x"}, A_AND_B[1], A_AND_QUEUE[1])
    deployment = bench.deploy(subscriptions=subscriptions, max_body="1KiB")
    before = {"connector_event_id": "ID:far"}
    identity = deployment.send("customers", customer("b: fail x"), properties=before)
    with deployment.running() as adapter:
        adapter.poll()
        for body, words in (("{", "no JSON"), (" " * 2000, "max_body"), (customer("b: fail y"), "y")):
            deployment.move("error", "customers", body)
            adapter.poll()
            properties = deployment.properties("error", identity)
            assert split_names(properties["connector_delivered"]) == ("a;x",)
            assert (words in properties["connector_reason"], properties["connector_event_id"]) == (
                True,
                "ID:far",
            )
            assert deployment.names("crm") == deployment.names("crm", "working") == []
        assert properties["connector_attempts"] == 2  # two of the four were delivered to somebody
        deployment.move("error", "customers", customer())
        adapter.poll()
    assert (bench.callers(), len(deployment.names("crm"))) == (["a", "b", "b", "b"], 1)
    properties = deployment.properties("archive", identity)
    told = {"attempts": 3, "outcome": "published", "event_id": "ID:far", "reason": None, "kind": None}
    told |= dict.fromkeys(("object", "verb", "subscription", "place"))
    assert {name: properties.get(f"connector_{name}") for name in told} == told


def test_an_archived_event_moved_back_is_processed_anew_by_all(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B)
    deployment.drop("customers", customer(), "4.1.T")
    with deployment.running() as adapter:
        adapter.poll()
        deployment.move("archive", "customers")
        adapter.poll()
    assert bench.callers() == ["a", "b", "a", "b"]
    assert deployment.properties("archive", "ID:1")["connector_attempts"] == 1


def test_what_another_application_or_a_sender_says_of_a_message_calls_everybody(bench: Bench) -> None:
    """Only what this application has written spares a subscription, and counts."""
    said = {
        "connector_delivered": "a;b",
        "connector_outcome": "failed",
        "connector_time": "2026-01-01T00:00:00Z",
        "connector_attempts": 40,
    }
    later = {**said, "connector_outcome": "later", "connector_retries": "a=9;b=9"}
    messages: list[tuple[dict[str, Any], list[str]]] = [
        (said, ["a", "b"]),
        ({**later, "connector_application": "another"}, ["a", "b"]),
        ({"connector_delivered": "a", "connector_application": "test"}, ["b"]),
        ({**said, "connector_application": "test"}, []),
    ]
    deployment = bench.deploy(subscriptions=A_AND_B)
    ids = [deployment.send("customers", customer(), properties=one) for one, _ in messages]
    deployment.drain()
    with Table() as table:
        for identity, (properties, called) in zip(ids, messages, strict=True):
            with table.row(properties):
                calls = [one for one in bench.calls() if one["id"] == identity]
                assert [one["who"] for one in calls] == called
                assert {(one["count"], one["retries"]) for one in calls} <= {(1, 0)}
                copy = deployment.properties("archive", identity)
                assert "connector_application" not in copy
                assert copy["connector_attempts"] == (1 if called else 40)


# -- destinations ------------------------------------------------------------------------------------


@rows(
    "options, place, said, body",
    [
        ({"mime_type": "text/xml"}, None, ("CUST_OUT", "c", {}), b"<Customer"),
        ({"format": "OWN"}, None, ("OWN", "c", {}), b'{"Bus'),
        ({"mime_type": "application/json; charset=UTF-8", "format": "2"}, "JMSType", ("2", "c", {}), b'{"B'),
        ({"format": "OWN"}, "JMSCorrelationID", (None, "OWN", {}), b"{"),
        ({"format": "OWN"}, "kind", (None, "c", {"kind": "OWN"}), b"{"),
    ],
)
def test_format_and_mime_type_are_those_of_the_subscription_and_said_where_the_connector_wants_it(
    bench: Bench, options: dict[str, str], place: str | None, said: tuple[object, ...], body: bytes
) -> None:
    deployment = bench.deploy(subscriptions=[{**A_AND_QUEUE[1], **options}], MessageFormatProperty=place)
    deployment.send("customers", customer(), correlation_id="c")
    deployment.drain()
    (sent,) = deployment.messages("crm")
    own = {key: value for key, value in sent.properties.items() if not key.startswith("connector_")}
    assert (sent.type, sent.correlation_id, own) == said
    assert body in sent.body


def test_a_destination_that_cannot_be_prepared_gives_the_event_back(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=A_AND_QUEUE)
    deployment.drop("customers", customer(), "4.1.T")
    with deployment.running() as adapter:
        blocked = Path(deployment.folders("crm").working)
        blocked.rmdir()
        blocked.write_text("in the way")
        report = adapter.poll()
        assert report.code is ReturnCode.APPRESPONSETIMEOUT
        assert report.provider_failed
        assert "queue://crm" in report.reason
        blocked.unlink()
        blocked.mkdir()
        assert adapter.poll().code is ReturnCode.SUCCEED
    assert bench.called("a") == ["ID:1"]
    assert len(deployment.messages("crm")) == 1


@rows("durability", ["none", "batch"])
def test_what_a_task_that_stopped_early_has_prepared_does_no_harm(bench: Bench, durability: str) -> None:
    deployment = bench.deploy(subscriptions=A_AND_QUEUE, provider={"durability": durability})
    for n, name in enumerate(["", "a: inactive-once", ""]):
        deployment.drop("customers", customer(name), f"4.{n}.T")
    with deployment.running() as adapter:
        assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
        assert len(deployment.messages("crm")) == 1
        deployment.write("woken", "")
        assert adapter.poll().code is ReturnCode.SUCCEED
    assert len(deployment.messages("crm")) == 3
