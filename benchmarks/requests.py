"""Requests, each beside the bare provider doing the same exchange in the same run, with one application.

The application is a process of its own that sends every request back. *Ours* makes a business object a
request and its reply a business object again, through one request client, on a temporary queue or on one
that it could share with others; *bare* sends the same body from a session, waits on a reply queue of its own
and receives. Round trips of 1 and of 100 callers, requests a second beside a single bare loop, and what a
thousand requests cost that wait. On tmpfs and on a disk, synced as the provider does unless told otherwise.
``python -m benchmarks.requests [--requests N] [--runs N] [--disk DIR] [--only WORD]``
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson

from benchmarks.common import machine, scratch, spread
from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.rules import StaticMetaObject
from connector.declare.connector_section import Connector
from connector.formats.handlers import HandlerSpec
from connector.messaging import connect
from connector.messaging.client import MessagingConnection
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Provider
from connector.requests.client import RequestClient
from connector.requests.settings import RequestSettings
from connector.stores.dropbox.provider import DropboxProvider

REQUESTS = "queue://requests"
SHARED = "queue://replies"
NOTES = "n" * 900
PATIENCE = 30.0
CALLERS = (1, 100)
WAITING = 1000

Exchange = Callable[[int], None]
"""Makes one request, with its number, and has its reply."""


# --- the application ----------------------------------------------------------------------------------


def echo(root: str) -> None:
    """Sends every request back to where it says, until the standard input ends."""
    stop = threading.Event()

    def serve() -> None:
        with connect(f"dropbox:{root}?create=true") as connection, connection.session() as session:
            requests, replies = session.consumer(REQUESTS), session.producer()
            print("ready", flush=True)
            while not stop.is_set():
                request = requests.receive(timeout=0.2)
                if request is not None:
                    reply = Message(request.body, request.message_class)
                    reply.set_property("ResponseResult", "VALCHANGE")
                    replies.send(reply, destination=request.reply_to, correlation_id=request.message_id)

    server = threading.Thread(target=serve)
    server.start()
    sys.stdin.read()
    stop.set()
    server.join()


@contextmanager
def application(root: Path) -> Iterator[None]:
    """The application, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.requests", "--echo", str(root)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.communicate()


# --- who asks -----------------------------------------------------------------------------------------


def request_client(
    provider: Provider, pool: int, reply_to: str | None = None, *, persistent: bool = True
) -> RequestClient:
    """A client for a Customer of about 1 KiB; replies come to a temporary queue unless told otherwise."""
    attributes = (Attribute("CustomerId", "String", is_key=True), Attribute("Notes", "LongText"))
    customer = Definition(
        "Customer", attributes={part.name: part for part in attributes}, verbs={"Retrieve": Verb("Retrieve")}
    )
    settings = RequestSettings(
        definitions=Definitions({"Customer": customer}),
        rules=StaticMetaObject("MO_Config", (), {"OutputDestination": REQUESTS, "ResponseTimeout": "30000"}),
        handlers=(HandlerSpec("application/json", "JsonHandler", "connector.datahandlers.json_handler"),),
        default_handler="application/json",
        persistent=persistent,
        connector=Connector.model_construct(
            application_name="benchmark",
            reply_to_destination=parse_destination(reply_to) if reply_to else None,
            session_pool_size_for_requests=pool,
            pool_timeout=PATIENCE,
        ),
    )
    return RequestClient(settings, provider.connect, provider.capabilities, ".")


def ours(client: RequestClient) -> Exchange:
    def exchange(number: int) -> None:
        result = client.request("Customer.Retrieve", {"CustomerId": str(number), "Notes": NOTES})
        assert result.good, result.message
        assert result.object["CustomerId"] == str(number)

    return exchange


def bare(connection: MessagingConnection, caller: int) -> Exchange:
    """A session with a reply queue of its own."""
    session = connection.session()
    replies = session.consumer(f"queue://bare-replies-{caller}")
    producer = session.producer(REQUESTS)
    reply_to = f"queue://bare-replies-{caller}"

    def exchange(number: int) -> None:
        customer = {
            "BusinessObject": "Customer",
            "Verb": "Retrieve",
            "CustomerId": str(number),
            "Notes": NOTES,
        }
        identity = producer.send(orjson.dumps(customer).decode(), reply_to=reply_to)
        reply = replies.receive(timeout=PATIENCE)
        assert reply is not None
        assert reply.correlation_id == identity

    return exchange


# --- measuring ----------------------------------------------------------------------------------------


def round_trips(exchanges: list[Exchange], each: int) -> tuple[list[float], float]:
    """Milliseconds of each exchange of callers at the same time, and exchanges a second of all."""
    found: list[list[float]] = [[] for _ in exchanges]
    together = threading.Barrier(len(exchanges) + 1)

    def call(caller: int, exchange: Exchange) -> None:
        together.wait()
        for number in range(each):
            begun = time.perf_counter()
            exchange(caller * each + number)
            found[caller].append((time.perf_counter() - begun) * 1000)

    threads = [
        threading.Thread(target=call, args=(caller, exchange)) for caller, exchange in enumerate(exchanges)
    ]
    for thread in threads:
        thread.start()
    together.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    return [one for of_caller in found for one in of_caller], len(exchanges) * each / seconds


class Series:
    """Medians and the slowest hundredth of runs, and how many exchanges a second."""

    def __init__(self) -> None:
        self.p50: list[float] = []
        self.p99: list[float] = []
        self.rate: list[float] = []

    def add(self, measured: tuple[list[float], float]) -> None:
        milliseconds, rate = measured
        self.p50.append(statistics.median(milliseconds))
        self.p99.append(statistics.quantiles(milliseconds, n=100)[98])
        self.rate.append(rate)


def ratio(ours_: list[float], bare_: list[float]) -> float:
    """The median of the ratios of runs beside each other."""
    return statistics.median(a / b for a, b in zip(ours_, bare_, strict=True))


def measure(title: str, root: Path, requests: int, runs: int) -> None:
    """Prints round trips and rates; runs of ours and bare take turns."""
    for callers in CALLERS:
        each = max(20, requests // callers)
        with ExitStack() as stack:
            stack.enter_context(application(root))
            connection = stack.enter_context(connect(f"dropbox:{root}?create=true"))
            provider = DropboxProvider(root, create=True)
            own, shared = request_client(provider, callers), request_client(provider, callers, SHARED)
            stack.callback(own.stop)
            stack.callback(shared.stop)
            subjects = {
                "ours": [ours(own)] * callers,
                "bare": [bare(connection, caller) for caller in range(callers)],
                "ours on a shared queue": [ours(shared)] * callers,
            }
            loop = [bare(connection, callers)]
            found = {name: Series() for name in (*subjects, "loop")}
            for number in range(runs + 1):
                for name, exchanges in subjects.items():
                    measured = round_trips(exchanges, each)
                    if number:  # the first run warms up
                        found[name].add(measured)
                measured = round_trips(loop, max(20, requests // 4))
                if number:
                    found["loop"].add(measured)
        print(f"{title}, {callers} caller{'s' * (callers > 1)}, {each} round trips each:")
        report(found)


def report(found: dict[str, Series]) -> None:
    """Prints each beside bare, and its rate also beside that of the single loop."""
    bare_, loop = found["bare"], found["loop"]
    print(
        f"    bare: p50 {spread(bare_.p50, 2)} ms, p99 {spread(bare_.p99, 2)} ms, {spread(bare_.rate)}/s; "
        f"a single loop {spread(loop.rate)}/s"
    )
    for name in [name for name in found if name.startswith("ours")]:
        one = found[name]
        print(
            f"    {name}: p50 {spread(one.p50, 2)} ms, {ratio(one.p50, bare_.p50):.2f} times bare; "
            f"p99 {spread(one.p99, 2)} ms, {ratio(one.p99, bare_.p99):.2f} times; {spread(one.rate)}/s, "
            f"{ratio(one.rate, bare_.rate):.2f} times, {ratio(one.rate, loop.rate):.2f} times a single loop",
            flush=True,
        )


def idle(title: str, root: Path, seconds: float, runs: int) -> None:
    """Prints what waiting costs the processor: nothing that waits, one bare receive, a thousand requests."""
    client = request_client(DropboxProvider(root, create=True), WAITING)
    with connect(f"dropbox:{root}?create=true") as connection, connection.session() as session:
        consumer = session.consumer("queue://nothing")

        def cpu(wait: Callable[[], object]) -> float:
            """Milliseconds of the processor a second."""
            begun, used = time.perf_counter(), time.process_time()
            wait()
            return (time.process_time() - used) * 1000 / (time.perf_counter() - begun)

        nobody, one, many = [], [], []
        for _ in range(runs):
            nobody.append(cpu(lambda: time.sleep(seconds)))
            one.append(cpu(lambda: consumer.receive(timeout=seconds)))
        futures = [
            client.request_async("Customer.Retrieve", {"CustomerId": str(number)}, timeout=600_000)
            for number in range(WAITING)
        ]
        time.sleep(1.0)
        assert not any(future.done() for future in futures)
        for _ in range(runs):
            many.append(cpu(lambda: time.sleep(seconds)))
        client.stop()
        assert all(future.done() for future in futures)
    print(
        f"{title}, waiting, ms of the processor a second: nobody {spread(nobody, 1)}, one bare receive "
        f"{spread(one, 1)}, {WAITING} requests {spread(many, 1)}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--requests", type=int, default=400, help="a run, of all callers together; at least 20 of each"
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--disk", default=tempfile.gettempdir(), help="a directory on a disk")
    parser.add_argument("--only", default="", help="what has this word in its title: tmpfs, disk, waiting")
    parser.add_argument("--echo", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.echo:
        echo(arguments.echo)
        return
    print(machine())
    for place, where in (("tmpfs", "/dev/shm"), ("disk", arguments.disk)):
        if arguments.only in place:
            with scratch(where) as directory:
                measure(place, directory / "root", arguments.requests, arguments.runs)
    if arguments.only in "waiting":
        with scratch() as directory:
            idle("tmpfs", directory / "root", 1.0, arguments.runs)


if __name__ == "__main__":
    main()
