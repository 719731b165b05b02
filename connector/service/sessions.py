"""Connects Python programs to the provider of a deployment."""

from __future__ import annotations

from connector.config.loading import load_parts
from connector.messaging.client import MessagingConnection, make_connection
from connector.service.assembly import make_provider


def connect_deployment(path: str, *, client_id: str = "", start: bool = True) -> MessagingConnection:
    """Connects to the provider that an ``adapter.yaml`` names.

    Args:
        client_id, start: as of :func:`connector.messaging.connect`.

    Raises:
        ConfigurationError: the file is missing, or has mistakes in the parts that say where messages are.
        ConnectorError: as :func:`connector.messaging.connect`.
    """
    configuration, _ = load_parts(path)
    provider = make_provider(configuration)
    return make_connection(configuration.provider.type, provider, client_id=client_id, start=start)
