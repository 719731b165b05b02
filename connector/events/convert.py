"""Convert: a message into a business object (seed 004, "Business object mapping").

One rule that matches dictates object, verb and data handler. None or several leave the choice to
the connector's default data handler, which sees the body alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from connector.businessobjects.datahandler import DataHandler, Hint
from connector.businessobjects.dynamic import fill_dynamic
from connector.businessobjects.handlers import Handlers
from connector.businessobjects.instance import BusinessObject, finish
from connector.businessobjects.rules import Rule, message_format
from connector.errors import MalformedData
from connector.events.plan import EventPlan
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message

_UNREADABLE: Final = "O"
_MAX_CHOSEN: Final = 1000


class Converter:
    """Makes business objects as one plan says.

    Args:
        plan: rules, handlers, definitions.
        deployment: directory that relative plug-in paths count from.

    Raises:
        ConfigurationError: a data handler cannot be made.
    """

    def __init__(self, plan: EventPlan, deployment: str) -> None:
        self._plan = plan
        self._handlers = Handlers(plan.handlers, plan.definitions, Path(deployment))
        self._handlers.load_all()
        self._destinations: dict[str, Destination] = {}
        self._chosen: dict[tuple[str | None, str], tuple[DataHandler, Hint | None]] = {}

    def convert(self, message: Message, input_destination: str) -> BusinessObject:
        """The business object that a message means, complete, with its dynamic meta-object.

        Raises:
            UnknownBusinessObject: neither rule nor body name one that is defined.
            MalformedData: anything else that is wrong with the message.
        """
        if message.message_class == _UNREADABLE:
            raise MalformedData("an object message is never deserialised; send text or bytes")
        plan = self._plan
        found_format = message_format(message, plan.format_property)
        handler, hint = self._chosen_for(found_format, input_destination)
        body = b"" if message.message_class == "M" else message.body
        try:
            bo = handler.to_business_object(body, hint)
            if not isinstance(bo, BusinessObject):
                raise MalformedData(f"{_name(handler)} returned {type(bo).__name__}, no BusinessObject")
            finish(bo, default_verb=plan.default_verb, use_defaults=plan.use_defaults)
            fill_dynamic(bo, message, message_format=found_format, input_destination=input_destination)
            bo.object_event_id = message.message_id
        except MalformedData:
            raise
        except (Exception, SystemExit) as error:  # a handler's bug is this message's failure only
            raise MalformedData(f"{_name(handler)} raised {error_text(error)}") from error
        return bo

    def reader(self, message: Message, input_destination: str) -> DataHandler:
        """The handler that reads a message."""
        found_format = message_format(message, self._plan.format_property)
        return self._chosen_for(found_format, input_destination)[0]

    def _chosen_for(
        self, found_format: str | None, input_destination: str
    ) -> tuple[DataHandler, Hint | None]:
        key = (found_format, input_destination)
        chosen = self._chosen.get(key)
        if chosen is None:
            if len(self._chosen) >= _MAX_CHOSEN:  # formats are the senders' to invent
                self._chosen.clear()
            chosen = self._chosen[key] = self._choose(found_format, input_destination)
        return chosen

    def _choose(self, found_format: str | None, input_destination: str) -> tuple[DataHandler, Hint | None]:
        """The handler for messages of a format and destination, and what a rule dictates."""
        rule = self._rule(found_format, input_destination)
        if rule is None:
            return self._handlers.get(self._plan.default_handler), None
        return self.handler_of(rule), Hint(rule.object, rule.verb)

    def handler_of(self, rule: Rule) -> DataHandler:
        """The handler a rule names, the default one where it names none."""
        properties = rule.properties
        class_name = properties.get("DataHandlerClassName")
        if class_name:
            return self._handlers.get(class_name)
        mime_type = properties.get("DataHandlerMimeType", self._plan.default_handler)
        return self._handlers.get(mime_type, properties.get("DataHandlerConfigMO", ""))

    def handler(self, mime_type: str | None) -> DataHandler:
        """The handler for a MIME type; None = the default one."""
        return self._handlers.get(mime_type or self._plan.default_handler)

    def _rule(self, found_format: str | None, input_destination: str) -> Rule | None:
        rules = self._plan.rules
        if rules is None:
            return None
        destination = self._destinations.get(input_destination)
        if destination is None:
            destination = self._destinations[input_destination] = parse_destination(input_destination)
        return rules.dictating(found_format, destination)


def error_text(error: BaseException) -> str:
    """Type and text of an exception of foreign code; its ``__str__`` is foreign, too, and may raise."""
    kind = type(error).__name__
    try:
        text = str(error).strip()
    except Exception:
        return kind
    return f"{kind}: {text}" if text else kind


def _name(handler: DataHandler) -> str:
    return f"the data handler {type(handler).__name__}"
