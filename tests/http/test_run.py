"""The server of ``connector run``: a real process, stopped as a service manager does."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.forked_command import ForkedProcess, PipedProcess
from tests.http.world import PATIENCE, TOKEN
from tests.waiting import beside, wait_for

pytestmark = pytest.mark.process
ADAPTER = """\
provider: {{type: dropbox, root: ./data, create: true, durability: none}}
connector:
  ApplicationName: shop
  ConfigurationMetaObject: MO_Config
  DataHandlerMimeType: application/json
  ReplyToDestination: queue://replies
  SessionPoolSizeForRequests: 2
  stop_timeout: {stop_timeout}
metaobjects: ./objects.yaml
http: {{listen: "127.0.0.1:{port}", tokens: ["${{TOKEN}}"]}}
logging: {{level: debug}}
"""

OBJECTS = """\
business_object: Customer
verbs: {Create: , Retrieve: }
attributes: {CustomerId: String}
---
static_metaobject: MO_Config
Default: {OutputDestination: queue://crm}
rules:
  Customer_Retrieve: {ResponseTimeout: 60000}
"""


@dataclass
class Run:
    """A running adapter.

    Args:
        process: it.
        said: the file that gets all that it writes.
    """

    process: ForkedProcess
    said: Path

    @property
    def url(self) -> str:
        """Where its server is, once it says so."""
        pattern = re.compile(r"the HTTP server accepts requests .*url=(http://[0-9.:]+)")
        wait_for(lambda: pattern.search(self.text), what="the server listens")
        found = pattern.search(self.text)
        assert found is not None
        return found[1]

    @property
    def text(self) -> str:
        return self.said.read_text("utf-8")


@contextmanager
def running(directory: Path, *options: str, port: int = 0, stop_timeout: str = "10s") -> Iterator[Run]:
    (directory / "adapter.yaml").write_text(ADAPTER.format(port=port, stop_timeout=stop_timeout), "utf-8")
    (directory / "objects.yaml").write_text(OBJECTS, "utf-8")
    said = directory / "said"
    with open(said, "wb") as output:
        process = ForkedProcess(
            ["run", *options],
            cwd=directory,
            env={**os.environ, "TOKEN": TOKEN, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            stdout=output.fileno(),
            stderr=output.fileno(),
        )
    try:
        yield Run(process, said)
    finally:
        process.kill()
        process.wait()


def ask(run: Run, verb: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(timeout=PATIENCE, trust_env=False, headers=headers) as http:
        return http.post(f"{run.url}/requests/Customer/{verb}", json={"CustomerId": "7"})


def requests_in(directory: Path) -> list[Path]:
    folder = directory / "data/crm/incoming/target"
    return list(folder.iterdir()) if folder.is_dir() else []


def test_a_request_becomes_a_message_and_a_stop_answers_what_waits(tmp_path: Path) -> None:
    with running(tmp_path, stop_timeout="500ms") as run:
        sent = ask(run, "Create")
        assert (sent.status_code, sent.json()["status"]) == (200, "SUCCEED")
        (message,) = requests_in(tmp_path)
        assert json.loads(message.read_bytes())["CustomerId"] == "7"
        waiting = beside(lambda: ask(run, "Retrieve"))
        wait_for(lambda: len(requests_in(tmp_path)) == 2, what="the second request is sent")
        run.process.send_signal(signal.SIGTERM)
        answer = waiting.result(PATIENCE)
        assert answer.status_code in (502, 503, 504)
        assert answer.json()
        assert run.process.wait(PATIENCE) == 0
        assert TOKEN not in run.text
        assert "method=POST path=/requests/Customer/Create status=200 " in run.text


def threads_that_take(number: int, pid: int) -> list[int]:
    """The threads of a process that a signal may reach, beside the main one."""
    found = []
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        (blocked,) = re.findall(r"SigBlk:\t([0-9a-f]+)", status.read_text("ascii"))
        if int(status.parent.name) != pid and not int(blocked, 16) >> (number - 1) & 1:
            found.append(int(status.parent.name))
    return found


def test_a_signal_that_reaches_another_thread_than_the_main_one_stops_it_too(tmp_path: Path) -> None:
    with running(tmp_path, stop_timeout="1s") as run:
        assert ask(run, "Create").status_code == 200
        pid = run.process.pid
        wait_for(lambda: threads_that_take(signal.SIGTERM, pid), what="there is such a thread")
        state = Path(f"/proc/{pid}/task/{pid}/stat")
        wait_for(lambda: ") S " in state.read_text("ascii"), what="the main thread sleeps")
        thread = threads_that_take(signal.SIGTERM, pid)[0]
        assert ctypes.CDLL(None).tgkill(pid, thread, signal.SIGTERM) == 0
        assert run.process.wait(PATIENCE) == 0


def test_an_address_that_is_taken_ends_the_command_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running(tmp_path, port=port) as run:
            assert run.process.wait(PATIENCE) == 1
            assert f"connector: http.listen: 127.0.0.1:{port}: another program listens there" in run.text


def test_only_the_service_serves(tmp_path: Path) -> None:
    for option in ("--once", "--drain"):
        with running(tmp_path, option) as run:
            assert run.process.wait(PATIENCE) == 0
            assert "the HTTP server accepts requests" not in run.text


def test_few_open_files_mean_fewer_connections_and_no_failure(tmp_path: Path) -> None:
    program = (
        "import logging, resource; resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700))\n"
        "logging.basicConfig()\n"
        "from connector.http.connections import most_connections\n"
        "print(most_connections(50), most_connections(1000))\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    with PipedProcess(script=program) as process:
        output, errors = process.communicate()
    assert output.splitlines() == ["150 300", "(700, 700)"]
    assert "fewer connections than http.max_requests wants: ulimit -n is too low" in errors
