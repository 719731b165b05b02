"""What outlives a process and is no message: outcome journals, the duplicate window, instances."""
