"""The Spark and the cluster of this folder."""

from tests.spark.conftest import cluster, local, printed

__all__ = ["cluster", "local", "printed"]
