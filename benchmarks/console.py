"""The pages of the console beside 100,000 waiting and 10,000 failed messages, while two instances work.

How long each page takes, idle and under load, the processor time of a page, and what three open pages cost:
the processor time of an event in windows with readers beside windows without, in turn. That is the time of
all processes of the instances, so other programs of the machine disturb little.
``python -m benchmarks.console [--waiting N] [--failed N] [--windows N] [--instances 1]``
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from benchmarks.common import cpu_of_trees, deployment, fill, json_body, machine, scratch, spread
from connector.config.loading import load
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.service.assembly import make_provider

ERROR = "queue%3A%2F%2Ferror"
PAGES = {
    "overview": "",
    "queues": "/queues",
    "errors": "/errors",
    "first of 100,000": "/messages?queue=queue%3A%2F%2Fwaiting",
    "one of 100,000": "",
    "one that failed": "",
    "history": "/history",
    "history of one": "",
    "configuration": "/configuration",
}
OPEN = ("overview", "queues", "errors")
SECONDS = 10.0
"""Of a window."""
REFRESH = 5.0
"""Seconds between two loads of an open page."""


@contextlib.contextmanager
def service(directory: Path, file: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """An instance."""
    with open(directory / f"log-{name}", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "connector.cli.app", "run", "-c", str(file)],
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([".", *sys.path])},
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def write_deployment(directory: Path) -> tuple[Path, Path, str]:
    """Writes the files of two instances. Returns both, and the URL of the console."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first = deployment(directory, ["in", "waiting"])
    text = first.read_text().replace("  ArchiveDestination: queue://archive\n", "")  # a tmpfs has few inodes
    second = directory / "second.yaml"
    second.write_text(text.replace("  ApplicationName", "  instance: second\n  ApplicationName"))
    http = f"http: {{listen: 127.0.0.1:{port}, console: true}}\n"
    first.write_text(text.replace("  ApplicationName", "  instance: first\n  ApplicationName") + http)
    return first, second, f"http://127.0.0.1:{port}/console"


def send_failed(file: Path, count: int) -> str:
    """Puts messages of three groups into the error queue. Returns the id of one."""
    connection = make_provider(load(file)).connect()
    reasons = ("no shelf for {}", "ConnectionError: crm is away, order {}", "the amount {} is wrong")
    ids: list[str] = []
    for start in range(0, count, 500):
        messages = []
        for number in range(start, min(count, start + 500)):
            message = Message(json_body(number), "T")
            for name, value in {
                "connector_kind": "refused",
                "connector_reason": reasons[number % 3].format(number),
                "connector_object": "Customer",
                "connector_origin_destination": "queue://in",
                "connector_outcome": "failed",
                "connector_time": "2026-01-31T12:00:00.000Z",
            }.items():
                message.set_property(name, value)
            messages.append(message)
        ids += connection.send(parse_destination("queue://error"), messages)
    connection.close()
    return ids[len(ids) // 2]


class Feeder(threading.Thread):
    """Keeps some thousand messages waiting in ``in``."""

    def __init__(self, root: Path) -> None:
        super().__init__(daemon=True)
        self.root = root
        self.fed = 0
        self.ends = threading.Event()

    def waiting(self) -> int:
        return len(os.listdir(self.root / "in/incoming/target"))

    def run(self) -> None:
        while not self.ends.is_set():
            if self.waiting() < 3000:
                fill(self.root, "in", 1000, json_body, self.fed)
                self.fed += 1000
            else:
                time.sleep(0.02)

    def done(self) -> int:
        return self.fed - self.waiting()


def get(url: str) -> float:
    """Loads a page. Returns milliseconds."""
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=60) as answer:
        answer.read()
    return (time.perf_counter() - began) * 1000


def cpu(process: subprocess.Popen[bytes]) -> float:
    """Seconds of processor time of a process."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show_pages(url: str, pages: dict[str, str], process: subprocess.Popen[bytes], times: int) -> None:
    for name, path in pages.items():
        before, took = cpu(process), [get(url + path) for _ in range(times)]
        used = (cpu(process) - before) / times * 1000
        print(f"  {name:<20} {spread(took):>24} ms, {used:6.1f} ms of the processor")


def cost(feeder: Feeder, roots: list[int], url: str, pages: dict[str, str], *, read: bool) -> float:
    """Microseconds of processor time of an event, in a window."""
    ends = threading.Event()

    def load_again(path: str) -> None:
        while not ends.wait(REFRESH):
            get(url + path)

    readers = [threading.Thread(target=load_again, args=(pages[one],)) for one in OPEN if read]
    for one in readers:
        one.start()
    began, done = cpu_of_trees(roots), feeder.done()
    time.sleep(SECONDS)
    result = (cpu_of_trees(roots) - began) / (feeder.done() - done) * 1e6
    ends.set()
    for one in readers:
        one.join()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--failed", type=int, default=10_000)
    parser.add_argument("--instances", type=int, default=2, help="that work: 1 or 2")
    parser.add_argument("--windows", type=int, default=6, help="with readers, and as many without")
    options = parser.parse_args()
    print(machine())
    with scratch() as directory:
        first, second, url = write_deployment(directory)
        root = directory / "data"
        failed = send_failed(first, options.failed)
        command = [sys.executable, "-m", "connector.cli.app", "pause", "queue://waiting", "-c", str(first)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        fill(root, "in", 1000, json_body)
        fill(root, "waiting", options.waiting, json_body)
        some = sorted(os.listdir(root / "waiting/incoming/target"))[options.waiting // 2]
        identity = quote("ID:" + some.split(".")[1])
        pages = PAGES | {
            "one of 100,000": f"/message?queue=queue%3A%2F%2Fwaiting&id={identity}",
            "one that failed": f"/message?queue={ERROR}&id={quote(failed)}",
            "history of one": f"/history?id={quote(failed)}",
        }
        with contextlib.ExitStack() as running:
            process = running.enter_context(service(directory, first, "first"))
            roots = [process.pid]
            if options.instances > 1:
                roots.append(running.enter_context(service(directory, second, "second")).pid)
            until = time.monotonic() + 120
            while time.monotonic() < until:
                with contextlib.suppress(OSError):
                    get(url)
                    break
                time.sleep(0.2)
            while os.listdir(root / "in/incoming/target"):
                time.sleep(0.1)
            time.sleep(5)
            print("idle")
            show_pages(url, pages, process, 10)
            feeder = Feeder(root)
            feeder.start()
            time.sleep(10)
            print(f"while {len(roots)} work")
            show_pages(url, pages, process, 10)
            with_readers, without = [], []
            for _ in range(options.windows):
                without.append(cost(feeder, roots, url, pages, read=False))
                with_readers.append(cost(feeder, roots, url, pages, read=True))
            feeder.ends.set()
            feeder.join()
        ratios = [one / other for one, other in zip(with_readers, without, strict=True)]
        print(f"us of an event: {spread(without)} without readers")
        print(f"                {spread(with_readers)} with three open pages")
        print(f"ratio: {statistics.median(ratios):.3f}  {json.dumps([round(one, 3) for one in ratios])}")


if __name__ == "__main__":
    main()
