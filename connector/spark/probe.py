"""What a worker has, asked of every executor before the first message is taken.

:func:`report` runs on the worker, through :meth:`SparkPipeline.probe`; :func:`lacks` compares the
answers with the driver and says in a sentence each what is missing where.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import socket
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:  # a worker that lacks something must still be able to say so: nothing is imported there
    from connector.events.job import ProbeAnswer

REPORT = "connector.spark.probe:report"
"""The function to probe with."""

PACKAGES = ("pyspark", "orjson", "lxml", "tenacity")
"""Distributions that events need where they run; the connector itself is shipped."""


class Facts(TypedDict):
    """What :func:`report` answers, as JSON."""

    host: str
    python: str
    executable: str
    code: str
    packages: dict[str, str | None]
    modules: dict[str, bool]
    token: bool | None


def probe_plan(*, token: Path | None = None, token_text: str = "", modules: Sequence[str] = ()) -> bytes:
    """The plan for :func:`report`.

    Args:
        token: a file in the directory that every worker must see, under this very path.
        token_text: what stands in it, so that another directory of that name does not pass.
        modules: top-level modules that must be found: business processes and plug-ins.
    """
    return json.dumps(
        {"token": str(token) if token else None, "token_text": token_text, "modules": list(modules)}
    ).encode()


def report(plan: bytes, _deployment: str, _payload: bytes) -> bytes:
    """Answers :class:`Facts` about the process that runs it. Imports nothing of the user's."""
    asked = json.loads(plan)
    token: bool | None = None
    if asked["token"] is not None:
        try:
            token = Path(asked["token"]).read_text("utf-8") == asked["token_text"]
        except (OSError, UnicodeDecodeError):
            token = False
    facts: Facts = {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "code": str(Path(__file__).parents[2]),
        "packages": {name: _version(name) for name in PACKAGES},
        "modules": {name: importlib.util.find_spec(name) is not None for name in asked["modules"]},
        "token": token,
    }
    return json.dumps(facts).encode()


def lacks(answers: Iterable[ProbeAnswer], plan: bytes) -> list[str]:
    """What is missing where; empty when every worker has what it needs.

    Args:
        answers: of a probe with :data:`REPORT`.
        plan: the plan it was made with.
    """
    asked = json.loads(plan)
    found = []
    for one in answers:
        if one.error:
            found.append(f"{one.executor}: {one.error}")
            continue
        facts: Facts = json.loads(one.answer)
        where = f"{one.executor} ({facts['host']}, {facts['executable']})"
        if facts["token"] is False:
            root = Path(asked["token"]).parent
            found.append(f"{where} does not see {root}: every worker needs that directory under this path")
        for name, version in facts["packages"].items():
            here = _version(name)
            if version is None and here is not None:
                found.append(f"{where} has no {name}: install {name}=={here} in its Python")
            elif name == "pyspark" and version != here:
                found.append(
                    f"{where} has {name} {version}, the adapter {here}: install {name}=={here} there"
                )
        found += [
            f"{where} has no module {name}: ship it (spark.ship) or install it there"
            for name, there in facts["modules"].items()
            if not there
        ]
    return found


def _version(name: str) -> str | None:
    if name == "pyspark":
        # On a cluster it may come with Spark's own installation, of which Python's metadata knows nothing.
        import pyspark

        return str(pyspark.__version__)
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
