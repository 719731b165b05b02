"""Chaos at a real broker: adapters, programs beside them, and everything that disturbs them.

    python -m tests.servers.chaos --for 10m --mode transactions --broker artemis [--seed N] [--spark]
    python -m tests.servers.chaos --failover --in-turn --only kill --only "kill the broker"

Two instances of an adapter and one of another take events, send some on, try some again, and answer requests.
Programs send events and ask. A proxy stands between all of them and the broker. In a random order, instances
are killed, told to end and frozen, connections are cut, refused, slow and stalled, queues are paused at the
broker, and the broker is killed. Then all is calm, what waits is done, and :mod:`tests.chaos_checker` counts.
With ``--failover`` the adapters have a URL of ``failover:``.
Prints the seed, the progress and a table. Status 1 = a figure is wrong.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import random
import re
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import connector
from connector.brokers.engine.connection import RemoteConnection
from connector.brokers.engine.state import RemoteState
from connector.errors import ConnectorError, UnknownDestination
from connector.events.settle import redeliveries
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from tests.brokers.engine.world import leftovers
from tests.chaos_checker import Call, Found, Kind, Sent, check, report
from tests.runs import Run
from tests.servers.asking import asking, is_named
from tests.servers.broker import KEPT, TOPIC
from tests.servers.commit_proxy import CommitProxy, When
from tests.servers.conftest import CLIENT, RETRIES, Broker, deploying, resolved, running
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Deploy
    from tests.servers.deployment import BrokerDeployment

MODES: Final = ("transactions", "in-progress")
ORDERS: Final = ("none", "group", "destination")
BROKERS: Final = {"artemis": "artemis", "broker-j": "broker_j"}

_INSTANCES: Final = 2
"""Of the adapter with queues. That with the topic has one."""
_CALLERS: Final = 2
"""Threads that ask, of each asking adapter."""
_TIMEOUT: Final = 5000
"""Milliseconds of a request. Some are lost with a connection."""
_GAP: Final = 5.0
"""Most seconds between two disturbances."""
_OFTEN: Final = {"pause": 3}
"""How often a disturbance comes, if not once. There are many queues."""
_BACKLOG: Final = 60
"""Most messages that wait for their calls. The sender waits for them."""
_LATE_REPLIES: Final = 120
"""Seconds for which late replies are taken: longer than a reply lives."""
_UNREAD: Final = 15.0
"""Seconds that a reply may wait to be taken, as while the broker is away."""
_PATIENCE: Final = 120.0
"""Seconds in which everything ends when all is calm."""

_OBJECTS: Final = """
business_object: Customer
verbs: {Create: , Copy: , Retry: , Publish: , Retrieve: }
attributes:
  CustomerId: {type: String, key: true, required: true}
  Name: String
"""
_PROCESSES: Final = """
import os, time

HERE = os.path.dirname(os.path.abspath(__file__))

def note(word, process, customer, event):
    line = f"{word} {customer['CustomerId']} {process} {event.retries} {event.delivery_count} {os.getpid()}"
    log = os.open(os.path.join(HERE, "work"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, f"{line} {time.time()}\\n".encode())
    os.close(log)

def work(process, customer, event):
    note("begin", process, customer, event)
    time.sleep(float(customer["Name"] or 0))
    note("end", process, customer, event)

def store(customer, event):
    work("store", customer, event)

def listen(customer, event):
    work("listen", customer, event)

def retry(customer, event):
    work("retry", customer, event)
    if event.retries < 2:
        raise ConnectionError("not yet")

def find(customer, event):
    work("find", customer, event)
    customer["Name"] = f"name of {customer['CustomerId']}"
    return customer
"""

KINDS: Final = {
    "Create": Kind(("archive", "crm"), {"store": 1}),
    "Copy": Kind(("archive", "copies")),
    "Retry": Kind(("archive",), {"retry": 3}),
    "Publish": Kind(("published",), {"listen": 1}),
    "Retrieve": Kind(("archive",), {"find": 1}, expires=True),
}
"""What becomes of a message, by its verb."""


class Work:
    """The calls of the processes of a deployment.

    Args:
        deployment: writes them.
    """

    def __init__(self, deployment: BrokerDeployment) -> None:
        self._path = deployment.directory / "work"
        self._lock = threading.Lock()
        self._offset = 0
        self._open: dict[str, int] = {}
        self.calls: list[Call] = []
        self.known: set[str] = set()
        """The ids of the messages that were called."""

    def read(self) -> None:
        """Reads what has come since the last time."""
        with self._lock, suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._offset += len(whole)
            for line in whole.decode().splitlines():
                self._add(*line.split(" "))

    def _add(
        self, word: str, message: str, process: str, tries: str, delivery: str, pid: str, moment: str
    ) -> None:
        if word == "begin":
            self._open[pid] = len(self.calls)
            self.calls.append(Call(message, process, int(tries), int(delivery), pid, float(moment)))
            self.known.add(message)
        else:
            number = self._open.pop(pid)
            self.calls[number] = self.calls[number]._replace(ended=float(moment))


class Sender:
    """A program that sends events, and goes on when the broker is back.

    Args:
        broker: of the messages.
        destinations: verb -> where a message with this verb is sent.
        rate: messages a second.
        choices: of verbs and times.
        called: returns the ids of the messages that were called.
    """

    def __init__(
        self,
        broker: Broker,
        destinations: dict[str, str],
        rate: float,
        choices: random.Random,
        called: Callable[[], set[str]],
    ) -> None:
        self._broker = broker
        self._destinations = destinations
        self._rate = rate
        self._choices = choices
        self._called = called
        self._stop = threading.Event()
        self._connection: RemoteConnection | None = None
        self.sent: dict[str, Sent] = {}
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for number in itertools.count(1):
            if self._stop.wait(self._choices.expovariate(self._rate)):
                break
            awaited = {name for name, one in self.sent.items() if one.is_certain and one.kind.calls}
            if len(awaited - self._called()) < _BACKLOG:
                self._send(number, self._choices.choice(list(self._destinations)))
        self._disconnect()

    def _send(self, number: int, verb: str) -> None:
        seconds = self._choices.choice((0.0, 0.0, 0.1, 0.3)) if number % 40 else 3.0
        name = f"{verb}-{number}"
        body = {"BusinessObject": "Customer", "Verb": verb, "CustomerId": name, "Name": str(seconds)}
        message = Message(json.dumps(body).encode(), "T")
        try:
            if self._connection is None:
                self._connection = self._broker.provider().connect()
        except ConnectorError:
            return
        try:
            self._connection.send(parse_destination(self._destinations[verb]), [message])
            is_certain = True
        except ConnectorError:
            is_certain = False
            self._disconnect()
        self.sent[name] = Sent(KINDS[verb], is_certain)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.abandon()
            self._connection = None

    def stop(self) -> None:
        """Ends the program."""
        self._stop.set()
        self._thread.join()


class Clients:
    """Threads that make requests, each after the answer to the one before.

    Args:
        adapters: name -> the adapter that makes the requests.
    """

    def __init__(self, adapters: dict[str, connector.Adapter]) -> None:
        self._stop = threading.Event()
        self.sent: dict[str, Sent] = {}
        self.good: Counter[str] = Counter()
        """Number of good answers, by thread."""
        self.bad: Counter[str] = Counter()
        """Number of requests without an answer, by status."""
        self.wrong: list[str] = []
        self._threads = [
            threading.Thread(target=self._ask, args=(adapter, f"{name}-{caller}"), name=f"{name}-{caller}")
            for name, adapter in adapters.items()
            for caller in range(_CALLERS)
        ]
        for thread in self._threads:
            self.good[thread.name] = 0
            thread.start()

    def _ask(self, adapter: connector.Adapter, name: str) -> None:
        for number in itertools.count(1):
            if self._stop.wait(0.1):
                return
            key = f"{name}-{number}"
            self.sent[key] = Sent(KINDS["Retrieve"])
            try:
                result = adapter.request("Customer.Retrieve", {"CustomerId": key}, timeout=_TIMEOUT)
            except Exception as error:
                self.wrong.append(f"{key}: {type(error).__name__}: {error}")
                return
            self._count(name, key, result)

    def _count(self, name: str, key: str, result: RequestResult) -> None:
        if is_named(result, key):
            self.good[name] += 1
        elif result.status is ReturnCode.APPRESPONSETIMEOUT or result.not_sent:
            self.bad[result.status.name] += 1
            self._stop.wait(0.2)  # as a program that tries later
        else:
            self.wrong.append(f"{key}: {result.status.name} {result.object.as_dict()} {result.message}")

    def stop(self) -> None:
        """Ends the threads, each after its last answer."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


@dataclass(eq=False)
class Instance:
    """One instance of an adapter.

    Args:
        deployment: of the adapter.
        run: the present process.
    """

    deployment: BrokerDeployment
    run: Run
    is_frozen: bool = False


class Chaos:
    """Adapters at a broker, and what disturbs them.

    Args:
        broker: empty.
        proxy: between it and the adapters.
        deploy: makes deployments.
        mode: one of :data:`MODES`.
        seed: of all choices. The times of processes are not repeated.
        only: names of disturbances. Empty = all.
        order: of events. Empty = drawn.
        rate: events a second.
        spark: whether the adapters run with Spark.
        failover: whether the adapters have a URL of ``failover:``.
        in_turn: whether disturbances come in turn. False = each is drawn.
        tell: is called with each line of progress.
    """

    def __init__(
        self,
        broker: Broker,
        proxy: CommitProxy,
        deploy: Deploy,
        mode: str,
        seed: int,
        *,
        only: Collection[str] = (),
        order: str = "",
        rate: float = 5.0,
        spark: bool = False,
        failover: bool = False,
        in_turn: bool = False,
        tell: Callable[[str], object] = print,
    ) -> None:
        self._broker = broker
        self._proxy = proxy
        self._rate = rate
        self._tell = tell
        self._only = only
        self._in_turn = in_turn
        self._choices = random.Random(seed)
        self._sender_choices = random.Random(f"{seed}/sender")
        self.order = order or self._choices.choice(ORDERS)
        self._server = _server(broker, deploy, proxy.port, self.order, in_progress=mode == "in-progress")
        self._listener = _listener(broker, deploy, proxy.port)
        self._deployments = (self._server, self._listener)
        for one in self._deployments:
            one.java = spark
        self._askers = {
            name: asking(
                broker,
                deploy,
                f"{self._server.name}.questions",
                port=proxy.port,
                late_replies="discard",
                late_replies_for=f"{_LATE_REPLIES}s",
                **replies,
            )
            for name, replies in (
                ("temporary", {}),
                ("fixed", {"ReplyToDestination": f"queue://{self._server.name}.replies"}),
            )
        }
        if failover:
            for one in (*self._deployments, *self._askers.values()):
                one.change("provider", url=failover_url(proxy.port))
        self._work = {one.name: Work(one) for one in self._deployments}
        self._instances: list[Instance] = []
        self._killed: dict[str, float] = {}
        self._errors: list[str] = []
        self._left: list[str] = []
        self._undo: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._began = 0.0
        self.done: Counter[str] = Counter()
        """Number of disturbances, by name."""

    def run(self, seconds: float) -> Found:
        """Lets chaos rule, and then waits until all is done. Returns what there is then."""
        self._began = time.monotonic()
        with ExitStack() as stack:
            adapters = {
                name: stack.enter_context(connector.Adapter.from_file(asker.directory / "adapter.yaml"))
                for name, asker in self._askers.items()
            }
            self._start()
            destinations = dict.fromkeys(("Create", "Copy", "Retry"), f"queue://{self._server.input}")
            destinations["Publish"] = f"topic://{TOPIC}"
            sender = Sender(self._broker, destinations, self._rate, self._sender_choices, self._known)
            clients = Clients(adapters)
            try:
                self._disturb(seconds, lambda: self._progress(sender, clients))
            finally:
                self._calm()
                sender.stop()
                self._await_answers(clients)
                clients.stop()
            self._await_end(sender.sent)
        self._stop()
        return self._find({**sender.sent, **clients.sent}, clients.wrong)

    # -- the adapters ------------------------------------------------------------------------------------

    def _start(self) -> None:
        for deployment in (self._listener, *[self._server] * _INSTANCES):
            self._instances.append(Instance(deployment, deployment.start()))
        for deployment, number in ((self._listener, 1), (self._server, _INSTANCES)):
            deployment.wait_for_log(" ready ", number)  # the topic has its subscription

    def _known(self) -> set[str]:
        """The ids of the messages that were called."""
        found: set[str] = set()
        for work in self._work.values():
            work.read()
            found |= work.known
        return found

    def _note_death(self, instance: Instance) -> None:
        moment = time.time()
        for pid in instance.run.members():
            self._killed[str(pid)] = moment

    def _restart(self, instance: Instance) -> None:
        instance.run = instance.deployment.start()
        instance.is_frozen = False

    def _look_for_ended(self) -> None:
        """Starts instances again that have ended unasked. That is an error."""
        for instance in self._instances:
            status = instance.run.process.poll()
            if status is not None:
                last = instance.run.errors.splitlines()[-3:]
                self._errors.append(f"an adapter has ended with the status {status}: {' / '.join(last)}")
                self._note_death(instance)
                self._restart(instance)

    # -- disturbances ------------------------------------------------------------------------------------

    def _disturb(self, seconds: float, progress: Callable[[], str]) -> None:
        actions = self._actions()
        names = [name for name in actions for _ in range(1 if self._in_turn else _OFTEN.get(name, 1))]
        turns = itertools.cycle(names)
        until = time.monotonic() + seconds
        told = 0.0
        while time.monotonic() < until:
            name = next(turns) if self._in_turn else self._choices.choice(names)
            self.done[name] += 1
            what = actions[name]() or ""
            self._tell(f"{self._elapsed()}  {name} {what}")
            self._sleep(self._choices.uniform(0.0, _GAP))
            self._look_for_ended()
            if time.monotonic() - told > 10:
                told = time.monotonic()
                self._tell(f"{self._elapsed()}  {progress()}")

    def _actions(self) -> dict[str, Callable[[], str | None]]:
        actions = {
            "kill": self._kill,
            "kill the driver alone": self._kill_driver,
            "terminate": self._terminate,
            "freeze": self._freeze,
            "cut": self._proxy.cut,
            "cut in a commit": self._cut_in_commit,
            "stall": self._stall,
            "delay": self._delay,
            "refuse": self._refuse,
            "kill the broker": self._kill_broker,
        }
        if self._broker.pauses:
            actions["pause"] = self._pause
        return {name: one for name, one in actions.items() if name in (self._only or actions)}

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:6.1f}"

    def _after(self, seconds: float, undo: Callable[[], object]) -> None:
        heapq.heappush(self._undo, (time.monotonic() + seconds, next(self._numbers), undo))

    def _sleep(self, seconds: float) -> None:
        """Waits, and ends disturbances meanwhile whose time is up."""
        until = time.monotonic() + seconds
        while True:
            while self._undo and self._undo[0][0] <= time.monotonic():
                heapq.heappop(self._undo)[2]()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.1))  # a disturber needs a pause

    def _instance(self) -> Instance:
        return self._choices.choice(self._instances)

    def _kill(self) -> str:
        instance = self._instance()
        self._note_death(instance)
        instance.run.kill_everything()
        self._restart(instance)
        return instance.deployment.name

    def _kill_driver(self) -> str:
        instance = self._instance()
        self._thaw(instance)
        self._note_death(instance)
        instance.run.signal_driver()
        instance.run.await_gone()
        instance.run.wait()
        self._restart(instance)
        return instance.deployment.name

    def _terminate(self) -> str:
        instance = self._instance()
        self._thaw(instance)
        self._end(instance)
        self._restart(instance)
        return instance.deployment.name

    def _end(self, instance: Instance) -> None:
        instance.run.signal_driver(signal.SIGTERM)
        try:
            status = instance.run.wait(_PATIENCE)
        except AssertionError as error:
            self._errors.append(f"an adapter does not end: {error}")
            self._note_death(instance)
            instance.run.kill_everything()
            return
        if status != 0:
            last = instance.run.errors.splitlines()[-3:]
            self._errors.append(f"a stopped adapter had the status {status}: {' / '.join(last)}")

    def _freeze(self) -> str:
        instance = self._instance()
        instance.run.signal_all(signal.SIGSTOP)
        instance.is_frozen = True
        seconds = self._choices.uniform(1.0, 15.0)
        self._after(seconds, lambda: self._thaw(instance))
        return f"{instance.deployment.name} {seconds:.1f} s"

    @staticmethod
    def _thaw(instance: Instance) -> None:
        if instance.is_frozen:
            instance.run.signal_all(signal.SIGCONT)
            instance.is_frozen = False

    def _cut_in_commit(self) -> str:
        when: When = self._choices.choice(("before", "after"))
        self._proxy.cut_next(when, behind="")
        return when

    def _stall(self) -> str:
        self._proxy.stall()
        return self._for_a_while(8.0, self._proxy.go_on)

    def _delay(self) -> str:
        self._proxy.delay = self._choices.uniform(0.05, 1.0)

        def end() -> None:
            self._proxy.delay = 0.0

        return self._for_a_while(10.0, end)

    def _refuse(self) -> str:
        self._proxy.refuses = True
        self._proxy.cut()

        def end() -> None:
            self._proxy.refuses = False

        return self._for_a_while(5.0, end)

    def _pause(self) -> str:
        name = self._choices.choice(self._queues)
        self._broker.pause(name)
        return f"{name} {self._for_a_while(15.0, lambda: self._broker.resume(name))}"

    def _for_a_while(self, most: float, end: Callable[[], object]) -> str:
        seconds = self._choices.uniform(1.0, most)
        self._after(seconds, end)
        return f"{seconds:.1f} s"

    def _kill_broker(self) -> None:
        self._broker.kill()
        time.sleep(self._choices.uniform(0.0, 2.0))  # a killer needs a pause
        self._broker.start()

    @property
    def _queues(self) -> Sequence[str]:
        """From which the adapters and the askers take."""
        name = self._server.name
        ours = (f"connector.{name}.{one}" for one in ("later", "held", "commits"))
        theirs = (self._server.input, f"{name}.questions", f"{name}.replies", self._server.in_progress)
        return [*theirs, *ours]

    # -- the end -----------------------------------------------------------------------------------------

    def _calm(self) -> None:
        """Ends all disturbances."""
        while self._undo:
            heapq.heappop(self._undo)[2]()
        self._proxy.go_on()
        self._proxy.delay, self._proxy.refuses = 0.0, False
        self._tell(f"{self._elapsed()}  calm")

    def _await_answers(self, clients: Clients) -> None:
        before = dict(clients.good)
        try:
            wait_for(
                lambda: all(clients.good[one] >= number + 3 for one, number in before.items()), _PATIENCE
            )
        except AssertionError:
            silent = [one for one, number in before.items() if clients.good[one] < number + 3]
            self._errors.append(f"{', '.join(silent)}: no answers although all is calm")

    def _await_end(self, sent: dict[str, Sent]) -> None:
        """Waits until all is done. A broker hides what is in an open transaction, so the ends count."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            waiting = self._waiting()
            if not any(waiting.values()) and not self._missing(sent):
                self._tell(f"{self._elapsed()}  drained")
                return
            time.sleep(1.0)  # a look costs the broker something
        self._left = [
            f"{one}: in {place}, while all is calm" for place, ids in waiting.items() for one in ids
        ]
        self._left += [f"{one}: not done, while all is calm" for one in self._missing(sent)]

    def _missing(self, sent: dict[str, Sent]) -> list[str]:
        """Returns the ids of the messages that are not in all their places."""
        found = {place: set(ids) for place, ids in self._ids(self._places).items()}
        return [
            name
            for name, one in sent.items()
            if one.is_certain and any(name not in found[place] for place in one.kind.places)
        ]

    def _stop(self) -> None:
        """Ends the adapters, and lets others finish what they have left."""
        self._look_for_ended()
        for instance in self._instances:
            self._end(instance)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(redeliveries, "_PATIENCE", 0.0)  # the entry of an expired request stays a minute
            for deployment in self._deployments:
                self._finish(deployment)

    def _finish(self, deployment: BrokerDeployment) -> None:
        until = time.monotonic() + _PATIENCE / 4
        while time.monotonic() < until:
            try:
                deployment.work()
            except AssertionError as error:
                self._errors.append(f"the last adapter: {error}")
            if not list(self._states(deployment)) and not any(self._waiting().values()):
                return
            time.sleep(0.5)  # until what comes again later is due

    def _states(self, deployment: BrokerDeployment) -> Iterator[str]:
        names = deployment.commit_queue()
        yield from (f"{name} in the commit queue" for name in names if name != "connector_directory")
        yield from leftovers(RemoteState(str(deployment.directory / ".connector" / "state"), deployment.name))

    def _waiting(self) -> dict[str, list[str]]:
        queues = list(self._queues[:-1])  # the commit queue has no messages with ids
        queues += [f"connector.{self._listener.name}.{one}" for one in ("later", "held")]
        return self._ids(dict(zip(queues, queues, strict=True)))

    @property
    def _places(self) -> dict[str, str]:
        """The queue of each place that a kind names."""
        return {
            "archive": self._server.archive,
            "crm": self._server.sink,
            "copies": f"{self._server.name}.copies",
            "published": self._listener.archive,
        }

    def _ids(self, places: dict[str, str]) -> dict[str, list[str]]:
        """Returns the ids of the messages in each place, whose queue is given."""
        found: dict[str, list[str]] = {}
        with self._server.connected() as connection:
            for place, queue in places.items():
                found[place] = []
                with suppress(UnknownDestination):
                    for message in connection.browse(parse_destination(f"queue://{queue}")):
                        found[place].append(json.loads(message.body)["CustomerId"])
        return found

    def _find(self, sent: dict[str, Sent], wrong: list[str]) -> Found:
        for work in self._work.values():
            work.read()
        failed = [queue for one in self._deployments for queue in (one.error, f"{one.name}.unsubscribed")]
        left = [text for one in self._deployments for text in self._states(one)]
        expired, unread = self._expired()
        return Found(
            sent,
            [call for work in self._work.values() for call in work.calls],
            self._killed,
            self._ids(self._places),
            waiting=self._waiting(),
            failed=self._ids(dict(zip(failed, failed, strict=True))),
            dead=self._ids({KEPT[0]: KEPT[0]}),
            expired={KEPT[1]: expired},
            left=[*self._left, *unread, *left],
            wrong=wrong,
            errors=[*self._errors, *self._tracebacks()],
        )

    def _expired(self) -> tuple[list[str], list[str]]:
        """Returns the ids of the expired messages, and those of expired replies that nobody took in time."""
        expired, unread = [], []
        for message in self._server.messages(KEPT[1]):
            name = json.loads(message.body)["CustomerId"]
            if "ResponseResult" not in message.properties:
                expired.append(name)
            elif name.startswith("fixed") and message.expiration - message.timestamp > _UNREAD * 1000:
                unread.append(f"{name}: its reply expired unread")
        return expired, unread

    # -- what is said ------------------------------------------------------------------------------------

    def _progress(self, sender: Sender, clients: Clients) -> str:
        called = len(self._known() & sender.sent.keys())
        good, bad = clients.good.total(), clients.bad.total()
        return f"sent {len(sender.sent)}, called {called}, answered {good}, without an answer {bad}"

    def _logs(self) -> Iterator[str]:
        for deployment in self._deployments:
            for run in deployment.runs:
                yield from run.errors.splitlines()

    def _tracebacks(self) -> list[str]:
        before, found = "", []
        for line in self._logs():
            if line.lstrip().startswith("Traceback"):
                found.append(f"a traceback in a log behind: {before[:300]}")
            before = line
        return found

    def logged_errors(self) -> Counter[str]:
        """Returns the number of the lines of the logs at level error, by text."""
        matches = (re.match(r"\S+ \[(?:error|critical)\] (.*?) \[connector", line) for line in self._logs())
        return Counter(match[1] for match in matches if match)


def _server(broker: Broker, deploy: Deploy, port: int, order: str, *, in_progress: bool) -> BrokerDeployment:
    made = _deployed(broker, deploy, port, in_progress=in_progress)
    made.subscribe(
        {"object": "Customer", "verbs": ["Create"], "process": "processes:store"},
        {**made.to_sink, "verbs": ["Create"]},
        {
            "object": "Customer",
            "verbs": ["Copy"],
            "destination": f"queue://{made.name}.copies",
            "name": "copies",
        },
        {
            "object": "Customer",
            "verbs": ["Retry"],
            "process": "processes:retry",
            "retry_later": {"attempts": 20, "first": "500ms", "factor": 1},
            "rest_after": 1_000_000,
        },
        {"object": "Customer", "verbs": ["Retrieve"], "process": "processes:find", "reply": True},
    )
    inputs = [f"queue://{made.input}", f"queue://{made.name}.questions"]
    made.change("connector", InputDestination=inputs, order=order)
    return made


def _listener(broker: Broker, deploy: Deploy, port: int) -> BrokerDeployment:
    made = _deployed(broker, deploy, port)
    made.subscribe({"object": "Customer", "process": "processes:listen"})
    made.change("connector", InputDestination=[{"destination": f"topic://{TOPIC}", "subscription": "bills"}])
    return made


def _deployed(broker: Broker, deploy: Deploy, port: int, *, in_progress: bool = False) -> BrokerDeployment:
    made = deploy(broker, port=port, in_progress=in_progress, connector=RETRIES)
    made.write("metaobjects/objects.yaml", _OBJECTS)
    made.write("processes.py", _PROCESSES)
    return made


def failover_url(port: int) -> str:
    """Returns the URL of a port for several brokers, as Qpid JMS has it."""
    return f"failover:(amqp://127.0.0.1:{port})"


def seconds_of(text: str) -> float:
    """Returns the seconds of ``90``, ``90s``, ``10m`` or ``2h``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time, such as 90s, 10m or 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--for", type=seconds_of, default=600.0, dest="seconds", metavar="TIME")
    parser.add_argument("--mode", choices=MODES, default=MODES[0])
    parser.add_argument("--broker", choices=BROKERS, default="artemis")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this disturbance")
    parser.add_argument("--order", choices=ORDERS, default="", help="default: drawn")
    parser.add_argument("--rate", type=float, default=5.0, help="events a second")
    parser.add_argument("--spark", action="store_true", help="the adapters run with Spark, as users run them")
    parser.add_argument("--failover", action="store_true", help="a URL of failover:")
    parser.add_argument("--in-turn", action="store_true", help="disturbances come in turn")
    options = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    directory = Path(tempfile.mkdtemp(prefix="connector-chaos-"))
    print(f"seed {seed}, {directory}", flush=True)
    with ExitStack() as stack:
        (directory / "broker").mkdir()
        resolved("client", CLIENT)
        broker = stack.enter_context(running(BROKERS[options.broker], directory / "broker"))
        proxy = CommitProxy(broker.port)
        stack.callback(proxy.close)
        deploy = stack.enter_context(deploying(directory))
        chaos = Chaos(
            broker,
            proxy,
            deploy,
            options.mode,
            seed,
            only=options.only,
            order=options.order,
            rate=options.rate,
            spark=options.spark,
            failover=options.failover,
            in_turn=options.in_turn,
            tell=lambda line: print(line, flush=True),
        )
        found = chaos.run(options.seconds)
    faults = check(found)
    way = options.broker + (" with failover" if options.failover else "")
    print(f"{options.mode} at {way}, order {chaos.order}, for {options.seconds:g} s, seed {seed}")
    for counts in (chaos.done, chaos.logged_errors()):
        print("\n".join(f"  {number:>5} x {name}" for name, number in counts.most_common()))
    print(report(found, faults), flush=True)
    if any(faults.values()):
        print(f"look at {directory}")
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
