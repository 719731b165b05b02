"""The keys by which events are known as duplicates."""

from __future__ import annotations

from collections.abc import Iterable

from connector.events.claim.polled_input import PolledInput
from connector.messaging.claim import Claim, file_key
from connector.messaging.history import file_name
from connector.messaging.input import Input
from connector.messaging.message import Message
from connector.messaging.polling import Poller

NAME = "name"
"""The value of ``duplicate_key`` by which two files of one name are one event."""


class DuplicateKeys:
    """The duplicate keys of the events of one adapter.

    Args:
        inputs: of the adapter.
        by_id: DuplicateEventElimination. Then an event without another key has its id as the key.
    """

    def __init__(self, inputs: Iterable[PolledInput], *, by_id: bool) -> None:
        self._by_name = {one.input for one in inputs if one.settings.duplicate_key == NAME}
        self._by_id = by_id

    def of(self, claim: Claim) -> str | None:
        """Returns the key of a claim. None = duplicates of its input are not eliminated."""
        by_name = claim.input in self._by_name
        if by_name and (name := claim.file_name):
            return file_key(claim.destination, claim.subscription, name)
        return claim.duplicate_key if by_name or self._by_id else None

    def of_delayed(self, named: Input, poller: Poller, message: Message, key: str) -> str | None:
        """Returns the key of a delayed message of an input. None as of :meth:`of`.

        Args:
            key: of the message, as the poller says.
        """
        by_name = named in self._by_name
        if by_name and (name := file_name(message)):
            return file_key(poller.destination, poller.subscription, name)
        return key if by_name or self._by_id else None
