"""The picklable recipe of a request client, for any process that needs one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connector.messaging.provider import Capabilities, Connection
from connector.requests.contract import RequestsSpec
from connector.requests.settings import RequestSettings

if TYPE_CHECKING:
    from connector.requests.client import RequestClient
    from connector.requests.request_history import HistorySpec


@dataclass(frozen=True, slots=True)
class RequestClientSpec(RequestsSpec):
    """The recipe of a request client.

    Args:
        connect: makes a provider connection in the process that calls. Picklable.
        history: of the application. None = requests are not written there.
    """

    settings: RequestSettings
    connect: Callable[[], Connection]
    capabilities: Capabilities
    history: HistorySpec | None = None

    def open(self, deployment: str) -> RequestClient:
        # imported here, because every worker loads the recipe, and few make requests
        from connector.requests.client import RequestClient

        return RequestClient(self.settings, self.connect, self.capabilities, deployment, self.history)
