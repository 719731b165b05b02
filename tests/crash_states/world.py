"""One deployment on a disk that is made anew for each state, and what the world outside has seen of it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import select
import signal
import sqlite3
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import orjson
import yaml

from connector import TemporaryFailure, Unsubscribed
from connector.config.loading import Configuration
from connector.events.outcome import Outcome
from connector.events.settle.recovery import Recovery
from connector.events.settle.settling import Settler
from connector.lazy_property import lazy_property
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.subscription import TopicSubscription
from connector.service.assembly import make_provider
from connector.state import file_systems
from connector.state.journal import Journal
from connector.status import OutcomeKind
from connector.stores.dropbox import codec
from connector.stores.dropbox.claims import split_tag
from connector.stores.dropbox.files import split_due
from connector.stores.dropbox.headers import HeaderStore, keys_of
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.crash_states.disk import write_disk
from tests.crash_states.operations import Nodes, Recording
from tests.crash_states.recorder import Recorder, disks_differ, replace_functions, scan, show_numbers

WATCHED: Final = ("data", ".connector")
"""The entries of the deployment's directory that are recorded."""
_SECONDS: Final = 60.0
_FINAL: Final = (
    OutcomeKind.PUBLISHED,
    OutcomeKind.FAILED,
    OutcomeKind.UNSUBSCRIBED,
    OutcomeKind.DUPLICATE,
)

Fact = tuple[Any, ...]
Result = TypeVar("Result")

_OBJECTS: Final = """\
business_object: Customer
verbs: {Create: }
attributes:
  CustomerId: {type: String, key: true, required: true}
  Name: String
---
static_metaobject: MO_Config
rules:
  Customer_Create: {}
---
datahandler_metaobject: MO_DataHandler_Default
handlers:
  application/jsonl: {split: true}
"""
_PROCESSES: Final = "from tests.crash_states.world import book, store\n"
_present: list[World] = []
"""The world of this process, for the business processes."""


class World:
    """A deployment, and the facts of its run.

    Args:
        directory: of the deployment.
        facts: what was seen before.
    """

    def __init__(self, directory: Path, facts: Sequence[Fact] = ()) -> None:
        self.directory = directory
        self.deployment = Deployment(directory)
        self.facts: list[Fact] = list(facts)
        self.numbers: dict[int, int] = {}
        """The numbers of nodes by inode."""
        self._recorder: Recorder | None = None
        self._at = threading.local()

    @classmethod
    def make(
        cls,
        directory: Path,
        subscriptions: Sequence[dict[str, Any]],
        connector: dict[str, Any],
        provider: dict[str, Any],
        *,
        has_database: bool = False,
    ) -> World:
        """Writes a deployment."""
        section: dict[str, Any] = {
            "ApplicationName": "states",
            "instance": "one",
            "InputDestination": "queue://in",
            "PollQuantity": 100,
            "ArchiveDestination": "queue://archive",
            "ErrorDestination": "queue://error",
            "UnsubscribedDestination": "queue://unsubscribed",
            "ConfigurationMetaObject": "MO_Config",
            "DataHandlerMimeType": "application/json",
            "max_attempts": 20,
            **connector,
        }
        document: dict[str, Any] = {
            "provider": {"type": "dropbox", "root": "./data", "create": True, **provider},
            "connector": {key: value for key, value in section.items() if value is not None},
            "subscriptions": list(subscriptions),
            "metaobjects": "./metaobjects",
            "min_free": "0",
        }
        if has_database:
            document["databases"] = {"shop": {"url": "sqlite:///./shop.db"}}
        Deployment(directory, adapter=yaml.safe_dump(document), metaobjects=_OBJECTS, processes=_PROCESSES)
        return cls(directory)

    # -- facts -------------------------------------------------------------------------------------

    def mark(self, *fact: Any) -> None:
        """Notes what the world outside has seen."""
        if self._recorder is not None:
            self._recorder.mark(*fact)
        else:
            self.facts.append(fact)

    def number(self, *fact: Any) -> int:
        """How often a fact that begins so has been seen."""
        made = self.facts
        if self._recorder is not None:
            made = [*made, *(one.fact for one in self._recorder.recording.operations if one.fact)]
        return sum(one[: len(fact)] == fact for one in made)

    def call(self, who: str, identity: str, name: str) -> None:
        """Notes the call of a business process, and does what the name of the customer says."""
        earlier = self.number("call", who, identity)
        self.mark("call", who, identity, getattr(self._at, "event", None))
        if name == "fail":
            raise ValueError("told to fail")
        if name == "away" and not earlier:
            raise TemporaryFailure("told to be away")
        if name == "unwanted":
            raise Unsubscribed("told to be unwanted")

    def begin(self, *, keeps_order: bool) -> None:
        """Begins a run. Only for a process that ends afterwards.

        Args:
            keeps_order: what the product is told of the file system.
        """
        replace_functions(file_systems, keeps_order=lambda path: keeps_order)
        show_numbers(self.numbers)
        _present[:] = [self]
        self._watch_events()

    def _watch_events(self) -> None:
        """Notes the events of calls, what is done, and what is settled."""
        begin, done = Journal.begin, Journal.done
        settle, recovered = Settler.settle, Recovery._settle
        world = self

        def begins(journal: Journal, sequence: int) -> None:
            begin(journal, sequence)
            world._at.event = journal._path, sequence

        def is_done(
            journal: Journal, sequence: int, outcome: bytes, following: int | None = None, note: bytes = b""
        ) -> None:
            done(journal, sequence, outcome, following, note)
            kind = Outcome.from_list(orjson.loads(outcome)).kind
            event = getattr(world._at, "event", None)
            if kind in _FINAL and event == (journal._path, sequence):
                world.mark("done", *event)

        def settles(settler: Settler, commit: Any) -> None:
            told = [(claim.message_id, outcome.kind) for claim, outcome in commit.claims.decided]
            settle(settler, commit)
            for identity, kind in told:
                if kind in _FINAL:
                    world.mark("settled", identity)

        def recovers(recovery: Recovery, decisions: Any) -> Any:
            ids = {id(settlement): settlement.claim.message_id for settlement, _ in decisions}
            found = recovered(recovery, decisions)
            for settlement, outcome in found[0]:  # without those whose messages are gone
                if outcome and outcome.kind in _FINAL:
                    world.mark("settled", ids[id(settlement)])
            return found

        replace_functions(Journal, begin=begins, done=is_done)
        replace_functions(Settler, settle=settles)
        replace_functions(Recovery, _settle=recovers)

    # -- work --------------------------------------------------------------------------------------

    def send(self, destination: str, *names: str, **headers: Any) -> list[str]:
        """Sends customers as a program does. The ids are facts as soon as the send has returned."""
        messages = [self.message(name, **headers) for name in names]
        connection = self.provider.connect()
        try:
            ids = connection.send(parse_destination(destination), messages)
        finally:
            connection.close()
        for identity, name in zip(ids, names, strict=True):
            self.mark("sent", identity, name)
        return ids

    @staticmethod
    def message(name: str, *, records: int = 0, delivery_time: int = 0, **headers: Any) -> Message:
        one = {"BusinessObject": "Customer", "Verb": "Create", "Name": name}
        rows = [{**one, "CustomerId": str(number)} for number in range(1, (records or 1) + 1)]
        message = Message(b"".join(json.dumps(row).encode() + b"\n" for row in rows), "T")
        message.delivery_time = delivery_time
        for key, value in headers.items():
            message.set_property(key, value)
        return message

    def subscribe(self, topic: str, *names: str) -> None:
        """Makes durable subscriptions."""
        connection = self.provider.connect()
        try:
            for name in names:
                wanted = TopicSubscription(parse_destination(topic), name, "reader", durable=True)
                connection.poller(wanted).close()
        finally:
            connection.close()

    def run(self) -> None:
        """Starts an adapter, lets it process everything that waits, and stops it."""
        with self.adapter() as adapter:
            while True:
                report = adapter.drain()
                assert not report.reason, report.reason
                # a message may become due behind the last poll
                due = [
                    one for one in self.files("data/in/incoming/target") if "connector_outcomeS=later" in one
                ]
                if not due and not self.files("data/in/incoming/delayed"):
                    return

    def adapter(self) -> InProcessAdapter:
        return InProcessAdapter(self.configuration, self.provider)

    @lazy_property
    def provider(self) -> AdapterProvider:
        return make_provider(self.configuration)

    @property
    def configuration(self) -> Configuration:
        known = _configurations.get(self.directory)
        if known is None:
            known = _configurations[self.directory] = self.deployment.configuration
        return known

    # -- looking -----------------------------------------------------------------------------------

    def files(self, folder: str) -> list[str]:
        """Returns the names in a folder. Empty if there is none."""
        try:
            return sorted(os.listdir(self.directory / folder))
        except FileNotFoundError:
            return []

    def places(self) -> dict[str, list[str]]:
        """Returns where each message is: paths of its files by message id, relative to the root."""
        found: dict[str, list[str]] = {}
        root = self.directory / "data"
        folders = ("target", "processing", "processed", "expired", "error", "delayed", "working")
        for folder, _, names in os.walk(root):
            if os.path.basename(folder) in folders and "/dropboxmq/" not in folder:
                for name in names:
                    path = os.path.relpath(os.path.join(folder, name), root)
                    found.setdefault(self.identity(path), []).append(path)
        return found

    def full_name(self, path: str) -> str:
        """Returns the name of a message with all headers, by its path relative to the root."""
        name = split_tag(os.path.basename(path))[0]
        if os.path.basename(os.path.dirname(path)) == "delayed":
            name = split_due(name)[1]
        return HeaderStore(str(self.directory / "data/dropboxmq/headers"), "", sync=False).full(name)

    def identity(self, path: str) -> str:
        if "/working/" in path:
            return f"prepared {path}"
        return codec.message_id(self.full_name(path))

    def customer(self, path: str) -> str:
        """Returns the name of the customer in a message."""
        body = (self.directory / "data" / path).read_bytes()
        return str(json.loads(body)["Name"]) if body else ""

    def event_id(self, path: str) -> str:
        """Returns the id of the event that a sent message comes from."""
        message, _ = codec.decode(self.full_name(path), readable_only=True)
        return str(message.properties.get("connector_event_id", ""))

    def leftovers(self) -> list[str]:
        """Returns what an adapter that has settled everything leaves nowhere: paths relative to the root."""
        root = self.directory / "data"
        found = [str(path.relative_to(root)) for path in root.glob("**/working/*~@*")]
        found += [str(path.relative_to(root)) for path in root.glob("**/processing/*")]
        own = "dropboxmq/"
        for place in ("transaction/associated", "transaction/committing", "adapter/states/in-flight"):
            found += [f"{own}{place}/{name}" for name in self.files(f"data/{own}{place}")]
        found += [f"{own}clients/{name}" for name in self.files(f"data/{own}clients")]
        state = f"{own}adapter/states/one"
        found += [f"{state}/{name}" for name in self.files(f"data/{state}") if name != "lock"]
        return found

    def remains(self) -> list[str]:
        """Returns what is left, lost or damaged."""
        found = [f"left: {path}" for path in self.leftovers()]
        found += [f"headers are lost: {key}" for key in self.lost_headers()]
        return found + [f"the body is damaged: {path}" for path in self.damaged()]

    def damaged(self) -> list[str]:
        """Returns the messages whose body is not what was written: paths relative to the root."""
        found = []
        root = self.directory / "data"
        for path in root.glob("**/target/*"):
            lines = path.read_bytes().splitlines()
            try:
                is_whole = bool(lines) and all(map(json.loads, lines))
            except ValueError:
                is_whole = False
            if not is_whole:
                found.append(str(path.relative_to(root)))
        return found

    def lost_headers(self) -> list[str]:
        """Returns the sidecars that are named and missing."""
        there = set(self.files("data/dropboxmq/headers"))
        root = self.directory / "data"
        names = [path.name for path in root.glob("**/target/*")]
        return [key for name in names for key in keys_of(name) if key not in there]

    @property
    def database(self) -> Path:
        return self.directory / "shop.db"

    def bookings(self) -> list[str]:
        """Returns the events in the business database."""
        with contextlib.closing(sqlite3.connect(self.database)) as connection:
            return [event for (event,) in connection.execute("SELECT event FROM booking")]

    # -- recording ---------------------------------------------------------------------------------

    def record(self, act: Callable[[World], None]) -> Recording:
        """Runs something and returns its record, which gives the same tree as the run.

        Only for a process that ends afterwards.
        """
        watch = _DatabaseWatch(self.database) if self.database.exists() else None
        recorder = self._recorder = Recorder(self.directory, WATCHED, watch, self.numbers)
        recorder.recording.facts = list(self.facts)
        recorder.start()
        act(self)
        return recorder.recording


class _DatabaseWatch:
    """Returns the business database as a fact, as often as a commit has changed it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = self._look()
        self._content = self._read()

    def _look(self) -> tuple[int, int]:
        status = os.stat(self._path)
        return status.st_mtime_ns, status.st_size

    def _read(self) -> bytes:
        with contextlib.closing(sqlite3.connect(self._path)) as connection:
            return connection.serialize()

    def __call__(self) -> Fact | None:
        if self._look() == self._last:
            return None
        self._last, content = self._look(), self._read()
        if content == self._content:
            return None
        self._content = content
        return "database", content


_configurations: dict[Path, Configuration] = {}


def store(customer: Any, event: Any) -> None:
    """A business process."""
    _present[0].call("store", event.id, customer["Name"])


def book(customer: Any, event: Any) -> None:
    """A business process with a transaction."""
    event.transaction.cursor().execute("INSERT INTO booking (event) VALUES (?)", (event.id,))
    _present[0].call("book", event.id, customer["Name"])


# -- processes -----------------------------------------------------------------------------------------


class ChildFailed(AssertionError):
    """Raised if a forked process has failed. Its text is the traceback and the log."""


class Job(Generic[Result]):
    """A function that runs in a forked process.

    Args:
        work: the function. Its result is pickled.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(reading)
            _run_in_child(work, writing)
        os.close(writing)
        self._reading = reading
        self._chunks: list[bytes] = []
        self.is_over = False

    @staticmethod
    def wait(jobs: Sequence[Job[Any]], seconds: float | None = None) -> bool:
        """Reads what jobs have written, until one is over. Returns False if none is after some seconds."""
        while not any(job.is_over for job in jobs):
            ready = select.select([job._reading for job in jobs], [], [], seconds)[0]
            if not ready:
                return False
            for job in jobs:
                if job._reading in ready:
                    job._read()
        return True

    def _read(self) -> None:
        chunk = os.read(self._reading, 1 << 20)
        if chunk:
            self._chunks.append(chunk)
            return
        os.close(self._reading)
        _, self._status = os.waitpid(self._pid, 0)
        self.is_over = True

    def kill(self) -> None:
        """Ends the process."""
        os.kill(self._pid, signal.SIGKILL)
        Job.wait([self])

    def result(self) -> Result:
        """Returns the result of a job that is over.

        Raises:
            ChildFailed: the function has raised an exception, or the process has ended otherwise.
        """
        if not self._chunks:
            raise ChildFailed(f"the process has ended with status {self._status}")
        failure: str
        result: Result
        failure, result = pickle.loads(b"".join(self._chunks))
        if failure:
            raise ChildFailed(failure)
        return result


def in_child(work: Callable[[], Result], seconds: float = _SECONDS) -> Result:
    """Runs a function in a forked process and returns its result.

    Args:
        work: the function. Its result is pickled.
        seconds: after which the process counts as hung, and is killed.

    Raises:
        ChildFailed: the function has raised an exception, or the process has ended otherwise.
    """
    job = Job(work)
    if not Job.wait([job], seconds):
        job.kill()
        raise ChildFailed(f"the process did not end within {seconds:g} s")
    return job.result()


def _run_in_child(work: Callable[[], object], writing: int) -> None:
    write, lines = os.write, _Lines()
    root = logging.getLogger()
    root.handlers[:] = [lines]
    root.setLevel(logging.INFO)
    try:
        answer = pickle.dumps(("", work()), protocol=5)
    except BaseException:
        answer = pickle.dumps(("".join([traceback.format_exc(), *lines.texts]), None), protocol=5)
    view = memoryview(answer)
    while view:
        view = view[write(writing, view) :]
    os._exit(0)


class _Lines(logging.Handler):
    """Keeps the lines of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        usual = logging.LogRecord("", 0, "", 0, "", (), None).__dict__
        more = {key: value for key, value in record.__dict__.items() if key not in usual}
        self.texts.append(f"log: {record.levelname} {record.getMessage()} {more}\n")


def run_state(world: World, nodes: Nodes, facts: Sequence[Fact], work: Callable[[World], Result]) -> Result:
    """Makes a disk, and runs something on it in this process."""
    world.numbers = write_disk(nodes, world.directory, WATCHED)
    content = next((fact[1] for fact in reversed(facts) if fact[0] == "database"), None)
    for path in world.directory.glob("shop.db*"):
        path.unlink()
    if content is not None:
        world.database.write_bytes(content)
    world.facts = [fact for fact in facts if fact[0] != "database"]
    return work(world)


def assert_true_to_the_run(world: World, recording: Recording, rebuilt: Nodes) -> None:
    """Checks that a record gives the same tree as the run, byte for byte."""
    differences = disks_differ(scan(world.directory, WATCHED), rebuilt)
    assert not differences, "\n".join(differences)
