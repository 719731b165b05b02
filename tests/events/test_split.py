"""One message with many objects: each is an event of its own, and all are settled together."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.events.outcome import join_names, split_names
from tests.events.conftest import SPLIT, Bench, EventDeployment

A = {"object": "Customer", "process": "processes:a", "name": "a"}
B = {"object": "Customer", "process": "processes:b", "name": "b"}
QUEUE = {"object": "Customer", "destination": "queue://crm", "name": "crm"}


def deploy(bench: Bench, *subscriptions: dict[str, Any], **more: Any) -> EventDeployment:
    return bench.deploy(
        subscriptions=subscriptions, objects=SPLIT, DataHandlerMimeType="application/jsonl", **more
    )


def lines(*names: str, kind: str = "Customer") -> str:
    records = [
        {"BusinessObject": kind, "CustomerId": str(number), "Name": name}
        for number, name in enumerate(names, 1)
    ]
    return "".join(f"{json.dumps(record)}\n" for record in records)


def test_each_record_is_an_event_of_its_own(bench: Bench) -> None:
    deployment = deploy(bench, A, QUEUE)
    deployment.drop("orders", lines("x", "y", "z"), "4.1.T")
    assert deployment.outcomes() == {"ID:1": ("published", "")}
    assert [(call["id"], call["values"]["Name"], call["count"]) for call in bench.calls()] == [
        (f"ID:1#{number}", name, 1) for number, name in enumerate("xyz", 1)
    ]
    assert {call["values"]["Meta"]["MessageID"] for call in bench.calls()} == {"ID:1"}
    sent = [message.properties["connector_event_id"] for message in deployment.messages("crm")]
    assert sorted(sent) == ["ID:1#1", "ID:1#2", "ID:1#3"]
    assert len(deployment.messages("archive")) == 1
    assert deployment.properties("archive", "ID:1")["connector_delivered"] == "a#1-3"


def test_an_error_and_what_nobody_wants_name_the_record(bench: Bench) -> None:
    deployment = deploy(bench, A, QUEUE)
    unwanted = '{"BusinessObject": "Order", "Id": "7"}\n'
    deployment.drop("orders", lines("x") + '{"BusinessObject": "Customer", "Age": 7}\n', "4.bad.T")
    deployment.drop("orders", "\n\n", "4.none.T")
    deployment.drop("orders", unwanted * 2, "4.unwanted.T")
    found = deployment.outcomes()
    assert found["ID:bad"] == ("failed", "record 2: Customer: CustomerId: required, but not set")
    assert found["ID:none"][0] == "failed"
    assert "record" in found["ID:none"][1] or "empty" in found["ID:none"][1]
    reason = "record 1: no subscription wants Order.Create; record 2: no subscription wants Order.Create"
    assert found["ID:unwanted"] == ("unsubscribed", reason)
    assert (bench.calls(), deployment.messages("crm")) == ([], [])
    deployment.drop("orders", lines("x") + unwanted, "4.some.T")
    some = "record 2: no subscription wants Order.Create"
    assert deployment.outcomes() == {"ID:some": ("published", some)}
    assert deployment.properties("archive", "ID:some")["connector_reason"] == some


def test_a_process_that_fails_for_a_record_fails_the_message_until_it_is_repaired(bench: Bench) -> None:
    deployment = deploy(bench, A, B, QUEUE)
    deployment.drop("orders", lines("x", "b: fail no stock", "z"), "4.1.T")
    kind, reason = deployment.outcomes()["ID:1"]
    assert (kind, reason.startswith("record 2: b: ValueError: no stock (processes.py:")) == ("failed", True)
    assert [(call["who"], call["id"]) for call in bench.calls()] == [
        (who, f"ID:1#{number}") for number in (1, 2, 3) for who in "ab"
    ]
    assert deployment.messages("crm") == []
    delivered = deployment.properties("error", "ID:1")["connector_delivered"]
    assert set(split_names(delivered)) == {"a#1", "a#2", "a#3", "b#1", "b#3"}
    deployment.move("error", "orders", lines("x", "y", "z"))
    assert deployment.outcomes() == {"ID:1": ("published", "")}
    assert [(call["who"], call["values"]["Name"]) for call in bench.calls()][6:] == [("b", "y")]
    assert len(deployment.messages("crm")) == 3


@pytest.mark.process
def test_a_worker_that_dies_at_a_record_runs_the_message_again(bench: Bench) -> None:
    deployment = deploy(bench, A, QUEUE)
    deployment.drop("orders", lines("x", "a: exit-once 3", "z"), "4.1.T")
    assert deployment.outcomes(isolated=True) == {"ID:1": ("published", "")}
    assert bench.deliveries() == [("ID:1#1", 1), ("ID:1#2", 1), ("ID:1#1", 2), ("ID:1#2", 2), ("ID:1#3", 2)]
    assert len(deployment.messages("crm")) == 3


LABELS = st.lists(
    st.one_of(
        st.text(st.characters(exclude_characters="#"), min_size=1, max_size=5),
        st.builds("{}#{}".format, st.sampled_from(["a", "b;", "%c"]), st.integers(1, 30)),
    ),
    max_size=40,
    unique=True,
)


@given(names=LABELS)
def test_names_of_records_are_joined_and_split_again(names: list[str]) -> None:
    assert sorted(split_names(join_names(names))) == sorted(names)


def test_many_records_are_one_short_part() -> None:
    assert join_names([f"store#{number}" for number in range(1, 100_001)]) == "store#1-100000"
    assert split_names("store#1-999999999999") == ("store#1-999999999999",)
