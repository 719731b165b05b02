"""Inbound, the second part: tasks convert and publish."""
