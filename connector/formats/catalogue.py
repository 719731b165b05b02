"""The catalogue: finds the data handlers without running their code.

Handlers come from three places. If two places serve the same MIME type, the later place wins:

* the handlers shipped with the connector,
* the entry points of the group ``connector.datahandlers`` of installed distributions,
* the plug-ins of the deployment (``datahandlers:`` in adapter.yaml).
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from connector.errors import ConfigurationError, Problem
from connector.formats.datahandler import (
    ENTRY_POINT_GROUP,
    Option,
    OptionProblem,
    charset,
    option_problems,
)
from connector.formats.handlers import HandlerSpec, normal_mime_type
from connector.formats.notation import NOTATION_OPTIONS
from connector.modules import find_installed, find_module, parse_source
from connector.plugins import entry_points
from connector.text.names import did_you_mean

SHIPPED: Final = "shipped"
INSTALLED: Final = "installed"
PLUGIN: Final = "plug-in"

_SHIPPED_MODULES: Final = "connector.datahandlers."

_OPTION_TYPES: Final[dict[str, type]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "Path": Path,
    "list": list,
    "dict": dict,
}
_SHARED: Final = {"NOTATION_OPTIONS": NOTATION_OPTIONS}
"""Options that several handlers have, found by their name: ``options = (Option(...), *NOTATION_OPTIONS)``."""
_DEFAULTS: Final = (str, int, float, bool, tuple, dict)
_CHECKS: Final = {"charset": charset}
"""Checks that are found by their names, without running the module that uses them."""


@dataclass(frozen=True, slots=True)
class HandlerInfo:
    """The facts about a data handler that are known without running its code.

    Args:
        origin: :data:`SHIPPED`, :data:`INSTALLED` or :data:`PLUGIN`.
        module: the module to import. Empty for a plug-in.
        path: the plug-in's file. Relative if the file is inside the deployment's directory.
        options: the declared options. None = the declaration is not written as literals.
        doc: the first line of the docstring.
    """

    class_name: str
    mime_types: tuple[str, ...]
    origin: str
    module: str = ""
    path: str = ""
    options: tuple[Option, ...] | None = None
    doc: str = ""

    @property
    def reference(self) -> str:
        return f"{self.path or self.module}:{self.class_name}"

    def problems(self, options: Mapping[str, object]) -> list[OptionProblem]:
        """Returns the mistakes in options for this handler. Empty when the declaration is not known."""
        return [] if self.options is None else option_problems(self.options, options)


class Catalogue:
    """The data handlers of a deployment. Made by :func:`discover`.

    The source of a shipped handler is read when its options are asked for, because a command needs few.

    Args:
        handlers: those that are not shipped.
        mistakes: the plug-ins of the deployment that cannot be read, with the reason.
        warnings: the same of installed distributions.
    """

    def __init__(
        self, handlers: Iterable[HandlerInfo], warnings: Sequence[str] = (), mistakes: Sequence[str] = ()
    ) -> None:
        self._others = tuple(handlers)
        self.warnings = tuple(warnings)
        self.mistakes = tuple(mistakes)
        self._by_type = {mime_type: info for info in self._others for mime_type in info.mime_types}

    @property
    def handlers(self) -> tuple[HandlerInfo, ...]:
        """All handlers in the order of the places, also those that a later place replaces."""
        shipped = dict.fromkeys(filter(None, map(_shipped, _shipped_handlers().values())))
        return (*shipped, *self._others)

    @property
    def mime_types(self) -> tuple[str, ...]:
        return tuple(sorted(_shipped_handlers().keys() | self._by_type.keys()))

    def find(self, mime_type: str) -> HandlerInfo | None:
        """Returns the handler for a MIME type. Parameters of the MIME type do not count."""
        wanted = normal_mime_type(mime_type)
        if wanted in self._by_type or wanted not in (shipped := _shipped_handlers()):
            return self._by_type.get(wanted)
        return _shipped(shipped[wanted])

    def spec(
        self, mime_type: str, options: Mapping[str, object] | None = None, config: str = ""
    ) -> HandlerSpec:
        """Returns the recipe for the handler of a MIME type.

        Args:
            config: the data-handler meta-object that the options are from.

        Raises:
            ConfigurationError: no handler serves the MIME type, or an option is wrong.
        """
        normal = normal_mime_type(mime_type)
        if not options and normal not in self._by_type and normal in (shipped := _shipped_handlers()):
            module, _, class_name = shipped[normal].partition(":")
            return HandlerSpec(normal, class_name, module, config=config)
        info = self.find(normal)
        if info is None:
            expected = f"one of {', '.join(self.mime_types)}{did_you_mean(mime_type, self.mime_types)}"
            raise ConfigurationError(
                [Problem("data handlers", 0, 0, "", f"no data handler for {mime_type!r}", expected)]
            )
        given = dict(options or {})
        where = config or f"data handler {info.reference}"
        problems = [
            Problem(where, 0, 0, p.name, p.found, p.expected + p.suggestion) for p in info.problems(given)
        ]
        if problems:
            raise ConfigurationError(problems)
        return HandlerSpec(normal, info.class_name, info.module, info.path, given, config)


def discover(base: Path, plugins: Path | None = None) -> Catalogue:
    """Finds every data handler. Imports none.

    Args:
        plugins: a file, or a directory whose files and packages are plug-ins (``datahandlers:``).

    Raises:
        ConfigurationError: ``plugins`` does not exist, or two plug-ins serve one MIME type.
    """
    announced, texts = _announced(tuple(sys.path))
    found, mistakes = list(announced), list[str]()
    if plugins is not None:
        location = base / plugins
        if not location.exists():
            raise ConfigurationError(
                [Problem("data handlers", 0, 0, "", f"{plugins} does not exist", "a file or directory")]
            )
        mine: dict[str, HandlerInfo] = {}
        for info in _plugins(location, base, mistakes):
            for mime_type in info.mime_types:
                other = mine.setdefault(mime_type, info)
                if other is not info:
                    text = f"{other.reference} and {info.reference} both serve {mime_type}"
                    raise ConfigurationError([Problem("data handlers", 0, 0, "", text, "one of them")])
            found.append(info)
    return Catalogue(found, texts, mistakes)


def spec_for_class(reference: str, base: Path) -> HandlerSpec:
    """Returns the recipe for a handler that is named by its class (``DataHandlerClassName``).

    Imports nothing. The handler has only default options, as in WBI Adapter for JMS.
    ``Handlers.get(reference)`` finds the handler.

    Args:
        reference: ``module:Class``. The module lies beside adapter.yaml, or is installed.

    Raises:
        ConfigurationError: the reference is not valid, or there is no such module.
    """
    module, separator, class_name = reference.partition(":")
    names = (class_name, *module.split("."))
    if not separator or not all(name.isidentifier() for name in names):
        raise _bad_class(reference, "no reference to a class", "module:Class")
    found = find_module(module, base)
    if found is None:
        raise _bad_class(reference, f"no module {module!r}", f"{module}.py beside adapter.yaml, or installed")
    if found.source is None or not found.is_beside:
        return HandlerSpec(reference, class_name, module=module)
    is_package = found.source.name == "__init__.py"
    path = _relative(found.source.parent if is_package else found.source, base)
    return HandlerSpec(reference, class_name, path=path)


def _bad_class(reference: str, found: str, expected: str) -> ConfigurationError:
    return ConfigurationError([Problem("DataHandlerClassName", 0, 0, reference, found, expected)])


# --- the three places -------------------------------------------------------------------------


def _shipped_handlers() -> dict[str, str]:
    """Returns the references of the shipped handlers, by the MIME types that name the entry points."""
    shipped = (one for one in entry_points(ENTRY_POINT_GROUP) if one.module.startswith(_SHIPPED_MODULES))
    return {one.name: one.value for one in shipped}


@functools.cache
def _shipped(reference: str) -> HandlerInfo | None:
    """Returns a shipped handler. None = a distribution without it."""
    module, _, class_name = reference.partition(":")
    installed = find_installed(module)
    found = () if installed is None else _handlers_in(installed.source, SHIPPED, [])
    return next((replace(one, module=module) for one in found if one.class_name == class_name), None)


@functools.cache
def _announced(_path: tuple[str, ...]) -> tuple[tuple[HandlerInfo, ...], tuple[str, ...]]:
    """Returns the handlers of installed distributions, and warnings. The search through all of them is slow.

    Args:
        _path: the directories that modules are found in. Another path may have other distributions.
    """
    warnings: list[str] = []
    return tuple(_find_announced(warnings)), tuple(warnings)


def _find_announced(warnings: list[str]) -> Iterator[HandlerInfo]:
    for entry_point in entry_points(ENTRY_POINT_GROUP):
        if entry_point.module.startswith(_SHIPPED_MODULES):
            continue
        module, class_name = entry_point.module, entry_point.attr
        installed = find_installed(module)
        declared = None
        try:
            handlers = _handlers_in(installed.source if installed else None, INSTALLED, [])
            declared = next((one for one in handlers if one.class_name == class_name), None)
        except (OSError, SyntaxError, ValueError) as error:
            warnings.append(f"entry point {entry_point.name}: {error}")
        mime_types = (normal_mime_type(entry_point.name),) if "/" in entry_point.name else ()
        if declared is not None:
            yield replace(declared, module=module, path="", mime_types=mime_types or declared.mime_types)
        elif mime_types:
            yield HandlerInfo(class_name, mime_types, INSTALLED, module=module)
        else:
            warnings.append(
                f"entry point {entry_point.name} = {entry_point.value}: name it by its MIME type, or write "
                "mime_types of the class as a literal"
            )


def _plugins(location: Path, base: Path, mistakes: list[str]) -> Iterator[HandlerInfo]:
    if location.is_dir() and not (location / "__init__.py").exists():
        files = sorted(
            entry
            for entry in location.iterdir()
            if not entry.name.startswith((".", "_"))
            and (entry.suffix == ".py" or (entry / "__init__.py").is_file())
        )
    elif location.is_dir():  # a package: each of its modules is a plug-in
        files = sorted(entry for entry in location.glob("*.py"))
    else:
        files = [location]
    for file in files:
        unread: list[str] = []
        try:
            for info in _handlers_in(file / "__init__.py" if file.is_dir() else file, PLUGIN, unread):
                yield replace(info, path=_relative(file, base))
        except (OSError, SyntaxError, ValueError) as error:
            unread.append(str(error))
        mistakes += [f"{_relative(file, base)} cannot be read: {one}" for one in unread]


def _relative(path: Path, base: Path) -> str:
    path, base = path.resolve(), base.resolve()
    return os.path.relpath(path, base) if path.is_relative_to(base) else str(path)


# --- handlers, without importing them ---------------------------------------------------------


_NO_LITERAL: Final = 'mime_types is no literal such as ("text/csv",), and no code is run to read it'


def _handlers_in(file: Path | None, origin: str, unread: list[str]) -> Iterator[HandlerInfo]:
    """Returns the classes of a source file that name their MIME types.

    Args:
        unread: gets why a class that seems to be a handler cannot be read.
    """
    if file is None or file.suffix != ".py":
        return
    for node in parse_source(file).body:
        if not isinstance(node, ast.ClassDef):
            continue
        values = dict(_assignments(node))
        mime_types = _literal(values.get("mime_types"))
        if isinstance(mime_types, str):
            mime_types = (mime_types,)
        if not isinstance(mime_types, tuple | list) or not all(isinstance(m, str) for m in mime_types):
            if "mime_types" in values:
                unread.append(f"line {values['mime_types'].lineno}: {node.name}.{_NO_LITERAL}")
            continue
        doc = (ast.get_docstring(node) or "").strip().partition("\n")[0]
        options = _options(values["options"]) if "options" in values else ()
        types = tuple(normal_mime_type(mime_type) for mime_type in mime_types)
        if types:
            yield HandlerInfo(node.name, types, origin, options=options, doc=doc)


def _assignments(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement.value
        elif (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and statement.value
        ):
            yield statement.target.id, statement.value


def _literal(node: ast.expr | None) -> Any:
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _options(node: ast.expr) -> tuple[Option, ...] | None:
    """Reads the declaration ``(Option("name", str, "default", "doc"), ...)``. None = not in this form."""
    if not isinstance(node, ast.Tuple | ast.List):
        return None
    options: list[Option] = []
    for element in node.elts:
        if isinstance(element, ast.Starred) and isinstance(element.value, ast.Name):
            options += _SHARED.get(element.value.id, ())
            continue
        option = _option(element)
        if option is None:
            return None
        options.append(option)
    return tuple(options)


def _option(node: ast.expr) -> Option | None:
    if not isinstance(node, ast.Call):
        return None
    names = ("name", "type", "default", "doc", "check", "choices")
    given: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
    given.update({keyword.arg: keyword.value for keyword in node.keywords if keyword.arg})
    kind = given.get("type")
    option_type = _OPTION_TYPES.get(kind.id) if isinstance(kind, ast.Name) else None
    name, default, doc = (_literal(given.get(part)) for part in ("name", "default", "doc"))
    if option_type is None or not isinstance(name, str) or not isinstance(default, _DEFAULTS):
        return None
    check = given.get("check")
    known_check = _CHECKS.get(check.id) if isinstance(check, ast.Name) else None
    choices = _literal(given.get("choices")) or ()
    return Option(
        name, option_type, default, doc if isinstance(doc, str) else "", known_check, tuple(choices)
    )
