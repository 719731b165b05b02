"""Templates: any text from a business object, by Jinja2. The handler only writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from jinja2 import FileSystemLoader, StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import text_of
from connector.errors import MalformedData
from connector.formats.datahandler import DataHandler, Hint, Option, charset
from connector.limits import stages
from connector.text.encoding import encode

MAX_TEXT: Final = 64 << 20
"""The longest text that a template may write, in characters."""
_MAX_OPERAND: Final = 1 << 20
"""The longest text or list that ``*`` may make, and the largest exponent's result in bits."""


class TemplateHandler(DataHandler):
    """Texts by a template.

    The template sees the attributes by their names, and ``BusinessObject`` and ``Verb``. An attribute that is
    not set is none, and writes nothing. A name that the definition lacks is an error.

    The template is a file of the deployment, or the text of an option. It runs in the sandbox of Jinja2: it
    cannot reach Python, changes nothing, and includes only files of its own directory. The values of
    attributes are never read as templates. A text has at most 64 Mi characters.
    """

    mime_types = ("text/template",)
    options = (
        Option("template", Path, "", "The file with the template."),
        Option("text", str, "", "The template itself, in place of a file."),
        Option("autoescape", str, "none", "Escape values for this format.", choices=("none", "xml")),
        Option("trim_blocks", bool, False, "Remove the line break after a block such as `{% for %}`."),
        Option("charset", str, "", "The character set. Empty: UTF-8.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        path, text = options["template"], options["text"]
        if bool(path) == bool(text):
            raise ValueError("give one of the options template and text")
        directory, name = os.path.split(path) if path else (os.devnull, "the option text")
        environment = _Sandbox(
            loader=FileSystemLoader(directory) if path else None,
            undefined=StrictUndefined,
            finalize=_finalize,
            autoescape=options["autoescape"] == "xml",
            trim_blocks=options["trim_blocks"],
            lstrip_blocks=options["trim_blocks"],
            keep_trailing_newline=True,
        )
        try:
            self._template = environment.get_template(name) if path else environment.from_string(text)
        except TemplateSyntaxError as error:
            raise ValueError(f"{error.filename or name}:{error.lineno}: {error.message}") from None
        except (TemplateError, OSError, UnicodeError) as error:
            raise ValueError(f"the template {path or name} cannot be read: {error}") from None
        self._name = name
        self._charset: str = options["charset"]

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        raise MalformedData("text/template only writes: no body can be read by a template")

    def to_body(self, bo: BusinessObject) -> bytes:
        values = {"BusinessObject": bo.type, "Verb": bo.verb, **_values(bo)}
        parts: list[str] = []
        length = 0
        try:
            with stages.Stage("template", self._name):
                for part in self._template.generate(values):
                    length += len(part)
                    if length > MAX_TEXT:
                        raise MalformedData(f"{self._name}: the text is longer than {MAX_TEXT} characters")
                    parts.append(part)
        except MalformedData:
            raise
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise MalformedData(f"{self._name}{_line(error, self._template)}: {_words(error)}") from None
        return encode("".join(parts), self._charset)


class _Sandbox(ImmutableSandboxedEnvironment):
    """The sandbox of Jinja2, with bounds for the operators that make huge values."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            raise SecurityError("% of a text is not allowed; use the filter format")
        if operator == "*":
            for one, times in ((left, right), (right, left)):
                if hasattr(one, "__len__") and isinstance(times, int) and len(one) * times > _MAX_OPERAND:
                    raise SecurityError("the result of * is too long")
        is_power = operator == "**" and isinstance(left, int) and isinstance(right, int)
        if is_power and left.bit_length() * abs(right) > _MAX_OPERAND:
            raise SecurityError("the result of ** is too large")
        return super().call_binop(context, operator, left, right)

    def join_path(self, template: str, parent: str) -> str:
        return template


def _finalize(value: Any) -> Any:
    """Returns the value that is written for an expression."""
    if value is None:
        return ""
    return text_of(value) if isinstance(value, bool | Decimal) else value


def _values(bo: BusinessObject) -> dict[str, Any]:
    """Returns the attributes for the template. Those that are not set are None, also in children."""
    result: dict[str, Any] = {}
    for name in bo.definition.attributes:
        if name in bo.definition.metaobject_attributes:
            continue
        value = bo.value(name)
        if isinstance(value, BusinessObject):
            value = _values(value)
        elif isinstance(value, list):
            value = [_values(one) if isinstance(one, BusinessObject) else one for one in value]
        result[name] = value
    return result


def _line(error: BaseException, template: Template) -> str:
    """Returns ``:LINE`` of the template where an exception was raised, if known."""
    line = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in (template.filename, "<template>"):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f":{line}" if line else ""


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
