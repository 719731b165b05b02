"""The pipeline on ``local[2]``: real Java, real workers."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import struct
import sys
from pathlib import Path

import pytest

from connector.errors import PipelineError
from connector.spark.fast_start import FastStart
from connector.spark.launcher import _OWN_LOCAL_PROPERTIES, _OWN_PROPERTIES
from connector.spark.pipeline import SparkPipeline
from connector.spark.settings import OWNED_LOCAL_SETTINGS, OWNED_SETTINGS
from tests import forked_command
from tests.forked_command import PipedProcess
from tests.spark.conftest import Settings, deployment
from tests.waiting import beside, is_running, wait_for

ROOT = Path(__file__).parents[2]


def test_local_runs_as_many_tasks_as_it_says_and_none_without_a_payload(local: SparkPipeline) -> None:
    assert local.parallelism == 2
    assert local.run("functions:fail", b"", [], "x") == []


def test_a_local_worker_uses_the_deployment_and_the_code_where_they_are(local: SparkPipeline) -> None:
    place, directory, module, code = local.run("functions:place", b"", [b""], "x")[0].decode().split("\n")
    assert place == directory == str(Path(module).parent)
    assert code == str(Path(sys.modules["connector.spark.worker"].__file__ or ""))


def test_what_a_process_prints_is_handed_on(local: SparkPipeline, printed: list[str]) -> None:
    local.run("functions:speak", b"", [b""], "x")
    assert wait_for(lambda: "a line from a process" in printed)


def test_a_cancelled_job_is_an_error_at_once_and_the_next_job_runs(
    local: SparkPipeline, tmp_path: Path
) -> None:
    mark = tmp_path / "started"

    def cancel() -> None:
        wait_for(mark.exists)
        local.cancel()

    canceller = beside(cancel)
    with pytest.raises(PipelineError, match=r"^poll 3: cancelled$"):
        local.run("functions:sleep", b"", [str(mark).encode()], "poll 3")
    canceller.result(120)
    assert local.run("functions:upper", b"", [b"a"], "x") == [b"A"]


def test_the_probe_of_local_is_one_answer(local: SparkPipeline) -> None:
    assert local.probe("functions:upper", b"seen") == [("this machine", b"seen", "")]
    ((_, answer, error),) = local.probe("functions:fail", b"")
    assert (answer, error) == (b"", "ValueError: no such customer")


def test_the_process_of_the_adapter_is_left_as_it_was(local: SparkPipeline) -> None:
    assert local.alive
    assert not any(name.startswith("PYSPARK_") for name in os.environ)
    assert not any("userFiles" in entry for entry in sys.path)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


OWNED = """
    spark.executor.allowSparkContext spark.speculation.quantile spark.master spark.authenticate
    spark.authenticate.secret spark.storage.blockManagerHeartbeatTimeoutMs
"""


@pytest.mark.parametrize("setting", OWNED.split())
def test_a_setting_that_the_event_job_owns_is_refused_with_the_reason(setting: str, tmp_path: Path) -> None:
    pipeline = SparkPipeline(Settings(conf={setting: "4"}), tmp_path, "test")
    with pytest.raises(PipelineError, match=f"{setting}, which belongs to the adapter"):
        pipeline.start()


def java_of(pipeline: SparkPipeline) -> int:
    """The process id of the Java that a pipeline has launched."""
    spark = pipeline._spark
    assert isinstance(spark, FastStart)
    assert spark.pid is not None
    return spark.pid


def test_a_java_that_was_launched_and_is_stopped_before_the_start_is_gone(tmp_path: Path) -> None:
    pipeline = SparkPipeline(Settings(), tmp_path, "test")
    pipeline.launch()
    java = java_of(pipeline)
    assert is_running(java)
    assert not pipeline.alive
    pipeline.stop()
    assert not is_running(java)


@pytest.mark.parametrize("setting", [{"spark.master": "local"}, {"spark.driver.memory": "much"}])
def test_what_a_launch_cannot_do_is_an_error_at_the_start(setting: dict[str, str], tmp_path: Path) -> None:
    pipeline = SparkPipeline(Settings(conf=setting), tmp_path, "test")
    pipeline.launch()
    with pytest.raises(PipelineError, match="spark"):
        pipeline.start()


def test_every_setting_that_the_pipeline_fixes_is_listed_as_owned() -> None:
    assert set(_OWN_PROPERTIES) <= set(OWNED_SETTINGS)
    assert set(_OWN_LOCAL_PROPERTIES) == set(OWNED_LOCAL_SETTINGS)


def ports_of(pid: int) -> list[int]:
    """The TCP ports on which a process listens."""
    mine = {os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()}
    lines = [Path(f"/proc/net/{kind}").read_text().splitlines()[1:] for kind in ("tcp", "tcp6")]
    sockets = [line.split() for line in itertools.chain(*lines)]
    listening = [one for one in sockets if one[3] == "0A" and f"socket:[{one[9]}]" in mine]
    return [int(one[1].rpartition(":")[2], 16) for one in listening]


def answer_of(port: int) -> bytes:
    """What a port answers to a call of Spark's protocol from somebody without a secret."""
    call = struct.pack(">bqi", 3, 1, 4) + b"\xac\xed\x00\x05"  # a request, whose body begins as a Java object
    with socket.create_connection(("127.0.0.1", port), 30) as caller:
        caller.sendall(struct.pack(">q", len(call) + 8) + call + b"\n")  # py4j reads a line
        return caller.recv(1000)


def test_no_port_of_a_local_spark_reads_what_comes_without_the_secret(local: SparkPipeline) -> None:
    """One port takes commands of py4j, which has a secret of its own. The others know Spark's protocol."""
    found = {port: answer_of(port) for port in ports_of(java_of(local))}
    of_spark = [answer for answer in found.values() if not answer.startswith(b"!")]
    assert len(of_spark) >= 2
    assert all(b"Expected SaslMessage" in answer for answer in of_spark), found


def test_the_heartbeats_of_a_local_spark_may_stay_away_for_years(local: SparkPipeline) -> None:
    spark = local._context._jsc.sc()
    timeout = spark.conf().getTimeAsMs("spark.storage.blockManagerHeartbeatTimeoutMs")
    assert timeout > 365 * 24 * 3_600_000


@pytest.mark.process
def test_a_missing_python_is_an_error_at_start_that_names_it(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from connector.spark.pipeline import SparkPipeline
from tests.spark.conftest import Settings

try:
    pipeline = SparkPipeline(Settings("local[1]", python="/nowhere/python"), Path(sys.argv[1]), "test")
    pipeline.start()
    pipeline.probe("connector.spark.worker:echo", b"")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""
    answer = forked_command.run([tmp_path], script=program, cwd=ROOT, timeout=240)
    assert answer.stdout.startswith("PipelineError: ")
    assert '"/nowhere/python"' in answer.stdout
    assert answer.stderr == ""


DRIVER = """
import sys, threading
from pathlib import Path
from connector.spark.pipeline import SparkPipeline
from tests.spark.conftest import Settings

def sleep(name):
    java, worker = Path(f"{sys.argv[2]}/java.{name}"), f"{sys.argv[2]}/worker.{name}"
    java.write_text(str(pipeline._spark.pid))
    pipeline.run("functions:sleep", b"", [worker.encode()], "poll 1")

pipeline = SparkPipeline(Settings("local[1]"), Path(sys.argv[1]), "test")
pipeline.start()
try:
    sleep("first")
except Exception as error:
    print(f"{type(error).__name__}: {error}", flush=True)
print(pipeline.alive, flush=True)
pipeline.stop()
pipeline.launch()
pipeline.start()
print(pipeline.run("functions:upper", b"", [b"again"], "x"), flush=True)
sleep("second")
"""


@pytest.mark.process
def test_a_death_of_java_fails_the_job_and_spark_can_be_started_again_whose_java_ends_with_the_driver(
    tmp_path: Path,
) -> None:
    """The terminal stays clean. Workers end with their Java."""
    place = tmp_path / "deployment"
    place.mkdir()
    with PipedProcess(deployment(place), tmp_path, script=DRIVER, cwd=ROOT) as process:

        def sleeping(name: str) -> tuple[int, int]:
            """The process ids of Java and of its worker, which runs a job."""
            worker = tmp_path / f"worker.{name}"
            wait_for(lambda: worker.exists() and worker.read_text(), 120, name)
            return int((tmp_path / f"java.{name}").read_text()), int(worker.read_text())

        java, worker = sleeping("first")
        os.kill(java, signal.SIGKILL)
        second = sleeping("second")
        assert not is_running(java)
        assert wait_for(lambda: not is_running(worker))
        process.kill()
        output, errors = process.communicate(timeout=240)
    lines = output.splitlines()
    assert lines[0].startswith("SparkLost: poll 1: Spark's Java process was ended by signal 9")
    assert lines[-2:] == ["False", "[b'AGAIN']"]
    assert "another event" not in output
    assert errors == ""
    wait_for(lambda: not any(map(is_running, second)))


def test_why_java_ended_is_said_without_stack_frames(tmp_path: Path) -> None:
    settings = Settings(conf={"spark.executor.instances": "-1"})
    pipeline = SparkPipeline(settings, deployment(tmp_path), "test")
    try:
        with pytest.raises(
            PipelineError, match=r"before Spark was up.*\n(.*\n)*.*Exception.*executors"
        ) as caught:
            pipeline.start()
    finally:
        pipeline.stop()
    lines = str(caught.value).splitlines()
    assert [line for line in lines if line.strip().startswith(("at ", "... "))] == []


def launched(directory: Path, **conf: str) -> list[str]:
    """Returns the command line of the Java of a pipeline, which is launched and stopped."""
    pipeline = SparkPipeline(
        Settings(conf={f"spark.driver.{key}": one for key, one in conf.items()}), directory, "test"
    )
    pipeline.launch()
    try:
        command = Path(f"/proc/{java_of(pipeline)}/cmdline")
        wait_for(
            lambda: "/bin/sh" not in (text := command.read_text()) and text,
            what="Java has replaced the shell",
        )
        return command.read_text().split("\0")
    finally:
        pipeline.stop()


def test_java_keeps_few_new_objects_unless_the_user_gives_it_memory(tmp_path: Path) -> None:
    assert "-XX:MaxNewSize=16m" in launched(tmp_path)
    assert "-XX:MaxNewSize=16m" not in launched(tmp_path, memory="600m")


def test_java_takes_the_memory_in_units_of_spark_the_collector_of_the_user_and_no_secret(
    tmp_path: Path,
) -> None:
    conf = {"memory": "600", "extraJavaOptions": "-XX:+UseParallelGC", "my.password": "SEKRET"}
    words = launched(tmp_path, **conf)
    assert not any("SEKRET" in word for word in words), "everybody can see the words of a command"
    assert f"-Xmx{600 << 20}" in words
    assert [word for word in words if word.endswith("GC")] == ["-XX:+UseParallelGC"]
