"""The event pipeline on Spark: a JVM of its own, one SparkContext, one job a batch."""
