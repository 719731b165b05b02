"""Name handlers: find the business object of a body when no rule names the object.

Source: WBI Data Handler Guide, name handlers. The values of the option ``NameHandlerClass``:

======================  ====================================================================================
``root``                the name of the root element of an XML document
``key:NAME``            the text of a member of a JSON object, or of the pair ``NAME=...`` of name-value text
``first_field``         the letters, digits and ``_`` that the body begins with
``jmespath:EXPRESSION`` the text that the expression finds in a JSON document
``xpath:EXPRESSION``    the text that the expression finds in an XML document
``module:function``     the result of ``function(body)``: text, or None
======================  ====================================================================================

``BOPrefix`` and ``_`` are put before the name.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from connector.errors import ConfigurationError, MalformedData, Problem, UnknownBusinessObject
from connector.limits import stages
from connector.modules import find_module, load_file
from connector.text.encoding import decode
from connector.tracebacks import error_text, failure_text

NameHandler = Callable[[bytes | str], str]
"""Returns the name of the business object in a body.

Raises UnknownBusinessObject if the body has no name, and MalformedData if the body cannot be read.
"""

ROOT: Final = "root"
FIRST_FIELD: Final = "first_field"
_VALUES: Final = (
    "root, key:NAME, first_field, jmespath:EXPRESSION, xpath:EXPRESSION, or module:function of your own"
)
_TOP_ELEMENT: Final = "com.crossworlds.DataHandlers.xml.TopElementNameHandler"
"""The name handler that WBI Data Handler Guide describes for XML. The same as :data:`ROOT`."""

_FIRST: Final = re.compile(r"\s*(\w+)")


def name_handler(text: object) -> str | None:
    """Checks a value of ``NameHandlerClass``. Used as ``check`` of an option."""
    kind, separator, rest = str(text).partition(":")
    if text in (ROOT, FIRST_FIELD, _TOP_ELEMENT) or not text:
        return None
    if not separator or not rest:
        return _VALUES
    if kind == "jmespath":
        from connector.businessobjects.expressions import compile_expression

        try:
            compile_expression(rest)
        except ValueError as error:
            return f"a JMESPath expression: {' '.join(str(error).split())}"
    elif kind == "xpath":
        from lxml import etree

        try:
            etree.XPath(rest)
        except etree.XPathError as error:
            return f"an XPath expression: {error}"
    elif kind != "key" and not (rest.isidentifier() and all(part.isidentifier() for part in kind.split("."))):
        return _VALUES
    return None


def make_name_handler(text: str, prefix: str, base: Path) -> NameHandler:
    """Returns the function that a value of ``NameHandlerClass`` means.

    Args:
        text: a valid value.
        prefix: ``BOPrefix``. Empty = none.
        base: the directory of the deployment. Modules of name handlers lie there, or are installed.

    Raises:
        ConfigurationError: the function of ``module:function`` cannot be loaded.
    """
    kind, _, rest = text.partition(":")
    find: Callable[[bytes | str], object]
    if text in (ROOT, _TOP_ELEMENT):
        find = _root
    elif text == FIRST_FIELD:
        find = _first_field
    elif kind == "key":
        find = _by_key(rest)
    elif kind == "jmespath":
        find = _by_jmespath(rest)
    elif kind == "xpath":
        find = _by_xpath(rest)
    else:
        find = _load(kind, rest, base)

    def name(body: bytes | str) -> str:
        try:
            with stages.Stage("name_handler", text):
                found = find(body)
        except MalformedData:
            raise
        except BaseException as error:
            if stages.is_interrupt(error):
                raise
            raise MalformedData(f"the name handler {text}: {error_text(error)}") from error
        if found is None or found == "":
            raise UnknownBusinessObject(f"the name handler {text} finds no business object in the body")
        if not isinstance(found, str):
            raise MalformedData(f"the name handler {text} finds {type(found).__name__}, expected a text")
        return f"{prefix}_{found}" if prefix else found

    return name


def _root(body: bytes | str) -> object:
    from connector.text.xml_parser import local_name, parse_xml

    return local_name(parse_xml(body).tag)


def _first_field(body: bytes | str) -> object:
    found = _FIRST.match(decode(body))
    return found and found.group(1)


def _by_key(key: str) -> Callable[[bytes | str], object]:
    pair = re.compile(rf"^{re.escape(key)}=(.*?)\r?$", re.MULTILINE)

    def find(body: bytes | str) -> object:
        text = decode(body)
        if not text.lstrip().startswith("{"):
            found = pair.search(text)
            return found and found.group(1)
        document = _json(text)
        return document.get(key) if isinstance(document, dict) else None

    return find


def _by_jmespath(expression: str) -> Callable[[bytes | str], object]:
    import jmespath

    from connector.businessobjects.expressions import compile_expression

    compiled = compile_expression(expression)

    def find(body: bytes | str) -> object:
        try:
            return compiled.search(_json(decode(body)))
        except (jmespath.exceptions.JMESPathError, RecursionError) as error:
            raise MalformedData(f"the name handler jmespath:{expression}: {error}") from None

    return find


def _by_xpath(expression: str) -> Callable[[bytes | str], object]:
    from lxml import etree

    from connector.text.xml_parser import parse_xml

    compiled = etree.XPath(expression)

    def find(body: bytes | str) -> object:
        try:
            found: Any = compiled(parse_xml(body))
        except etree.XPathError as error:
            raise MalformedData(f"the name handler xpath:{expression}: {error}") from None
        if isinstance(found, list):
            found = found[0] if found else None
        return found.text if isinstance(found, etree._Element) else None if found is None else str(found)

    return find


def _json(text: str) -> Any:
    from connector.text.json_text import from_json

    try:
        return from_json(text)
    except (ValueError, RecursionError) as error:
        raise MalformedData(f"the body is no JSON: {error}") from None


def _load(module: str, function: str, base: Path) -> Callable[[bytes | str], object]:
    try:
        found = find_module(module, base)
        source = found.source if found is not None and found.is_beside else None
        loaded = importlib.import_module(module) if source is None else load_file(source)
        target = getattr(loaded, function)
    except (Exception, SystemExit) as error:  # a user's module may raise any exception
        reason = f"cannot be loaded: {failure_text(error, None, str(base))}"
        raise ConfigurationError([_problem(f"{module}:{function}", reason)]) from error
    if not callable(target):
        raise ConfigurationError([_problem(f"{module}:{function}", "is no function")])

    def find(body: bytes | str) -> object:
        try:
            result: object = target(body)
        except MalformedData:
            raise
        except BaseException as error:
            if stages.is_interrupt(error):
                raise
            reason = failure_text(error, target, str(base))
            raise MalformedData(f"the name handler {module}:{function}: {reason}") from error
        return result

    return find


def _problem(reference: str, found: str) -> Problem:
    return Problem("data handlers", 0, 0, f"NameHandlerClass {reference}", found, "a function of the body")
