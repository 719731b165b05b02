"""Deployments whose processes are killed, and the Spark of this folder that looks at what is left."""

from __future__ import annotations

from tests.crash.conftest import deploy, provider_type
from tests.spark.conftest import local, printed

__all__ = ["deploy", "local", "printed", "provider_type"]
