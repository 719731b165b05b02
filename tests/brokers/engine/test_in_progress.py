"""An adapter with InProgressDestination at a broker: the messages move before their events run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from connector.errors import ProviderError
from connector.messaging.message import Message
from connector.status import ReturnCode
from connector.testing.deployment import Deployment
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, ids, leftovers, pending, running, seen, send, stored

IN_PROGRESS = "queue://in-progress"


def deploy_so(directory: Path, **connector: Any) -> Deployment:
    return deploy(
        directory, InProgressDestination=IN_PROGRESS, **{"DuplicateEventElimination": False, **connector}
    )


def test_a_message_whose_process_is_not_active_waits_there_alone(
    tmp_path: Path, provider: LentProvider
) -> None:
    deployment = deploy_so(tmp_path)
    sent = send(provider, "", "sleep", "")
    with running(deployment, provider) as adapter:
        for _ in range(3):
            assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
        assert ids(provider, "in-progress") == [sent[1]]
        assert sent[0] in ids(provider, "archive"), "no transaction keeps it"
    other = deploy(tmp_path / "two", instance="two", InProgressDestination=IN_PROGRESS)
    other.write("awake", "")
    with running(other, provider) as adapter:
        adapter.drain()
    assert sorted(stored(deployment) + stored(other)) == ["0 1", "1 1", "2 1"]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    for copy in seen(provider, "archive"):
        assert not {"connector_owner", "connector_claim", "connector_token"} & copy.properties.keys()
        assert copy.properties["connector_origin_destination"] == "queue://customers"
    assert provider.broker.waiting("customers") == provider.broker.waiting("in-progress") == []


@pytest.mark.parametrize("answer", ["done", "undone"])
@pytest.mark.parametrize("commit", ["of the move", "of the settlement"])
def test_a_commit_without_an_answer_is_found_out_by_looking(
    tmp_path: Path, provider: LentProvider, commit: str, answer: str
) -> None:
    deployment = deploy_so(tmp_path, DuplicateEventElimination=True)
    sent = send(provider, "", "")
    provider.broker.lost_answers += [answer] if commit == "of the move" else ["", answer]
    with running(deployment, provider) as adapter:
        assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
        adapter.stop()
        adapter.start()
        adapter.drain()
    assert [line.split()[0] for line in stored(deployment)] == ["0", "1"]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert len(ids(provider, "crm")) == 2
    assert not pending(provider)


@pytest.mark.parametrize("answer", ["done", "undone"])
def test_a_takeover_that_is_broken_off_at_its_end_is_done_again(
    tmp_path: Path, provider: LentProvider, answer: str
) -> None:
    deployment = deploy_so(tmp_path)
    sent = send(provider, "", "")
    with running(deployment, provider) as adapter:
        adapter.drain()
        for connection in provider.broker.connections:
            connection.close()
        provider.broker.lost_answers.append(answer)  # to the commit that removes the marks
        for _ in range(3):
            adapter.poll()
            with contextlib.suppress(ProviderError):
                adapter.stop()
                adapter.start()
        assert not provider.broker.lost_answers
    state: Any = provider.existing_state("lent")
    assert leftovers(state) == []
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)


def test_strange_marks_of_another_client_touch_nothing_else(tmp_path: Path, provider: LentProvider) -> None:
    deployment = deploy_so(tmp_path, InDoubtEvents="Reprocess")
    kept = tmp_path / "kept"
    kept.write_text("a file beside the state")
    strange: list[dict[str, Any]] = [
        {"connector_owner": f"../../../../../../{kept}"},
        {"connector_owner": "x" * 300, "connector_claim": "1"},
        {"connector_owner": "b0", "connector_claim": "one/two", "connector_token": "a' OR 1=1 OR 'a' = '"},
        {"connector_owner": 5, "connector_claim": True, "connector_origin_destination": "queue://../x"},
        {"connector_begun": "many", "connector_expiration": True, "connector_message_id": 7},
    ]
    session = provider.broker.connect().session()
    for number, properties in enumerate(strange):
        message = Message(b'{"BusinessObject": "Customer", "Id": "s%d"}' % number, "T")
        for name, value in {"connector_origin_destination": "queue://customers", **properties}.items():
            message.set_property(name, value)
        session.send("in-progress", message)
    session.commit()
    send(provider, "", "")
    with running(deployment, provider) as adapter:
        adapter.drain()
    ours = ["0 1", "1 1"]
    assert sorted(line for line in stored(deployment) if line[0] != "s") == ours
    assert len(stored(deployment)) - 2 + len(provider.broker.waiting("in-progress")) == len(strange)
    assert kept.read_text() == "a file beside the state"
