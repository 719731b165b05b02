"""The event pipeline on Spark: a separate JVM, a single SparkContext, and one job for each batch."""
