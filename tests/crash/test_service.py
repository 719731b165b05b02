"""The adapter as a service: how it stops, what it leaves behind, what wakes it, and a reload that is killed.

When a poll begins, by all that may come: tests/service/test_loop.py. Reloads: tests/operate/test_reload.py.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from connector.messaging.destination import parse_destination
from connector.service.status_document import StatusReader
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, assert_settled_once
from tests.forked_command import PipedProcess
from tests.runs import Run
from tests.waiting import lets_wait, wait_for


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_what_is_in_flight_and_leaves_nothing_behind(deploy: Deploy, number: int) -> None:
    """The event at work is published; those after it in the same cycle as well, within stop_timeout."""
    deployment = deploy()
    ids = deployment.fill("in", ["gate:1", "sleep:0.05", ""])
    run = deployment.start()
    (runner,) = deployment.await_gate(run, "1", 1)
    assert {run.pid, runner} <= set(run.members()), "the tests find all processes of a run"
    assert {os.getsid(pid) for pid in run.members()} == {run.pid}
    assert Path(f"/proc/{run.pid}/cwd").readlink() == deployment.directory
    deployment.fill("in", ["", ""])
    run.signal_driver(number)
    wait_for(lambda: "stopping" in run.errors)
    deployment.open("1")
    assert run.wait(120) == 0, run.errors
    run.await_gone()
    assert deployment.ids("archive") == deployment.begun() == dict.fromkeys(ids, 1)
    assert len(deployment.names("in")) == 2, "messages that came after the signal stay"
    assert deployment.leftovers(but=["in/target/"]) == []


def test_a_process_that_takes_longer_than_stop_timeout_is_ended_and_the_rest_is_given_back(
    deploy: Deploy,
) -> None:
    deployment = deploy(connector={"stop_timeout": "1s"})
    done, slow, *rest = deployment.fill("in", ["", "sleep:300", "", ""])
    run = deployment.start()
    wait_for(lambda: slow in deployment.begun())
    asked = time.monotonic()
    run.stop()
    assert time.monotonic() - asked < 60, "not the 300 s of the process"
    run.await_gone(120)
    assert deployment.ids("archive") == {done: 1}
    assert deployment.begun() == {done: 1, slow: 1}
    assert deployment.ids("in") == dict.fromkeys([slow, *rest], 1)
    counted = [name for name in deployment.names("in") if "JMSXDeliveryCountI=2" in name]
    assert [name.split(".")[1] for name in counted] == [slow.removeprefix("ID:")], "it alone was begun"
    assert deployment.leftovers(but=["in/target/"]) == []


def test_a_second_signal_ends_at_once_and_the_next_run_recovers(deploy: Deploy) -> None:
    deployment = deploy(connector={"stop_timeout": "60s"})
    ids = deployment.fill("in", ["gate:1", ""])
    run = deployment.start()
    deployment.await_gate(run, "1", 1)
    run.signal_driver(signal.SIGTERM)
    wait_for(lambda: "stopping" in run.errors)
    run.signal_driver(signal.SIGTERM)
    assert run.wait(50) == 128 + signal.SIGTERM
    deployment.open("1")
    run.await_gone()
    deployment.drain()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert max(deployment.begun().values()) <= 2
    assert deployment.leftovers(but=["in/target/"]) == []


def test_a_hangup_to_the_whole_group_is_ignored_and_sigterm_ends_it_in_order_although_java_dies_first(
    deploy: Deploy,
) -> None:
    """All processes get both. Spark tells its workers to end by a hangup; Java starts others.

    It starts as a user starts it.
    """
    deployment = deploy(fresh=True, java=True)
    run = deployment.start()
    deployment.await_archived(deployment.fill("in"))
    java = run.java()
    run.signal_all(signal.SIGHUP)
    wait_for(lambda: "SIGHUP is ignored" in run.errors)
    deployment.await_archived(deployment.fill("in"))
    assert deployment.begun() == dict.fromkeys(deployment.ids("archive"), 1)
    assert run.java() == java
    deployment.fill("in", ["sleep:0.5", "", ""])
    deployment.await_delivery()
    run.signal_all(signal.SIGTERM)
    assert run.wait(120) == 0, run.errors
    run.await_gone()
    assert deployment.begun() == dict.fromkeys(deployment.ids("archive"), 1), "what was delivered is archived"
    assert deployment.count("archive") + deployment.count("in") == 5
    assert deployment.leftovers(but=["in/target/"]) == []


_SLOW_IMPORT = """
import pathlib, time

pathlib.Path(__file__).with_name("imported").touch()
while not pathlib.Path(__file__).with_name("go").exists():
    time.sleep(0.01)
"""


@pytest.mark.parametrize("moment", ["signals wait", "java is there", "a worker imports"])
def test_a_signal_while_it_starts_ends_it_in_order(deploy: Deploy, moment: str) -> None:
    """Until the program lets signals wait, it is Python that starts. SIGINT leaves no time for Spark."""
    deployment = deploy(fresh=True, java=True)
    ids = deployment.fill("in", [""] * 3)
    if moment == "a worker imports":
        with (deployment.directory / "processes.py").open("a") as file:
            file.write(_SLOW_IMPORT)
    run = deployment.start()
    if moment == "signals wait":
        wait_for(lambda: lets_wait(run.pid, signal.SIGTERM))
        run.signal_driver(signal.SIGTERM)
    else:
        is_there = run.java if moment == "java is there" else (deployment.directory / "imported").exists
        wait_for(lambda: is_there() or run.process.poll() is not None)
        run.signal_driver(signal.SIGINT)
    assert run.wait(120) == (0 if moment == "signals wait" else 130), run.errors
    assert "[info] ready" not in run.errors
    (deployment.directory / "go").touch()
    run.await_gone()
    assert deployment.ids("in") + deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.leftovers(but=["in/target/"]) == []


@pytest.mark.parametrize("order", ["destination", "none"])
def test_a_runner_is_replaced_after_worker_events_between_two_events(deploy: Deploy, order: str) -> None:
    deployment = deploy(connector={"worker_events": 10, "order": order}, spark={"master": "local[1]"})
    ids = deployment.fill("in", [""] * 95)
    run = deployment.drain()
    events = Counter(one.pid for one in deployment.deliveries() if one.word == "begin")
    assert sorted(events.values()) == [5, *[10] * 9]
    assert run.errors.count("a worker is replaced after many events") == 9
    assert_settled_once(deployment, ids, kills=0)


# -- what wakes it -------------------------------------------------------------------------------------------


NEVER = {"PollFrequency": 600_000}
"""Milliseconds."""


def serve(deployment: CrashDeployment) -> Run:
    """A service that has published what waited, and has nothing to do now."""
    ids = deployment.fill(deployment.inputs[0])
    run = deployment.start()
    deployment.await_archived(ids)
    return run


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_message_is_published_when_it_comes(deploy: Deploy) -> None:
    topic = {"destination": "topic://prices", "subscription": "all"}
    inputs = ["queue://in", "queue://other", topic]
    deployment = deploy(connector={**NEVER, "InputDestination": inputs}, inputs=("in", "other"))
    run = serve(deployment)
    for destination in ("in", "other", "topic://prices", "in", "topic://prices"):
        deployment.await_archived(deployment.fill(destination, [""] * 3))
    bare = deployment.folder("other") / "order"
    bare.write_bytes(b'{"BusinessObject": "Customer", "Verb": "Create", "CustomerId": "1"}')
    deployment.await_archived(["order"])
    run.stop()
    assert set(deployment.begun().values()) == {1}
    assert deployment.leftovers(but=["in/target/"]) == []


def test_a_service_that_waits_does_nothing(deploy: Deploy) -> None:
    deployment = deploy(connector=NEVER)
    run = serve(deployment)

    def is_at_rest() -> bool:
        before = cpu_seconds(run.pid)
        time.sleep(2)  # the processor time of a service is a matter of seconds, and no state
        return cpu_seconds(run.pid) - before < 0.1

    wait_for(is_at_rest)  # once its poll and its start are over
    run.stop()


# -- reload --------------------------------------------------------------------------------------------------


def call(deployment: CrashDeployment, *arguments: str) -> tuple[int, str]:
    """Runs a command. Returns its exit status and its output."""
    with PipedProcess(*arguments, cwd=deployment.directory) as process:
        output, _ = process.communicate()
        return process.wait(), output


def start(deployment: CrashDeployment, fault: str = "") -> Run:
    """Starts a service, and waits until it listens to requests to reload."""
    run = deployment.start(fault=fault)
    wait_for(lambda: "ready" in run.errors, 120, lambda: run.errors)
    state = deployment.provider.existing_state("crash")
    wait_for(lambda: any(one.runs and "reload" in one.note for one in state.instances()), 60, "the service")
    return run


@pytest.mark.parametrize(
    ("provider_type", "place"),
    [("dropbox", "reload.begin"), ("dropbox", "reload.connected"), ("postgresql", "reload.closed")],
)
def test_a_service_that_is_killed_while_it_reloads_has_the_new_settings_at_its_next_start(
    deploy: Deploy, place: str
) -> None:
    deployment = deploy(connector={"DuplicateEventElimination": True})
    deployment.drain()
    queues, ids = ["in"], list[str]()

    def publish() -> None:
        ids.extend(one for queue in queues for one in deployment.fill(queue, ["", ""]))
        deployment.await_archived(ids)

    def reload() -> tuple[int, str]:
        queues.append(f"more{len(queues)}")
        deployment.configure(InputDestination=[f"queue://{name}" for name in queues])
        status, output = call(deployment, "reload", "--json")
        return status, json.loads(output)["instances"][0]["result"]

    run = start(deployment, f"{place}:1=kill")
    publish()
    assert reload() == (1, "ended")
    assert run.wait() == -signal.SIGKILL
    run = start(deployment)
    publish()
    assert reload() == (0, "reloaded"), run.errors
    publish()
    run.stop()
    assert deployment.ids("archive") == deployment.begun() == dict.fromkeys(ids, 1)
    assert deployment.leftovers(but=["in/target/"]) == []


def test_two_instances_send_each_message_of_a_timer_once(deploy: Deploy) -> None:
    data = {"CustomerId": "C-1"}
    timer = {"name": "each", "every": "1s", "to": "queue://in", "object": "Customer", "data": data}
    deployment = deploy(timers=[timer, {**timer, "name": "later", "every": "366d"}])
    runs = [deployment.start() for _ in range(2)]
    wait_for(lambda: deployment.count("archive") >= 2)
    rows = StatusReader(deployment.configuration, deployment.provider).read()["timers"]
    assert [(row["name"], row["last_fired"] is not None) for row in rows] == [
        ("each", True),
        ("later", False),
    ]
    for run in runs:
        run.stop()
        run.await_gone()
    with closing(deployment.provider.existing()) as connection:
        messages = list(connection.browse(parse_destination("queue://archive")))
    dues = sorted(int(str(one.properties["connector_timer_due"])) for one in messages)
    assert dues == list(range(dues[0], dues[0] + 1000 * len(dues), 1000))
    assert deployment.begun() == dict.fromkeys(deployment.ids("archive"), 1)
    (message, *_) = messages
    status, answer = call(deployment, "history", str(message.message_id), "--json")
    history = json.loads(answer)
    assert status == 0
    assert [one["what"] for one in history["events"]] == ["sent", "published"]
    assert history["events"][0]["by"] == "timer each"
    assert deployment.leftovers(but=["in/target/"]) == []
