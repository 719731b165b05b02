"""Loads: objects become rows of DataFrames, many at a time. The source ``events``: messages as a table.

Nothing imports this room. Its sinks and its loads are found by entry points (see ``pyproject.toml``).
"""
