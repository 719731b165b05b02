"""The source ``events`` of Spark: messages of a queue as a table."""
