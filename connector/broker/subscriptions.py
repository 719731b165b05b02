"""Subscriptions: who wants which business object. Every match gets the event."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from connector.businessobjects.rules import StaticMetaObject
from connector.messaging.destination import Destination


@dataclass(frozen=True, slots=True)
class Subscription:
    """One entry of ``subscriptions``; exactly one of ``process`` and ``destination`` is set.

    Args:
        name: unique; names the subscription in reasons and in ``connector_delivered``.
        object: the name of a business object, or a pattern: ``Order*``, ``*``.
        verbs: None = every verb.
        process: ``module:function``.
        destination: where the object is sent, in the same commit that settles the event.
        timeout: seconds the process may take; None = as long as it likes.
        retries: how often it is called again, in place, after a TemporaryFailure.
        mime_type: format of the message sent; None = the connector's default data handler, for a reply the
            one that has read the request.
        format: JMSType of the message sent; None = OutputFormat of the rule.
        reply: what the process returns answers whoever sent the message (:mod:`connector.broker.replying`).
    """

    name: str
    object: str
    verbs: tuple[str, ...] | None = None
    process: str | None = None
    destination: Destination | None = None
    timeout: float | None = None
    retries: int = 0
    mime_type: str | None = None
    format: str | None = None
    reply: bool = False

    def wants(self, object_name: str, verb: str) -> bool:
        if self.verbs is not None and verb not in self.verbs:
            return False
        return fnmatch.fnmatchcase(object_name, self.object)

    def output_format(self, rules: StaticMetaObject | None, object_name: str, verb: str) -> str | None:
        """JMSType of what is sent for it: its own ``format``, else OutputFormat of the object's rule."""
        if self.format is not None:
            return self.format
        entry = rules.entry(object_name, verb) if rules is not None else None
        return entry.properties.get("OutputFormat") if entry is not None else None


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
