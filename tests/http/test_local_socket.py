"""Commands ask a service at its socket, and answer as if they had read everything themselves."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.cli.ask import ask
from connector.http.local_socket import LocalSocket
from connector.local_sockets import FOLDER, at_open_directory
from connector.service.observer import Observer
from connector.testing.deployment import InProcessAdapter
from tests.cli.in_process import Commands
from tests.http.shop import deploy, send
from tests.tables import rows

SOCKET = FOLDER / "one.sock"


@contextlib.contextmanager
def listening(adapter: InProcessAdapter, name: str = "one") -> Iterator[Path]:
    local = LocalSocket(adapter.configuration.file, name, Observer(adapter))
    local.start()
    try:
        yield adapter.configuration.file.parent / FOLDER
    finally:
        local.stop()


def is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a command fail that reads the deployment itself."""

    def fail(*_: object) -> None:
        raise AssertionError("the command has read the deployment")

    monkeypatch.setattr("connector.cli.deployment.load_for", fail)


def test_a_command_answers_the_same_with_a_service_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)  # a socket has a path of 107 bytes
    deployment = deploy(deep)
    identity = deployment.send("queue://orders", '{"Id": "bad"}')
    send(deployment, "good", "good")
    call = Commands(deep)
    commands = [["status"], ["errors"], ["errors", "orders"], ["queues"], ["history", "--since", "1h"]]
    commands += [["history", identity], ["history", "--key", "nobody"]]
    with deployment.running() as adapter:
        adapter.drain()
        alone = [call(*command) for command in commands]
        alone_json = [call(*command, "--json") for command in commands[1:]]
        with listening(adapter) as folder:
            assert stat.S_IMODE(os.stat(folder / "one.sock").st_mode) & 0o007 == 0
            is_asked(monkeypatch)
            asked = [call(*command) for command in commands]
            asked_json = [call(*command, "--json") for command in commands[1:]]
        assert os.listdir(folder) == []
    for one, other in zip(alone[1:] + alone_json, asked[1:] + asked_json, strict=True):
        assert (one.stdout, one.stderr, one.returncode) == (other.stdout, other.stderr, other.returncode)
    assert asked[0].stdout.splitlines()[:3] == alone[0].stdout.splitlines()[:3]


@rows("asked", ["no-such-queue", "topic://prices"])
def test_a_command_that_gets_no_answer_says_why_itself(tmp_path: Path, asked: str) -> None:
    deployment = deploy(tmp_path)
    with deployment.running() as adapter, listening(adapter):
        assert asked in Commands(tmp_path)("errors", asked).stderr


def test_status_reads_itself_while_the_service_waits_for_its_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connector.service.observer._PATIENCE", 0.1)
    deployment, answers = deploy(tmp_path), threading.Event()
    with deployment.running() as adapter:
        observer = Observer(adapter)
        monkeypatch.setattr(observer._reader, "read", lambda _: answers.wait(60) and {})
        local = LocalSocket(adapter.configuration.file, "one", observer)
        local.start()
        try:
            found = ask(str(adapter.configuration.file), "/control/status")
            assert "has not answered" in found["reasons"][0]["text"]
            assert Commands(tmp_path)("status").stdout.startswith("shop is well\n")
        finally:
            answers.set()
            local.stop()


def test_a_socket_answers_for_its_own_file_and_only_to_reading(tmp_path: Path) -> None:
    deployment = deploy(tmp_path)
    (tmp_path / "other.yaml").write_text("")
    with deployment.running() as adapter, listening(adapter) as folder:
        file = str(adapter.configuration.file)
        assert ask(file, "/control/status")["application"] == "shop"
        assert ask(str(tmp_path / "other.yaml"), "/control/status") is None
        assert ask(str(tmp_path / "missing.yaml"), "/control/status") is None
        assert ask(file, "/control/no-such-path") is None
        with at_open_directory(folder, "one.sock") as path, socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"POST /control/pause HTTP/1.0\r\n\r\n")
            assert client.recv(100).split()[1] == b"501"


def test_a_socket_of_a_dead_service_is_replaced_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    deployment = deploy(tmp_path)
    with deployment.running() as adapter:
        file, folder = str(adapter.configuration.file), tmp_path / FOLDER
        folder.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as dead, at_open_directory(folder, "one.sock") as path:
            dead.bind(path)
        assert ask(file, "/control/status") is None
        with listening(adapter):
            assert ask(file, "/control/status")["well"] is True
            with listening(adapter):  # a second one of this name
                pass
            assert ask(file, "/control/status")["well"] is True


def test_a_directory_that_takes_no_socket_does_not_end_the_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deploy(tmp_path)
    (tmp_path / ".connector").mkdir()
    (tmp_path / FOLDER).write_text("")
    with deployment.running() as adapter, listening(adapter):
        assert "commands cannot ask this service" in caplog.text
