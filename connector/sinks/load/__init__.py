"""The sinks ``load`` and ``dataframe``: objects become rows of DataFrames, many at a time."""
