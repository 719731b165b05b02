"""Spark settings that the event job owns, each with its reason.

They stand in ``connector/config`` because the check of ``adapter.yaml`` refuses them there; the
pipeline (``connector/spark``) sets them. Everything else under ``spark.conf`` is the user's.
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
"""Setting to the reason why it cannot be set; also matches everything below ``<setting>.``."""


def owner_reason(setting: str) -> str | None:
    """Why ``setting`` belongs to the event job; None where it is the user's to set."""
    for owned, reason in OWNED_SETTINGS.items():
        if setting == owned or setting.startswith(f"{owned}."):
            return reason
    return None
