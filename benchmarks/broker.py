"""Events a second from a queue of a JMS broker through conversion and a process to the archive.

Beside the bare transacted loop in Java with the same client library, and beside a route of Apache Camel
with ``transacted=true`` and two consumers. All three use one ActiveMQ Artemis on loopback, with persistent
messages. Also the start of ``connector run`` to the first event, the time from a send to the call, memory,
and the processor time with 1 and with 200 idle inputs. Needs a JDK (``javac``) and Maven Central.
The adapter keeps the order of the queue, or no order.
``python -m benchmarks.broker [--messages N] [--runs N] [--quantity N ...] [--order WORD ...]
[--rates] [--disk DIR]``
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from benchmarks.common import cpu_of_trees, deployment, json_body, machine, scratch, spread
from benchmarks.memory import report
from connector.brokers.jars.locked import LOCK
from connector.service.adapter import Adapter
from tests.servers.broker import PASSWORD, USER
from tests.servers.conftest import ARTEMIS, CLIENT, Broker, resolved

_CAMEL = "4.18.2"
LOOPS = [*CLIENT, "com.fasterxml.jackson.core:jackson-databind:2.19.2"]
ROUTE = [
    *CLIENT,
    *(f"org.apache.camel:camel-{name}:{_CAMEL}" for name in ("core", "jms", "jackson")),
]
_CONSUMERS = 2
"""Consumers of the route of Camel, each with a session."""
_NOTING = """
import time


def take(customer, event):
    with open({calls}, "a") as file:
        file.write(f"{{time.time()}}\\n")
"""
_LONGEST = 120
"""Seconds after which a program of Java is ended, because it stands still."""
_SETTLING = 15
"""Seconds after which a service that has started is idle."""
_JAVA = Path(__file__).with_name("java")


class JavaProgram:
    """A program of this directory in a Java of its own, which stays warm between its commands."""

    def __init__(self, name: str, packages: Sequence[str], url: str) -> None:
        jars = os.pathsep.join(map(str, resolved(name, list(packages)).paths()))
        command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", jars]
        self._process = subprocess.Popen(
            [*command, str(_JAVA / f"{name}.java"), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, command: str) -> float:
        """Returns the seconds of a command."""
        return float(self.answer(command))

    def answer(self, command: str) -> str:
        """Returns the line that the program prints for a command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        timer = threading.Timer(_LONGEST, self._process.kill)
        timer.start()
        answer = self._process.stdout.readline()
        timer.cancel()
        assert answer, "the Java program has ended"
        return answer

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def url_with_user(url: str) -> str:
    return f"{url}?jms.username={USER}&jms.password={PASSWORD}"


def measure(
    bare: JavaProgram, camel: JavaProgram, adapter: Adapter, broker: Broker, count: int, runs: int, batch: int
) -> None:
    """Prints rates and processor time of the three, which begin in turn, on fresh messages.

    Each ratio is the median of the runs, because the machine is quicker in one run than in the next.
    """

    def drain() -> float:
        before = adapter.summary.total.published
        begun = time.perf_counter()
        adapter.drain()
        seconds = time.perf_counter() - begun
        assert adapter.summary.total.published - before == count, adapter.summary.total.as_dict()
        return seconds

    programs: dict[str, Callable[[], float]] = {
        "bare": lambda: bare.run(f"loop bare bare.out {count} {batch}"),
        "camel": lambda: camel.run(f"loop camel camel.out {count} {_CONSUMERS}"),
        "in": drain,
    }
    pids = {"bare": bare.pid, "camel": camel.pid}

    def used(queue: str) -> float:
        """Seconds of processor time of a program and of the broker."""
        if queue in pids:
            return cpu_of_trees([pids[queue], broker.pid])
        return cpu_of_trees([os.getpid()]) - cpu_of_trees(list(pids.values()))

    queues = list(programs)
    rates: dict[str, list[float]] = {queue: [] for queue in queues}
    costs: dict[str, list[float]] = {queue: [] for queue in queues}
    for run in range(runs + 1):  # the first warms up
        for queue in queues[run % 3 :] + queues[: run % 3]:
            bare.run(f"fill {queue} {count} {json_body(1).decode()}")
            before = used(queue)
            rates[queue].append(count / programs[queue]())
            costs[queue].append((used(queue) - before) / count * 1e6)
    for queue, name in zip(queues, ("bare Java", "Camel", "adapter"), strict=True):
        print(
            f"  {name:9} {spread(rates[queue][1:])} messages/s, {spread(costs[queue][1:])} µs of a processor"
        )
    for queue, name in (("bare", "bare Java"), ("camel", "Camel")):
        ratios = [own / other for own, other in zip(rates["in"], rates[queue], strict=True)][1:]
        print(f"  adapter / {name} {spread(ratios, 2)}")


def measure_service(bare: JavaProgram, file: Path, samples: int) -> None:
    """Prints start, latency and memory of ``connector run``, one message at a time to an idle adapter."""
    calls = file.parent / "calls"
    bare.run(f"fill in 1 {json_body(0).decode()}")
    begun = time.time()
    service = subprocess.Popen([sys.executable, "-m", "connector.cli", "run", "-c", str(file)])
    try:
        print(f"  start of the command to the first event: {await_call(calls, 0) - begun:.1f} s")
        times = []
        for number in range(1, samples + 6):
            time.sleep(0.2)
            sent = time.time()
            bare.run(f"fill in 1 {json_body(number).decode()}")
            times.append((await_call(calls, number) - sent) * 1000)
        times = sorted(times[5:])
        print(
            f"  send to call: p50 {times[len(times) // 2]:.1f} ms, p90 {times[int(len(times) * 0.9)]:.1f} ms"
        )
        report("  memory, idle", service.pid)
    finally:
        service.terminate()
        service.wait(60)


def measure_idle(bare: JavaProgram, file: Path, queues: Sequence[str]) -> None:
    """Prints the processor time of ``connector run`` while nothing comes, without that of Spark."""
    service = subprocess.Popen([sys.executable, "-m", "connector.cli", "run", "-c", str(file)])
    try:
        bare.run(f"fill {queues[-1]} 1 {json_body(0).decode()}")
        await_call(file.parent / "calls", 0)
        time.sleep(_SETTLING)
        before = processor_time(service.pid)
        time.sleep(60)
        used = processor_time(service.pid) - before
        threads = len(os.listdir(f"/proc/{service.pid}/task"))
        print(f"  {len(queues)} idle inputs: {used:.2f} s of a processor a minute, {threads} threads")
    finally:
        service.terminate()
        service.wait(60)


def processor_time(pid: int) -> float:
    """Returns the seconds of processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def await_call(calls: Path, number: int) -> float:
    """Returns the time of a call."""
    while True:
        lines = calls.read_text().splitlines() if calls.exists() else []
        if len(lines) > number:
            return float(lines[number])
        time.sleep(0.001)


def configure(
    directory: Path,
    url: str,
    quantity: int,
    order: str = "destination",
    *,
    notes: bool = False,
    queues: Sequence[str] = ("in",),
) -> Path:
    """Writes a deployment on the broker. ``notes``: its process writes the time of each call into a file."""
    section = {
        "type": "jms",
        "factory": "org.apache.qpid.jms.JmsConnectionFactory",
        "url": url,
        "ApplicationUserName": USER,
        "ApplicationPassword": PASSWORD,
        "packages": CLIENT,
    }
    file = deployment(directory, queues, quantity=quantity, provider=orjson.dumps(section).decode())
    file.write_text(file.read_text().replace("  PollQuantity:", f"  order: {order}\n  PollQuantity:"))
    with file.open("a") as text:  # the deployments are instances of one application
        text.write(f"state: {{directory: {directory.parent / 'state'}}}\n")
    jars = resolved("client", CLIENT)
    shutil.copy(jars.file, directory / LOCK)
    if notes:
        calls = str(directory / "calls")
        (directory / "processes.py").write_text(_NOTING.format(calls=repr(calls)))
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--quantity", type=int, nargs="*", default=[100, 250])
    parser.add_argument("--order", nargs="*", default=["destination", "none"])
    parser.add_argument("--rates", action="store_true", help="measure nothing but the rates")
    parser.add_argument("--disk", help="a directory on a disk for the broker's journal, instead of tmpfs")
    arguments = parser.parse_args()
    if shutil.which("javac") is None:
        sys.exit("benchmarks.broker needs a JDK: there is no javac")
    print(machine())
    with scratch(arguments.disk or "/dev/shm") as directory:
        (directory / "broker").mkdir()
        broker = Broker("artemis", directory / "broker", resolved("artemis", ARTEMIS).paths())
        broker.start()
        url = broker.url
        with_user = url_with_user(url)
        bare = JavaProgram("BareLoop", LOOPS, with_user)
        camel = JavaProgram("CamelRoute", ROUTE, with_user)
        try:
            for quantity, order in itertools.product(arguments.quantity, arguments.order):
                print(f"{arguments.messages} messages, PollQuantity {quantity}, order: {order}:")
                file = configure(directory / f"adapter-{quantity}-{order}", url, quantity, order)
                with Adapter.from_file(file) as adapter:
                    measure(bare, camel, adapter, broker, arguments.messages, arguments.runs, quantity)
            if arguments.rates:
                return
            measure_service(bare, configure(directory / "idle", url, 100, notes=True), 50)
            for count in (1, 200):
                queues = [f"idle{count}.{number}" for number in range(count)]
                file = configure(directory / f"idle-{count}", url, 100, notes=True, queues=queues)
                measure_idle(bare, file, queues)
        finally:
            bare.stop()
            camel.stop()
            broker.stop()


if __name__ == "__main__":
    main()
