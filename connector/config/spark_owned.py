"""Spark settings that the event job owns, each with a reason.

The pipeline (``connector/spark``) sets them. They stand in ``connector/config`` because the check of
``adapter.yaml`` refuses them. All other settings under ``spark.conf`` belong to the user.
"""

from __future__ import annotations

OWNED_SETTINGS: dict[str, str] = {
    "spark.master": "it is spark.master of adapter.yaml",
    "spark.app.name": "it is made from ApplicationName",
    "spark.submit.deployMode": "the adapter is the driver and runs where it was started",
    "spark.speculation": "a second copy of a task ends the first one in the middle of its events",
    "spark.pyspark.python": "it is spark.python of adapter.yaml",
    "spark.pyspark.driver.python": "the adapter itself is the driver",
    "spark.executor.allowSparkContext": "a worker must not start a Spark of its own",
}
"""From a setting to the reason why users cannot set it. Also matches all settings below ``<setting>.``."""


def owner_reason(setting: str) -> str | None:
    """Returns the reason why ``setting`` belongs to the event job. None = the user may set it."""
    for owned, reason in OWNED_SETTINGS.items():
        if setting == owned or setting.startswith(f"{owned}."):
            return reason
    return None
