"""Compares the packages of a cluster's workers with the driver's before any message is taken."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from connector.events.job import ProbeAnswer

_PACKAGES: Final = ("pyspark", "orjson", "msgspec", "lxml", "tenacity")
"""Distributions that workers must have installed. The connector itself is shipped."""


def versions() -> bytes:
    """Returns the Python and the packages of this process as JSON."""
    return json.dumps(
        {"python": sys.executable, "packages": {name: _version(name) for name in _PACKAGES}}
    ).encode()


def missing_packages(answers: Iterable[ProbeAnswer]) -> list[str]:
    """Returns a text for each package that a worker lacks.

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
        for name, version in facts["packages"].items():
            here = _version(name)
            if version is None and here is not None:
                found.append(f"{where} has no {name}: install {name}=={here} in its Python")
            elif name == "pyspark" and version != here:
                found.append(
                    f"{where} has {name} {version}, the adapter {here}: install {name}=={here} there"
                )
    return found


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
