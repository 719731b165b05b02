"""Subscriptions: who wants which business object. Every match gets the event."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from connector.businessobjects.metadata import is_blank, read_delivery_mode, read_priority
from connector.businessobjects.rules import StaticMetaObject
from connector.messaging.destination import Destination


class SentHeaders(NamedTuple):
    """Headers of a message for a destination; None = the configuration does not say it.

    Args:
        format: said where ``MessageFormatProperty`` wants it.
        priority: JMSPriority.
        delivery_mode: JMSDeliveryMode.
    """

    format: str | None = None
    priority: int | None = None
    delivery_mode: int | None = None


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
        format: of the message sent, said where ``MessageFormatProperty`` wants it; None = OutputFormat of the
            rule.
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

    def headers(self, rules: StaticMetaObject | None, object_name: str, verb: str) -> SentHeaders:
        """The headers that the configuration gives to what is sent for an object and verb.

        Raises:
            ValueError: Priority or DeliveryMode of the static meta-object is none.
        """
        said = rules.properties(object_name, verb) if rules is not None else {}
        priority, mode = said.get("Priority", ""), said.get("DeliveryMode", "")
        return SentHeaders(
            self.output_format(rules, object_name, verb),
            None if is_blank(priority) else read_priority(priority),
            None if is_blank(mode) else read_delivery_mode(mode),
        )

    def output_format(self, rules: StaticMetaObject | None, object_name: str, verb: str) -> str | None:
        """The format of what is sent for it: its own, else OutputFormat of the static meta-object."""
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
