"""The contract of a data handler: the code that reads and writes one format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.names import did_you_mean
from connector.businessobjects.types import describe
from connector.errors import ConfigurationError, MalformedData, Problem
from connector.tracebacks import error_text

ENTRY_POINT_GROUP: Final = "connector.datahandlers"
"""The entry-point group of installed handlers: ``"text/csv" = "my_package.csv:CsvHandler"``."""

OptionValue = str | int | float | bool

_KINDS: Final[dict[type, str]] = {
    str: "a text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}


@dataclass(frozen=True, slots=True)
class Hint:
    """The object and verb that a rule dictates (WBI Adapter for JMS, "Business object mapping").

    Args:
        object: the name of the business object.
        verb: None = the verb that the body names, if any.
    """

    object: str
    verb: str | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """An option that a handler declares, for parsing, checks and documentation.

    Args:
        name: the name in WBI Adapter for JMS if there is one, else lower_snake_case.
        type: ``str``, ``int``, ``float`` or ``bool``.
        default: the value when the configuration gives none.
        doc: one line: the effect of the option, with the unit.
        check: returns a text with the expected values when a value is not valid, else None. An example is
            :func:`charset`.
    """

    name: str
    type: type
    default: OptionValue
    doc: str
    check: Callable[[Any], str | None] | None = None

    def read(self, value: object) -> OptionValue:
        """Returns the value of this option, from a value of the declared type or from text.

        Raises:
            ValueError: the value is not valid. The text names the expected values.
        """
        result = self._convert(value)
        expected = self.check(result) if self.check else None
        if expected:
            raise ValueError(expected)
        return result

    def _convert(self, value: object) -> OptionValue:
        text = value.strip() if isinstance(value, str) else None
        if self.type is str and isinstance(value, str):
            return str.__str__(value)
        if self.type is bool:
            if isinstance(value, bool):
                return value
            if text is not None and text.lower() in ("true", "false"):
                return text.lower() == "true"
        elif self.type in (int, float) and not isinstance(value, bool):
            try:
                if text is not None:
                    return int(text) if self.type is int else float(text)
                if isinstance(value, int) or (isinstance(value, float) and self.type is float):
                    return value if self.type is int else float(value)
            except (ValueError, OverflowError):
                pass  # refused below
        raise ValueError(_KINDS.get(self.type, "a value"))


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
        name: the option as the configuration writes it.
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
    """A data handler raised an exception other than MalformedData. ``__cause__`` is that exception.

    Args:
        handler: the handler that raised.
        error: the exception.
    """

    def __init__(self, handler: object, error: BaseException) -> None:
        super().__init__(f"the data handler {type(handler).__name__} raised {error_text(error)}")
        self.handler = handler
        self.__cause__ = error


class DataHandler(Protocol):
    """Reads bodies of one format into business objects, and writes them.

    The contract:

    * The class names the MIME types that it serves and declares its options. Both are literals, so
      that they can be listed without running the module.
    * Every worker process makes one handler. The handler lives long, and one thread at a time uses it.
      No state of a message may be left when the next message comes.
    * A handler keeps to types. The values of a body are set through :class:`BusinessObject`, which checks
      them. :class:`connector.businessobjects.json_decoder.JsonDecoder` may decode a right body of JSON
      instead. Verbs, required attributes and defaults are not the handler's concern. The connector looks
      after them (:func:`connector.businessobjects.instance.finish`).
    * An attribute that holds a meta-object is never part of a body, neither read nor written:
      ``set_values(..., body_only=True)``, ``as_dict(body_only=True)``.
    * For a body or an object that it cannot read or write, a handler raises
      :class:`~connector.errors.MalformedData`, and no other exception. The text names the place. Bodies
      come from strangers: empty, huge, truncated, deeply nested, in another encoding.

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


def option_problems(declared: Sequence[Option], given: Mapping[str, object]) -> list[OptionProblem]:
    """Returns every mistake in the options of a handler."""
    by_name = {option.name: option for option in declared}
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
    declared: Sequence[Option], given: Mapping[str, object], where: str
) -> dict[str, OptionValue]:
    """Returns the options for the constructor of a handler: every declared option, of the declared type.

    Args:
        declared: the handler's declaration.
        given: the values of the configuration, which may be text.
        where: the owner of the options, for the error.

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
    return {
        option.name: option.read(given[option.name]) if option.name in given else option.default
        for option in declared
    }


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
