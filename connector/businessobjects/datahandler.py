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
"""Installed handlers announce themselves here: ``"text/csv" = "my_package.csv:CsvHandler"``."""

OptionValue = str | int | float | bool

_KINDS: Final[dict[type, str]] = {
    str: "a text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}


@dataclass(frozen=True, slots=True)
class Hint:
    """What a rule dictates (WBI Adapter for JMS, "Business object mapping").

    Args:
        object: the name of the business object.
        verb: its verb; None = the body's, if it names one.
    """

    object: str
    verb: str | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """An option that a handler declares, for parsing, checking and documenting it.

    Args:
        name: as the source names it where it has it, else lower_snake_case.
        type: ``str``, ``int``, ``float`` or ``bool``.
        default: its value where the configuration says nothing.
        doc: one line: what it does, with its unit.
        check: says what is expected instead of a value that will not do; None where it will. Such as
            :func:`charset`.
    """

    name: str
    type: type
    default: OptionValue
    doc: str
    check: Callable[[Any], str | None] | None = None

    def read(self, value: object) -> OptionValue:
        """The value of this option, from a value of its type or from text.

        Raises:
            ValueError: the value will not do; the text says what is expected.
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
    """A check for options that name a character set which Python knows."""
    try:
        "".encode(str(name))
    except (LookupError, ValueError):
        return "the name of a character set, such as UTF-8 or ISO-8859-1"
    return None


@dataclass(frozen=True, slots=True)
class OptionProblem:
    """A mistake in the options of a handler.

    Args:
        name: the option as it was written.
        found, expected: what stands there, what should.
        suggestion: ``, did you mean 'BOPrefix'?``, or empty.
    """

    name: str
    found: str
    expected: str
    suggestion: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.found}, expected {self.expected}{self.suggestion}"


class HandlerFailed(MalformedData):
    """A data handler raised what it must not: anything but MalformedData. ``__cause__`` is what it raised.

    Args:
        handler: that raised.
        error: what it raised.
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
    * It is made once in every worker process, lives long, and is used by one thread at a time.
      Nothing of one message may be left in it when the next one comes.
    * It keeps to types: what a body says is set through :class:`BusinessObject`, which checks it. A right
      body of JSON may be decoded by :class:`connector.businessobjects.json_decoder.JsonDecoder` instead.
      Verbs, required attributes and defaults are not its concern; the connector looks after them
      (:func:`connector.businessobjects.instance.finish`).
    * An attribute that holds a meta-object is never part of a body, neither read nor written:
      ``set_values(..., body_only=True)``, ``as_dict(body_only=True)``.
    * For a body or an object that it cannot read or write, it raises
      :class:`~connector.errors.MalformedData`, whose text names the place, and nothing else. Bodies
      come from strangers: empty, huge, truncated, deeply nested, in another encoding.

    :class:`connector.testing.datahandlers.DataHandlerSuite` checks a handler against this.

    Args:
        options: every declared option with its value, of its type. Raise ``ValueError`` for values
            that will not do together.
        definitions: the business objects that there are.
    """

    @property
    def mime_types(self) -> Sequence[str]:
        """On the class: lower case, without parameters, ``mime_types = ("text/csv",)``."""

    @property
    def options(self) -> Sequence[Option]:
        """On the class: ``options = (Option("delimiter", str, ",", "Stands between fields."),)``."""

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None: ...

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        """Reads a body.

        Args:
            body: bytes as they came; text only where the caller had text.
            hint: the object that a rule dictates; it wins over what the body says. None = the
                body has to name the object itself.

        Raises:
            UnknownBusinessObject: without a hint, the body names no object, or none that is defined.
            MalformedData: the body is not what the format or the object demands.
        """

    def to_body(self, bo: BusinessObject) -> bytes | str:
        """Writes a body that :meth:`to_business_object` reads back.

        Text is sent as a text message in UTF-8. Bytes are sent as they are: as a text message
        where they are UTF-8, else as a bytes message.

        Raises:
            MalformedData: the format cannot hold the object.
        """


def option_problems(declared: Sequence[Option], given: Mapping[str, object]) -> list[OptionProblem]:
    """Every mistake in the options of a handler; empty where there is none."""
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
    """The options as a handler gets them: every declared one, of its type.

    Args:
        declared: the handler's declaration.
        given: what the configuration says; values may be text.
        where: what the options belong to, for the error.

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
    """The class (``T`` or ``B``) and the bytes of the message that carries a body of a handler.

    Raises:
        UnicodeEncodeError: text that no encoding can write (half a surrogate pair).
    """
    if isinstance(body, str):
        return "T", body.encode("utf-8")
    if not body.isascii():
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            return "B", body
    return "T", body
