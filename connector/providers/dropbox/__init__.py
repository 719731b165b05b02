"""The ``dropbox`` provider: queues are directories, claims are renames (seed 000)."""
