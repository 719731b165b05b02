"""A root that version 0.1.0 left in mid-work, before the engine was under the provider, is read and finished.

The files are those that a client of that version had when it was killed right after a commit point.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.messaging.destination import Destination, parse_destination
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.layout import FOLDERS
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from tests.stores.dropbox.steps import ORDERS

CLIENT = "hoegcuo3xincf"
IN_PROGRESS = parse_destination("in-progress")
NEWS = TopicSubscription(Destination("topic", "prices"), "news", "billing", durable=True)

_INFO = (
    '{"application": "billing", "instance": "a", "host": "vm", "pid": 13915, "started": 1795358605.064, '
    '"origin": "billing", "declared_dead": false}'
)


def _details(name: str, *, durable: bool) -> str:
    kind = {"durable": durable, "shared": not durable}
    names = {"name": name, "client_id": "billing", "topic": "topic://prices", "origin": "billing"}
    return json.dumps({**names, **kind, "selector": "", "no_local": False})


_WORK = "connector_origin_destinationS=queue%3A%2F%2Fwork"
_KEY = f"{CLIENT}-1_cce080ec68"
_OWNED = "JMS_dropboxmq_ownerS"
_SUBSCRIPTIONS = "topic-root/prices/.subscriptions"
_LONG = f"4.1795358605067185-{CLIENT}-4.T.....noteS={'x' * 300}"
_RECORD = (
    "dropboxmq --creator-version 1.1 --type sent "
    f"--message-file erp/incoming/working/1bf41ef6fd6f6f6c~@{CLIENT}-0-prepared "
    f"--commit-file erp/incoming/target/4.1795358605120349-{CLIENT}-1bf41ef6fd6f6f6c.T\n"
    "dropboxmq --creator-version 1.1 --type received "
    f"--message-file orders/incoming/processing/8.1795358605066736-{CLIENT}-3.T~@{CLIENT}-1-0 "
    f"--commit-file archive/incoming/target/8.1795358605066736-{CLIENT}-3.T.....connector_outcomeS=published "
    f"--rollback-file orders/incoming/target/8.1795358605066736-{CLIENT}-3.T --published key-1\n"
)
_FILES = {
    f"dropboxmq/client-ids/billing/{CLIENT}-1": _INFO,
    f"dropboxmq/clients/{CLIENT}": _INFO,
    "dropboxmq/root-id": "2914aa79e18df3c6\n",
    f"dropboxmq/headers/{_KEY}": _LONG,
    f"orders/incoming/target/4.1795358605067185-{CLIENT}-4.T.....JMS_dropboxmq_hdrS={_KEY}": "long",
    f"dropboxmq/transaction/committing/{CLIENT}-4": _RECORD,
    f"erp/incoming/working/1bf41ef6fd6f6f6c~@{CLIENT}-0-prepared": "sent in the commit",
    f"erp/incoming/working/f6fc42039fba3776~@{CLIENT}-0-prepared": "never sent",
    f"in-progress/incoming/target/4.1795358605084215-{CLIENT}-5.T.....{_OWNED}={CLIENT}-1-2&{_WORK}": (
        "in progress"
    ),
    f"in-progress/incoming/target/4.1795358605085460-{CLIENT}-6.T.....{_OWNED}=waits&{_WORK}": "left",
    f"orders/incoming/processing/7.1795358605066610-{CLIENT}-2.T~@{CLIENT}-1-1": "claimed",
    f"orders/incoming/processing/8.1795358605066736-{CLIENT}-3.T~@{CLIENT}-1-0": "committed",
    f"orders/incoming/target/4.1795358605065607-{CLIENT}-1.T": "waits",
    f"temporary-{CLIENT}-1/incoming/target/4.1795358605122797-{CLIENT}-9.T": "answer",
    f"{_SUBSCRIPTIONS}/live.billing.non-durable/consumers/{CLIENT}-4": _INFO,
    f"{_SUBSCRIPTIONS}/live.billing.non-durable/subscription.json": _details("live", durable=False),
    f"{_SUBSCRIPTIONS}/live.billing.non-durable/target/4.1795358605110154-{CLIENT}-7.T": "p1",
    f"{_SUBSCRIPTIONS}/news.billing/consumers/{CLIENT}-2": _INFO,
    f"{_SUBSCRIPTIONS}/news.billing/subscription.json": _details("news", durable=True),
    f"{_SUBSCRIPTIONS}/news.billing/processing/4.1795358605110154-{CLIENT}-7.T~@{CLIENT}-1-4": "p1",
    f"{_SUBSCRIPTIONS}/news.billing/target/4.1795358605110404-{CLIENT}-8.T": "p2",
}
_PLACES = (
    *(f"{queue}/incoming" for queue in ("archive", "erp", "in-progress", "orders", "work")),
    f"temporary-{CLIENT}-1/incoming",
    "topic-root/prices/.incoming",
    f"{_SUBSCRIPTIONS}/live.billing.non-durable",
    f"{_SUBSCRIPTIONS}/news.billing",
)


@pytest.fixture
def connection(root: Path) -> Iterator[LocalConnection]:
    for place in _PLACES:
        for folder in FOLDERS:
            (root / place / folder).mkdir(parents=True)
    for folder in ("associated", "committing", "committed"):
        (root / "dropboxmq/transaction" / folder).mkdir(parents=True)
    (root / "dropboxmq/adapter/billing/published").mkdir(parents=True)
    for name, content in _FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    connection = DropboxProvider(root, durable=False).connect("billing", "a", client_id="billing")
    yield connection
    connection.abandon()


def bodies(connection: LocalConnection, name: str) -> list[str]:
    return [message.body.decode() for message in connection.browse(parse_destination(name))]


def test_what_the_version_before_has_left_is_finished(root: Path, connection: LocalConnection) -> None:
    (leftover,) = connection.leftovers(IN_PROGRESS, at_start=True)
    assert (leftover.client_id, leftover.application, leftover.instance) == (CLIENT, "billing", "a")
    load = connection.access().open().load
    found = [
        (load(one.reference, 1000).body, str(one.destination), one.sequence, one.in_progress)
        for one in leftover.claims
    ]
    assert found == [
        (b"claimed", "queue://orders", 1, False),
        (b"in progress", "queue://work", 2, True),
        (b"p1", "topic://prices", 4, False),
    ]
    assert bodies(connection, "archive") == ["committed"]
    assert bodies(connection, "erp") == ["sent in the commit"]
    connection.settle([Settlement(claim, give_back=True, delivery_count=1) for claim in leftover.claims])
    leftover.forget()
    assert bodies(connection, "orders") == ["claimed", "waits", "long"]
    assert [*connection.browse(ORDERS)][2].properties["note"] == "x" * 300
    assert bodies(connection, "work") == ["in progress"]
    (left,) = connection.find_unowned(IN_PROGRESS)
    assert (left.waits, str(left.destination)) == (True, "queue://work")
    adopted = connection.adopt(left, 1, 0)
    assert adopted is not None
    assert adopted.delivery_count == 0
    poller = connection.poller(NEWS)
    claims = poller.claim(1, range(1, 4))
    assert [load(claim.reference, 10).body for claim in claims] == [b"p1", b"p2"]
    assert [claim.delivery_count for claim in claims] == [1, 0]
    assert [info.subscription.name for info in connection.subscriptions()] == ["news"]
    assert not (root / f"temporary-{CLIENT}-1").exists()
    assert not any((root / "erp/incoming/working").iterdir())
    assert not any((root / "dropboxmq/transaction/committing").iterdir())
    assert [path.read_text() for path in (root / "dropboxmq/adapter/billing/published").iterdir()] == [
        _RECORD
    ]
