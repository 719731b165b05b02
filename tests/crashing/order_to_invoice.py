"""Lets the adapter of ``examples/order-to-invoice`` die at each place that it passes.

    python -m tests.crashing.order_to_invoice

A first run notes the places. Where it passes a place often, the adapter dies there the first time, in the
middle and the last time. Each death has a copy of the example with the same orders. A second life takes over
and processes what is left. Then orders, rows, invoices and announcements are counted.

The warehouse is away when it is called first. Each life begins with an order over HTTP, which has the same
key each time, and with the same night.
"""

from __future__ import annotations

import datetime
import json
import shutil
import sqlite3
import sys
import tempfile
import urllib.request
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from connector import faults
from connector.config.loading import Configuration
from connector.core.once_sender import OnceSender
from connector.messaging.destination import Destination
from connector.messaging.message import CONTENT_TYPE, PERSISTENT, Message
from connector.messaging.provider_kind import AdapterProvider
from connector.service.assembly import make_provider
from connector.service.timer_messages import make_timers
from connector.service.timers import Timers
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.crash.leftovers import file_leftovers
from tests.crashing.life import Fate
from tests.crashing.processes import note
from tests.crashing.world import Broken, Hook, await_fork, fork, hooks, warm_up
from tests.quick_folder import quick_folder
from tests.waiting import wait_for

EXAMPLE: Final = Path(__file__).resolve().parents[2] / "examples" / "order-to-invoice"
_AWAY: Final = "first: 1s, most: 10m"
_POSTED: Final = """\
{"OrderId": "O-4", "Customer": "Ken", "Region": "US", "Sku": "pen", "Quantity": 1, "Price": 0.95}
"""
_ROWS: Final = ["O-1", "O-2", "O-3", "O-4"]
_LARGE: Final = ["O-2", "O-3"]
_INVOICES: Final = {
    "queue://invoices-EU": ["INVOICE INV-1", "INVOICE INV-3"],
    "queue://invoices-US": ["INVOICE INV-2", "INVOICE INV-4"],
}
_ARCHIVED: Final = {"orders": 1, "orders-csv": 1, "orders-xml": 1, "booked": 4, "large": 2, "jobs": 1}
_EVENING: Final = datetime.datetime(2026, 3, 1, 1, 59)


class _Warehouse(Hook):
    """Answers the first call for each order that it is away. Writes the others into the log of the run."""

    called: ClassVar[set[str]] = set()

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path not in self.called:
            self.called.add(self.path)
            self.send_error(503)
            return
        _, run, _, order = self.path.split("/")
        note("put", order, self.headers["Idempotency-Key"], directory=str(self.base / run))
        self.do_GET()


@dataclass
class Run:
    """One copy of the example, which dies at one place.

    Args:
        directory: of the copy, which does not exist yet.
        hook: URL of the warehouse, without the name of the run.
    """

    directory: Path
    hook: str

    def run(self, place: str = "", nth: int = 0) -> list[str]:
        """Lets the adapter die at a place and run again.

        Args:
            place: of :data:`connector.faults.PLACES`. Empty = the adapter does not die.
            nth: which time.

        Returns:
            the places that the adapter has passed, if it does not die.

        Raises:
            Broken: something is lost or doubled.
        """
        configuration = self._copy()
        died = await_fork(self.directory, fork(self.directory, lambda: self._live(configuration, place, nth)))
        urllib.request.urlopen(self.hook).close()  # answered when all earlier calls are in the log
        counts = await_fork(self.directory, fork(self.directory, lambda: self._drain(configuration)))
        assert counts is not None
        lines = [line.split()[1:] for line in (self.directory / "log").read_text().splitlines()]
        broken = _judge(json.loads(counts), [line[1:] for line in lines if line[0] == "put"])
        if place and died is not None:
            broken.insert(0, "the adapter has not passed the place")
        if broken:
            raise Broken("\n".join([f"death at {place}, {nth}", *broken]))
        return [line[1] for line in lines if line[0] == "at"]

    def _copy(self) -> Configuration:
        shutil.copytree(EXAMPLE, self.directory, ignore=shutil.ignore_patterns(".*", "data", "shop.db*"))
        adapter = self.directory / "adapter.yaml"
        text = adapter.read_text()
        assert _AWAY in text
        adapter.write_text(text.replace(_AWAY, "first: 1ms, most: 2ms"))
        with closing(sqlite3.connect(self.directory / "shop.db")) as shop:
            shop.executescript((EXAMPLE / "shop.sql").read_text())
        environment = {"WAREHOUSE": f"{self.hook}/{self.directory.name}"}
        deployment = Deployment(self.directory, environment=environment)
        deployment.drop("orders-csv", (EXAMPLE / "orders.csv").read_text())
        deployment.drop("orders-xml", (EXAMPLE / "order.xml").read_text())
        return deployment.configuration

    def _live(self, configuration: Configuration, place: str, nth: int) -> None:
        faults.point = Fate(place, nth) if place else lambda passed: note("at", passed)
        self._process(configuration)

    def _process(self, configuration: Configuration) -> None:
        provider = make_provider(configuration)
        _begin(configuration, provider)
        inputs = {one.destination for one in configuration.connector.inputs}

        def is_done() -> bool:
            with InProcessAdapter(configuration, provider) as adapter:
                adapter.drain()
            with closing(provider.existing()) as connection:
                found = [one for one in connection.destinations() if one.destination in inputs]
            return not sum(one.waiting + one.delayed for one in found)

        wait_for(is_done, 60, "the inputs are empty")

    def _drain(self, configuration: Configuration) -> dict[str, Any]:
        """Processes what is left, and counts."""
        faults.point = Fate("none", 0)
        self._process(configuration)
        with closing(sqlite3.connect(self.directory / "shop.db")) as shop:
            rows = [row[0] for row in shop.execute("SELECT order_id FROM orders ORDER BY 1")]
            days = [row[0] for row in shop.execute("SELECT day FROM days")]
        names = ("archive", "error", "unsubscribed", "invoices-EU", "invoices-US")
        found = {}
        with closing(make_provider(configuration).existing()) as connection:
            there = {str(one.destination) for one in connection.destinations()}
            for name in names:
                queue = Destination("queue", name)
                messages = list(connection.browse(queue)) if str(queue) in there else []
                found[str(queue)] = [
                    [bytes(one.body).decode(), one.properties.get("connector_origin_destination")]
                    for one in messages
                ]
        left = file_leftovers(self.directory / "data", "billing", tuple(_ARCHIVED), "busy")
        return {"rows": rows, "days": days, "queues": found, "left": left}


@dataclass
class _Clock:
    """A clock that stands still."""

    now: datetime.datetime

    def monotonic(self) -> float:
        return 0.0

    def local(self) -> datetime.datetime:
        return self.now.astimezone()


def _begin(configuration: Configuration, provider: AdapterProvider) -> None:
    """Takes an order as ``POST /events`` does, and lets the timer pass its time as a service does."""
    with closing(OnceSender(provider, "billing")) as sender:
        message = Message(_POSTED.encode(), "T", delivery_mode=PERSISTENT)
        message.set_property(CONTENT_TYPE, "application/json")
        sender.send(Destination("queue", "orders"), message, key="http/web-shop/O-4", keep=3600)
        clock = _Clock(_EVENING)
        timers = Timers(sender, provider.state("billing").control(), clock, lambda _: None)
        timers.take(make_timers(configuration, provider))
        timers.look()
        clock.now += datetime.timedelta(minutes=2)
        timers.look()


def _judge(counts: dict[str, Any], calls: list[list[str]]) -> list[str]:
    """Returns what is lost or doubled, in words.

    Args:
        counts: what is in the tables and queues.
        calls: order and Idempotency-Key of each call that the warehouse has answered well.
    """
    queues = counts["queues"]
    invoices = {name: sorted(body.partition("\n")[0] for body, _ in queues[name]) for name in _INVOICES}
    archived = Counter(origin.removeprefix("queue://") for _, origin in queues["queue://archive"])
    keys = {key: order for order, key in calls}
    found = {
        "rows": (counts["rows"], _ROWS),
        "days": (counts["days"], ["2026-02-28"]),
        "invoices": (invoices, _INVOICES),
        "archived": (dict(archived), _ARCHIVED),
        "announced": (sorted(keys.values()), _LARGE),
        "left": (counts["left"], []),
        "in error": (queues["queue://error"] + queues["queue://unsubscribed"], []),
    }
    return [f"{what}: {is_}, expected {wanted}" for what, (is_, wanted) in found.items() if is_ != wanted]


def main() -> int:
    """Runs once without a death, then with one death after the other. Returns the exit status."""
    warm_up(["dropbox"])
    deaths: Counter[str] = Counter()
    with quick_folder(Path(tempfile.gettempdir())) as base, hooks(base, _Warehouse) as hook:
        try:
            places = Counter(Run(base / "first", hook).run())
            for place, times in places.items():
                for nth in sorted({1, (times + 1) // 2, times}):
                    run = Run(base / f"{place}-{nth}", hook)
                    run.run(place, nth)
                    shutil.rmtree(run.directory)
                    deaths[place] += 1
        except Broken as broken:
            print(f"BROKEN: {broken}", flush=True)
            return 1
    print(f"{deaths.total()} deaths: " + ", ".join(f"{place} {n}" for place, n in deaths.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
