"""The shipped means to test a deployment without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from connector.errors import ConfigurationError, PipelineError
from connector.events.job import CHECK
from connector.testing.deployment import Deployment
from connector.testing.pipeline import InProcessPipeline

Bench = Any
PID = "import os, pathlib\ndef a(bo, event): pathlib.Path('pid').write_text(str(os.getpid()))\n"


@pytest.mark.parametrize("isolated", [True, False])
def test_a_process_runs_in_the_directory_of_its_deployment_isolated_or_not(
    bench: Bench, isolated: bool
) -> None:
    deployment = bench.deploy(processes=PID)
    deployment.drop("orders", '{"BusinessObject": "Order"}')
    before = os.getcwd()
    with deployment.running(isolated=isolated) as adapter:
        adapter.drain()
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


def test_a_root_may_be_put_elsewhere_by_the_environment(bench: Bench, tmp_path: Path) -> None:
    deployment = bench.deploy(provider={"root": "${DATA:./data}"})
    moved = Deployment(deployment.directory, environment={"DATA": str(tmp_path / "elsewhere")})
    moved.drop("orders", "{}")
    assert (tmp_path / "elsewhere" / "orders").is_dir()
    assert moved.messages("nowhere") == []
