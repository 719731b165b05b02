"""A real Spark whose executor has ended: the adapter goes on in a new one, or stops in time."""

from __future__ import annotations

import json

import pytest

from tests.events.conftest import Bench, bench
from tests.forked_command import PipedProcess

__all__ = ["bench"]

PROCESSES = """
import os, pathlib
def a(order, event):
    pathlib.Path(__file__).with_name("pid." + order["Id"]).write_text(str(os.getppid()))
"""

PROGRAM = """
import json, os, signal, sys, threading
from pathlib import Path
from connector.service.adapter import Adapter
from connector.service.loop import Service
from connector.service.observer import Observer
from connector.service.status_document import StatusReader
from connector.spark import dead_spark, staying_tasks
from connector.testing.deployment import Deployment
from tests.waiting import wait_for

dead_spark.LOOK_SECONDS = staying_tasks.LOOK_SECONDS = 0.3
staying_tasks._STOP_SECONDS = 0.5
adapter = Adapter.from_file("adapter.yaml")
observer = Observer(adapter)
reader = StatusReader(adapter.configuration, observer._provider)

deployment = Deployment(".")

def send(name):
    deployment.drop("orders", json.dumps({"BusinessObject": "Order", "Id": name}), name)

def worker_of(name):
    return int(wait_for(lambda: (path := Path("pid." + name)).exists() and path.read_text(), what=name))

def end_executor(worker):
    # as Spark itself does when it has not heard from its executor, and nothing runs then any more
    adapter._connection.pipeline._spark.context._jsc.sc().schedulerBackend().stop()
    os.kill(worker, signal.SIGKILL)

adapter.start()
service = Service(adapter)
thread = threading.Thread(target=service.run)
thread.start()
send("a")
end_executor(worker_of("a"))
ready = wait_for(observer.not_ready, what="not ready")
reasons = wait_for(lambda: reader.read()["reasons"], what="not well")
send("b")
worker = worker_of("b")
wait_for(lambda: not observer.not_ready() and not reader.read()["reasons"], what="ready and well again")
print(json.dumps([ready, [one.text for one in reasons]]), flush=True)
adapter._connection.pipeline._tasks._spark_watch.close()  # nobody notices now
end_executor(worker)
send("c")
wait_for(lambda: adapter.in_progress, what="claimed")
service.stop()
thread.join()
adapter.stop()
print(json.dumps(deployment.names("orders")))
"""


@pytest.mark.process
def test_an_adapter_goes_on_in_a_new_spark_when_its_executor_has_ended_and_stops_with_a_dead_one(
    bench: Bench,
) -> None:
    more = {"spark": {"master": "local[1]"}}
    bench.deploy(processes=PROCESSES, more=more, InputDestination="queue://orders", PollFrequency=100)
    with PipedProcess(cwd=bench.directory, script=PROGRAM) as process:
        output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
    (ready, reasons), left = map(json.loads, output.splitlines())
    assert "Spark" in ready
    assert any(reason.startswith("one: ") and "Spark" in reason for reason in reasons)
    assert [name.rpartition("connector_file_nameS=")[2] for name in left] == ["c"]
    assert sorted(path.name for path in bench.directory.glob("pid.*")) == ["pid.a", "pid.b"]
