"""A pipeline on ``local[2]``, shared by the tests of this directory."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from connector.spark.pipeline import SparkPipeline

PROCESSES = """
import fcntl
import json
import os
import sys
import threading
from pathlib import Path

from connector.errors import PipelineError
from connector.events.run.module_versions import versions


def upper(plan, deployment, payload):
    return plan + payload.upper()


def place(plan, deployment, payload):
    import connector.spark.worker

    return "\\n".join([deployment, os.getcwd(), __file__, connector.spark.worker.__file__]).encode()


def process_id(plan, deployment, payload):
    return str(os.getpid()).encode()


def fail(plan, deployment, payload):
    raise ValueError("no such customer")


def die(plan, deployment, payload):
    if payload == b"die":
        os._exit(3)
    return payload


def sleep(plan, deployment, payload):
    print('{"event": "an event was not published", "reason": "of another event"}', flush=True)
    Path(payload.decode()).write_text(str(os.getpid()))
    threading.Event().wait()
    return b""


def fail_on_first_executor(plan, deployment, payload):
    if Path(deployment).parent.parent.name == "0":
        raise ValueError("disk is missing")
    return b"fine"


def installed(plan, deployment, payload):
    facts = json.loads(versions())
    facts["packages"]["lxml"] = None
    return json.dumps({**facts, "python": "/opt/python"}).encode()


def hold(plan, deployment, payload):
    # waits for a file, whose path is the payload
    from tests.waiting import wait_for

    gate = Path(payload.decode())
    gate.with_name(f"{gate.name}.{os.getpid()}").touch()
    wait_for(gate.exists)
    return str(os.getpid()).encode()


_meeting = threading.Barrier(3)


def meet(plan, deployment, payload):
    # returns when three calls of one process are here
    _meeting.wait(240)
    return str(os.getpid()).encode()


def mark(plan, deployment, payload):
    Path(f"{plan.decode()}.{os.getpid()}").touch()
    return b""


def refuse(plan, deployment, payload):
    raise PipelineError("processes.py has no function 'book'")


def count(plan, deployment, payload):
    return f"{len(os.listdir('/proc/self/fd'))} {len(os.listdir('/proc/self/task'))}".encode()


def leave_unless_first(plan, deployment, payload):
    # while a file is there, only the process that has locked the file stays
    global locked
    Path(plan.decode()).with_name(f"mark.{os.getpid()}").touch()
    try:
        locked = open(plan)
        fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os._exit(0)
    except FileNotFoundError:
        pass
    return str(os.getpid()).encode()


def leave(plan, deployment, payload):
    # ends the worker while a file is there, whose path is in the settings
    if plan and os.path.exists(plan):
        with open(plan + b".deaths", "a") as deaths:
            deaths.write("x")
        os._exit(5)
    return payload


def origin(plan, deployment, payload):
    parent = Path(f"/proc/{os.getppid()}")
    return json.dumps(
        {
            "parent": parent.joinpath("cmdline").read_text().split("\\0"),
            "threads": len(os.listdir(parent / "task")),
            "path": os.environ.get("PYTHONPATH"),
            "variables": [name for name in os.environ if name.startswith("CONNECTOR_WORKER")],
            "has events": "connector.events.run.task" in sys.modules,
        }
    ).encode()


def speak(plan, deployment, payload):
    print("a line from a process", flush=True)
    return b""
"""


_PRINTED: list[str] = []
_running: list[SparkPipeline] = []
"""The pipeline of :func:`local`, which other folders use, too."""


@dataclass
class Settings:
    """The ``spark:`` section, as the configuration would hand it over."""

    master: str = "local[2]"
    python: str | None = None
    conf: dict[str, str] = field(default_factory=dict)


def deployment(directory: Path) -> Path:
    """A deployment with one module of functions."""
    (directory / "functions.py").write_text(textwrap.dedent(PROCESSES))
    return directory


@pytest.fixture(scope="session")
def printed() -> list[str]:
    """What the workers of ``local`` have printed."""
    return _PRINTED


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkPipeline]:
    """The only Spark of this process. PySpark has one context a process, and Java takes seconds to start."""
    if _running:
        yield _running[0]
        return
    place = deployment(tmp_path_factory.mktemp("deployment"))
    pipeline = SparkPipeline(Settings(), place, "test", output=_PRINTED.append)
    pipeline.start()
    pipeline.probe("connector.spark.worker:echo", b"")
    _running.append(pipeline)
    yield pipeline
    _running.clear()
    pipeline.stop()
