"""The Spark of these tests is that of ``tests/spark``."""

from __future__ import annotations

from tests.spark.conftest import local

__all__ = ["local"]
