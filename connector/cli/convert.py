"""``connector convert``: from a body to a business object, and on to a body of another format."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import typer

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject, finish
from connector.businessobjects.name_handlers import NameHandler
from connector.businessobjects.rules import Rule
from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    answer,
    answer_bytes,
    read_input,
    user_code,
)
from connector.cli.deployment import load_for
from connector.config.loading import CONVERSION, Configuration
from connector.declare.connector_section import Connector
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import (
    DataHandler,
    HandlerFailed,
    Hint,
    SplittingHandler,
    check_body,
    message_body,
    read_records,
)
from connector.formats.handlers import choose_handler
from connector.limits.call import ConversionEnded, call_limited
from connector.limits.stages import Stage
from connector.printable import printable
from connector.service.assembly import make_handlers
from connector.text.json_text import to_json_text
from connector.text.names import did_you_mean
from connector.tracebacks import message_of


class _Refusal(NamedTuple):
    """Why a body or an object cannot be converted."""

    text: str


class _Refused(typer.TyperException):
    """A body or an object cannot be converted."""

    exit_code = 1


# long: more than half declares the options
def convert(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The body. Left out: stdin.", show_default=False)
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    object: Annotated[
        str | None,
        typer.Option(metavar="T", help="The business object. Left out: the body names the object."),
    ] = None,
    verb: Annotated[
        str | None, typer.Option(metavar="V", help="The verb. Left out: of the body, else DefaultVerb.")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="MIME", help="Format of the body. Default: the connector's."),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="MIME", help="Format of the answer. Left out: the object as JSON.")
    ] = None,
    handlers: Annotated[
        str | None,
        typer.Option(
            metavar="MO",
            help="Data-handler meta-object with the options. Left out: of the rule, else the connector's.",
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="Object, verb, data handler and options are those of this rule."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Converts a body to a business object and prints the object as JSON, or as a body of another format.

    The options of the data handlers are those of the deployment, of --rule or of --handlers. A body that is
    split gives an object on each line. With --json any object stands on a single line.
    Exit status 1 when the body cannot be read or the object cannot be written.
    """
    if rule is not None and object is not None:
        raise BadArgument("--rule and --object: the rule names the object")
    if verb is not None and object is None:
        raise BadArgument("--verb needs --object")
    if json and to is not None:
        raise BadArgument("--json and --to: the answer is a body of that format")
    configuration = load_for(config, CONVERSION, in_process=True, thorough=True)
    found = None if rule is None else _find_rule(rule, configuration)
    choice = _Choice(from_, to, _config_of(handlers, configuration), found)
    conversion = _Conversion(configuration, choice)  # before the command waits for a body
    if found is not None:
        object, verb = found.object, found.verb
    elif object is not None:
        _check(object, verb, configuration.metaobjects.definitions)
    path = None if file is None or str(file) == "-" else file
    source, body = read_input(path, str(file), "the body, then Ctrl-D")
    hint = None if object is None else Hint(object, verb)
    result = conversion.run(body, hint, on_one_line=json)
    if isinstance(result, _Refusal):
        raise _Refused(f"{source}: {result.text}")
    if isinstance(result, bytes):
        answer_bytes(result)
        return
    for text in result:
        answer(text)


class _Choice(NamedTuple):
    """The data handlers that the command line names.

    Args:
        reader: the MIME type of the body. None = that of the rule or of the connector.
        writer: the MIME type of the answer. None = the objects are written as JSON.
        config: the data-handler meta-object. Empty = that of the rule or of the connector.
    """

    reader: str | None
    writer: str | None
    config: str
    rule: Rule | None


class _Conversion:
    """What the data handlers of a deployment make of a body."""

    def __init__(self, configuration: Configuration, choice: _Choice) -> None:
        handlers, default = make_handlers(configuration)
        self._directory = configuration.directory
        self._settings = configuration.connector
        levels = [] if choice.rule is None else [choice.rule.handler]
        reader, config = choose_handler(levels, default)
        reader, config = choice.reader or reader, choice.config or config
        with user_code(self._directory):
            self._reader = handlers.get(reader, config)
            self._writer = None
            if choice.writer is not None:
                self._writer = handlers.get(choice.writer, config), choice.writer
        self._find_name_handler = partial(handlers.name_handler, reader, config)

    def run(self, body: bytes, hint: Hint | None, *, on_one_line: bool) -> bytes | list[str] | _Refusal:
        """Returns the body, the objects as JSON, or why there are none. A child process converts."""
        is_list = getattr(self._reader, "splits", False)
        work = partial(self._convert, body, hint, None if is_list or on_one_line else 2)
        try:
            with user_code(self._directory):
                return call_limited(work, self._settings.convert_timeout, self._settings.worker_memory)
        except ConversionEnded as ended:
            return _Refusal(str(ended))

    def _convert(self, body: bytes, hint: Hint | None, indent: int | None) -> bytes | list[str] | _Refusal:
        try:
            objects = _objects(self._reader, body, hint, self._find_name_handler(), self._settings)
            if self._writer is not None:
                handler, mime_type = self._writer
                return _to_body(handler, objects, mime_type)
        except MalformedData as error:
            unknown = hint is None and isinstance(error, UnknownBusinessObject)
            advice = "; --object names it" if unknown else ""
            place = error.place(str(self._directory)) if isinstance(error, HandlerFailed) else ""
            return _Refusal(f"{printable(message_of(error))}{place}{advice}")
        return [_document(bo, indent) for bo in objects]


def _config_of(name: str | None, configuration: Configuration) -> str:
    known = configuration.metaobjects.handler_options
    if name is not None and name not in known:
        has = f"; there are {', '.join(known)}" if known else "; there is none"
        hint = did_you_mean(name, known) or has
        raise BadArgument(f"--handlers {name}: there is no such data-handler meta-object{hint}")
    return name or ""


def _find_rule(name: str, configuration: Configuration) -> Rule:
    """Returns the rule of an id. A list of rules needs its number, ``Order_Create[1]``."""
    static = configuration.connector.configuration_meta_object
    rules = configuration.metaobjects.static[static].rules if static else ()
    ids = [one.id for one in rules]
    found = next((one for one in rules if one.id == name), None)
    if found is None:
        list_of = [one.id for one in rules if one.name == name]
        hint = f"; it is a list: {', '.join(list_of)}" if list_of else did_you_mean(name, ids)
        raise BadArgument(f"--rule {name}: there is no such rule{hint}")
    return found


def _document(bo: BusinessObject, indent: int | None) -> str:
    document: dict[str, Any] = {"BusinessObject": bo.type, "Verb": bo.verb, **bo.as_dict()}
    return to_json_text(document, indent=indent)


def _check(name: str, verb: str | None, definitions: Definitions) -> None:
    try:
        definitions.schema(name)
        if verb is not None:
            definitions.find(f"{name}.{verb}")
    except UnknownBusinessObject as error:
        raise BadArgument(f"--object: {error}") from None


def _objects(
    handler: DataHandler, body: bytes, hint: Hint | None, name: NameHandler | None, settings: Connector
) -> list[BusinessObject]:
    """Returns the complete objects of a body.

    Raises:
        MalformedData: the body cannot be read.
        HandlerFailed: the data handler or the name handler has raised another exception.
    """
    is_split = getattr(handler, "splits", False)
    objects = []
    if hint is None and name is not None:
        hint = Hint(name(body), is_of_body=True)
    try:
        with Stage("data_handler", type(handler).__name__):
            if is_split:
                found = iter(read_records(cast(SplittingHandler, handler), body, hint))
            else:
                found = iter([handler.to_business_object(body, hint)])
            for number, bo in enumerate(found, 1):
                if not isinstance(bo, BusinessObject):
                    raise MalformedData(
                        f"{type(handler).__name__} returned {type(bo).__name__}, no BusinessObject"
                    )
                try:
                    finish(bo, default_verb=settings.default_verb or None, use_defaults=settings.use_defaults)
                except MalformedData as error:
                    raise MalformedData(f"record {number}: {error}" if is_split else str(error)) from None
                objects.append(bo)
    except MalformedData:
        raise
    except BaseException as error:  # code of a user may raise any exception
        raise HandlerFailed(handler, error) from error
    if not objects:
        raise MalformedData("the body holds no record")
    return objects


def _to_body(writer: DataHandler, objects: Sequence[BusinessObject], mime_type: str) -> bytes:
    """Returns the body of objects.

    Raises:
        MalformedData: the format cannot hold the objects.
        HandlerFailed: the data handler has raised another exception.
    """
    splits = getattr(writer, "splits", False) or (len(objects) > 1 and hasattr(writer, "to_joint_body"))
    if len(objects) > 1 and not splits:
        raise MalformedData(f"the body holds {len(objects)} objects, and a body of {mime_type} holds one")
    try:
        with Stage("data_handler", type(writer).__name__):
            if splits:
                joint = cast(SplittingHandler, writer).to_joint_body(objects)
                return message_body(check_body(joint, writer, "to_joint_body"))[1]
            return message_body(check_body(writer.to_body(objects[0]), writer))[1]
    except MalformedData:
        raise
    except BaseException as error:  # code of a user may raise any exception
        raise HandlerFailed(writer, error) from error
