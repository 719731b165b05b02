"""The static meta-object: which business object a message means (seed 004, "Business object mapping")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connector.messaging.destination import Destination


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of a static meta-object, for one business object and verb.

    Args:
        name: as written, ``Customer_Create``.
        object, verb: the defined pair that the name means.
        input_format, input_destination: the match keys; None = not a match key of this rule.
        properties: the other properties by their names in the source, defaults of the ``Default``
            entry filled in (never the match keys): ``DataHandlerMimeType``, ``OutputFormat``,
            ``OutputDestination``, ``ResponseTimeout`` ... Values as text.
    """

    name: str
    object: str
    verb: str
    input_format: str | None = None
    input_destination: Destination | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_match_key(self) -> bool:
        return self.input_format is not None or self.input_destination is not None

    def matches(self, message_format: str | None, destination: Destination) -> bool:
        """Whether every match key that the rule has equals the message's; never without a key."""
        if not self.has_match_key:
            return False
        if self.input_format is not None and self.input_format != message_format:
            return False
        return self.input_destination is None or self.input_destination == destination


@dataclass(frozen=True, slots=True)
class StaticMetaObject:
    """The rules of a deployment. ``Default`` is no rule: it only fills in (:class:`Rule`)."""

    name: str
    rules: Sequence[Rule] = ()

    def match(self, message_format: str | None, destination: Destination) -> tuple[Rule, ...]:
        """The rules that match, in the order of the file.

        Exactly one dictates the business object; none or several leave the decision to the
        connector's default data handler. There is no "most specific wins".
        """
        return tuple(rule for rule in self.rules if rule.matches(message_format, destination))

    def entry(self, object_name: str, verb: str) -> Rule | None:
        """The entry for a business object and verb, where there is one (requests, OutputFormat)."""
        for rule in self.rules:
            if rule.object == object_name and rule.verb == verb:
                return rule
        return None
