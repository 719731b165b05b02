"""The keys by which events are known as duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from connector.events.claim.polled_input import PolledInput
from connector.events.outcome import Outcome
from connector.messaging.claim import Claim, again_key, file_key, value_key
from connector.messaging.duplicate_key import NAME
from connector.messaging.history import again_of, file_name
from connector.messaging.input import Input
from connector.messaging.message import Message
from connector.messaging.polling import Poller

PROPERTY = "connector_duplicate_keys"
"""The property of a message that comes again later, with its keys by values."""


class DuplicateKeys:
    """The duplicate keys of the events of one adapter.

    An event has one key that its claim tells: the name of its file, or its id. With ``duplicate_key`` by
    values it has others beside that key. They are known once a task has converted the message.

    Args:
        inputs: of the adapter.
        by_id: DuplicateEventElimination. Then an event without another key has its id as the key.
    """

    def __init__(self, inputs: Iterable[PolledInput], *, by_id: bool) -> None:
        keyed = {one.input: key for one in inputs if (key := one.settings.duplicate_key)}
        self._by_name = {one for one, key in keyed.items() if key == NAME}
        self._by_id = by_id
        self.by_value = frozenset(keyed) - self._by_name
        """The inputs whose events have keys by values."""

    def of(self, claim: Claim) -> str | None:
        """Returns the key that a claim tells. None = duplicates of its input are not eliminated."""
        by_name = claim.input in self._by_name
        if by_name and (name := claim.file_name):
            return again_key(file_key(claim.destination, claim.subscription, name), claim.again)
        has_key = by_name or self._by_id or claim.input in self.by_value
        return again_key(claim.duplicate_key, claim.again) if has_key else None

    @staticmethod
    def of_value(claim: Claim, digest: str) -> str:
        """Returns the key of a claim by the digest of its values."""
        return again_key(value_key(claim.destination, claim.subscription, digest), claim.again)

    def published(self, claim: Claim, outcome: Outcome, key: str | None = None) -> list[str]:
        """Returns the keys of an event that counts as published.

        Args:
            key: that the claim tells, if already known.
        """
        told = key if key is not None else self.of(claim)
        keys = [] if told is None else [told]
        return [*keys, *outcome.keys.split("\n")] if outcome.keys else keys

    def of_delayed(self, named: Input, poller: Poller, message: Message, key: str) -> Iterator[str]:
        """Yields the keys of a delayed message of an input. None as of :meth:`of`.

        Args:
            key: of the message, as the poller says.
        """
        again = again_of(message)
        by_name = named in self._by_name
        if by_name and (name := file_name(message)):
            key = file_key(poller.destination, poller.subscription, name)
        if by_name or self._by_id or named in self.by_value:
            yield again_key(key, again)
        others = message.properties.get(PROPERTY) if named in self.by_value else None
        if isinstance(others, str):
            yield from others.split("\n")
