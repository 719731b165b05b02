"""The settings that Spark knows, with their valid values.

Names and kinds come from ``settings.txt``, which ``script/spark-settings`` writes. The readers accept
the same values as Spark's own converters (Spark, "Spark Properties").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from connector.declare.problems import shown

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

FILE: Final = Path(__file__).with_name("settings.txt")
_OF_THE_USER: Final = (
    "spark.hadoop.",
    "spark.executorEnv.",
    "spark.yarn.appMasterEnv.",
    "spark.kubernetes.driverEnv.",
    "spark.metrics.conf.",
    "spark.sql.catalog.",
)
"""Prefixes before a name that belongs to the user or another system."""
_MOST_EDITS: Final = 2

_BOUNDS: Final[Mapping[str, tuple[str, str | None]]] = {
    "spark.broadcast.blockSize": ("1k", "2047m"),
    "spark.executor.instances": ("1", None),
    "spark.executor.pyspark.memory": ("0", None),
    "spark.kryoserializer.buffer": ("0", "2047m"),
    "spark.kryoserializer.buffer.max": ("0", "2047m"),
    "spark.rpc.message.maxSize": ("1", "2047"),
}
"""Least and greatest values that Spark does not register, but checks when Spark starts."""
_UNITS: Final = {
    "spark.broadcast.blockSize": "k",
    "spark.kryoserializer.buffer": "k",
    "spark.kryoserializer.buffer.max": "m",
    "spark.executor.pyspark.memory": "m",
}
"""The units of numbers without a unit, for sizes with bounds."""
_CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "spark.io.compression.codec": ("lz4", "lzf", "snappy", "zstd"),
    "spark.serializer": (),
    "spark.shuffle.manager": ("sort", "tungsten-sort"),
}
"""Settings that take the name of a class, with the short names of Spark's own classes."""
_CHOICES: Final = {"spark.log.level": "ALL|DEBUG|ERROR|FATAL|INFO|OFF|TRACE|WARN"}
"""Choices that Spark does not register."""

_SIZE: Final = re.compile(r"(-?[0-9]{1,19})([a-z]*)")
_SIZE_UNITS: Final[dict[str, int]] = {
    unit: 1024**power
    for power, units in enumerate((("b",), ("k", "kb"), ("m", "mb"), ("g", "gb"), ("t", "tb"), ("p", "pb")))
    for unit in units
}
_TIME: Final = re.compile(r"(-?[0-9]{1,19})([a-z]*)")
_TIME_UNITS: Final[dict[str, float]] = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


@cache
def known_settings() -> Mapping[str, str]:
    """Returns every setting that Spark knows, from name to kind."""
    lines = (line for line in FILE.read_text("utf-8").splitlines() if line and line[0] != "#")
    return MappingProxyType(dict(line.split(" ", 1) for line in lines))


def owner_reason(setting: str) -> str | None:
    """Returns the reason why ``setting`` belongs to the event job. None = the user may set it."""
    for owned, reason in OWNED_SETTINGS.items():
        if setting == owned or setting.startswith(f"{owned}."):
            return reason
    return None


def misspelt_setting(name: str) -> str | None:
    """Returns the setting of Spark that is one or two letters away. None = there is no such setting.

    Upper and lower case are the same letter. A name that Spark knows is not misspelt.
    """
    known = known_settings()
    if name in known or name.startswith(_OF_THE_USER):
        return None
    folded = name.casefold()
    for edits in range(_MOST_EDITS + 1):
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
    """Returns the values that a setting takes. None = ``value`` fits, or the values are not known.

    A value with a reference of Spark (``${...}``) fits, because Spark replaces the reference.
    """
    kind = _CHOICES.get(name) or known_settings().get(name, "text")
    if "${" in value:
        return None
    if name in _CLASSES:
        return _expected_class(_CLASSES[name], value)
    if kind == "text":
        return None
    if "|" in kind:
        choices = kind.split("|")
        fits = value.strip().casefold() in {choice.casefold() for choice in choices}
        return None if fits else f"one of {', '.join(choices)}"
    kind, _, least = kind.partition(">=")
    read, expected = _KINDS[kind]
    try:
        number = read_size(value, _UNITS.get(name, "b")) if kind == "size" else read(value)
    except ValueError:
        return expected + (f", {least} or more" if least else "")
    if least and number < int(least):
        return f"{expected}, {least} or more"
    if name.endswith(".port") and number and not 1024 <= number <= 65535:
        return "a port from 1024 to 65535, or 0 for any that is free"
    lowest, highest = _BOUNDS.get(name, (None, None))
    if (lowest and number < read(lowest)) or (highest and number > read(highest)):
        return f"{expected}, {f'{lowest} to {highest}' if highest else f'{lowest} or more'}"
    return None


def _expected_class(short_names: Sequence[str], value: str) -> str | None:
    if value.casefold() in short_names or "." in value.strip("."):
        return None
    return ", ".join(
        [*short_names, "or a class with its package" if short_names else "a class with its package"]
    )


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


def read_duration(value: str, unit: str = "ms") -> float:
    """Returns the milliseconds that a duration means: ``500ms``, ``30s``, ``5min``.

    Args:
        unit: the unit of a number without unit.

    Raises:
        ValueError: the text is no duration.
    """
    match = _TIME.fullmatch(value.strip().lower())
    if match is None or (match[2] or unit) not in _TIME_UNITS:
        raise ValueError(value)
    return int(match[1]) * _TIME_UNITS[match[2] or unit]


def _read_boolean(value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise ValueError(value)
    return value.strip().lower() == "true"


def _read_whole(bits: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", value.strip()):
            raise ValueError(value)
        number = int(value)
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise ValueError(value)
        return number

    return read


def read_number(value: str) -> float:
    """Returns a number with or without a fraction.

    Raises:
        ValueError: the text is no number.
    """
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?", value.strip()):
        raise ValueError(value)
    return float(value.strip().rstrip("dDfF"))


_KINDS: Final[Mapping[str, tuple[Callable[[str], float], str]]] = {
    "boolean": (_read_boolean, "true or false"),
    "integer": (_read_whole(32), "a whole number of 32 bits"),
    "long": (_read_whole(64), "a whole number of 64 bits"),
    "number": (read_number, "a number"),
    "duration": (read_duration, "a duration such as 500ms, 30s or 5min"),
    "size": (read_size, "a size such as 64k, 512m or 2g"),
}
