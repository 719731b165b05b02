"""Checks ``module:function`` and ``module:Class`` by syntax tree, without running user code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from connector.modules import find_installed, find_module, parse_source
from connector.text.names import nearest

_NAMES: Final[dict[tuple[Path, int, int], ModuleNames | str]] = {}


class LookupProblem(Exception):
    """A module, function or class does not exist.

    Attributes:
        found, expected, near: as in :class:`connector.errors.Problem`.
    """

    def __init__(self, found: str, expected: str, near: str | None = None) -> None:
        super().__init__(found)
        self.found, self.expected, self.near = found, expected, near


@dataclass(frozen=True, slots=True)
class ModuleNames:
    """The names that a module defines at its top level.

    Attributes:
        functions, classes, others: names by kind. ``others`` are assigned or imported.
        imports: outermost packages that are imported unconditionally, with the lines.
        is_open: there may be more names: ``from x import *``, ``__getattr__``, or a compiled module.
    """

    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    imports: list[tuple[str, int]] = field(default_factory=list)
    is_open: bool = False

    def __contains__(self, name: object) -> bool:
        return name in self.functions or name in self.classes or name in self.others

    def all(self) -> list[str]:
        return [*self.functions, *self.classes, *sorted(self.others)]


def check_process(
    reference: str, directory: Path, arguments: str = "business_object, event", *, may_wait: bool = False
) -> None:
    """Checks that ``module:function`` names a function that takes a business object and an event.

    Args:
        reference: as written under ``process``.
        arguments: the names of its two arguments, for the error.
        may_wait: whether the function may be a coroutine function.

    Raises:
        LookupProblem: there is no such function, or the arguments do not fit.
    """
    function, name = check_function(reference, directory), reference.partition(":")[2]
    if function is None:
        return
    if isinstance(function, ast.AsyncFunctionDef) and not may_wait:
        raise LookupProblem(f"{reference!r} is a coroutine function", "a plain function (def, not async def)")
    if function.decorator_list:
        return
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    required = len(positional) - len(given.defaults)
    needed_by_name = sum(default is None for default in given.kw_defaults)
    most = len(positional)
    if required > 2 or needed_by_name or (most < 2 and given.vararg is None):
        raise LookupProblem(
            f"{reference!r} cannot be called with two arguments",
            f"{'async ' if isinstance(function, ast.AsyncFunctionDef) else ''}def {name}({arguments})",
        )


def check_function(reference: str, directory: Path) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Returns the definition of the function of ``module:function``. None = perhaps another object.

    Raises:
        LookupProblem: there is no such function.
    """
    module, name = _split(reference, "module:function")
    names = _names_of(module, directory)
    function = names.functions.get(name)
    if function is None:
        _expect(name, names, module, [*names.functions, *sorted(names.others)], "function")
    return function


def check_class(reference: str, directory: Path) -> ast.ClassDef | None:
    """Returns the definition of the class of ``module:Class``. None = another object may replace it.

    Raises:
        LookupProblem: there is no such class.
    """
    module, name = _split(reference, "module:Class")
    names = _names_of(module, directory)
    if name not in names.classes:
        _expect(name, names, module, [*names.classes, *sorted(names.others)], "class")
    return None if name in names.others else names.classes.get(name)


def missing_methods(definition: ast.ClassDef | None, methods: Iterable[str]) -> list[str]:
    """Returns the methods that a class certainly lacks. Classes with bases or decorators are not judged."""
    if definition is None or definition.decorator_list or definition.keywords:
        return []
    if any(not (isinstance(base, ast.Name) and base.id == "object") for base in definition.bases):
        return []
    names = ModuleNames()
    is_open = _collect(definition.body, names)
    return [] if is_open else [method for method in methods if method not in names]


def missing_imports(reference: str, directory: Path) -> Iterator[tuple[str, str]]:
    """Yields found and expected text for each module that the module of a reference imports in vain.

    Only a module beside ``adapter.yaml`` is read, and only unconditional imports count.
    """
    found = find_module(reference.partition(":")[0], directory)
    if found is not None and found.source is not None and found.is_beside:
        yield from missing_imports_of(found.source, directory)


def missing_imports_of(source: Path, directory: Path) -> Iterator[tuple[str, str]]:
    """Works like :func:`missing_imports`, for a file. A file that is no Python is reported elsewhere."""
    try:
        imports = read_names(source).imports
    except LookupProblem:
        return
    for module, line in imports:
        if find_module(module, directory) is None and not (directory / module).is_dir():
            yield (
                f"{source.name} imports {module!r} in line {line}, which is not installed here",
                f"an installed module, or {module}.py beside the configuration file",
            )


def read_names(path: Path) -> ModuleNames:
    """Returns the names that the source file defines, by its syntax tree.

    Raises:
        LookupProblem: the file cannot be read or is no Python.
    """
    try:
        status = path.stat()
        key = (path, status.st_mtime_ns, status.st_size)
        if key not in _NAMES:
            _NAMES[key] = _parse(path)
        names = _NAMES[key]
    except OSError as error:
        raise LookupProblem(
            f"{path.name} cannot be read: {error.strerror}", "a readable Python file"
        ) from None
    if isinstance(names, str):
        raise LookupProblem(names, "a Python file without errors")
    return names


def _parse(path: Path) -> ModuleNames | str:
    try:
        tree = parse_source(path)
    except SyntaxError as error:
        return f"{path.name} has an error in line {error.lineno or 0}: {error.msg}"
    except ValueError as error:
        return f"{path.name} is no Python: {error}"
    names = ModuleNames()
    is_open = _collect(tree.body, names)
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            names.imports.extend(
                (alias.name.partition(".")[0], statement.lineno) for alias in statement.names
            )
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            names.imports.append((statement.module.partition(".")[0], statement.lineno))
    return replace(names, is_open=is_open)


def _collect(statements: Iterable[ast.stmt], names: ModuleNames) -> bool:
    is_open = False
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            names.functions[statement.name] = statement
            is_open |= statement.name == "__getattr__"
        elif isinstance(statement, ast.ClassDef):
            names.classes[statement.name] = statement
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                is_open |= alias.name == "*"
                names.others.add(alias.asname or alias.name.partition(".")[0])
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            for node in ast.walk(statement):
                if not isinstance(getattr(node, "ctx", None), ast.Store):
                    continue
                if isinstance(node, ast.Attribute):  # an assignment changes the class after its definition
                    node = node.value
                if isinstance(node, ast.Name):
                    names.others.add(node.id)
        else:
            for block in ("body", "orelse", "finalbody"):
                inner = getattr(statement, block, None)
                if isinstance(inner, list):
                    is_open |= _collect(inner, names)
            for handler in getattr(statement, "handlers", ()):
                is_open |= _collect(handler.body, names)
    return is_open


def _split(reference: str, form: str) -> tuple[str, str]:
    module, separator, name = reference.partition(":")
    good = separator and name.isidentifier() and all(part.isidentifier() for part in module.split("."))
    if not good:
        raise LookupProblem(repr(reference), form)
    return module, name


def _names_of(module: str, directory: Path) -> ModuleNames:
    found = find_module(module, directory)
    if found is not None:
        return ModuleNames(is_open=True) if found.source is None else read_names(found.source)
    package = module.partition(".")[0]
    if package != module and find_installed(package) is not None:
        raise LookupProblem(f"there is no module {module!r}", f"a module of the package {package!r}")
    raise LookupProblem(
        f"there is no module {package!r}",
        f"{package}.py beside the configuration file, or an installed module",
        nearest(package, _modules_in(directory)),
    )


def _expect(name: str, names: ModuleNames, module: str, fitting: list[str], what: str) -> None:
    if names.is_open or name in names.others:
        return
    if name in names:
        raise LookupProblem(f"{name!r} of {module!r} is not a {what}", f"a {what}", nearest(name, fitting))
    near = nearest(name, fitting)
    raise LookupProblem(
        f"{module!r} has no {what} {name!r}", f"a {what} of that module", f"{module}:{near}" if near else None
    )


def _modules_in(directory: Path) -> list[str]:
    try:
        return [
            entry.stem
            for entry in directory.iterdir()
            if entry.suffix == ".py" or (entry / "__init__.py").is_file()
        ]
    except OSError:
        return []
