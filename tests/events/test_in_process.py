"""The shipped means to test a deployment without Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from connector.errors import CapabilityError, ConfigurationError, PipelineError
from connector.events.job import CHECK
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.testing.deployment import Deployment
from connector.testing.pipeline import InProcessPipeline
from tests.events.conftest import IN_MEMORY, ORDER, Bench
from tests.tables import rows

PID = "import os, pathlib\ndef a(bo, event): pathlib.Path('pid').write_text(str(os.getpid()))\n"


@pytest.mark.process
@rows("isolated", [True, False])
def test_a_process_runs_in_the_directory_of_its_deployment_isolated_or_not(
    bench: Bench, isolated: bool
) -> None:
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


def test_a_deployment_tells_every_mistake_of_its_texts(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, adapter="provider: {root: ./data, typ: x}\nconnector: {}\n")
    with pytest.raises(ConfigurationError) as raised:
        deployment.running()
    assert len(raised.value.problems) >= 2


def test_messages_may_live_in_memory_and_leave_no_file(bench: Bench) -> None:
    deployment = bench.deploy(
        provider=IN_MEMORY,
        subscriptions=[
            {"object": "Order", "process": "processes:a"},
            {"object": "*", "destination": "queue://crm"},
        ],
    )
    identity = deployment.send("orders", ORDER)
    bad = deployment.send("orders", "{")
    deployment.drain()
    assert deployment.ids("archive") == [identity]
    assert deployment.ids("error") == [bad]
    (sent,) = deployment.messages("crm")
    assert sent.delivery_mode == NON_PERSISTENT
    assert not bench.root.exists()
    with pytest.raises(AssertionError, match="the provider memory has no files"):
        deployment.names("archive")


def test_memory_says_that_it_cannot_keep_what_a_persistent_message_promises(bench: Bench) -> None:
    strict = bench.deploy(provider=IN_MEMORY)
    with pytest.raises(CapabilityError, match="accept_persistent"):
        strict.send("orders", ORDER, delivery_mode=PERSISTENT)
    lax = bench.deploy(provider={**IN_MEMORY, "accept_persistent": True})
    assert lax.send("orders", ORDER, delivery_mode=PERSISTENT)


@pytest.mark.process
def test_memory_is_not_shared_with_an_isolated_process(bench: Bench) -> None:
    deployment = bench.deploy(provider=IN_MEMORY)
    with pytest.raises(PipelineError, match="memory cannot be shared"), deployment.running(isolated=True):
        pass


def test_work_in_progress_and_managed_events_are_in_memory_what_they_are_elsewhere(bench: Bench) -> None:
    moving = bench.deploy(provider=IN_MEMORY, InProgressDestination="queue://busy")
    moving.send("orders", ORDER)
    moving.drain()
    assert (len(moving.messages("archive")), moving.messages("busy")) == (1, [])
    managed = bench.deploy(
        provider=IN_MEMORY,
        subscriptions=[{"object": "*", "destination": "queue://crm"}],
        ContainerManagedEvents="JMS",
        max_attempts=2,
    )
    managed.send("orders", "{")
    with managed.running() as adapter:
        assert adapter.poll().rolled_back == 1
        assert [message.delivery_count for message in managed.messages("orders")] == [2]
        assert adapter.poll().settled == 1
    assert len(managed.messages("error")) == 1


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
