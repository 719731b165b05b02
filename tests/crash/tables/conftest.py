"""The Spark of this folder."""

from __future__ import annotations

from tests.spark.conftest import local, printed

__all__ = ["local", "printed"]
