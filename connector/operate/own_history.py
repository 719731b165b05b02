"""Says which messages carry a history of this application.

Anybody can send a message with the properties of a copy. Only what this application has written decides who
is called, and how often a message was tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from connector.messaging.message import Message, PropertyValue
from connector.status import OutcomeKind

APPLICATION: Final = "connector_application"


class OwnHistory(NamedTuple):
    """The history that counts for one application.

    Args:
        destinations: of copies of this application. Copies of version 0.3.0 name no application, and count
            there.
    """

    application: str = ""
    destinations: frozenset[str] = frozenset()

    def counts(self, message: Message, destination: str) -> bool:
        """Whether the history of a message is of this application."""
        name = message.properties.get(APPLICATION)
        return destination in self.destinations if name is None else name == self.application

    def name(self, properties: Mapping[str, PropertyValue]) -> dict[str, PropertyValue]:
        """Returns properties of a history with the name of the application. Nothing if there are none.

        A copy of a published message needs no name: it starts anew wherever it is moved to. The name would
        make most names of files too long, and their headers would need files of their own.
        """
        is_published = properties.get("connector_outcome") == OutcomeKind.PUBLISHED
        if is_published or not (properties and self.application):
            return dict(properties)
        return {**properties, APPLICATION: self.application}
