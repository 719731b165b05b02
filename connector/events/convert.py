"""Converts a message into a business object (WBI Adapter for JMS, "Business object mapping").

A single matching rule decides object, verb and data handler. If no rule or several rules match, the
connector's default data handler decides by the body alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from connector.businessobjects.datahandler import DataHandler, HandlerFailed, Hint
from connector.businessobjects.dynamic import fill_dynamic
from connector.businessobjects.handlers import Handlers, choose_handler
from connector.businessobjects.instance import BusinessObject, finish
from connector.businessobjects.rules import Rule, message_format
from connector.errors import ConfigurationError, MalformedData
from connector.events.task_settings import TaskSettings
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.trace import CONVERSION

_UNREADABLE: Final = "O"
_MAX_CHOSEN: Final = 1000


class Converter:
    """Makes business objects from messages.

    Args:
        task_settings: rules, handlers, definitions.
        deployment: directory that plug-in paths are relative to.

    Raises:
        ConfigurationError: a data handler cannot be made.
    """

    def __init__(self, task_settings: TaskSettings, deployment: str) -> None:
        self._task_settings = task_settings
        self.trace = task_settings.trace
        self._handlers = Handlers(task_settings.handlers, task_settings.definitions, Path(deployment))
        self._handlers.load_all()
        self._destinations: dict[str, Destination] = {}
        self._chosen: dict[tuple[str | None, str], tuple[DataHandler, Hint | None]] = {}

    def convert(self, message: Message, input_destination: str) -> BusinessObject:
        """Returns the complete business object of a message, with its dynamic meta-object.

        Raises:
            UnknownBusinessObject: neither a rule nor the body names a defined object.
            MalformedData: the message has another mistake.
        """
        if message.message_class == _UNREADABLE:
            raise MalformedData("an object message is never deserialised; send text or bytes")
        task_settings = self._task_settings
        found_format = message_format(message, task_settings.format_property)
        try:
            handler, hint = self._chosen_for(found_format, input_destination)
        except ConfigurationError as error:  # fails this event only, because other events have other handlers
            raise MalformedData(error.problems[0].mistake) from None
        body = b"" if message.message_class == "M" else message.body
        try:
            bo = handler.to_business_object(body, hint)
            if not isinstance(bo, BusinessObject):
                raise MalformedData(f"{_name(handler)} returned {type(bo).__name__}, no BusinessObject")
            finish(bo, default_verb=task_settings.default_verb, use_defaults=task_settings.use_defaults)
            fill_dynamic(bo, message, message_format=found_format, input_destination=input_destination)
            bo.object_event_id = message.message_id
        except MalformedData:
            raise
        except (Exception, SystemExit) as error:  # a handler's bug fails this message only
            raise HandlerFailed(handler, error) from error
        if self.trace.level >= CONVERSION:
            self.trace(
                CONVERSION,
                "message converted",
                message_id=message.message_id,
                destination=input_destination,
                object=bo.type,
                verb=bo.verb,
                rule=None if hint is None else f"{hint.object}_{hint.verb}",
                data_handler=type(handler).__name__,
                bytes=len(body),
            )
        return bo

    def reader(self, message: Message, input_destination: str) -> DataHandler:
        """Returns the handler that reads a message."""
        found_format = message_format(message, self._task_settings.format_property)
        return self._chosen_for(found_format, input_destination)[0]

    def _chosen_for(
        self, found_format: str | None, input_destination: str
    ) -> tuple[DataHandler, Hint | None]:
        key = (found_format, input_destination)
        chosen = self._chosen.get(key)
        if chosen is None:
            if len(self._chosen) >= _MAX_CHOSEN:  # senders may use any number of formats
                self._chosen.clear()
            chosen = self._chosen[key] = self._choose(found_format, input_destination)
        return chosen

    def _choose(self, found_format: str | None, input_destination: str) -> tuple[DataHandler, Hint | None]:
        """Returns the handler for messages of a format and destination, and the object and verb of a rule."""
        rule = self._rule(found_format, input_destination)
        if rule is None:
            return self._handlers.get(self._task_settings.default_handler), None
        named = choose_handler((rule.properties,), self._task_settings.default_handler)
        return self._handlers.get(*named), Hint(rule.object, rule.verb)

    def handler(self, mime_type: str | None) -> DataHandler:
        """Returns the handler for a MIME type. None = the default handler."""
        return self._handlers.get(mime_type or self._task_settings.default_handler)

    def _rule(self, found_format: str | None, input_destination: str) -> Rule | None:
        rules = self._task_settings.rules
        if rules is None:
            return None
        destination = self._destinations.get(input_destination)
        if destination is None:
            destination = self._destinations[input_destination] = parse_destination(input_destination)
        return rules.only_match(found_format, destination)


def _name(handler: DataHandler) -> str:
    return f"the data handler {type(handler).__name__}"
