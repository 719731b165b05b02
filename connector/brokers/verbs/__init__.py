"""The verbs of brokers."""
