"""Subscriptions: who wants which business object. Every match gets the event."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from connector.broker.sinks import SinkSpec
from connector.businessobjects.rules import StaticMetaObject


@dataclass(frozen=True, slots=True)
class Subscription:
    """One entry of ``subscriptions``. What stands behind ``timeout`` and below is for external sinks only.

    Args:
        name: unique; names the subscription in reasons and in ``connector_delivered``.
        object: the name of a business object, or a pattern: ``Order*``, ``*``.
        verbs: None = every verb.
        sink: opens what the object is delivered to.
        timeout: seconds that one delivery may take; None = no limit.
        retries: how often the sink is called again, in place, after a TemporaryFailure.
        reply: what the sink returns answers whoever sent the message (:mod:`connector.broker.replying`).
        mime_type: format of the reply; None = that which has read the request.
        format: of the reply, said where ``MessageFormatProperty`` wants it; None = OutputFormat of the rule.
    """

    name: str
    object: str
    verbs: tuple[str, ...] | None
    sink: SinkSpec
    timeout: float | None = None
    retries: int = 0
    reply: bool = False
    mime_type: str | None = None
    format: str | None = None

    def wants(self, object_name: str, verb: str) -> bool:
        if self.verbs is not None and verb not in self.verbs:
            return False
        return fnmatch.fnmatchcase(object_name, self.object)

    def output_format(self, rules: StaticMetaObject | None, object_name: str, verb: str) -> str | None:
        """The format of a reply: the subscription's own, else OutputFormat of the static meta-object."""
        if self.format is not None or rules is None:
            return self.format
        return rules.properties(object_name, verb).get("OutputFormat")


class Broker:
    """Finds the subscriptions of an object and verb; remembers what it has found.

    Args:
        subscriptions: in the order of the configuration, which is the order of delivery.
    """

    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self._subscriptions = tuple(subscriptions)
        self._found: dict[tuple[str, str], tuple[Subscription, ...]] = {}

    def subscribers(self, object_name: str, verb: str) -> tuple[Subscription, ...]:
        key = (object_name, verb)
        found = self._found.get(key)
        if found is None:
            found = tuple(s for s in self._subscriptions if s.wants(object_name, verb))
            self._found[key] = found
        return found
