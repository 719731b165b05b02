"""Outbound: request, reply, response selector (WBI Adapter for JMS, "Request message processing")."""
