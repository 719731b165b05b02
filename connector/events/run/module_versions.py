"""Compares the workers with the driver before any message is taken: Python, connector and packages."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from connector.status import VERSION

if TYPE_CHECKING:
    from connector.events.run.pipeline import ProbeAnswer

_PACKAGES: Final = ("pyspark", "orjson", "msgspec", "lxml", "tenacity")
"""Distributions that workers must have installed. The connector itself is shipped."""


def versions() -> bytes:
    """Returns the Python, the connector and the packages of this process as JSON."""
    return json.dumps(
        {
            "python": sys.executable,
            "version": _python_version(),
            "connector": VERSION,
            "packages": {name: _version(name) for name in _PACKAGES},
        }
    ).encode()


def differences(answers: Iterable[ProbeAnswer]) -> list[str]:
    """Returns a text for each difference by which a worker cannot process the events of this driver.

    Args:
        answers: of a probe with :func:`versions`.
    """
    found = []
    for one in answers:
        if one.error:
            found.append(f"{one.executor}: {one.error}")
            continue
        facts = json.loads(one.answer)
        where = f"{one.executor}, {facts['python']}"
        if facts["version"] != _python_version():
            found.append(
                f"{where} is Python {facts['version']}, the adapter runs {sys.executable}, Python "
                f"{_python_version()}; set PYSPARK_PYTHON or spark.pyspark.python"
            )
        if facts["connector"] != VERSION:
            found.append(
                f"{where} has loaded the connector {facts['connector']}, the adapter is {VERSION}; "
                "restart the Spark application"
            )
        for name, version in facts["packages"].items():
            here = _version(name)
            if version is None and here is not None:
                found.append(f"{where} has no {name}: install {name}=={here} in its Python")
            elif name == "pyspark" and version != here:
                found.append(
                    f"{where} has {name} {version}, the adapter {here}: install {name}=={here} there"
                )
    return found


def _python_version() -> str:
    """Returns major and minor version. Others run the same code."""
    return ".".join(map(str, sys.version_info[:2]))


def _version(name: str) -> str | None:
    if name == "pyspark":
        # On a cluster PySpark may come with Spark's own installation, which Python's metadata does not list.
        return getattr(sys.modules.get(name), "__version__", None)
    return _installed_version(name)


@functools.cache
def _installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
