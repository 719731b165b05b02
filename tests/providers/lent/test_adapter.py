"""A whole adapter over a broker: workers in processes of their own, without Java.

The broker is a stand-in in this process, because no server can be started here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from connector.errors import CapabilityError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.status import ReturnCode
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.providers.lent.provider import LentProvider

pytestmark = pytest.mark.slow

ADAPTER: dict[str, Any] = {
    "provider": {"type": "memory"},
    "connector": {
        "ApplicationName": "lent",
        "InputDestination": ["queue://customers", "queue://urgent"],
        "PollQuantity": 10,
        "ArchiveDestination": "queue://archive",
        "ErrorDestination": "queue://error",
        "UnsubscribedDestination": "queue://unsubscribed",
        "DuplicateEventElimination": True,
        "ConfigurationMetaObject": "MO_Config",
        "DataHandlerMimeType": "application/json",
        "DefaultVerb": "Create",
        "instance": "one",
        "stop_timeout": "1s",
    },
    "subscriptions": [
        {"object": "Customer", "process": "processes:store", "name": "store"},
        {"object": "Customer", "destination": "queue://crm", "name": "crm"},
    ],
    "metaobjects": "./metaobjects",
}

OBJECTS = """\
business_object: Customer
verbs: {Create: }
attributes: {Id: {type: String, key: true}, Wish: String}
---
business_object: Order
verbs: {Create: }
attributes: {Id: {type: String, key: true}}
---
static_metaobject: MO_Config
"""

PROCESSES = """\
import os
import connector

HERE = os.path.dirname(os.path.abspath(__file__))


def store(customer, event):
    wish = customer["Wish"]
    if wish == "fail":
        raise ValueError("as you wish")
    if wish == "sleep" and not os.path.exists(HERE + "/awake"):
        raise connector.NotActive("asleep")
    if wish == "end" and not os.path.exists(HERE + "/ended"):
        open(HERE + "/ended", "w").close()
        os._exit(1)
    with open(HERE + "/stored", "a") as file:
        file.write(f"{customer['Id']} {event.delivery_count}\\n")
"""


@pytest.fixture
def provider(root: Path) -> LentProvider:
    return LentProvider(root / "state")


def deploy(directory: Path, **connector: Any) -> Deployment:
    """A deployment; a keyword is a key of ``connector:``."""
    document = {**ADAPTER, "connector": {**ADAPTER["connector"], **connector}}
    return Deployment(directory, adapter=yaml.safe_dump(document), metaobjects=OBJECTS, processes=PROCESSES)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return deploy(tmp_path)


@pytest.fixture
def adapter(deployment: Deployment, provider: LentProvider) -> Iterator[InProcessAdapter]:
    with InProcessAdapter(deployment.configuration, provider, isolated=True, parallelism=2) as adapter:
        yield adapter


def send(provider: LentProvider, *wishes: str, queue: str = "customers", kind: str = "Customer") -> list[str]:
    """Sends one customer for each wish; returns the ids."""
    connection = provider.connect()
    try:
        values = [
            {"BusinessObject": kind, "Id": str(n)} | ({"Wish": w} if w else {}) for n, w in enumerate(wishes)
        ]
        messages = [Message(json.dumps(one).encode()) for one in values]
        return connection.send(Destination("queue", queue), messages)
    finally:
        connection.close()


def ids(provider: LentProvider, queue: str) -> list[str | None]:
    """The message ids of what waits in a queue, as a program of this project sees them."""
    return [message.message_id for message in seen(provider, queue)]


def seen(provider: LentProvider, queue: str) -> list[Message]:
    provider.broker.waiting(queue)
    connection = provider.connect()
    try:
        return list(connection.browse(Destination("queue", queue)))
    finally:
        connection.close()


def stored(deployment: Deployment) -> list[str]:
    """What the process has stored: the ids of customers, with the delivery counts of their events."""
    path = deployment.directory / "stored"
    return sorted(path.read_text().splitlines()) if path.exists() else []


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
    assert ids(provider, "customers") == sent
    provider.broker.refused.clear()
    adapter.stop()
    adapter.start()
    adapter.drain()
    assert stored(deployment) == ["0 1", "1 1"]
    assert (ids(provider, "archive"), len(ids(provider, "crm"))) == (sent, 2)


def test_a_connection_that_breaks_loses_nothing(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    sent = send(provider, "", "")
    for connection in list(provider.broker.connections):
        connection.close()
    assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
    adapter.stop()
    adapter.start()
    adapter.drain()
    assert stored(deployment) == ["0 1", "1 1"]
    assert ids(provider, "archive") == sent


def test_two_instances_share_what_waits_and_settle_each_message_once(
    tmp_path: Path, provider: LentProvider
) -> None:
    sent = [identity for _ in range(10) for identity in send(provider, "", "fail", "", "", "")]

    def drain(name: str) -> None:
        configuration = deploy(tmp_path / name, instance=name).configuration
        with InProcessAdapter(configuration, provider, isolated=True, parallelism=2) as adapter:
            adapter.drain()

    threads = [threading.Thread(target=drain, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, ids(provider, "archive") + ids(provider, "error"))) == sorted(sent)
    assert (len(ids(provider, "crm")), ids(provider, "customers")) == (40, [])


def test_an_in_progress_destination_is_refused_at_start(tmp_path: Path, provider: LentProvider) -> None:
    deployment = deploy(tmp_path, InProgressDestination="queue://in-progress")
    with (
        pytest.raises(CapabilityError, match="in-progress"),
        InProcessAdapter(deployment.configuration, provider),
    ):
        pass
