"""Inbound, the last part: each message is settled, also those of dead clients."""
