"""Finds, parses and loads Python modules of user code, by path or by the name in ``module:name``.

A module beside ``adapter.yaml`` comes first, then installed modules. A module beside the file is loaded by
path, under a private name. The directory of the file is appended to ``sys.path``, never put in front. So a
user's ``json.py`` does not hide the ``json`` of Python.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import os
import sys
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from connector.regular_file import read_regular

PRIVATE_NAMES: Final = "_connector_user_"
"""What the names of modules beside ``adapter.yaml`` begin with, before 16 hexadecimal digits."""
_MAX_SOURCE: Final = 8 << 20
_PARSING: Final = threading.Lock()
"""Held by who parses: filters of warnings are global, and two parsers at once fail in Python 3.11.2."""


@dataclass(frozen=True, slots=True)
class FoundModule:
    """A module that exists.

    Attributes:
        source: the source file. None = the module has no source file, because it is compiled.
        is_beside: whether the module lies beside ``adapter.yaml``.
    """

    source: Path | None
    is_beside: bool = False


def find_module(name: str, directory: Path) -> FoundModule | None:
    """Finds a module without running code. None = there is no such module."""
    beside = _below(directory, name.split("."))
    return find_installed(name) if beside is None else FoundModule(beside, is_beside=True)


def find_installed(name: str) -> FoundModule | None:
    """Works like :func:`find_module`, for an installed module.

    The import system finds only the outermost package, because it would run the packages of inner modules.
    Inner modules are looked up in the directories of that package.
    """
    outermost, *inner = name.split(".")
    if outermost in sys.builtin_module_names:
        return FoundModule(None)
    try:
        spec = importlib.util.find_spec(outermost)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None:
        return None
    if not inner:
        return FoundModule(Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None)
    for place in spec.submodule_search_locations or ():
        source = _below(Path(place), inner)
        if source is not None or _is_compiled(Path(place), inner):
            return FoundModule(source)
    return None


def parse_source(path: Path) -> ast.Module:
    """Parses a Python file.

    Raises:
        OSError, SyntaxError, ValueError: the file cannot be read.
    """
    if path.stat().st_size > _MAX_SOURCE:
        raise ValueError(f"larger than {_MAX_SOURCE} bytes")
    try:
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(read_regular(path), filename=str(path))
    except (RecursionError, MemoryError):
        raise ValueError("nested too deeply") from None


def load_module(name: str, directory: str) -> ModuleType:
    """Loads a module, beside ``adapter.yaml`` or installed. Raises any exception that the module raises."""
    directory = os.path.abspath(directory)
    if directory not in sys.path:
        sys.path.append(directory)
    beside = _below(Path(directory), name.split("."))
    return importlib.import_module(name) if beside is None else load_file(beside)


def load_file(path: Path) -> ModuleType:
    """Loads a file, or the directory of a package, once. Raises any exception that the module raises."""
    path = Path(os.path.abspath(path))
    file = path / "__init__.py" if path.is_dir() else path
    package = str(file.parent) if file.name == "__init__.py" else None
    digest = hashlib.sha256(str(file).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    private = f"{PRIVATE_NAMES}{digest}"
    if private in sys.modules:
        return sys.modules[private]
    spec = importlib.util.spec_from_file_location(
        private, file, submodule_search_locations=[package] if package else None
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[private] = module  # before the module runs, so that its dataclasses and relative imports work
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[private]
        raise
    return module


def _below(directory: Path, parts: Sequence[str]) -> Path | None:
    """Returns the source file of a module below ``directory``."""
    if not all(part.isidentifier() for part in parts):
        return None
    base = directory.joinpath(*parts)
    for candidate in (base / "__init__.py", base.with_name(f"{base.name}.py")):
        if candidate.is_file():
            return candidate
    return None


def _is_compiled(directory: Path, parts: Sequence[str]) -> bool:
    base = directory.joinpath(*parts)
    try:
        return any(base.parent.glob(f"{base.name}.*.so")) or base.with_suffix(".so").is_file()
    except OSError:
        return False
