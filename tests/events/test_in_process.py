"""The shipped means to test a deployment without Spark, and the probe of workers with it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from connector.errors import PipelineError
from connector.events.run.module_versions import differences, versions
from connector.events.run.pipeline import CHECK
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.status import VERSION
from connector.testing.deployment import Deployment
from connector.testing.pipeline import InProcessPipeline
from tests.events.conftest import IN_MEMORY, ORDER, Bench
from tests.tables import rows
from tests.waiting import wait_for

PID = "import os, pathlib\ndef a(bo, event): pathlib.Path('pid').write_text(str(os.getpid()))\n"


@pytest.mark.process
@rows("isolated", [True, False])
def test_a_process_runs_in_the_directory_of_its_deployment(bench: Bench, isolated: bool) -> None:
    deployment = bench.deploy(processes=PID)
    deployment.drop("orders", ORDER)
    before = os.getcwd()
    deployment.drain(isolated=isolated)
    assert os.getcwd() == before
    pid = int((deployment.directory / "pid").read_text())
    assert (pid == os.getpid()) is not isolated
    assert len(deployment.messages("archive")) == 1
    if isolated:
        assert not Path(f"/proc/{pid}").exists()  # leaving the adapter ends it


def test_a_stopped_pipeline_runs_nothing(tmp_path: Path) -> None:
    pipeline = InProcessPipeline(tmp_path)
    pipeline.stop()
    assert not pipeline.alive
    with pytest.raises(PipelineError, match="has been stopped"):
        pipeline.run(CHECK, b"", [b""], "x")
    pipeline.start()
    assert pipeline.alive


def test_messages_may_live_in_memory_and_leave_no_file(bench: Bench) -> None:
    crm = {"object": "*", "destination": "queue://crm"}
    process = {"object": "Order", "process": "processes:a"}
    deployment = bench.deploy(provider=IN_MEMORY, subscriptions=[process, crm])
    identity, bad = (deployment.send("orders", body) for body in (ORDER, "{"))
    deployment.drain()
    assert (deployment.ids("archive"), deployment.ids("error")) == ([identity], [bad])
    (sent,) = deployment.messages("crm")
    assert sent.delivery_mode == NON_PERSISTENT
    assert not bench.root.exists()
    with pytest.raises(AssertionError, match="the provider memory has no files"):
        deployment.names("archive")
    lax = bench.deploy(provider={**IN_MEMORY, "accept_persistent": True})
    assert lax.send("orders", ORDER, delivery_mode=PERSISTENT)


@pytest.mark.process
def test_memory_is_not_shared_with_an_isolated_process(bench: Bench) -> None:
    deployment = bench.deploy(provider=IN_MEMORY)
    with pytest.raises(PipelineError, match="memory cannot be shared"), deployment.running(isolated=True):
        pass


def test_what_a_deployment_sends_may_have_headers_and_properties(bench: Bench) -> None:
    deployment = bench.deploy()
    deployment.send("orders", b"\xff", priority=9, type="T", properties={"n": 1, "eu": True})
    deployment.send("orders", Message(b"{}", "T"), correlation_id="c")
    first, second = deployment.messages("orders")
    assert (first.message_class, first.body, first.priority, first.type) == ("B", b"\xff", 9, "T")
    assert (first.properties, first.property_types) == ({"n": 1, "eu": True}, {"n": "int", "eu": "boolean"})
    assert (second.message_class, second.correlation_id) == ("T", "c")


def test_a_root_may_be_put_elsewhere_by_the_environment(bench: Bench, tmp_path: Path) -> None:
    deployment = bench.deploy(provider={"root": "${DATA:./data}"})
    moved = Deployment(deployment.directory, environment={"DATA": str(tmp_path / "elsewhere")})
    moved.drop("orders", "{}")
    assert (tmp_path / "elsewhere" / "orders").is_dir()
    assert moved.messages("nowhere") == []


# -- the probe: differences by which workers cannot process the events of a driver ----------------------


class Answer(NamedTuple):
    executor: str
    answer: bytes
    error: str = ""


def of(**facts: Any) -> list[Answer]:
    return [
        Answer("host-1", json.dumps({**json.loads(versions()), "python": "/opt/python", **facts}).encode())
    ]


def test_a_worker_like_the_driver_differs_in_nothing_and_one_that_cannot_work_says_why() -> None:
    assert differences(of()) == []
    assert differences([Answer("host-1", b"", "no disk")]) == ["host-1: no disk"]


OLD = [
    "host-1, /opt/python is Python 3.9, the adapter runs ",
    sys.executable,
    "set PYSPARK_PYTHON or spark.pyspark.python",
]
OTHER = f"has loaded the connector 0.0.1, the adapter is {VERSION}; restart the Spark application"


@rows(
    "facts, words",
    [
        ({"version": "3.9"}, OLD),
        ({"connector": "0.0.1"}, [OTHER]),
        ({"packages": {"msgspec": None}}, ["host-1, /opt/python has no msgspec: install msgspec=="]),
    ],
)
def test_a_difference_is_named_with_its_remedy(facts: dict[str, Any], words: list[str]) -> None:
    (found,) = differences(of(**facts))
    assert all(word in found for word in words), found


@rows("failures, starts", [(0, True), (1, True), (2, False)])
def test_a_worker_that_fails_its_first_check_is_checked_once_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, failures: int, *, starts: bool
) -> None:
    """It may have kept a connection to a database that was restarted."""
    probe, left = InProcessPipeline.probe, [Answer("host-1", b"", "terminating connection")] * failures

    def fail(self: InProcessPipeline, function: str, plan: bytes) -> Sequence[Any]:
        return [left.pop()] if left else probe(self, function, plan)

    monkeypatch.setattr(InProcessPipeline, "probe", fail)
    deployment = bench.deploy()
    if starts:
        deployment.drain()
    else:
        with pytest.raises(PipelineError, match="host-1: terminating connection"):
            deployment.drain()


@rows("listens", [True, False])
def test_a_batch_that_ends_ends_the_wait_of_the_adapter(bench: Bench, listens: bool) -> None:
    """Otherwise its events would be settled when the wait is over."""
    deployment = bench.deploy()
    deployment.drop_customers(x="a: wait-for gate")
    with deployment.running() as adapter:
        adapter.serve()
        inbound = adapter._connection.inbound
        assert inbound is not None
        thread = threading.Thread(target=adapter.wait, args=(3600.0,), kwargs={"listens": listens})
        thread.start()
        wait_for(lambda: inbound._is_waiting)
        (deployment.directory / "gate").touch()
        thread.join(60.0)
        assert not thread.is_alive()
        assert adapter.settle_ended().settled == 1
