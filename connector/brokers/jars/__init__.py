"""Jars of Maven packages: fetched by a command of the operator, and pinned by their sums."""
