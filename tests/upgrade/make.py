"""Makes the data of version 0.2.0 in this folder: ``python -m tests.upgrade.make CODE``.

CODE is a directory with the package of 0.2.0, made with
``git worktree add ../v0.2.0 v0.2.0 && pip install --no-deps --target CODE ../v0.2.0``.

The program runs as root of a Linux machine, and everything lies under ``/srv/adapter``, so that no path of a
developer gets into the data. Processes of 0.2.0 see the host name ``host-a``. Two adapters are killed while
each of them is in a delivery:

* ``billing`` has claims without an in-progress destination, eliminates duplicates, sends, serves requests and
  polls a durable subscription.
* ``ledger`` has an in-progress destination, with one event in doubt from an earlier crash.

An archive for each kind keeps empty directories, links and times. That of PostgreSQL has a dump. The file
``deliveries`` of each has been written by the business processes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.postgres import new_server
from tests.waiting import wait_for

FOLDER: Final = Path(__file__).parent
PLACE: Final = Path("/srv/adapter")
SECTIONS: Final[dict[str, dict[str, Any]]] = {
    "dropbox": {"provider": {"type": "dropbox", "root": "./data", "create": True}},
    "sqlite": {
        "provider": {"type": "sql", "url": "sqlite:///./data/messages.db"},
        "state": {"directory": "./state"},
    },
    "postgresql": {"provider": {"type": "sql", "url": "${DATABASE}"}},
}
LONG: Final = "long " * 60
"""A property that needs a file for the headers in a dropbox."""


def deploy(directory: Path, kind: str) -> None:
    """Writes a deployment for one kind of data. A value of JSON is one of YAML, too."""
    shutil.copytree(FOLDER / "deployment", directory, dirs_exist_ok=True)
    for name in ("billing.yaml", "ledger.yaml"):
        sections = "".join(f"{key}: {json.dumps(value)}\n" for key, value in SECTIONS[kind].items())
        (directory / name).write_text(sections + (directory / name).read_text())


class OldVersion:
    """The command ``connector`` of 0.2.0 in a deployment.

    Args:
        code: directory with the package.
        hidden: directory for a module that hides the name of this machine.
        url: of the database of PostgreSQL.
    """

    def __init__(self, code: Path, hidden: Path, url: str) -> None:
        (hidden / "sitecustomize.py").write_text("import socket\nsocket.gethostname = lambda: 'host-a'\n")
        self._mark = f"UPGRADE_MAKE={uuid.uuid4()}"
        name, _, value = self._mark.partition("=")
        own = {"DELIVERIES": str(PLACE / "deliveries"), "DATABASE": url, name: value}
        self._environment = {**os.environ, **own, "PYTHONPATH": f"{code}:{hidden}"}

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "connector.cli", *arguments],
            cwd=PLACE,
            env={**self._environment, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, body: str = "", **variables: str) -> str:
        process = self.start(*arguments, **variables)
        answer, _ = process.communicate(body)
        assert process.returncode == 0, arguments
        return answer

    def send(self, to: str, what: str, number: str, *options: str) -> None:
        body = json.dumps({"BusinessObject": what, "Verb": "Create", "Number": number})
        self.run("send", "-c", "billing.yaml", to, *options, body=body)

    def kill_in_delivery(self, number: str, *arguments: str, **variables: str) -> None:
        """Starts an adapter and kills all its processes when it is in the delivery of ``number``."""
        process = self.start(*arguments, HOLD="yes", **variables)
        deliveries = PLACE / "deliveries"
        wait_for(lambda: f"begin {number} " in deliveries.read_text(), seconds=120)
        while pids := list(self._processes()):
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            process.poll()

    def _processes(self) -> Iterable[int]:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark in (entry / "environ").read_text(errors="replace").split("\0"):
                    yield int(entry.name)
            except OSError:  # has ended
                continue


def make(old: OldVersion, kind: str) -> None:
    """Makes the data of one kind in :data:`PLACE`."""
    deploy(PLACE, kind)
    (PLACE / "deliveries").touch()
    old.run("run", "-c", "billing.yaml", "--once")  # makes the subscription
    old.run(
        "subscribe", "-c", "billing.yaml", "topic://prices", "--subscription", "audit", "--client-id", "audit"
    )
    # settled by 0.2.0
    old.send("orders", "Order", "done-1")
    old.send("orders", "Order", "bad-1")
    old.send("orders", "Other", "unwanted-1")
    old.send(
        "questions", "Question", "answered-1", "--reply-to", "queue://replies", "--correlation-id", "Q-1"
    )
    old.send("topic://prices", "Price", "price-1")
    old.run("run", "-c", "billing.yaml", "--drain")
    # an event that is in doubt, and that nobody owns
    old.send("invoices", "Order", "held-invoice-1")
    old.kill_in_delivery("held-invoice-1", "run", "-c", "ledger.yaml")
    old.run("run", "-c", "ledger.yaml", "--drain", IN_DOUBT="LogError")
    # in progress: one is done, one is in doubt, one is claimed
    for number in ("done-invoice-2", "held-invoice-2", "claimed-invoice-1"):
        old.send("invoices", "Order", number)
    old.kill_in_delivery("held-invoice-2", "run", "-c", "ledger.yaml", IN_DOUBT="LogError")
    for number in ("done-2", "held-1", "claimed-1"):
        old.send("orders", "Order", number)
    old.send(
        "orders", "Order", "claimed-2", "--property", f"note={LONG}", "--property", "JMSXGroupID=group-1"
    )
    old.kill_in_delivery("held-1", "run", "-c", "billing.yaml")
    # waiting
    old.send("orders", "Order", "waiting-1")
    old.send("orders", "Order", "waiting-2", "--priority", "9", "--property", f"note={LONG}")
    old.send("orders", "Order", "waiting-3", "--property", "JMSXGroupID=group-1")
    old.send("invoices", "Order", "waiting-invoice-1")
    old.send("questions", "Question", "waiting-4", "--reply-to", "queue://replies", "--correlation-id", "Q-2")
    old.send("topic://prices", "Price", "price-2")
    old.send("topic://prices", "Price", "price-3")


def pack(kind: str) -> None:
    """Packs what 0.2.0 has made in :data:`PLACE`, without the names of users."""

    def clean(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(FOLDER / f"{kind}.tar.xz", "w:xz") as archive:
        for name in ("data", "state", ".connector", "dump.sql", "deliveries"):
            if (PLACE / name).exists():
                archive.add(PLACE / name, name, filter=clean)


def main(code: Path) -> None:
    with tempfile.TemporaryDirectory() as hidden, new_server() as server:
        name = server.make_database()
        old = OldVersion(code, Path(hidden), server.url(name))
        for kind in SECTIONS:
            assert not PLACE.exists(), f"{PLACE} exists; remove it"
            PLACE.mkdir(parents=True)
            try:
                make(old, kind)
                if kind == "postgresql":  # without what names this machine
                    dumped = re.sub(r"[0-9a-f-]{36} pid:\[\d+\]", "machine-a pid:[1]", server.dump(name))
                    (PLACE / "dump.sql").write_text(dumped)
                pack(kind)
            finally:
                shutil.rmtree(PLACE)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
