"""A cluster: whether its master answers, how many executors to expect, and one task on each of them."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from connector.config.spark_master import Master
from connector.errors import PipelineError

_CONNECT_SECONDS = 5.0
_FIRST_SECONDS = 60.0
_FURTHER_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor that is registered with the driver."""

    id: str
    host: str

    def __str__(self) -> str:
        return f"executor {self.id} on {self.host}"


def reach(master: Master) -> str:
    """The address of this machine that a cluster's master sees.

    Raises:
        PipelineError: none of the masters answers.
    """
    failures = []
    for host, port in master.addresses:
        try:
            with socket.create_connection((host, port), _CONNECT_SECONDS) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    raise PipelineError(
        f"no Spark master answers ({'; '.join(failures)}). Start it, or correct spark.master in adapter.yaml"
    )


def executors(scheduler: Any) -> list[Executor]:
    """The executors there are now, the driver not among them, in the order of their ids."""
    listed = scheduler.statusStore().executorList(True)
    found = []
    for index in range(int(listed.size())):
        summary = listed.apply(index)
        if summary.id() != "driver" and int(summary.totalCores()) > 0:
            found.append(Executor(str(summary.id()), str(summary.hostPort()).rpartition(":")[0]))
    return sorted(found, key=lambda one: (len(one.id), one.id))


def await_executors(java: Any, scheduler: Any, master: Master) -> None:
    """Waits until every worker that the master reports has given an executor.

    Some may have none to give: other applications use them, or ``spark.cores.max`` leaves them out.
    So after the first executor, further ones are waited for only as long as they keep coming.

    Raises:
        PipelineError: there is none within a minute.
    """
    started = changed = time.monotonic()
    expected = _alive_workers(java, scheduler, master)
    count = 0
    while True:
        now = time.monotonic()
        if (found := len(executors(scheduler))) != count:
            count, changed = found, now
        if count and (count >= (expected or float("inf")) or now - changed > _FURTHER_SECONDS):
            return
        if bool(scheduler.isStopped()):
            raise PipelineError("the master ended the application: look at the logs of its workers")
        if not count and now - started > _FIRST_SECONDS:
            workers = "" if expected is None else f" ({expected} workers are alive)"
            raise PipelineError(
                f"{master.url} gave no executor within {_FIRST_SECONDS:.0f} s{workers}: its cores or memory"
                " are taken, its workers cannot start Java, or they do not reach this machine"
                f" at {scheduler.conf().get('spark.driver.host')} (spark.driver.host)"
            )
        time.sleep(0.05)


def located_rdd(java: Any, scheduler: Any, where: Sequence[Executor]) -> Any:
    """An RDD with one empty payload for each of the executors, to be computed there."""
    places = [java.PythonUtils.toSeq([f"executor_{one.host}_{one.id}"]) for one in where]
    pairs = [java.scala.Tuple2(bytearray(), place) for place in places]
    tag = _class_tag(java, getattr(java, "java.lang.Class").forName("[B"))
    return scheduler.makeRDD(java.PythonUtils.toSeq(pairs), tag)


def _alive_workers(java: Any, scheduler: Any, master: Master) -> int | None:
    """How many workers the master has; None where it does not say."""
    messages = "org.apache.spark.deploy.DeployMessages"
    message = getattr(getattr(java, f"{messages}$RequestMasterState$"), "MODULE$")
    answer_class = getattr(java, "java.lang.Class").forName(f"{messages}$MasterStateResponse")
    for host, port in master.addresses:
        try:
            address = getattr(java, "org.apache.spark.rpc.RpcAddress")(host, port)
            endpoint = scheduler.schedulerBackend().rpcEnv().setupEndpointRef(address, "Master")
            answer = endpoint.askSync(message, _class_tag(java, answer_class))
            if str(answer.status().toString()) == "ALIVE":
                return sum(1 for worker in answer.workers() if str(worker.state().toString()) == "ALIVE")
        except Exception:  # a master that is gone, or one that does not tell: the waiting is bounded anyway
            continue
    return None


def _class_tag(java: Any, runtime_class: Any) -> Any:
    return getattr(getattr(java, "scala.reflect.ClassTag$"), "MODULE$").apply(runtime_class)
