"""A whole adapter over a broker: workers in processes of their own, without Java.

The broker is a stand-in in this process, because no server can be started here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from connector.errors import CapabilityError
from connector.messaging.message import Message
from connector.status import ReturnCode
from connector.testing.deployment import Deployment, InProcessAdapter
from connector.testing.pipeline import InProcessPipeline
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, ids, pending, running, seen, send, stored
from tests.events.conftest import serving
from tests.waiting import beside, wait_for


def drain_again(adapter: InProcessAdapter) -> None:
    """Drains with a new connection."""
    adapter.stop()
    adapter.start()
    adapter.drain()


def break_connections(provider: LentProvider) -> None:
    for connection in list(provider.broker.connections):
        connection.close()


def test_every_event_gets_its_copy_and_what_is_sent_with_it(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    sent = send(provider, "", "fail", "")
    urgent = send(provider, "", queue="urgent")
    unwanted = send(provider, "", kind="Order")
    adapter.drain()
    assert stored(deployment) == ["0 1", "0 1", "2 1"]
    assert sorted(map(str, ids(provider, "archive"))) == sorted([sent[0], sent[2], *urgent])
    assert (ids(provider, "error"), ids(provider, "unsubscribed")) == ([sent[1]], unwanted)
    (error,) = seen(provider, "error")
    assert str(error.properties["connector_reason"]).startswith("store: ValueError: as you wish")
    assert len(ids(provider, "crm")) == 3
    assert (ids(provider, "customers"), ids(provider, "urgent")) == ([], [])
    assert adapter.summary.as_dict()["failed"] == 1


def test_a_message_whose_process_is_not_active_waits_in_its_queue_and_is_not_counted(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    sent = send(provider, "", "sleep", "")
    refused = ReturnCode.APPRESPONSETIMEOUT, "store: NotActive: asleep"
    report = adapter.poll()
    assert (report.code, report.reason) == refused
    assert ids(provider, "customers") == sent  # the broker gives back all messages of the transaction
    assert adapter.poll().settled == 1  # the first message, alone and without a call
    for _ in range(7):  # more often than max_attempts
        report = adapter.poll()
        assert (report.code, report.reason) == refused
        assert ids(provider, "customers") == sent[1:]
    counts = [one.message.delivery_count for one in provider.broker.waiting("customers")]
    assert counts == [9, 3], "what waits behind it is not delivered with it"
    deployment.write("awake", "")
    adapter.drain()
    assert stored(deployment) == ["0 1", "1 1", "2 1"]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert len(ids(provider, "crm")) == 3


def test_a_message_that_comes_twice_is_published_once(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    (identity,) = send(provider, "")
    (message,) = provider.broker.waiting("customers")
    again = message.message.copy(message.message.body)
    adapter.drain()
    provider.broker.add("customers", again)
    adapter.drain()
    (copy,) = provider.broker.waiting("archive")[:1]
    by_hand = copy.message.copy(copy.message.body)  # its id is another one at the broker
    assert by_hand.message_id != identity
    provider.broker.add("customers", by_hand)
    adapter.drain()
    assert stored(deployment) == ["0 1"]
    assert ids(provider, "archive") == [identity] * 3
    outcomes = [copy.properties["connector_outcome"] for copy in seen(provider, "archive")]
    assert outcomes == ["published", "duplicate", "duplicate"]
    assert len(ids(provider, "crm")) == 1


def test_a_worker_that_ends_costs_its_own_event_one_delivery_and_no_other(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    sent = send(provider, "", "end", "")
    adapter.drain()
    assert stored(deployment) == ["0 1", "1 2", "2 1"]
    assert ids(provider, "archive") == sent


def test_an_event_that_was_published_and_not_committed_is_settled_from_the_journal(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    sent = send(provider, "", "")
    provider.broker.refused.add("archive")
    assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
    assert (stored(deployment), ids(provider, "archive"), ids(provider, "crm")) == (["0 1", "1 1"], [], [])
    assert (ids(provider, "customers"), ids(provider, "error")) == (sent, [])
    assert not pending(provider)
    provider.broker.refused.clear()
    drain_again(adapter)
    assert stored(deployment) == ["0 1", "1 1"]
    assert (ids(provider, "archive"), len(ids(provider, "crm"))) == (sent, 2)


def test_a_connection_that_breaks_before_the_adapter_is_ready_is_made_anew(
    tmp_path: Path, provider: LentProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = send(provider, "")

    def start(pipeline: InProcessPipeline) -> None:
        monkeypatch.undo()
        pipeline.start()
        break_connections(provider)

    monkeypatch.setattr(InProcessPipeline, "start", start)
    configuration = deploy(tmp_path, RestartRetryCount=9, RestartRetryInterval=0).configuration
    adapter = InProcessAdapter(configuration, provider)
    adapter.start(waits=True)
    try:
        adapter.drain()
    finally:
        adapter.stop()
    assert ids(provider, "archive") == sent


@pytest.mark.parametrize("answer", ["done", "undone", "late done", "late undone"])
def test_a_commit_without_an_answer_is_neither_lost_nor_repeated(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter, answer: str
) -> None:
    sent = send(provider, "", "")
    copies = [one.message.copy(one.message.body) for one in provider.broker.waiting("customers")]
    provider.broker.lost_answers.append(answer.split()[0])
    assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
    drain_again(adapter)
    if answer.startswith("late"):
        assert ids(provider, "archive") == []
        late = [again.copy(again.body) for again in copies]
        for message in late:  # sent again with the same ids
            message.timestamp += 1
            provider.broker.add("customers", message)
        adapter.poll()
        assert (stored(deployment), ids(provider, "archive")) == (["0 1", "1 1"], [])
        provider.broker.late[0].end_late(commits=answer == "late done")
        drain_again(adapter)  # looks at the commit queue, as every recovery
        sent *= 2
    assert stored(deployment) == ["0 1", "1 1"]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert len(ids(provider, "crm")) == 2
    for message in copies:
        provider.broker.add("customers", message)
    adapter.drain()
    assert stored(deployment) == ["0 1", "1 1"], "the ids are in the duplicate window"
    adapter.stop()
    (announced,) = provider.broker.waiting("connector.lent.commits")
    assert list(announced.message.properties) == ["connector_directory"]
    assert not pending(provider)


def test_messages_without_ids_are_all_published(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    """Their sender gave them the same time and content. A process ends at the first of them."""
    body = b'{"BusinessObject": "Customer", "Id": "7", "Wish": "end"}'
    for _ in range(3):
        provider.broker.add("customers", Message(body, timestamp=5))
    adapter.drain()
    assert stored(deployment) == ["7 1", "7 1", "7 2"]
    assert len(ids(provider, "archive")) == 3


def test_a_poll_goes_on_where_a_transaction_was_full(root: Path, deployment: Deployment) -> None:
    provider = LentProvider(root / "state", batch=2)
    sent = send(provider, *[""] * 7)
    with running(deployment, provider) as adapter:
        assert adapter.poll().more
        adapter.drain()
    assert ids(provider, "archive") == sent


def test_without_order_what_comes_later_runs_beside_a_slow_event(
    provider: LentProvider, tmp_path: Path
) -> None:
    deployment = deploy(tmp_path, order="none", PollFrequency=10)
    with running(deployment, provider) as adapter:
        adapter.start()
        send(provider, "wait")
        with serving(adapter):
            wait_for((deployment.directory / "waits").exists)
            for number in (1, 2):
                send(provider, "")
                wait_for(lambda: len(ids(provider, "archive")) == number)  # noqa: B023, called at once
            (deployment.directory / "go").touch()
            wait_for(lambda: len(ids(provider, "archive")) == 3)


# -- a broker that refuses the copy of one message holds up that message only -------------------------------


@pytest.mark.parametrize(
    ("refusing", "position"), [("archive", 0), ("archive", 9), ("archive", 11), ("crm", 1)]
)
def test_a_refused_copy_or_message_of_a_subscription_fails_its_event_and_no_other(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter, refusing: str, position: int
) -> None:
    wishes = [""] * 12
    wishes[position] = "odd"
    sent = send(provider, *wishes)
    provider.broker.refuses = lambda queue, message: queue == refusing and b"odd" in message.body
    assert adapter.drain().code is ReturnCode.SUCCEED
    assert ids(provider, "error") == [sent[position]]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(set(sent) - {sent[position]})
    assert stored(deployment) == sorted(f"{number} 1" for number in range(12)), "each was called once"
    (error,) = seen(provider, "error")
    assert "the broker refuses a message of its settlement" in str(error.properties["connector_reason"])
    assert error.properties["connector_delivered"] == "store"
    assert b"odd" in error.body
    assert (len(ids(provider, "crm")), ids(provider, "customers")) == (11, [])


@pytest.mark.parametrize("position", [0, 11])
def test_a_refused_copy_of_a_message_in_progress_holds_up_no_other(
    tmp_path: Path, provider: LentProvider, position: int
) -> None:
    deployment = deploy(tmp_path, InProgressDestination="queue://progress", DuplicateEventElimination=False)
    wishes = [""] * 12
    wishes[position] = "odd"
    sent = send(provider, *wishes)
    for stored_message in provider.broker.waiting("customers"):
        if b"odd" in stored_message.message.body:
            stored_message.message.set_property("odd", 1)
    provider.broker.refuses = lambda queue, message: queue == "archive" and "odd" in message.properties
    with running(deployment, provider) as adapter:
        assert adapter.drain().code is ReturnCode.SUCCEED
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert stored(deployment) == sorted(f"{number} 1" for number in range(12)), "each was called once"
    (bare,) = [one for one in seen(provider, "archive") if b"odd" in one.body]
    assert "the broker refuses the whole copy" in str(bare.properties["connector_reason"])
    assert (ids(provider, "customers"), ids(provider, "progress")) == ([], [])


def test_a_copy_whose_properties_no_queue_takes_keeps_its_body(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    send(provider, "odd", "")
    (stored_message, _) = provider.broker.waiting("customers")
    stored_message.message.set_property("odd", 1)
    provider.broker.refuses = lambda queue, message: "odd" in message.properties and queue != "customers"
    assert adapter.drain().code is ReturnCode.SUCCEED
    (error,) = seen(provider, "error")
    assert b"odd" in error.body
    assert "odd" not in error.properties
    assert str(error.properties["connector_reason"]).count("refuses a message") == 2
    assert len(ids(provider, "archive")) == 1


def test_a_message_that_cannot_even_fail_stays_and_the_connection_lives(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    sent = send(provider, "odd")
    provider.broker.refuses = lambda queue, message: queue != "connector.lent.commits" and bool(message.body)
    connections = len(provider.broker.connections)
    for _ in range(5):
        assert adapter.drain().code is ReturnCode.APPRESPONSETIMEOUT
    assert ids(provider, "customers") == sent
    provider.broker.refuses = lambda queue, message: False
    adapter.drain()
    assert ids(provider, "customers") == []
    assert len(ids(provider, "archive") + ids(provider, "error")) == 1
    assert stored(deployment) == ["0 1"]
    used = [one for one in provider.broker.connections[:connections] if not one.ended]
    assert used, "the connection was not restarted"


# -- several instances ---------------------------------------------------------------------------------------


def test_two_instances_share_what_waits_and_settle_each_message_once(
    tmp_path: Path, provider: LentProvider
) -> None:
    sent = [identity for _ in range(10) for identity in send(provider, "", "fail", "", "", "")]

    def drain(name: str) -> None:
        configuration = deploy(tmp_path / name, instance=name).configuration
        with InProcessAdapter(configuration, provider, isolated=True, parallelism=2) as adapter:
            adapter.drain()

    for draining in [beside(drain, name) for name in ("one", "two")]:
        draining.result(120)
    assert sorted(map(str, ids(provider, "archive") + ids(provider, "error"))) == sorted(sent)
    assert (len(ids(provider, "crm")), ids(provider, "customers")) == (40, [])


def test_a_done_event_whose_message_comes_to_another_instance_does_not_run_again(
    tmp_path: Path, deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    sent = send(provider, "", "sleep", "")
    assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
    other = deploy(tmp_path / "two", instance="two")
    other.write("awake", "")
    with running(other, provider) as second:
        second.drain()
    assert sorted(stored(deployment) + stored(other)) == ["0 1", "1 1", "2 1"]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert len(ids(provider, "crm")) == 3


def test_a_message_of_a_running_event_waits_until_the_other_instance_has_its_outcome(
    tmp_path: Path, deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    """The connection of the first instance breaks while its process works."""
    sent = send(provider, "", "wait")
    first = beside(adapter.poll)
    wait_for((deployment.directory / "waits").exists, what="the process of the second event waits")
    break_connections(provider)
    other = deploy(tmp_path / "two", instance="two")
    other.write("go", "")
    with running(other, provider) as second:
        assert second.poll().settled == 0
        assert stored(other) == []
        deployment.write("go", "")
        first.result(120)
        adapter.stop()
        adapter.start()
        second.drain()
    adapter.drain()
    assert sorted(stored(deployment) + stored(other)) == ["0 1", "1 1"]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)


def test_instances_share_one_state_directory(
    root: Path, tmp_path: Path, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    adapter.drain()
    elsewhere = LentProvider(root / "elsewhere")
    elsewhere.broker = provider.broker
    other = deploy(tmp_path / "two", instance="two")
    with (
        pytest.raises(CapabilityError, match=r"state\.directory"),
        InProcessAdapter(other.configuration, elsewhere),
    ):
        pass
    adapter.stop()
    adapter.start()
