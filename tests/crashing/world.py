"""A world: one deployment whose adapter dies again and again. Each life is a forked child.

The parent has one thread and nothing open, because a child would share the connections and lack the threads.
It has imported everything, so a life costs no start of Python.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import http.server
import importlib
import json
import os
import pkgutil
import random
import signal
import tempfile
import threading
import traceback
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.util import LRUCache

from connector import faults
from connector.config.loading import Configuration, load
from connector.events.run.module_versions import versions
from connector.log import LogSettings, set_up_logging
from connector.stores.sql import processes
from connector.stores.sql.statement import Statement
from connector.stores.sql.statements import statements_of
from tests.brokers.engine.broker import Broker
from tests.brokers.engine.server import serving
from tests.crashing.judgement import judge
from tests.crashing.life import ANYWHERE, DIED, Life
from tests.crashing.processes import note
from tests.crashing.scenario import SINKS, Scenario, Sent
from tests.postgres import PostgresServer, end_signs_of_life
from tests.quick_folder import quick_folder

_PACKAGES: Final = (
    *("connector.core", "connector.events", "connector.events.claim", "connector.events.run"),
    *("connector.events.settle", "connector.messaging", "connector.requests", "connector.service"),
    *("connector.sinks", "connector.sinks.destination", "connector.sinks.process", "connector.sinks.table"),
    *("connector.sinks.webhook", "connector.databases", "connector.state", "connector.stores.dropbox"),
    *(
        "connector.brokers.engine",
        "connector.stores.engine",
        "connector.stores.sql",
        "connector.datahandlers",
        "connector.formats",
    ),
)
_MODULES: Final = (
    *("psycopg", "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql.psycopg"),
    *("connector.testing.deployment", "tests.crashing.processes"),
)
_OF_EACH: Final = {
    "claim": 4,
    "begin": 2,
    "deliver": 3,
    "done": 2,
    "history": 2,
    "settle.record": 2,
    "settle.committing": 2,
    "settle.finished": 2,
    ANYWHERE: 16,
}
"""Places, and about how often a life comes there."""
_OF_KEYS: Final = {"keys.found": 3, "keys.reserved": 3}
_OF_FILES: Final = {"settle.move": 6}
_OF_TABLES: Final = {"claim.uncommitted": 3}
_OF_BROKERS: Final = {"claim.known": 2, "claim.noted": 2, "rollback": 1}
_LONGEST_LIFE: Final = 120


class Broken(Exception):
    """A promise is broken. The text says which, in which world."""


@dataclass
class World:
    """One deployment and its lives.

    Args:
        directory: of the deployment, which does not exist yet.
        scenario: what its adapter does.
        choices: of messages and deaths.
        url: of the database with the messages. Empty = a directory.
        shop: of the business database.
        hook: URL of the server for webhooks.
    """

    directory: Path
    scenario: Scenario
    choices: random.Random
    url: str = ""
    shop: str = ""
    hook: str = ""
    sent: list[Sent] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    """One word for each life: the place and the number of its death, or that it ended in order."""
    deaths: int = 0
    repeated: int = 0

    def run(self, crashes: int) -> None:
        """Lets the adapter die so often, drains, and judges.

        Raises:
            Broken: a promise is broken.
        """
        configuration = self._deploy()
        try:
            with self._serves():
                self._run(configuration, crashes)
        except Broken as error:
            raise Broken(f"{error}\n{self.scenario}\nlives: {' '.join(self.history)}") from None

    def _run(self, configuration: Configuration, crashes: int) -> None:
        self._in_child(configuration, Life.begin)
        places = self._places()
        self.choices.shuffle(places)
        lives = 0
        while self.deaths < crashes:
            lives += 1
            if lives > 20 * crashes + 20:
                raise Broken("no life dies any more")
            place = places[lives % len(places)] if self.choices.random() < 0.6 else ANYWHERE
            self._live(configuration, place)
        counts = json.loads(self._in_child(configuration, Life.drain))
        lines = (self.directory / "log").read_text().splitlines()
        broken, self.repeated = judge(self.scenario, self.sent, lines, counts)
        if broken:
            raise Broken("\n".join(broken[:20]))

    def _serves(self) -> contextlib.AbstractContextManager[None]:
        return _broker(self.directory) if self.scenario.store == "broker" else contextlib.nullcontext()

    def rehearse(self) -> None:
        """Lives once in this process, and leaves to its children what the product keeps in memory."""
        configuration = self._deploy()
        before, point = os.getcwd(), faults.point
        os.chdir(self.directory)
        life = Life(self.scenario, configuration, self.url or str(self.directory / "root"), self.shop)
        with self._serves():
            life.begin()
            life.run([Sent(1, "queue://a"), Sent(2, self.scenario.destinations[-1])], "none", 1)
            life.count()
        os.chdir(before)
        faults.point = point

    def _deploy(self) -> Configuration:
        self.directory.mkdir(parents=True)
        provider: dict[str, Any] = {"type": "memory"}
        if self.url:
            provider = {"type": "sql", "url": self.url}
        elif self.scenario.store == "dropbox":
            provider = {"type": "dropbox", "root": str(self.directory / "root"), "create": True}
        self.scenario.write(self.directory, provider, self.shop, self.hook)
        return load(self.directory / "adapter.yaml", {}, in_process=True)

    def _places(self) -> list[str]:
        store = self.scenario.store
        is_sql = store in ("sqlite", "postgresql")
        places = {**_OF_EACH, **(_OF_FILES if store == "dropbox" else _OF_TABLES if is_sql else _OF_BROKERS)}
        if self.scenario.keyed:
            places |= _OF_KEYS
        if self.scenario.has_database:
            places |= {"transaction.returned": 3, "transaction.committed": 3}
        if store == "dropbox" and (self.scenario.topic or "news" in self.scenario.sinks):
            places["fanout.link"] = 2
        if store == "dropbox" and self.scenario.topic:
            places["fanout.claim"] = 2
        if self.scenario.later and store == "dropbox":
            places["delayed.move"] = 1
        if is_sql and {"copy", "news", "answer"} & set(self.scenario.sinks):
            places |= {"prepare.uncommitted": 2, "prepare": 2}
        self._most = places
        return list(places)

    def _live(self, configuration: Configuration, place: str) -> None:
        new = [
            Sent.draw(number, self.scenario, self.choices)
            for number in range(len(self.sent) + 1, len(self.sent) + 1 + self.choices.randint(1, 8))
        ]
        self.sent += new
        nth = self.choices.randint(1, self._most[place])
        pid = self._fork(configuration, lambda life: life.run(new, place, nth))
        try:
            if self.scenario.neighbour:
                neighbour = self._fork(configuration, lambda life: life.run([], "none", 1), "neighbour")
                self._wait(neighbour, "neighbour")
        finally:
            died = self._wait(pid) is None
            if "hook" in self.scenario.sinks:
                urllib.request.urlopen(self.hook).close()  # answered when all earlier calls are in the log
        self.deaths += died
        self.history.append(f"{place or '*'}:{nth}" if died else "-")

    def _in_child(self, configuration: Configuration, work: Callable[[Life], object]) -> str:
        """Does work in a forked child. Returns what the work returned, as JSON."""
        answer = self._wait(self._fork(configuration, work))
        assert answer is not None
        return answer

    def _fork(self, configuration: Configuration, work: Callable[[Life], object], name: str = "one") -> int:
        def live() -> object:
            place = self.url or str(self.directory / "root")
            return work(Life(self.scenario, configuration, place, self.shop))

        return fork(self.directory, live, name)

    def _wait(self, pid: int, name: str = "one") -> str | None:
        return await_fork(self.directory, pid, name)


def fork(directory: Path, work: Callable[[], object], name: str = "one") -> int:
    """Lets a child work in a directory. Returns its process id.

    Args:
        work: returns what :func:`await_fork` returns.
        name: of the child, in the names of its files.
    """
    pid = os.fork()
    if pid:
        return pid
    status = 1
    gc.disable()  # a life is short
    try:
        os.chdir(directory)
        with open("errors", "a") as errors:
            os.dup2(errors.fileno(), 1)
            os.dup2(errors.fileno(), 2)
        set_up_logging(LogSettings())
        faulthandler.dump_traceback_later(_LONGEST_LIFE, exit=True)
        Path(f"answer.{name}").write_text(json.dumps(work()))
        status = 0
    except BaseException:
        Path(f"failure.{name}").write_text(traceback.format_exc())
    finally:
        os._exit(status)


def await_fork(directory: Path, pid: int, name: str = "one") -> str | None:
    """Waits for a child. Returns what its work returned, as JSON. None = the child died.

    Args:
        directory, name: as in :func:`fork`.

    Raises:
        Broken: the child failed.
    """
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == DIED:
        return None
    if status != 0:
        with contextlib.suppress(FileNotFoundError):
            failure = (directory / f"failure.{name}").read_text()
            raise Broken(f"a life failed: {failure.splitlines()[-1]}\n{failure}")
        errors = (directory / "errors").read_text()[-3000:]
        raise Broken(f"a life ended with status {status}: {errors}")
    return (directory / f"answer.{name}").read_text()


@contextlib.contextmanager
def _broker(directory: Path) -> Iterator[None]:
    """A broker in a process of its own, which outlives those that are its clients."""
    ours, theirs = os.pipe()
    ready, is_ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(theirs)
        try:
            with serving(Broker(), directory / "socket"):
                os.write(is_ready, b"1")
                os.read(ours, 1)
        finally:
            os._exit(0)
    os.close(is_ready)
    os.read(ready, 1)
    try:
        yield
    finally:
        for descriptor in (ours, theirs, ready):
            os.close(descriptor)
        os.waitpid(pid, 0)


class Hook(http.server.BaseHTTPRequestHandler):
    """Writes each call into the log of its world: the path is ``/WORLD/KEY``."""

    base: Path

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        _, world, key = self.path.split("/")
        note("post", "hook", key, directory=str(self.base / world))
        self.do_GET()

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Does nothing."""


@contextlib.contextmanager
def hooks(base: Path, handler: type[Hook] = Hook) -> Iterator[str]:
    """A server for webhooks in a process of its own. Yields its URL, to which the name of a world is added.

    Args:
        base: directory of the worlds.
        handler: what becomes of a call.
    """
    handler.base = base
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        pid = os.fork()
        if pid == 0:
            try:
                server.serve_forever()
            finally:
                os._exit(0)
        url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield url
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _share_compiled(dialect: Any, shared: LRUCache[Any, Any]) -> None:
    """Lets all engines of a database system use what SQLAlchemy has compiled for one of them."""
    dialect.__eq__ = lambda self, other: type(self) is type(other)
    dialect.__hash__ = lambda self: hash(type(self))
    dialect.engine_created = lambda engine: setattr(engine, "_compiled_cache", shared)


@contextlib.contextmanager
def _url_of(store: str, base: Path, server: PostgresServer | None) -> Iterator[str]:
    """The URL of a database for the rehearsal on a store. Empty = a store without one."""
    if store != "postgresql":
        yield f"sqlite:///{base}/messages.db" if store == "sqlite" else ""
        return
    assert server is not None
    database = server.make_database()
    with mock.patch.object(processes, "_BEATS", 1000):
        yield server.url(database)
        connections = list(processes._shared.values())
        end_signs_of_life(server.url(database))
        for one in connections:
            one._is_inherited = True  # so that its thread ends with the next beat
        for thread in threading.enumerate()[1:]:
            thread.join()
    server.drop_database(database)


def warm_up(stores: Sequence[str], server: PostgresServer | None = None) -> None:
    """Imports, compiles and caches all that a life needs. The process must have one thread.

    Args:
        stores: that get worlds.
        server: for PostgreSQL.
    """
    for package in _PACKAGES:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    for name in _MODULES:
        importlib.import_module(name)
    for dialect in ("sqlite", "postgresql"):
        for statement in vars(statements_of(dialect)).values():
            if isinstance(statement, Statement):
                statement._compiled  # noqa: B018, made once and kept
    versions()
    for kind in (sqlite.dialect, psycopg.dialect):
        _share_compiled(kind, LRUCache(2000))
    with quick_folder(Path(tempfile.gettempdir())) as base:
        for store in stores:
            without = ("hook", "news") if store == "broker" else ("hook",)
            sinks = tuple(name for name in SINKS if name not in without)
            scenario = Scenario(store, topic=store != "broker", window=True, sinks=sinks)
            with _url_of(store, base, server) as url:
                shop = f"sqlite:///{base}/{store}/shop.db"
                World(base / store, scenario, random.Random(0), url, shop).rehearse()
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1
    assert len(os.listdir("/proc/self/task")) == 1, "a child would lack the threads"
