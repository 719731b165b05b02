"""Removes copies of an adapter that were kept long enough from queues of a broker."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Sequence
from typing import Final

from connector.brokers.engine.broker import BrokerConnection
from connector.brokers.engine.claims import ORIGINAL_ID, original
from connector.errors import UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.retention import Pruned, Retention

_PAUSE: Final = 60.0
"""Seconds between two looks at a queue. A look reads messages."""
_YOUNG: Final = 1000
"""Young copies in a row after which a look ends: a queue has the oldest messages first."""
_LIMIT: Final = 0
"""Bytes of a body that is read."""
_CHUNK: Final = 100
"""Messages of one call."""


class CopyPruner:
    """Looks at a queue by browsing, and receives old copies by selectors."""

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self._looked: dict[Destination, float] = {}

    def prune(self, retentions: Sequence[Retention], seconds: float) -> Pruned:
        """Removes copies that were kept long enough, until ``seconds`` have passed."""
        removed: dict[Destination, int] = {}
        deadline = time.monotonic() + seconds
        for retention in retentions:
            queue = retention.destination
            if time.monotonic() < self._looked.get(queue, 0.0):
                continue
            for selector in self._old(retention):
                number = self._remove(queue, selector)
                if number:
                    removed[queue] = removed.get(queue, 0) + number
                if time.monotonic() >= deadline:
                    return Pruned(copies=removed, is_done=False)
            self._looked[queue] = time.monotonic() + _PAUSE
        return Pruned(copies=removed)

    def _old(self, retention: Retention) -> Iterator[str]:
        """Yields selectors of copies that were kept long enough. A settlement gives its copies one time."""
        try:
            found = self._connection.browse(retention.destination, "connector_time IS NOT NULL")
        except UnknownDestination:
            return
        now, young, seen = time.time(), 0, set()
        for message in found:
            arrived = message.timestamp / 1000
            selector = _selector(message)
            original(message)
            if not retention.is_over(message, arrived, now):
                young += 1
                if young > _YOUNG:
                    return
            elif selector not in seen:
                young = 0
                seen.add(selector)
                yield selector

    def _remove(self, queue: Destination, selector: str) -> int:
        """Removes the messages of a selector. Returns their number. A message of a consumer stays."""
        session = self._connection.session()
        try:
            receiver = session.receiver(queue, selector, _LIMIT)
            number = 0
            while found := receiver.receive(0.0, _CHUNK):
                number += len(found)
            session.commit()
            return number
        finally:
            session.close()


def _selector(copy: Message) -> str:
    """Returns a selector of the copies with the time of a copy. With an unreadable time: of this copy."""
    properties = copy.properties
    parts = ["connector_origin_destination IS NOT NULL"]
    names = ["connector_time"]
    try:
        datetime.datetime.fromisoformat(str(properties.get("connector_time")))
    except ValueError:
        names.append(ORIGINAL_ID)
    for name in names:
        value = str(properties.get(name, "")).replace("'", "''")
        parts.append(f"{name} = '{value}'" if name in properties else f"{name} IS NULL")
    return " AND ".join(parts)
