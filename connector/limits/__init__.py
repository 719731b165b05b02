"""The limits of conversions: the deadline, the memory, and a process that runs one conversion."""
