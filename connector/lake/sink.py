"""A load in the worker: the object becomes a message in a queue of the adapter's own.

The commit that settles the event sends this message, so the object is there exactly once. A loader in the
adapter's own process takes lots from the queue.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.history import EVENT_ID
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.operate.trace_context import TRACEPARENT
from connector.sinks.contract import Event, PreparedSink, SinkContext
from connector.text.json_text import from_json, to_json

_OBJECT: Final = "connector_load_object"
_VERB: Final = "connector_load_verb"
_LONGEST: Final = 190
"""Characters of the name of a queue. A longer name ends with a digest."""


def load_queue(application: str, instance: str, subscription: str) -> Destination:
    """Returns the queue with the objects that one instance has yet to load for one subscription.

    Args:
        instance: that the adapter runs as. Empty = not known.
    """
    parts = ["connector", _escape(application), "load", _escape(instance), _escape(subscription)]
    name = ".".join(parts)
    if len(name) > _LONGEST:
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        name = f"{name[: _LONGEST - 17]}-{digest}"
    return parse_destination(f"queue://{name}")


def is_load_queue(queue: Destination, application: str) -> bool:
    """Returns whether a queue is that of a load of an application, whatever its instance and subscription."""
    return queue.is_queue and queue.name.startswith(f"connector.{_escape(application)}.load.")


def _escape(text: str) -> str:
    return quote(text, safe="").replace(".", "%2E").replace("~", "%7E") or "-"


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """Recipe for a :class:`LoadSink`."""

    def open(self, context: SinkContext) -> LoadSink:
        """Makes the sink. Connects to nothing."""
        return LoadSink(context)


class LoadSink(PreparedSink):
    def __init__(self, context: SinkContext) -> None:
        self.destination = load_queue(context.application, context.instance, context.subscription)
        self._delivery_mode = PERSISTENT if context.persistent else NON_PERSISTENT

    def prepare(self, bo: BusinessObject, event: Event) -> Message:
        """Returns the values of the object as JSON, with the object, the verb and the event as properties."""
        message = Message(
            body=to_json(bo.as_dict(body_only=True)), message_class="T", delivery_mode=self._delivery_mode
        )
        message.set_property(_OBJECT, bo.type)
        if bo.verb:
            message.set_property(_VERB, bo.verb)
        if event.id:
            message.set_property(EVENT_ID, event.id)
        if event.traceparent:
            message.set_property(TRACEPARENT, event.traceparent)
        return message


def read_object(definitions: Definitions, name: str, message: Message) -> BusinessObject:
    """Returns the object of a message that :meth:`LoadSink.prepare` has made.

    Attributes that the definition has lost since then are passed over.

    Raises:
        MalformedData: the body is none of such a message, or does not fit the definition any more.
    """
    verb = message.properties.get(_VERB)
    bo = BusinessObject(definitions, name, verb if isinstance(verb, str) else None)
    try:
        values = from_json(message.body)
    except ValueError as error:
        raise MalformedData(f"the body is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise MalformedData("the body is no JSON object")
    bo.set_values(values, ignore_undefined=True)
    return bo
