"""A program for a process of its own, as a script: it makes a request and may be killed."""

from __future__ import annotations

from typing import Final

from connector.requests.client import RequestClient
from connector.stores.dropbox.provider import DropboxProvider
from tests.requests.world import REPOSITORY, customer, settings

ASK: Final = "import sys\nfrom tests.requests.caller import ask\nask(*sys.argv[1:])"


def ask(root: str, temporary: str = "") -> None:
    """Makes a request at a dropbox. With any second text its reply comes to a temporary queue."""
    provider = DropboxProvider(root, create=True, durable=False)
    requests = settings(reply_to_destination=None) if temporary else settings()
    client = RequestClient(requests, provider.connect, provider.capabilities, str(REPOSITORY))
    client.request("Customer.Retrieve", customer("child"), timeout=120_000)
    client.stop()
