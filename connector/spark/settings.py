"""The settings of Spark that belong to the event job. Spark itself checks all others when it starts."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Mapping
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

_SIZE: Final = re.compile(r"(-?[0-9]{1,19})([a-z]*)")
_SIZE_UNITS: Final[dict[str, int]] = {
    unit: 1024**power
    for power, units in enumerate((("b",), ("k", "kb"), ("m", "mb"), ("g", "gb"), ("t", "tb"), ("p", "pb")))
    for unit in units
}


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


def owner_reason(setting: str, *, local: bool) -> str | None:
    """Returns the reason why ``setting`` belongs to the event job. None = the user may set it.

    Args:
        local: whether the master is ``local``.
    """
    owned_settings = {**OWNED_SETTINGS, **OWNED_LOCAL_SETTINGS} if local else OWNED_SETTINGS
    for owned, reason in owned_settings.items():
        if setting == owned or setting.startswith(f"{owned}."):
            return reason
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
