"""The adapter: its parts, its two connections, and the loop of a service."""
