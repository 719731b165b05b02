"""Converts a message into a business object (WBI Adapter for JMS, "Business object mapping").

A single matching rule decides object, verb and data handler. If no rule or several rules match, the
connector's default data handler decides by the body alone. A message that came over HTTP names its MIME type,
which chooses the data handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from connector.agent_trace import CONVERSION
from connector.businessobjects.dynamic import fill_dynamic
from connector.businessobjects.instance import BusinessObject, finish
from connector.businessobjects.name_handlers import NameHandler
from connector.businessobjects.rules import Rule, message_format
from connector.errors import ConfigurationError, MalformedData, UnknownBusinessObject
from connector.events.run.task_settings import TaskSettings
from connector.formats.datahandler import DataHandler, HandlerFailed, Hint, SplittingHandler, read_records
from connector.formats.handlers import Handlers, choose_handler, normal_mime_type
from connector.limits import stages
from connector.messaging.destination import Destination, known_destination
from connector.messaging.input import Input
from connector.messaging.message import CONTENT_ENCODING, CONTENT_TYPE, Message
from connector.text.gzip_body import unpack, with_hint

if TYPE_CHECKING:
    from connector.declare.connector_section import Connector

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


class _Origin(NamedTuple):
    """Where a message comes from.

    Args:
        named: the input, if it has keys of its own.
        format: of the message. None = it has none.
    """

    destination: str
    named: Input | None
    format: str | None


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
        for own in task_settings.by_input.values():
            self._handlers.get(own.default_handler)
        self._destinations: dict[str, Destination] = {}
        self._chosen: dict[_Origin, Choice] = {}

    def convert(
        self, message: Message, input_destination: str, named: Input | None = None
    ) -> Sequence[BusinessObject]:
        """Returns the complete business objects of a message, with their dynamic meta-objects.

        A message is one object, unless its data handler splits the body. Then each record is an object. Its
        ``object_event_id`` is the message id, ``#`` and the number of the record from 1.

        Args:
            named: the input, if it has keys of its own.

        Raises:
            UnknownBusinessObject: neither a rule nor the body names a defined object.
            MalformedData: the message has another mistake.
        """
        if message.message_class == _UNREADABLE:
            raise MalformedData("an object message is never deserialised; send text or bytes")
        found_format = message_format(message, self._connector.message_format_property)
        origin = _Origin(input_destination, named, found_format)
        try:
            choice = (self._by_type if CONTENT_TYPE in message.properties else self._choice)(message, origin)
        except ConfigurationError as error:  # fails this event only, because other events have other handlers
            raise MalformedData(error.problems[0].mistake) from None
        handler, hint = choice.handler, choice.hint
        connector = self._connector if named is None else self._task_settings.by_input[named]
        body = b"" if message.message_class == "M" else message.body
        if body and (connector.unpack != "none" or CONTENT_ENCODING in message.properties):
            body = _unpacked(body, message, connector)
        if hint is None and choice.name is not None:
            hint = Hint(choice.name(body), is_of_body=True)
        try:
            with stages.Stage("data_handler", type(handler).__name__):
                if getattr(handler, "splits", False):
                    records = read_records(cast(SplittingHandler, handler), body, hint)
                    objects = list(self._number(records, handler, message, origin))
                    if not objects:
                        raise MalformedData("the body holds no record")
                else:
                    bo = handler.to_business_object(body, hint)
                    self._complete(bo, handler, message, origin)
                    objects = [bo]
        except MalformedData as error:
            raise with_hint(error, body) from error.__cause__
        except BaseException as error:  # a handler's bug fails this message only
            if stages.is_interrupt(error):
                raise
            raise HandlerFailed(handler, error) from error
        if self.trace.level >= CONVERSION:
            self._trace(message, input_destination, choice, objects[0], len(body))
        return objects

    @staticmethod
    def body_of(message: Message, connector: Connector) -> bytes:
        """Returns the body that a data handler gets.

        Args:
            connector: the section as it holds for the input.

        Raises:
            MalformedData: the body is packed, and cannot be unpacked within ``max_body``.
        """
        body = b"" if message.message_class == "M" else message.body
        if body and (connector.unpack != "none" or CONTENT_ENCODING in message.properties):
            return _unpacked(body, message, connector)
        return body

    def _trace(
        self, message: Message, destination: str, choice: Choice, first: BusinessObject, size: int
    ) -> None:
        self.trace(
            CONVERSION,
            "message converted",
            message_id=message.message_id,
            destination=destination,
            object=first.type,
            verb=first.verb,
            rule=None if choice.rule is None else choice.rule.id,
            data_handler=type(choice.handler).__name__,
            bytes=size,
        )

    def _number(
        self, records: Iterable[BusinessObject], handler: DataHandler, message: Message, origin: _Origin
    ) -> Iterator[BusinessObject]:
        for number, bo in enumerate(records, 1):
            try:
                self._complete(bo, handler, message, origin)
            except UnknownBusinessObject:
                raise
            except MalformedData as error:
                raise MalformedData(f"record {number}: {error}") from None
            if message.message_id is not None:
                bo.object_event_id = f"{message.message_id}#{number}"
            yield bo

    def _complete(self, bo: BusinessObject, handler: DataHandler, message: Message, origin: _Origin) -> None:
        """Checks the object that a handler has made, and adds verb, defaults and headers."""
        if not isinstance(bo, BusinessObject):
            raise MalformedData(f"{_name(handler)} returned {type(bo).__name__}, no BusinessObject")
        connector, named = self._connector, origin.named
        if named is not None:
            connector = self._task_settings.by_input[named]
        finish(bo, default_verb=connector.default_verb or None, use_defaults=connector.use_defaults)
        if bo.definition.dynamic_metaobject is not None:
            with stages.Stage("dynamic_metaobject", bo.definition.dynamic_metaobject):
                fill_dynamic(bo, message, message_format=origin.format, input_destination=origin.destination)
        bo.object_event_id = message.message_id

    def reader(self, message: Message, input_destination: str, named: Input | None = None) -> DataHandler:
        """Returns the handler that reads a message."""
        return self.choice(message, input_destination, named).handler

    def choice(self, message: Message, input_destination: str, named: Input | None = None) -> Choice:
        """Returns the rule and the data handler of a message.

        Args:
            named: the input, if it has keys of its own.

        Raises:
            ConfigurationError: a rule names a data handler that does not exist.
        """
        found_format = message_format(message, self._connector.message_format_property)
        find = self._by_type if CONTENT_TYPE in message.properties else self._choice
        return find(message, _Origin(input_destination, named, found_format))

    def _choice(self, message: Message, origin: _Origin) -> Choice:
        choice = self._chosen.get(origin)
        if choice is None:
            rules, destination = self._task_settings.rules, self._destination(origin.destination)
            rule = None if rules is None else rules.only_match(origin.format, destination, message)
            choice = self._choose(rule, origin.named)
            if rules is not None and rules.has_conditions(origin.format, destination):
                return choice  # another message of this format may fit another rule
            if len(self._chosen) >= _MAX_CHOSEN:  # senders may use any number of formats
                self._chosen.clear()
            self._chosen[origin] = choice
        return choice

    def _choose(self, rule: Rule | None, named: Input | None) -> Choice:
        settings = self._task_settings
        default = settings.default_handler if named is None else settings.by_input[named].default_handler
        of_rule = (default, "") if rule is None else choose_handler((rule.handler,), default)
        hint = None if rule is None else Hint(rule.object, rule.verb)
        return Choice(
            rule, *of_rule, self._handlers.get(*of_rule), hint, self._handlers.name_handler(*of_rule)
        )

    def _by_type(self, message: Message, origin: _Origin) -> Choice:
        """Returns the choice for a message that names its MIME type.

        A data handler that is named by its class reads every MIME type.

        Raises:
            ConfigurationError: there is no data handler for the MIME type.
        """
        choice = self._choice(message, origin)
        named = normal_mime_type(str(message.properties[CONTENT_TYPE]))
        if ":" in choice.mime_type or named == normal_mime_type(choice.mime_type):
            return choice
        of_type = named, choice.config
        return choice._replace(
            mime_type=named,
            handler=self._handlers.get(*of_type),
            name=self._handlers.name_handler(*of_type),
        )

    def _destination(self, name: str) -> Destination:
        destination = self._destinations.get(name)
        if destination is None:
            destination = self._destinations[name] = known_destination(name)
        return destination

    def writer_of(
        self, mime_type: str | None, said: Mapping[str, str]
    ) -> Callable[[BusinessObject], bytes | str]:
        """Returns the function that writes an object that a process sends.

        Args:
            mime_type: None = the handler that ``said`` names, else the default handler.
            said: what the rule of the object says for sending.
        """
        if mime_type is not None:
            return self.handler(mime_type).to_body
        return self._handlers.get(*choose_handler((said,), self._task_settings.default_handler)).to_body

    def handler(self, mime_type: str | None) -> DataHandler:
        """Returns the handler for a MIME type. None = the default handler."""
        return self._handlers.get(mime_type or self._task_settings.default_handler)


def _unpacked(body: bytes, message: Message, connector: Connector) -> bytes:
    """Returns the body that a data handler gets. Only the input or a property says that a body is packed.

    Raises:
        MalformedData: the body is packed, and cannot be unpacked within ``max_body``.
    """
    if connector.unpack == "gzip":
        return unpack(body, connector.max_body, "unpack of the input")
    encoding = message.properties[CONTENT_ENCODING]
    if isinstance(encoding, str) and encoding.strip().casefold() == "gzip":
        return unpack(body, connector.max_body, f"the property {CONTENT_ENCODING}")
    return body


def _name(handler: DataHandler) -> str:
    return f"the data handler {type(handler).__name__}"
