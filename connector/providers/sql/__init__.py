"""The ``sql`` provider: queues and topics in a database."""
