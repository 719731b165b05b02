"""``connector run``: its log for people and programs, what a service manager is told, and runs that end."""

from __future__ import annotations

import functools
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from connector.cli.notify import ServiceManager
from connector.status import VERSION
from tests.cli.in_process import Commands
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, deployments
from tests.runs import REPOSITORY, Run
from tests.waiting import wait_for

pytestmark = pytest.mark.process

_MORE_PROCESSES = """
import warnings

def _loud(customer, event):
    warnings.warn("an old thing")
    os.write(2, b"no JSON at all\\n" + b"no end of line" * (customer["Name"] or "").startswith("raise"))
    store(customer, event)

def loud(customer, event):
    _loud(customer, event)
"""


@pytest.fixture(scope="module")
def deploy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deploy]:
    with deployments(tmp_path_factory.mktemp("log")) as make:
        yield make


@pytest.fixture
def quick(deploy: Deploy) -> Deploy:
    """Makes deployments that run without Spark, which has no part in most of what a run says."""
    return functools.partial(deploy, java=False)


def with_logging(deployment: CrashDeployment, text: str) -> CrashDeployment:
    with (deployment.directory / "adapter.yaml").open("a") as file:
        file.write(f"logging: {text}\n")
    return deployment


def log_of(run: Run) -> list[dict[str, Any]]:
    """The lines of stderr, each of which must be an object with the fields that every line has."""
    lines = [json.loads(line) for line in run.errors.splitlines()]
    for line in lines:
        assert {"event", "level", "timestamp", "logger"} <= line.keys(), line
    return lines


def one(lines: list[dict[str, Any]], event: str) -> dict[str, Any]:
    (found,) = [line for line in lines if line["event"] == event]
    return found


def chosen(line: dict[str, Any], names: str) -> list[Any]:
    return [line.get(name) for name in names.split()]


@pytest.fixture(scope="module")
def drained(deploy: Deploy) -> tuple[Run, list[str]]:
    """A drain with JSON logs in which a worker prints, warns and fails. 512 open files are enough for it."""
    deployment = deploy(store={"process": "processes:loud"}, connector={"AgentTraceLevel": 2})
    with (deployment.directory / "processes.py").open("a") as file:
        file.write(_MORE_PROCESSES)
    with_logging(deployment, "{format: json}")
    ids = deployment.fill("in", ["", "raise:no such street", "print:1"])
    run = deployment.start("--drain")
    resource.prlimit(run.process.pid, resource.RLIMIT_NOFILE, (512, 512))
    assert run.wait() == 0, run.errors
    return run, ids


def test_all_that_a_run_writes_is_json_when_its_log_is(drained: tuple[Run, list[str]]) -> None:
    run, _ = drained
    lines = log_of(run)
    texts = [line["text"] for line in lines if line["event"] == "output"]
    assert "no JSON at all" in texts
    assert "no end of line" in texts, "apart from the line of the log that follows"
    assert "x" * 99 in texts
    warned = next(line for line in lines if line["logger"] == "py.warnings")
    assert "UserWarning: an old thing" in warned["event"]
    assert {line["source"] for line in lines if line["event"] == "output"} == {"worker"}
    summary = json.loads(run.output)
    assert chosen(summary, "event level claimed published failed") == ["summary", "info", 3, 2, 1]
    assert summary["destinations"]["queue://in"]["claimed"] == 3
    assert "no such street" in summary["reasons"][0]["reason"]
    assert [line["claimed"] for line in lines if line["event"] == "progress"][-1:] == [3]


def test_a_failure_in_a_worker_is_one_line_with_its_traceback(drained: tuple[Run, list[str]]) -> None:
    run, ids = drained
    lines = log_of(run)
    failed = one(lines, "a business process has failed")
    names = "level logger message_id destination object verb attempts subscription"
    place = [ids[1], "queue://in", "Customer", "Create"]
    assert chosen(failed, names) == ["error", "connector.events", *place, 1, "store"]
    assert failed["exception"].count('File "') == 4  # loud, _loud, store, _behave
    settled = one(lines, "an event was not published")
    assert chosen(settled, "level message_id outcome attempts") == ["warning", ids[1], "failed", 1]
    assert settled["reason"].endswith(f" ({failed['place']})")
    assert [line for line in lines if line["level"] == "error"] == [failed]


def test_a_run_says_when_it_starts_is_ready_and_has_stopped(drained: tuple[Run, list[str]]) -> None:
    lines = log_of(drained[0])
    starting, ready, stopped = (one(lines, event) for event in ("starting", "ready", "stopped"))
    expected = [VERSION, "crash", "dropbox", ["queue://in"], "local[2]"]
    assert chosen(starting, "version application provider inputs spark_master") == expected
    assert starting["instance"]
    assert ready["tasks"] == 2
    assert 0 < ready["seconds"] < stopped["seconds"]
    assert chosen(stopped, "claimed published failed") == [3, 2, 1]


def test_messages_in_doubt_end_the_start_with_a_status_that_is_not_restarted(quick: Deploy) -> None:
    in_progress = {"InProgressDestination": "queue://busy", "InDoubtEvents": "FailOnStartup"}
    deployment = with_logging(quick(connector=in_progress), "{format: json}")
    deployment.fill("busy", ["", ""])
    unit = (REPOSITORY / "docs/how-to/run-as-a-service.md").read_text()
    for arguments in ([], ["--drain"]):
        run = deployment.start(*arguments)
        status = run.wait()
        assert f"\nRestartPreventExitStatus={status}\n" in unit
        lines = log_of(run)
        assert not [line for line in lines if line["event"] == "ready"]
        assert one(lines, "stopped")["in_doubt"] == 2
        assert "connector replay queue://busy sends the others back" in lines[-1]["reason"]


def test_the_trace_of_workers_and_of_the_driver_is_in_the_log(drained: tuple[Run, list[str]]) -> None:
    run, ids = drained
    traced = [line for line in log_of(run) if line["logger"] == "connector.trace"]
    for event in ("message detected", "event settled", "business object passed to a sink"):
        assert sorted(line["message_id"] for line in traced if line["event"] == event) == sorted(ids)
    assert {line["trace_level"] for line in traced} == {1, 2}


def test_with_debug_the_log_of_workers_has_all_frames_and_people_can_read_it(quick: Deploy) -> None:
    """Without Spark: workers get this setting beside the format, which the tests above show."""
    deployment = quick()
    deployment.fill("in", ["raise:no such street"])
    run = deployment.start("--debug", "--drain")
    assert run.wait() == 0, run.errors
    for words in (
        *("a business process has failed", "subscription=store", "connector/sinks/process/sink.py"),
        "ValueError: no such street",
    ):
        assert words in run.errors
    assert run.errors.count("Traceback") == 1


def test_the_last_line_of_a_failed_run_is_json_when_its_log_is(quick: Deploy) -> None:
    deployment = with_logging(quick(), "{format: json}")
    deployment.folder("in").parent.parent.mkdir(parents=True)
    deployment.folder("in").parent.write_text("a file where a directory is to be")
    run = deployment.start("--once")
    assert run.wait() == 1
    last = log_of(run)[-1]
    assert chosen(last, "event level") == ["the command failed", "error"]
    assert last["reason"]


Watch = Callable[..., tuple[CrashDeployment, "Manager", Run]]


class Manager:
    """A service manager: a real datagram socket. Each report of a service is one datagram.

    Args:
        address: where it listens, as the kernel has it.
    """

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(120)
        self.lines: list[str] = []

    def await_report(self, wanted: Callable[[list[str]], bool]) -> list[str]:
        """Waits for a report, and returns its lines."""
        while True:
            report = self.socket.recv(65536).decode().splitlines()
            self.lines += report
            if wanted(report):
                return report

    def await_line(self, line: str) -> None:
        self.await_report(lambda report: line in report)

    def await_statuses(self, number: int, *, alive: bool) -> None:
        """Waits for statuses with a sign of life, or for ones without it."""
        for _ in range(number):
            self.await_report(lambda one: one[-1].startswith("STATUS=") and ("WATCHDOG=1" in one) is alive)


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Callable[..., Manager]]:
    with ExitStack() as stack:

        def make(address: str = str(tmp_path / "notify")) -> Manager:
            manager = Manager(address)
            stack.enter_context(manager.socket)
            return manager

        yield make


@pytest.fixture
def watch(quick: Deploy, listen: Callable[..., Manager], tmp_path: Path) -> Watch:
    """Starts a service whose manager wants a sign of life each second, and waits until it is ready."""

    def start(**connector: object) -> tuple[CrashDeployment, Manager, Run]:
        deployment, manager = quick(connector=connector), listen()
        run = deployment.start(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="1000000")
        manager.await_line("READY=1")
        return deployment, manager, run

    return start


def test_a_service_manager_is_told_ready_alive_and_stopping(watch: Watch) -> None:
    _, manager, run = watch(PollStartTime="00:00", PollEndTime="23:59")
    manager.await_statuses(3, alive=True)  # an idle service is alive
    assert "STOPPING=1" not in manager.lines
    run.signal_driver(signal.SIGTERM)
    manager.await_line("STOPPING=1")
    assert run.wait(120) == 0, run.errors


def test_a_poll_that_hangs_stops_the_signs_of_life(watch: Watch) -> None:
    deployment, manager, run = watch(stop_timeout="1s")
    manager.await_statuses(1, alive=True)
    deployment.fill("in", ["gate:1"])
    wait_for(lambda: bool(deployment.reached("1")))
    manager.await_statuses(3, alive=False)
    deployment.open("1")
    manager.await_statuses(1, alive=True)
    run.stop()


def test_a_service_that_waits_between_two_attempts_to_reconnect_is_alive(watch: Watch) -> None:
    deployment, manager, run = watch(RestartRetryInterval=1)
    away = deployment.root.rename(deployment.root.with_name(f"{deployment.root.name}-away"))
    try:
        wait_for(lambda: "restarting the connection failed" in run.errors)
        manager.await_statuses(3, alive=True)
    finally:
        run.signal_driver(signal.SIGTERM)
        run.wait(120)
        away.rename(deployment.root)


def test_a_start_that_waits_for_its_provider_asks_for_more_time(
    quick: Deploy, listen: Callable[..., Manager], tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path}/m.db"
    deployment = quick(connector={"RestartRetryInterval": 60}, database=database)
    deployment.provider_keys = {"url": "postgresql+psycopg://nobody:no@127.0.0.1:1/nothing"}
    deployment.configure()
    manager = listen()
    run = deployment.start(NOTIFY_SOCKET=str(tmp_path / "notify"))
    manager.await_line("EXTEND_TIMEOUT_USEC=120000000")
    wait_for(lambda: "restarting the connection failed" in run.errors)
    assert "READY=1" not in manager.lines
    run.signal_driver(signal.SIGTERM)
    manager.await_line("STOPPING=1")
    assert run.wait(120) == 0, run.errors


def test_a_name_in_the_kernel_is_an_address_too(listen: Callable[..., Manager]) -> None:
    name = f"connector-test-{os.getpid()}"
    manager = listen(f"\0{name}")
    ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).stopping("the test ends")
    assert manager.await_report(lambda _: True) == ["STOPPING=1", "STATUS=stopping: the test ends"]


def test_a_watchdog_of_another_process_is_left_alone() -> None:
    for pid, seconds in (("1", 0.0), (str(os.getpid()), 0.5), ("", 0.5)):
        assert ServiceManager({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": pid}).watchdog == seconds


def test_once_is_one_poll_whose_summary_is_one_document(quick: Deploy) -> None:
    """A process prints, and stdout has the document all the same."""
    deployment = quick(connector={"PollQuantity": 2})
    sent = deployment.fill("in", ["print:3", "raise:no such street", ""])
    run = deployment.start("--once", "--json")
    assert run.wait() == 0, run.errors
    assert run.output.count("\n") == 1, "one line"
    good, failed = run.summary["events"]
    place = {"destination": "queue://in", "object": "Customer", "verb": "Create"}
    assert good == {**place, "id": sent[0], "outcome": "published", "reason": None}
    assert (failed["id"], failed["outcome"], "no such street" in failed["reason"]) == (
        sent[1],
        "failed",
        True,
    )
    names = "claimed published failed unsubscribed duplicates in_doubt later expired discarded"
    for counts in (run.summary, run.summary["destinations"]["queue://in"]):
        assert chosen(counts, names) == [2, 1, 1, 0, 0, 0, 0, 0, 0]
    assert list(deployment.ids("in")) == sent[2:]


def test_a_drain_that_settles_nothing_ends_with_status_1_and_the_message_stays(quick: Deploy) -> None:
    """A process that is not active: APPRESPONSETIMEOUT; later ones of the queue wait behind it."""
    deployment = quick()
    (deployment.directory / "closed").touch()
    ids = deployment.fill("in", ["inactive:closed", "", ""])
    run = deployment.drain(status=1)
    assert "APPRESPONSETIMEOUT" in run.errors
    assert "store: NotActive: the flag is up" in run.errors
    assert run.summary["claimed"] == 0
    assert [name for name in deployment.names("in") if "JMSXDeliveryCount" in name] == []
    assert sorted(deployment.ids("in")) == ids
    assert deployment.begun() == {ids[0]: 1}


def test_a_wrong_call_or_configuration_ends_with_status_2_and_an_empty_stdout(quick: Deploy) -> None:
    deployment = quick()
    run = Commands(deployment.directory, "run")
    assert "exclude each other" in run("--once", "--drain").refusal()
    deployment.configure(PollQuantity="many")
    assert "connector.PollQuantity" in run("--once", "--json").refusal()
    assert not deployment.root.exists(), "nothing was made"
    deployment.root.write_text("a file where a directory has to be")
    deployment.root /= "below"
    deployment.configure(PollQuantity=1)
    assert f"provider.root: {deployment.root.parent} is not a directory" in run("--drain", "--json").refusal()


def test_too_few_open_files_are_named_and_not_left_to_java(quick: Deploy) -> None:
    run = subprocess.run(
        ["sh", "-c", 'ulimit -n 64; exec "$0" -m connector.cli run --once', sys.executable],
        cwd=quick().directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    assert "this process may open 64 files at a time, and Spark needs 512" in run.stderr
    assert "ulimit -n 4096" in run.stderr
    assert "at org.apache" not in run.stderr
