"""The settings of Spark that people get wrong: those of the event job, misspelt names, sizes and durations.

Names come from the jars of the installed Spark. All other values are Spark's own to check, when it starts.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from connector.errors import PipelineError
from connector.text.names import shown

OWNED_SETTINGS: Final[Mapping[str, str]] = {
    "spark.master": "it is spark.master of adapter.yaml",
    "spark.app.name": "it is made from ApplicationName",
    "spark.submit.deployMode": "the adapter is the driver and runs where it was started",
    "spark.speculation": "a second copy of a task ends the first one in the middle of its events",
    "spark.python.worker.idleTimeoutSeconds": "a worker waits for events as long as there are none",
    "spark.python.worker.reuse": "a worker keeps the process that handles the events",
    "spark.pyspark.python": "it is spark.python of adapter.yaml",
    "spark.pyspark.driver.python": "the adapter itself is the driver",
    "spark.executor.allowSparkContext": "a worker must not start a Spark of its own",
}
"""The settings that the event job owns, each with a reason. Also matches all settings below ``<setting>.``.

The pipeline (``connector/spark``) sets them, and the check of ``adapter.yaml`` refuses them.
"""
OWNED_LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.authenticate": "each user of this machine could command a local Spark without a secret",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "a machine that sleeps must not cost the executor",
}
"""Those that the event job owns only with a master ``local``."""

_SIZES: Final = (
    "spark.broadcast.blockSize",
    "spark.driver.maxResultSize",
    "spark.driver.memory",
    "spark.driver.memoryOverhead",
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
    "spark.executor.pyspark.memory",
    "spark.kryoserializer.buffer",
    "spark.kryoserializer.buffer.max",
    "spark.memory.offHeap.size",
    "spark.reducer.maxSizeInFlight",
    "spark.shuffle.file.buffer",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.files.maxPartitionBytes",
    "spark.yarn.am.memory",
)
_DURATIONS: Final = (
    "spark.dynamicAllocation.executorIdleTimeout",
    "spark.executor.heartbeatInterval",
    "spark.files.fetchTimeout",
    "spark.locality.wait",
    "spark.network.timeout",
    "spark.python.task.killTimeout",
    "spark.rpc.askTimeout",
    "spark.rpc.lookupTimeout",
    "spark.scheduler.maxRegisteredResourcesWaitingTime",
    "spark.sql.broadcastTimeout",
    "spark.task.reaper.killTimeout",
)
"""The sizes and durations that a user of an adapter sets. Spark checks all others when it starts."""

_REGISTERS: Final = re.compile(
    r"org/apache/spark/(SparkConf|.*(internal/config/\w+|deploy/k8s/Config|deploy/yarn/config/package|SQLConf"
    r"|HiveUtils|StreamingConf))\$\.class"
)
"""The classes in which Spark registers its settings."""
_TEXT_OF_CLASS: Final = re.compile(rb"\x01..(spark\.[\w.-]*\w)(?![\w.-])", re.DOTALL)
"""A text among the constants of a class, behind its length. A text that ends with a dot is no name."""
_NOT_REGISTERED: Final = (
    "spark.hadoop.",
    "spark.executorEnv.",
    "spark.yarn.appMasterEnv.",
    "spark.kubernetes.driverEnv.",
    "spark.metrics.conf.",
    "spark.sql.catalog.",
    "spark.ssl.",
)
"""Prefixes before a name that belongs to the user or another system, or that Spark makes when it runs."""
_MOST_EDITS: Final = 2
_LETTERS_OF_AN_EDIT: Final = 6
"""Names of fewer letters for each edit are other names, and not misspelt."""

_SIZE: Final = re.compile(r"(-?[0-9]{1,19})([a-z]*)")
_SIZE_UNITS: Final[dict[str, int]] = {
    unit: 1024**power
    for power, units in enumerate((("b",), ("k", "kb"), ("m", "mb"), ("g", "gb"), ("t", "tb"), ("p", "pb")))
    for unit in units
}
_DURATION: Final = re.compile(r"-?[0-9]{1,19}(us|ms|s|m|min|h|d)?")


def spark_jars() -> Path:
    """Returns the directory of Spark's jars in the installed package.

    Raises:
        PipelineError: PySpark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(location) / "jars").is_dir():
            return Path(location) / "jars"
    raise PipelineError("the package pyspark is not installed, or has no jars: pip install pyspark")


@cache
def known_settings() -> Sequence[str]:
    """Returns the settings that Spark registers. Takes a tenth of a second.

    Raises:
        PipelineError: PySpark is not installed.
    """
    found = set()
    for jar in spark_jars().glob("spark-*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in filter(_REGISTERS.fullmatch, archive.namelist()):
                found.update(_TEXT_OF_CLASS.findall(archive.read(name)))
    names = {name.decode() for name in found}
    return sorted(name for name in names if f"{name}." not in _NOT_REGISTERED)


def owner_reason(setting: str, *, local: bool) -> str | None:
    """Returns the reason why ``setting`` belongs to the event job. None = the user may set it.

    Args:
        setting: of Spark.
        local: whether the master is ``local``.
    """
    owned_settings = {**OWNED_SETTINGS, **OWNED_LOCAL_SETTINGS} if local else OWNED_SETTINGS
    for owned, reason in owned_settings.items():
        if setting == owned or setting.startswith(f"{owned}."):
            return reason
    return None


def misspelt_setting(name: str) -> str | None:
    """Returns the setting of Spark that is one or two letters away. None = there is no such setting.

    Upper and lower case are the same letter. A name that Spark knows is not misspelt.
    """
    if name.startswith(_NOT_REGISTERED) or name in (known := known_settings()):
        return None
    folded = name.casefold()
    for edits in range(min(_MOST_EDITS, len(name) // _LETTERS_OF_AN_EDIT) + 1):
        for candidate in known:
            if abs(len(candidate) - len(name)) <= edits and _is_within(folded, candidate.casefold(), edits):
                return candidate
    return None


def _is_within(first: str, second: str, edits: int) -> bool:
    """Tells whether ``edits`` letters added, left out, exchanged or swapped make the texts equal."""
    same = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        same += 1
    first, second = first[same:], second[same:]
    if not first or not second:
        return len(first) + len(second) <= edits
    if not edits:
        return False
    swapped = first[1:2] == second[:1] and first[:1] == second[1:2]
    return (
        _is_within(first[1:], second[1:], edits - 1)
        or _is_within(first[1:], second, edits - 1)
        or _is_within(first, second[1:], edits - 1)
        or (swapped and _is_within(first[2:], second[2:], edits - 1))
    )


def expected_value(name: str, value: str) -> str | None:
    """Returns what a size or a duration looks like. None = ``value`` fits, or the setting is neither.

    A value with a reference of Spark (``${...}``) fits, because Spark replaces the reference.
    """
    if "${" in value:
        return None
    if name in _DURATIONS and not _DURATION.fullmatch(value.strip().lower()):
        return "a duration such as 500ms, 30s or 5min"
    if name in _SIZES:
        try:
            read_size(value)
        except ValueError:
            return "a size such as 64k, 512m or 2g"
    return None


def read_size(value: str, unit: str = "b") -> int:
    """Returns the bytes that a size means: ``512m``, ``2g``, ``64kb``.

    Args:
        unit: the unit of a number without unit.

    Raises:
        ValueError: the text is no size.
    """
    match = _SIZE.fullmatch(value.strip().lower())
    if match is None or (match[2] or unit) not in _SIZE_UNITS:
        raise ValueError(f"{shown(value)} is no size")
    return int(match[1]) * _SIZE_UNITS[match[2] or unit]


def split_options(text: str) -> list[str]:
    """Splits options of Java into words, quoted as in a shell.

    Raises:
        ValueError: a quotation is not closed. The error does not show the text, which may hold a password.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"Java options that cannot be split into words: {str(error).lower()}") from None
