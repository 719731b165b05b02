"""Outbound: request, reply, response selector (seed 004, "Request message processing")."""
