"""State that outlives a process, beside messages: outcome journals, the duplicate window, instances."""
