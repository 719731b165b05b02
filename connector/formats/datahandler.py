"""The contract of a data handler: the code that reads and writes one format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.name_handlers import NameHandler, name_handler
from connector.businessobjects.types import describe
from connector.errors import ConfigurationError, MalformedData, Problem
from connector.messaging.numbers import read_number, read_whole
from connector.text.names import did_you_mean
from connector.tracebacks import UserCode, error_text

ENTRY_POINT_GROUP: Final = "connector.datahandlers"
"""The entry-point group of installed handlers: ``"text/csv" = "my_package.csv:CsvHandler"``."""

OptionText = str | Sequence[str] | Mapping[str, str]
"""An option in a configuration: a text, a list of texts or a mapping of texts."""

OptionValue = str | int | float | bool | tuple[str, ...] | dict[str, int]

_KINDS: Final[dict[type, str]] = {
    str: "a text",
    Path: "the path of a file",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a text, or a list of texts",
}


def bare(value: OptionText) -> OptionText:
    """Returns an option of a configuration as a plain text, list or dict, which can be pickled."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): str(text) for name, text in value.items()}
    return [str(text) for text in value]


@dataclass(frozen=True, slots=True)
class Hint:
    """The object and verb that a rule dictates (WBI Adapter for JMS, "Business object mapping").

    Args:
        object: the name of the business object.
        verb: None = the verb that the body names, if any.
        is_of_body: whether a name handler found the object in the body. Then the root element of XML may
            have another name than the object.
    """

    object: str
    verb: str | None = None
    is_of_body: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """An option that a handler declares, for parsing, checks and documentation.

    Args:
        name: the name in WBI Adapter for JMS if there is one, else lower_snake_case.
        type: ``str``, ``int``, ``float`` or ``bool``. ``Path`` for a file of the deployment: the handler gets
            an absolute path as text. A relative path counts from the directory of adapter.yaml. The default
            of a path is ``""``, which stays empty, or ``"."``, the directory of adapter.yaml. ``list`` for
            texts: the handler gets a tuple. ``dict`` for numbers from 1 by name: the handler gets a dict.
        default: the value when the configuration gives none.
        doc: one line: the effect of the option, with the unit.
        check: returns a text with the expected values when a value is not valid, else None. An example is
            :func:`charset`. The default is not checked.
        choices: the valid texts. Empty = any. Upper and lower case are the same. Of a ``dict``: the names.
    """

    name: str
    type: type
    default: OptionValue = field(hash=False)
    doc: str
    check: Callable[[Any], str | None] | None = None
    choices: tuple[str, ...] = ()

    def read(self, value: object) -> OptionValue:
        """Returns the value of this option, from a value of the declared type or from text.

        Raises:
            ValueError: the value is not valid. The text names the expected values.
        """
        result = self._convert(value)
        if result == self.default:
            return result
        if self.choices and self.type is not dict:
            found = next((one for one in self.choices if one.lower() == str(result).lower()), None)
            if found is None:
                raise ValueError(f"one of {', '.join(self.choices)}")
            return found
        expected = self.check(result) if self.check else None
        if expected:
            raise ValueError(expected)
        return result

    def _convert(self, value: object) -> OptionValue:
        text = value.strip() if isinstance(value, str) else None
        if self.type in (str, Path) and isinstance(value, str):
            return str.__str__(value)
        if self.type is bool:
            if isinstance(value, bool):
                return value
            if text is not None and text.lower() in ("true", "false"):
                return text.lower() == "true"
        elif self.type in (int, float) and not isinstance(value, bool):
            try:
                if text is not None:
                    return read_whole(text) if self.type is int else read_number(text)
                if isinstance(value, int) or (isinstance(value, float) and self.type is float):
                    return value if self.type is int else float(value)
            except (ValueError, OverflowError):
                pass  # refused below
        elif self.type is list:
            texts = [value] if isinstance(value, str) else value
            if isinstance(texts, list | tuple) and all(isinstance(one, str) for one in texts):
                return tuple(map(str.__str__, texts))
        elif self.type is dict:
            return self._numbers(value)
        raise ValueError(_KINDS.get(self.type, "a value"))

    def _numbers(self, value: object) -> dict[str, int]:
        if isinstance(value, Mapping) and value.keys() <= set(self.choices):
            numbers: dict[str, int] = {}
            for name, given in value.items():
                text = str(given)
                if not (text.isascii() and text.isdecimal() and 0 < int(text[:10]) < 10**9):
                    break
                numbers[str(name)] = int(text)
            else:
                return numbers
        raise ValueError(f"a mapping of {', '.join(self.choices)} to numbers from 1")


def charset(name: object) -> str | None:
    """Checks that Python knows a character set of this name. Used as ``check`` of an :class:`Option`."""
    try:
        "".encode(str(name))
    except (LookupError, ValueError):
        return "the name of a character set, such as UTF-8 or ISO-8859-1"
    return None


@dataclass(frozen=True, slots=True)
class OptionProblem:
    """A mistake in the options of a handler.

    Args:
        found, expected: the value in the configuration, and the valid values.
        suggestion: ``, did you mean 'BOPrefix'?``, or empty.
    """

    name: str
    found: str
    expected: str
    suggestion: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.found}, expected {self.expected}{self.suggestion}"


class HandlerFailed(MalformedData):
    """A data handler has broken its contract.

    It raised an exception other than MalformedData, which is ``__cause__``, or returned what it may not.

    Args:
        text: what it has done, after its name. Empty = it raised ``error``.
    """

    def __init__(self, handler: object, error: BaseException | None, text: str = "") -> None:
        if error is not None:
            text = text or f"raised {error_text(error)}"
        super().__init__(f"the data handler {type(handler).__name__} {text}")
        self.handler = handler
        self.__cause__ = error

    def place(self, deployment: str) -> str:
        """Returns the place in user code, `` (FILE:LINE)``, for the end of a text. Empty = not known."""
        place = UserCode(deployment, self.handler).place(self.__cause__ or self)
        return f" ({place})" if place else ""


class DataHandler(Protocol):
    """Reads bodies of one format into business objects, and writes them.

    The contract:

    * The class names the MIME types that it serves and declares its options. Both are literals, so
      that they can be listed without running the module.
    * Every worker process makes one handler. The handler lives long, and one thread at a time uses it.
      No state of a message may be left when the next message comes.
    * A handler keeps to types. The values of a body are set through :class:`BusinessObject`, which checks
      them. :class:`connector.formats.json_decoder.JsonDecoder` may decode a right body of JSON
      instead. Verbs, required attributes and defaults are not the handler's concern. The connector looks
      after them (:func:`connector.businessobjects.instance.finish`).
    * An attribute that holds a meta-object is never part of a body, neither read nor written:
      ``set_values(..., body_only=True)``, ``as_dict(body_only=True)``.
    * For a body or an object that it cannot read or write, a handler raises
      :class:`~connector.errors.MalformedData`, and no other exception. The text names the place: line and
      column, record and field, or byte. Bodies come from strangers: empty, huge, truncated, deeply nested,
      in another encoding. :mod:`connector.text.encoding` turns bytes into text and back.
    * Every handler also has the options :data:`COMMON_OPTIONS`. The connector looks after them. A handler
      does not see them, unless it declares an option of the same name.

    :class:`connector.testing.datahandlers.DataHandlerSuite` checks a handler against this contract.

    Args:
        options: every declared option, with a value of the declared type. Raise ``ValueError`` for values
            that do not go together.
        definitions: the business objects of the deployment.
    """

    @property
    def mime_types(self) -> Sequence[str]:
        """The MIME types, on the class: lower case, without parameters, ``mime_types = ("text/csv",)``."""

    @property
    def options(self) -> Sequence[Option]:
        """The declared options: ``options = (Option("delimiter", str, ",", "Stands between fields."),)``."""

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None: ...

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        """Reads a body.

        Args:
            body: bytes as they came. Text when the caller has text.
            hint: the object that a rule dictates. The hint wins over the body. None = the body has to name
                the object.

        Raises:
            UnknownBusinessObject: without a hint, the body names no object, or an object that is not defined.
            MalformedData: the body does not fit the format or the object.
        """

    def to_body(self, bo: BusinessObject) -> bytes | str:
        """Writes a body that :meth:`to_business_object` reads back.

        Text is sent as a text message in UTF-8. Bytes are sent unchanged: as a text message
        if they are valid UTF-8, else as a bytes message.

        Raises:
            MalformedData: the format cannot hold the object.
        """


class SplittingHandler(DataHandler, Protocol):
    """A handler of a format that can hold several objects in one body, such as CSV.

    Attributes:
        splits: whether this handler reads the objects of a body one by one (the option ``split``). If false,
            a body holds one object.
    """

    splits: bool

    def to_business_objects(self, body: bytes | str, hint: Hint | None) -> Iterator[BusinessObject]:
        """Reads the objects of a body, in their order. Each object is published as an event of its own.

        Raises:
            UnknownBusinessObject, MalformedData: as :meth:`DataHandler.to_business_object`. The text begins
                with the number of the record, from 1: ``record 3: ...``. Nothing of the body is published.
        """

    def to_joint_body(self, bos: Sequence[BusinessObject]) -> bytes | str:
        """Writes one body that :meth:`to_business_objects` reads back.

        Raises:
            MalformedData: the format cannot hold the objects together.
        """


class HandlerUser(DataHandler, Protocol):
    """A handler that reads or writes parts of a body with other handlers."""

    def use_handlers(self, find: Callable[[str], DataHandler], name: NameHandler | None) -> None:
        """Called once, after the handler is made.

        Args:
            find: returns the handler of a MIME type, with its options. Raises ConfigurationError.
            name: the name handler of the option ``NameHandlerClass``. None = the option is not set.

        Raises:
            ConfigurationError: there is no such handler.
        """


def java_class(name: object) -> str | None:
    """Checks that a text may be the name of a Java class. Used as ``check`` of an :class:`Option`."""
    if all(part.isidentifier() for part in str(name).split(".")):
        return None
    return "the name of a Java class; DataHandlerClassName is for a class of your own"


COMMON_OPTIONS: Final = (
    Option(
        "ClassName",
        str,
        "",
        "The Java class, in settings of WBI Adapter for JMS. Without effect, because the MIME type decides.",
        java_class,
    ),
    Option("DummyKey", str, "", "A key of the meta-objects of WBI Adapter for JMS. Without effect."),
    Option(
        "NameHandlerClass",
        str,
        "",
        "Finds the object if no rule does: `root`, `key:NAME`, `first_field`, `jmespath:EXPRESSION`, "
        "`xpath:EXPRESSION`, or `module:function` of your own.",
        name_handler,
    ),
)
"""The options of every handler."""


def all_options(declared: Sequence[Option]) -> tuple[Option, ...]:
    """Returns the declared options of a handler and the common options."""
    names = {option.name for option in declared}
    return (*declared, *(option for option in COMMON_OPTIONS if option.name not in names))


def option_problems(declared: Sequence[Option], given: Mapping[str, object]) -> list[OptionProblem]:
    """Returns every mistake in the options of a handler. The common options are always known."""
    by_name = {option.name: option for option in all_options(declared)}
    problems = []
    for name, value in given.items():
        option = by_name.get(name)
        if option is None:
            expected = f"one of {', '.join(by_name)}" if by_name else "no options"
            problems.append(OptionProblem(name, "no such option", expected, did_you_mean(name, by_name)))
            continue
        try:
            option.read(value)
        except ValueError as error:
            problems.append(OptionProblem(name, f"found {describe(value)}", str(error)))
    return problems


def resolve_options(
    declared: Sequence[Option], given: Mapping[str, object], where: str, base: Path = Path()
) -> dict[str, OptionValue]:
    """Returns the options of a handler: every declared and every common option, of the declared type.

    Args:
        given: the values of the configuration, which may be text.
        where: the owner of the options, for the error.
        base: relative paths count from this directory.

    Raises:
        ConfigurationError: with every mistake.
    """
    problems = option_problems(declared, given)
    if problems:
        raise ConfigurationError(
            [
                Problem(where, 0, 0, problem.name, problem.found, problem.expected + problem.suggestion)
                for problem in problems
            ]
        )
    options = {}
    for option in all_options(declared):
        value = option.read(given[option.name]) if option.name in given else option.default
        options[option.name] = str(base / str(value)) if option.type is Path and value else value
    return options


def check_body(body: object, handler: object, method: str = "to_body") -> bytes | str:
    """Returns what a method of a handler has returned as a body.

    Raises:
        HandlerFailed: it is no body.
    """
    if isinstance(body, bytes | str):
        return body
    raise HandlerFailed(handler, None, f"returned {type(body).__name__} from {method}, expected bytes or str")


def read_records(handler: SplittingHandler, body: bytes | str, hint: Hint | None) -> Iterable[BusinessObject]:
    """Returns what ``to_business_objects`` of a handler returns.

    Raises:
        HandlerFailed: it is nothing with business objects in it.
    """
    records: object = handler.to_business_objects(body, hint)
    if isinstance(records, Iterable) and not isinstance(records, bytes | str | Mapping):
        return records
    text = f"returned {type(records).__name__} from to_business_objects"
    raise HandlerFailed(handler, None, f"{text}, expected an iterator of BusinessObject")


def message_body(body: bytes | str) -> tuple[str, bytes]:
    """Returns the class (``T`` or ``B``) and the bytes of the message that carries a body of a handler.

    Raises:
        UnicodeEncodeError: UTF-8 cannot write the text (half a surrogate pair).
    """
    if isinstance(body, str):
        return "T", body.encode("utf-8")
    if not body.isascii():
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            return "B", body
    return "T", body
