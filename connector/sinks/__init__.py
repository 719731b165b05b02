"""Subscriptions, and the sinks that deliver published business objects."""
