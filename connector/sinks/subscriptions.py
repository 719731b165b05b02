"""Subscriptions: which subscriber wants which business object. Every match gets the event."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connector.businessobjects.rules import StaticMetaObject
from connector.sinks.contract import SinkSpec
from connector.sinks.retry_later import RetryLater

if TYPE_CHECKING:
    from connector.businessobjects.condition import Condition
    from connector.businessobjects.object_map import ObjectMap


@dataclass(frozen=True, slots=True)
class Subscription:
    """An entry of ``subscriptions``. ``timeout`` and later arguments are for external sinks only.

    Args:
        name: unique. Reasons and ``connector_delivered`` contain the name.
        object: the name of a business object, or a pattern: ``Order*``, ``*``.
        verbs: None = every verb.
        timeout: seconds that one delivery may take. None = no limit.
        retries: how often the sink is called again, in place, after a TemporaryFailure.
        retry_later: when an event that has failed comes again. None = never.
        rest_after: the subscription rests after so many failures in a row that ``retry_later`` names.
        reply: whether the return value of the sink answers the message (:mod:`connector.sinks.replying`).
        mime_type: format of the reply. None = the format of the request.
        format: goes into the header or property that ``MessageFormatProperty`` names. None = OutputFormat of
            the rule.
        when: the condition on the values of the object. None = any object.
        map: makes the object that the sink gets. None = it gets the object of the event.
    """

    name: str
    object: str
    verbs: tuple[str, ...] | None
    sink: SinkSpec
    timeout: float | None = None
    retries: int = 0
    retry_later: RetryLater | None = None
    rest_after: int = 1
    reply: bool = False
    mime_type: str | None = None
    format: str | None = None
    when: Condition | None = None
    map: ObjectMap | None = None

    def wants(self, object_name: str, verb: str) -> bool:
        """Tells whether the subscription is for an object and verb. Its ``when`` may still say no."""
        if self.verbs is not None and verb not in self.verbs:
            return False
        return fnmatch.fnmatchcase(object_name, self.object)

    def output_format(self, rules: StaticMetaObject | None, object_name: str, verb: str) -> str | None:
        """Returns the format of a reply: the subscription's, else OutputFormat of the static meta-object."""
        if self.format is not None or rules is None:
            return self.format
        return rules.properties(object_name, verb).get("OutputFormat")


class Broker:
    """Finds the subscriptions of an object and verb. Remembers each result.

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
