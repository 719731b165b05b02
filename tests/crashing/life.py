"""What a forked child does: it makes the store, lives and dies as an adapter, or counts what is there."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from sqlalchemy import NullPool, create_engine, text

from connector import faults
from connector.brokers.engine.state import RemoteState
from connector.config.loading import Configuration
from connector.errors import ProviderError, UnknownDestination
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import PERSISTENT, Message
from connector.messaging.provider import Connection
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.roles import Browsing
from connector.messaging.subscription import TopicSubscription
from connector.service.assembly import make_provider
from connector.stores.sql.messages import add_messages
from connector.stores.sql.schema import reference as references
from connector.testing.deployment import FolderProvider, InProcessAdapter
from tests.brokers.engine.server import SocketProvider
from tests.brokers.engine.world import leftovers as broker_leftovers
from tests.crash.leftovers import database_leftovers, file_leftovers
from tests.crashing.processes import note
from tests.crashing.scenario import APPLICATION, Scenario, Sent
from tests.waiting import wait_for

DIED: Final = 77
"""Exit status of a child that ended at a place, as a process does that is killed."""
ANYWHERE: Final = ""
PRICES: Final = Destination("topic", "prices")
ALL: Final = TopicSubscription(PRICES, "all", APPLICATION, durable=True)
AUDIT: Final = TopicSubscription(PRICES, "audit", durable=True, shared=True)
READER: Final = TopicSubscription(Destination("topic", "news"), "reader", durable=True, shared=True)
_FOR_OTHERS: Final = (
    "topic-root/prices/.subscriptions/audit./target/",
    "topic-root/news/.subscriptions/reader./target/",
)
"""Where messages stay that are not for the adapter."""
_QUEUES: Final = (
    *("archive", "error", "unsubscribed", "b-archive", "b-error", "b-unsubscribed"),
    *("busy", "out", "replies", "asked", "sent", "sent-too", "booked"),
)


class Fate:
    """Stands in place of ``faults.point`` in a child, and ends the child at a place.

    Args:
        place: of :data:`connector.faults.PLACES`. :data:`ANYWHERE` = any of them.
        nth: which time.
    """

    def __init__(self, place: str, nth: int) -> None:
        self._place, self._left = place, nth
        self._directory = os.getcwd()
        self._pid = os.getpid()

    def __call__(self, place: str) -> None:
        if place == "done":
            note("done", directory=self._directory)
        if self._place not in (ANYWHERE, place):
            return
        self._left -= 1
        if not self._left:
            note("death", place, directory=self._directory)
            os._exit(DIED)


class Life:
    """One child of a world.

    Args:
        scenario: of the world.
        configuration: of its deployment.
        place: of the messages: URL of the database, or root of the directory.
        shop: URL of the business database. Empty = none.
    """

    def __init__(self, scenario: Scenario, configuration: Configuration, place: str, shop: str) -> None:
        self._place = place
        self._scenario = scenario
        self._configuration = configuration
        self._shop = shop
        self._provider: AdapterProvider = (
            SocketProvider("state", "socket") if scenario.store == "broker" else make_provider(configuration)
        )

    def begin(self) -> None:
        """Makes the store, the subscriptions and the tables."""
        if self._scenario.has_database:
            self._query("CREATE TABLE booking (event VARCHAR(200))")
            self._query("CREATE TABLE line (event VARCHAR(200))")
        if self._scenario.store == "broker":
            return
        connection = self._provider.connect(APPLICATION, "zero", client_id=APPLICATION)
        for subscription in (*((ALL, AUDIT) if self._scenario.topic else ()), READER):
            connection.poller(subscription).close()
        connection.close()

    def run(self, sent: Sequence[Sent], place: str, nth: int) -> None:
        """Sends messages, takes over from the life before, and processes until it dies or all is done."""
        note("life")
        self.send(sent)
        faults.point = Fate(place, nth)
        self._adapter_run()

    def _adapter_run(self) -> None:
        adapter = InProcessAdapter(
            self._configuration, self._provider, parallelism=self._scenario.parallelism
        )
        with adapter:
            report = adapter.drain()
        if report.reason:  # a refusal for now, or a neighbour has what is left. The last life drains all
            note(report.reason, file="early")

    def drain(self) -> dict[str, Any]:
        """Processes until nothing waits, and returns what is where."""
        note("life")
        faults.point = Fate("none", 0)

        def is_done() -> bool:
            self._adapter_run()
            return not self._waiting()

        wait_for(is_done, 120, "the inputs are empty")
        return self.count()

    # -- messages ----------------------------------------------------------------------------------

    def send(self, sent: Sequence[Sent]) -> None:
        """Sends messages as another program does."""
        if isinstance(self._provider, FolderProvider):
            for one in sent:
                for copy in range(one.copies):
                    self._drop(one, copy)
            return
        if self._scenario.store == "broker":
            with closing(self._provider.connect()) as client:
                for one in sent:
                    messages = [self._message(one) for _ in range(one.copies)]
                    for identity in client.send(parse_destination(one.destination), messages):
                        note(one.number, identity, file="ids")
            return
        to_queues = [one for one in sent if not one.destination.startswith("topic:")]
        queued = [(one, copy) for one in to_queues for copy in range(one.copies)]
        with create_engine(self._place, poolclass=NullPool).begin() as connection:
            numbers = add_messages(connection, [self._message(*one) for one in queued]) if queued else []
            for number, (one, _) in zip(numbers, queued, strict=True):
                row = {"message": number, "channel": one.destination, "priority": 4}
                connection.execute(references.insert(), row)
        published = [one for one in sent if one.destination.startswith("topic:")]
        if published:
            with closing(self._provider.connect()) as client:
                for one in published:
                    client.send(parse_destination(one.destination), [self._message(one)])

    def _drop(self, one: Sent, copy: int) -> None:
        root = Path(self._place)
        kind, _, place = one.destination.partition("://")
        incoming = root / place / "incoming" if kind == "queue" else root / "topic-root" / place / ".incoming"
        for folder in ("working", "target"):
            (incoming / folder).mkdir(parents=True, exist_ok=True)
        name = self._name(one, copy, incoming / "target")
        (incoming / "working" / name).write_text(one.body(self._scenario))
        if one.is_bare(self._scenario):  # its time is that in the ids of the others, for their order
            os.utime(incoming / "working" / name, ns=(one.micros * 1000, one.micros * 1000))
        (incoming / "working" / name).rename(incoming / "target" / name)

    def _name(self, one: Sent, copy: int, target: Path) -> str:
        """Returns the name of a file. A bare name is that of the file before, unless that file waits."""
        if one.is_bare(self._scenario):
            return f"orders-{one.number}.json" if (target / "orders.json").exists() else "orders.json"
        reply = "replies" if self._answers(one) else ""
        group = f"JMSXGroupIDS={one.group}" if one.group else ""
        return f"{4 - copy}.{one.identity(self._scenario, copy)}.T...{reply}..{group}".rstrip(".")

    def _answers(self, one: Sent) -> bool:
        return "answer" in self._scenario.sinks and one.destination.startswith("queue:")

    def _message(self, one: Sent, copy: int = 0) -> Message:
        identity = one.identity(self._scenario, copy)
        message = Message(
            one.body(self._scenario).encode(),
            "T",
            message_id=None if self._scenario.store == "broker" else f"ID:{identity}",
            delivery_mode=PERSISTENT,
            reply_to="queue://replies" if self._answers(one) else None,
        )
        if one.group:
            message.set_property("JMSXGroupID", one.group)
        return message

    # -- counts ------------------------------------------------------------------------------------

    def _query(self, statement: str) -> list[Any]:
        engine = create_engine(self._shop, poolclass=NullPool)
        with engine.begin() as connection:
            found = connection.execute(text(statement))
            return list(found) if found.returns_rows else []

    def _waiting(self) -> int:
        with closing(self._provider.existing()) as connection:
            if self._scenario.store == "broker":
                own = [f"connector.{APPLICATION}.{name}" for name in ("later", "held")]
                return sum(
                    len(list(self._browse(connection, name))) for name in (*self._scenario.inputs, *own)
                )
            inputs = {parse_destination(name) for name in self._scenario.destinations}
            number = sum(
                one.waiting + one.delayed
                for one in connection.destinations()
                if one.destination in inputs and one.destination.is_queue
            )
            for info in connection.subscriptions():
                if info.subscription.name == "all":
                    number += info.waiting + info.delayed
            return number

    def count(self) -> dict[str, Any]:
        """Returns which objects are in which place, how often, and what is left behind."""
        counts: dict[str, Any] = {"left": self._leftovers()}
        with closing(self._provider.existing()) as connection:
            for name in (*_QUEUES, *self._scenario.inputs):
                counts[name] = Counter(self._browse(connection, name))
        with closing(self._provider.connect()) as connection:
            for name, subscription in (("audit", AUDIT), ("news", READER)):
                if self._scenario.store != "broker" and (name == "news" or self._scenario.topic):
                    counts[name] = Counter(_keys_of(connection, subscription))
        if self._scenario.has_database:
            for name in ("booking", "line"):
                counts[name] = Counter(row.event for row in self._query(f"SELECT event FROM {name}"))
        return counts

    def _leftovers(self) -> list[str]:
        if isinstance(self._provider, SocketProvider):
            state = self._provider.existing_state(APPLICATION)
            assert isinstance(state, RemoteState)
            return broker_leftovers(state)
        if not isinstance(self._provider, FolderProvider):
            return database_leftovers(self._place)
        found = file_leftovers(Path(self._place), APPLICATION, self._scenario.inputs, "busy")
        return [path for path in found if not path.startswith(_FOR_OTHERS)]

    def _browse(self, connection: Browsing, queue: str) -> Iterator[str]:
        try:
            messages = list(connection.browse(Destination("queue", queue)))
        except (UnknownDestination, ProviderError):
            return
        ids: dict[str, str] = {}
        if self._scenario.store == "broker":
            ids = dict(line.split()[:0:-1] for line in Path("ids").read_text().splitlines())
        for message in messages:
            if queue == "replies":
                request = str(message.correlation_id)
                yield ids.get(request) or request.rpartition("-")[2]
            else:
                yield from _keys(message)


def _keys_of(connection: Connection, subscription: TopicSubscription) -> Iterator[str]:
    poller = connection.poller(subscription)
    access = connection.access().open()
    number = 0
    while (claim := poller.take(1, number)) is not None:
        number += 1
        yield from _keys(access.load(claim.reference, 1 << 20))


def _keys(message: Message) -> Iterator[str]:
    """Yields the values of ``CustomerId`` or ``Id``, one a line. A broken line has them, too."""
    for line in bytes(message.body).decode().splitlines():
        _, _, rest = line.partition('Id": "' if 'Id": "' in line else 'Id":"')
        yield rest.partition('"')[0]
