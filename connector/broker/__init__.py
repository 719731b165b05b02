"""The integration broker: subscriptions, and the sinks that deliver published business objects."""
