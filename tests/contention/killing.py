"""Kills senders and consumers of one queue and one topic, at named steps and at any moment."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.contention.crew import Crew
from tests.contention.ledger import Ledger
from tests.forked_command import PipedProcess

QUEUE = "queue://orders"
TOPIC = "topic://prices"
SUBSCRIPTIONS = ("audit", "books")
NO_FAULT = ""
CONSUMING = ("claim", "settle.record", "settle.committing", "settle.move", "settle.finished")
"""Steps of a consumer: claim, acknowledge, commit, roll-forward."""
ACKNOWLEDGING = ("claim", "settle.move", "settle.finished")
"""Steps of a consumer that acknowledges one message: one rename, without a record."""
SENDING = ("settle.record", "settle.committing", "settle.move", "settle.finished")
"""Steps of a sender of a batch; a single message is one rename."""

DISTRIBUTING = ("fanout.claim", "fanout.link", *SENDING)
"""Steps of a consumer of a subscription that distributes the files of foreign programs, one record each."""

FANNING = ("fanout.link", *SENDING)
"""Steps of a sender to a topic: its links are made one by one, and shown by one commit."""


@dataclass
class Torture:
    """Workers that are killed over one root, and what became of the messages.

    Args:
        workers: starts them.
        chance: chooses who does what and ends when.
        topics: with a topic and its subscriptions.
    """

    workers: Crew
    chance: random.Random
    topics: bool = True
    killed: int = 0
    dropped: int = 0
    ledgers: dict[str, Ledger] = field(default_factory=dict)

    def run(self, kills: int) -> bool:
        """Whether every promise was kept, after so many have been killed."""
        self.prepare()
        for _ in range(kills * 10):
            if self.killed >= kills:
                break
            self._wave()
        return self.finish()

    def prepare(self) -> None:
        """Makes the subscriptions, so that they get all that is sent."""
        for subscription in SUBSCRIPTIONS if self.topics else ():
            self.consume(subscription, "--patience", 0)

    def send(self, destination: str, *options: object, fault: str = NO_FAULT) -> PipedProcess:
        """A sender that has begun."""
        worker = self.workers.start("send", destination, "--log", *options, fault=fault)
        self.workers.go([worker])
        return worker

    def drop(self, count: int) -> None:
        """Puts messages into the topic as a foreign program would; the body of each is its key."""
        self.dropped += 1
        base = Path(self.workers.root, "topic-root", TOPIC.partition("://")[2], ".incoming")
        keys = [f"foreign{self.dropped}-{number}" for number in range(count)]
        for key in keys:
            (base / "working" / "x").write_text(key)
            os.rename(base / "working" / "x", base / "target" / key)
        ledger = Path(self.workers.directory, f"prices.foreign{self.dropped}.ledger")
        ledger.write_text("".join(f"sent {key}\n" for key in keys))

    def consumer(self, source: str, *options: object, fault: str = NO_FAULT) -> PipedProcess:
        """A consumer, of the queue or of a subscription, that has begun."""
        kind: tuple[object, ...] = ()
        if source in SUBSCRIPTIONS:
            kind = ("--subscription", source)
        destination = TOPIC if kind else QUEUE
        ledger = source if kind else ""
        worker = self.workers.start(
            "consume", destination, "--log", *kind, *options, fault=fault, ledger=ledger
        )
        self.workers.go([worker])
        return worker

    def consume(self, source: str, *options: object, fault: str = NO_FAULT) -> None:
        self.wait(self.consumer(source, *options, fault=fault))

    def wait(self, worker: PipedProcess) -> None:
        self.killed += self.workers.wait(worker) is None

    def finish(self) -> bool:
        """Empties everything and reads the ledgers."""
        sources = ["orders", *SUBSCRIPTIONS] if self.topics else ["orders"]
        for source in sources:
            self.consume(source, "--batch", 7)
        self.ledgers = {source: self._ledger(source) for source in sources}
        return all(ledger.kept for ledger in self.ledgers.values()) and not self.remains()

    def remains(self) -> list[str]:
        """Files that no message and no client should leave behind when all is consumed."""
        root = Path(self.workers.root)
        found = []
        for folder in ("working", "target", "processing"):
            found += [path for path in root.glob(f"**/{folder}/*") if "archive-" not in str(path)]
        own = root / "dropboxmq"
        for place in ("transaction/associated", "transaction/committing", "headers", "clients"):
            found += (own / place).iterdir()
        return sorted(str(path.relative_to(root)) for path in found)

    def __str__(self) -> str:
        parts = "; ".join(f"{name}: {ledger}" for name, ledger in self.ledgers.items())
        remains = f"; remains: {self.remains()}" if self.remains() else ""
        return f"{self.killed} killed; {parts}{remains}"

    def _ledger(self, source: str) -> Ledger:
        ledger = self.workers.ledger(source, *(["prices"] if source in SUBSCRIPTIONS else []))
        root = self.workers.root
        kept = [*root.glob(f"archive-{source}/incoming/target/*")]
        if source in SUBSCRIPTIONS:
            kept += root.glob(f"topic-root/prices/.subscriptions/{source}.*/processed/*")
        else:
            kept += root.glob(f"{source}/incoming/processed/*")
        ledger.settled = Counter(path.read_text().strip() for path in kept)
        return ledger

    def _wave(self) -> None:
        """Some workers at once; each ends at a step, at a moment, or by itself."""
        chance = self.chance
        if self.topics and chance.random() < 0.5:
            self.drop(20)
        running = []
        for _ in range(chance.randint(1, 2)):
            destination = chance.choice([QUEUE, TOPIC]) if self.topics else QUEUE
            places = FANNING if destination == TOPIC else SENDING
            running.append(self.send(destination, *self._options(60), fault=self._fault(places)))
        for _ in range(chance.randint(1, 3)):
            source = chance.choice(["orders", *SUBSCRIPTIONS]) if self.topics else "orders"
            give_back = ("--give-back", chance.choice([0, 0.2]), "--patience", 0.3)
            copy = chance.choice([(), ("--copy-to", f"archive-{source}")])
            options = (*self._options(0), *give_back, *copy)
            of_source = (*CONSUMING, *DISTRIBUTING) if source in SUBSCRIPTIONS else CONSUMING
            running.append(self.consumer(source, *options, fault=self._fault(of_source)))
        if chance.random() < 0.5:
            time.sleep(chance.uniform(0, 0.1))
            victim = chance.choice(running)
            if victim.poll() is None:
                os.kill(victim.pid, signal.SIGKILL)
        for worker in running:
            self.wait(worker)

    def _options(self, count: int) -> tuple[object, ...]:
        durable = ("--durable",) if self.chance.random() < 0.3 else ()
        return ("--count", count, "--batch", self.chance.choice([1, 1, 4, 20]), *durable)

    def _fault(self, places: tuple[str, ...]) -> str:
        if self.chance.random() < 0.3:
            return NO_FAULT
        return f"{self.chance.choice(places)}:{self.chance.randint(1, 12)}=kill"
