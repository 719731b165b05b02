"""`connector run` with a section http: it takes requests as long as the service runs."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.messaging.client import ReceivedMessage
from connector.stores.dropbox.provider import DropboxProvider
from tests.forked_command import ForkedProcess
from tests.requests.world import Application, Replying, greet, shared_memory
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
_URL = r"http://127\.0\.0\.1:\d+"
ADAPTER = """\
provider: {type: dropbox, root: ./data, create: true, durability: none}
connector:
  ApplicationName: asking
  ConfigurationMetaObject: MO_Config
  DataHandlerMimeType: application/json
  stop_timeout: 5s
metaobjects: ./objects.yaml
http: {listen: "127.0.0.1:PORT", tokens: [one-0123456789abcdef]}
"""
OBJECTS = """\
business_object: Customer
verbs: {Retrieve: }
attributes: {CustomerId: {type: String, key: true}, Name: String}
---
static_metaobject: MO_Config
rules:
  Customer_Retrieve: {OutputDestination: queue://requests, ResponseTimeout: 20000}
"""


class Service:
    """A deployment that polls nothing, and `connector run` on it."""

    def __init__(self, directory: Path, port: int = 0) -> None:
        (directory / "adapter.yaml").write_text(ADAPTER.replace("PORT", str(port)))
        (directory / "objects.yaml").write_text(OBJECTS)
        self._errors = directory / "errors"
        with self._errors.open("wb") as errors:
            self.process = ForkedProcess(
                ["run"],
                cwd=directory,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
                stdout=errors.fileno(),
                stderr=errors.fileno(),
            )

    @property
    def errors(self) -> str:
        return self._errors.read_text("utf-8")

    def await_url(self) -> str:
        wait_for(lambda: re.search(_URL, self.errors) or self.process.poll() is not None)
        found = re.search(_URL, self.errors)
        assert found, self.errors
        return found.group()


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=shared_memory(), prefix="http-") as path:
        yield Path(path)


def ask(url: str) -> tuple[int, dict[str, object]]:
    request = urllib.request.Request(
        f"{url}/requests/Customer/Retrieve",
        b'{"CustomerId": "7"}',
        {"Content-Type": "application/json", "Authorization": "Bearer one-0123456789abcdef"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_service_takes_requests_over_http_and_lets_those_in_flight_complete_when_it_is_told_to_end(
    directory: Path,
) -> None:
    taken, answered = threading.Event(), threading.Event()

    def in_its_time(request: ReceivedMessage, replying: Replying) -> None:
        if taken.is_set():
            answered.wait(120)
        greet(request, replying)

    service = Service(directory)
    application = Application(DropboxProvider(directory / "data", create=True), in_its_time)
    answers: list[tuple[int, dict[str, object]]] = []
    try:
        url = service.await_url()
        status, document = ask(url)
        assert (status, document["status"]) == (200, "VALCHANGE")
        assert document["object"] == {"CustomerId": "7", "Name": "name of 7"}

        taken.set()
        caller = threading.Thread(target=lambda: answers.append(ask(url)))
        caller.start()
        wait_for(lambda: len(application.requests) == 2)
        service.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in service.errors)
        assert service.process.poll() is None, "it waits for what is in flight"
        answered.set()
        caller.join(120)
        service.process.wait(120)
    finally:
        answered.set()
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
        application.end()
    assert service.process.returncode == 0
    assert [(status, document["status"]) for status, document in answers] == [(200, "VALCHANGE")]
    assert os.listdir(directory / "data/dropboxmq/clients") == []


def test_a_port_that_is_taken_ends_the_service_with_a_text_that_says_what_to_do(directory: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        service = Service(directory, taken.getsockname()[1])
        assert service.process.wait(120) == 1
    errors = service.errors
    assert "http.listen" in errors
    assert "choose another port" in errors
    assert "Traceback" not in errors
