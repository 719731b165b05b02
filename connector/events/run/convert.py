"""Converts a message into a business object (WBI Adapter for JMS, "Business object mapping").

A single matching rule decides object, verb and data handler. If no rule or several rules match, the
connector's default data handler decides by the body alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from connector.agent_trace import CONVERSION
from connector.businessobjects.dynamic import fill_dynamic
from connector.businessobjects.instance import BusinessObject, finish
from connector.businessobjects.name_handlers import NameHandler
from connector.businessobjects.rules import Rule, message_format
from connector.errors import ConfigurationError, MalformedData, UnknownBusinessObject
from connector.events.run.task_settings import TaskSettings
from connector.formats.datahandler import DataHandler, HandlerFailed, Hint, SplittingHandler, read_records
from connector.formats.handlers import Handlers, choose_handler
from connector.limits import stages
from connector.messaging.destination import Destination, known_destination
from connector.messaging.message import Message

_UNREADABLE: Final = "O"
_MAX_CHOSEN: Final = 1000


class Choice(NamedTuple):
    """The rule and the data handler of a message.

    Args:
        rule: the only rule that matches, or None.
        mime_type: the MIME type, or ``module:Class``.
        config: the data-handler meta-object. Empty = the connector's own.
        hint: object and verb of the rule.
        name: the name handler of the data handler, or None.
    """

    rule: Rule | None
    mime_type: str
    config: str
    handler: DataHandler
    hint: Hint | None
    name: NameHandler | None


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
        self._connector = task_settings.connector
        self.trace = task_settings.trace
        self._handlers = Handlers(task_settings.handlers, task_settings.definitions, Path(deployment))
        self._handlers.load_all()
        self._handlers.get(task_settings.default_handler)
        self._destinations: dict[str, Destination] = {}
        self._chosen: dict[tuple[str | None, str], Choice] = {}

    def convert(self, message: Message, input_destination: str) -> Sequence[BusinessObject]:
        """Returns the complete business objects of a message, with their dynamic meta-objects.

        A message is one object, unless its data handler splits the body. Then each record is an object. Its
        ``object_event_id`` is the message id, ``#`` and the number of the record from 1.

        Raises:
            UnknownBusinessObject: neither a rule nor the body names a defined object.
            MalformedData: the message has another mistake.
        """
        if message.message_class == _UNREADABLE:
            raise MalformedData("an object message is never deserialised; send text or bytes")
        found_format = message_format(message, self._connector.message_format_property)
        try:
            choice = self._choice(message, input_destination, found_format)
        except ConfigurationError as error:  # fails this event only, because other events have other handlers
            raise MalformedData(error.problems[0].mistake) from None
        handler, hint = choice.handler, choice.hint
        body = b"" if message.message_class == "M" else message.body
        if hint is None and choice.name is not None:
            hint = Hint(choice.name(body))
        try:
            with stages.Stage("data_handler", type(handler).__name__):
                if getattr(handler, "splits", False):
                    records = read_records(cast(SplittingHandler, handler), body, hint)
                    objects = list(self._number(records, handler, message, input_destination, found_format))
                    if not objects:
                        raise MalformedData("the body holds no record")
                else:
                    bo = handler.to_business_object(body, hint)
                    self._complete(bo, handler, message, input_destination, found_format)
                    objects = [bo]
        except MalformedData:
            raise
        except BaseException as error:  # a handler's bug fails this message only
            if stages.is_interrupt(error):
                raise
            raise HandlerFailed(handler, error) from error
        if self.trace.level >= CONVERSION:
            self.trace(
                CONVERSION,
                "message converted",
                message_id=message.message_id,
                destination=input_destination,
                object=objects[0].type,
                verb=objects[0].verb,
                rule=None if choice.rule is None else choice.rule.id,
                data_handler=type(handler).__name__,
                bytes=len(body),
            )
        return objects

    def _number(
        self,
        records: Iterable[BusinessObject],
        handler: DataHandler,
        message: Message,
        input_destination: str,
        found_format: str | None,
    ) -> Iterator[BusinessObject]:
        for number, bo in enumerate(records, 1):
            try:
                self._complete(bo, handler, message, input_destination, found_format)
            except UnknownBusinessObject:
                raise
            except MalformedData as error:
                raise MalformedData(f"record {number}: {error}") from None
            if message.message_id is not None:
                bo.object_event_id = f"{message.message_id}#{number}"
            yield bo

    def _complete(
        self,
        bo: BusinessObject,
        handler: DataHandler,
        message: Message,
        input_destination: str,
        found_format: str | None,
    ) -> None:
        """Checks the object that a handler has made, and adds verb, defaults and headers."""
        if not isinstance(bo, BusinessObject):
            raise MalformedData(f"{_name(handler)} returned {type(bo).__name__}, no BusinessObject")
        connector = self._connector
        finish(bo, default_verb=connector.default_verb or None, use_defaults=connector.use_defaults)
        if bo.definition.dynamic_metaobject is not None:
            with stages.Stage("dynamic_metaobject", bo.definition.dynamic_metaobject):
                fill_dynamic(bo, message, message_format=found_format, input_destination=input_destination)
        bo.object_event_id = message.message_id

    def reader(self, message: Message, input_destination: str) -> DataHandler:
        """Returns the handler that reads a message."""
        return self.choice(message, input_destination).handler

    def choice(self, message: Message, input_destination: str) -> Choice:
        """Returns the rule and the data handler of a message.

        Raises:
            ConfigurationError: a rule names a data handler that does not exist.
        """
        found_format = message_format(message, self._connector.message_format_property)
        return self._choice(message, input_destination, found_format)

    def _choice(self, message: Message, input_destination: str, found_format: str | None) -> Choice:
        key = (found_format, input_destination)
        choice = self._chosen.get(key)
        if choice is None:
            rules, destination = self._task_settings.rules, self._destination(input_destination)
            rule = None if rules is None else rules.only_match(found_format, destination, message)
            choice = self._choose(rule)
            if rules is not None and rules.has_conditions(found_format, destination):
                return choice  # another message of this format may fit another rule
            if len(self._chosen) >= _MAX_CHOSEN:  # senders may use any number of formats
                self._chosen.clear()
            self._chosen[key] = choice
        return choice

    def _choose(self, rule: Rule | None) -> Choice:
        default = self._task_settings.default_handler
        named = (default, "") if rule is None else choose_handler((rule.handler,), default)
        hint = None if rule is None else Hint(rule.object, rule.verb)
        return Choice(rule, *named, self._handlers.get(*named), hint, self._handlers.name_handler(*named))

    def _destination(self, name: str) -> Destination:
        destination = self._destinations.get(name)
        if destination is None:
            destination = self._destinations[name] = known_destination(name)
        return destination

    def handler(self, mime_type: str | None) -> DataHandler:
        """Returns the handler for a MIME type. None = the default handler."""
        return self._handlers.get(mime_type or self._task_settings.default_handler)


def _name(handler: DataHandler) -> str:
    return f"the data handler {type(handler).__name__}"
