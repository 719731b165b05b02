"""What an operator sees and does at a broker: ``receive``, the history, and whether all is well."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from connector.messaging.destination import Destination
from connector.messaging.history import History
from connector.messaging.message import Message
from connector.operate.lives import find_ids, find_now, read_all, read_life
from connector.operate.metrics import InstanceMetrics
from connector.service.observer import Observer
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import ids, seen, send, stored
from tests.cli.in_process import Answer, call
from tests.waiting import wait_for

# -- receive: a transaction settles or gives back all its messages together ----------------------------------


@pytest.mark.parametrize(
    ("options", "got", "left"),
    [
        (["--ack", "auto", "--count", "5"], ["1", "2", "3"], []),
        (["--ack", "client", "--count", "5"], ["1", "2", "3"], []),
        (["--ack", "none", "--count", "5"], ["1", "2", "3"], ["1", "2", "3"]),
        (["--ack", "rollback", "--count", "5"], ["1", "2", "3"], ["1", "2", "3"]),
        (["--count", "2"], ["1", "2"], ["3"]),
        (["--selector", "n = 2"], [], ["1", "2", "3"]),
    ],
)
def test_receive_settles_what_it_was_asked_for(
    deployment: Deployment,
    provider: LentProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    got: list[str],
    left: list[str],
) -> None:
    monkeypatch.setattr("connector.cli.receive.load_for", lambda *_: deployment.configuration)
    monkeypatch.setattr("connector.cli.receive.make_provider", lambda _: provider)
    connection = provider.connect()
    connection.send(Destination("queue", "customers"), [Message(body) for body in (b"1", b"2", b"3")])
    connection.close()
    answer: Answer = call(tmp_path, "receive", "customers", *options, "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert [json.loads(line)["body"] for line in answer.stdout.splitlines()] == got
    assert sorted(message.body.decode() for message in seen(provider, "customers")) == left


# -- replay with another body --------------------------------------------------------------------------------


def test_a_body_at_a_broker_is_corrected(
    deployment: Deployment,
    provider: LentProvider,
    adapter: InProcessAdapter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("connector.cli.replay.load_for", lambda *_: deployment.configuration)
    monkeypatch.setattr("connector.service.orders.make_provider", lambda _: provider)
    bad, other = send(provider, "fail", "fail")
    adapter.drain()
    given = ("replay", "--id", bad, "--body", "-", "--json")
    body = '{"BusinessObject": "Customer", "Id": "7"}'
    expected = {"matched": 1, "moved": 0, "to": {"queue://customers": 1}}
    assert call(tmp_path, *given, data=body).documents == [expected]
    assert ids(provider, "error") == [bad, other]
    assert call(tmp_path, *given, "--yes", data=body).documents == [{**expected, "moved": 1}]
    assert ids(provider, "error") == [other]
    (old,) = seen(provider, "archive")
    assert (old.message_id, old.properties["connector_outcome"]) == (bad, "discarded")
    adapter.drain()
    assert stored(deployment) == ["7 1"]
    assert f"{bad} is not in queue://error any more" in call(tmp_path, *given, "--yes", data=body).failure()


# -- history -------------------------------------------------------------------------------------------------


def history_of(provider: LentProvider) -> History:
    return provider.state("lent").history()


def test_each_event_is_told_once_with_its_sent_messages(
    provider: LentProvider, adapter: InProcessAdapter
) -> None:
    sent = send(provider, "", "fail", "")
    adapter.drain()
    events = read_all(history_of(provider), 0.0)
    outcomes = zip(sent, ("published", "failed", "published"), strict=True)
    assert {one.id: one.row.what for one in events} == dict(outcomes)
    assert len(events) == 3
    assert {tuple(one.row.sent) for one in events} == {("queue://crm",), ()}
    assert find_ids(history_of(provider), key="2") == [sent[2]]
    life = read_life(history_of(provider), sent[2])
    connection = provider.connect()
    now = find_now(connection, life.ids, life.destinations(), shows_all=False)
    connection.close()
    places = {("queue://archive", "waiting"), ("queue://crm", "waiting")}
    assert {(one["destination"], one["state"]) for one in now} == places
    since = time.time()
    send(provider, "", "sleep", "")
    adapter.poll()
    assert [one.row.what for one in read_all(history_of(provider), since)] == ["given_back"]


# -- well ----------------------------------------------------------------------------------------------------


def test_failures_make_it_unwell_and_what_a_broker_does_not_tell_is_unknown(
    provider: LentProvider, adapter: InProcessAdapter
) -> None:
    observer = Observer(adapter, provider)
    send(provider, *["fail"] * 6)
    adapter.drain()
    wait_for(lambda: adapter.poll() and observer.status()["failed_5m"] == 6, what="a note, once a second")
    document = observer.status()
    (reason,) = document["reasons"]
    assert reason.text.startswith("queue://customers: 6 of 6 events failed in 5 minutes")
    assert (document["failed_5m"], document["error_waiting"], document["error_growth_5m"]) == (6, None, None)
    assert observer.not_ready() == ""
    text = InstanceMetrics(observer.activity, observer.gauges).text("")[0].decode()
    assert "connector_well 0.0\n" in text
    assert "connector_error_waiting" not in text


def test_a_worker_that_died_is_counted(provider: LentProvider, adapter: InProcessAdapter) -> None:
    send(provider, "", "end", "")
    adapter.drain()
    observer = Observer(adapter, provider)

    def has_both() -> bool:
        adapter.poll()
        found = observer.status()
        return (found["workers_died_5m"], found["published_5m"]) == (1, 3)

    wait_for(has_both, what="a note, once a second")
    assert observer.status()["well"]
    assert adapter.activity.workers_died == 1
