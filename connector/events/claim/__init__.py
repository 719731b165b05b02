"""Inbound, the first part: which messages are taken now."""
