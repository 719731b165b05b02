"""The registry of plug-ins: what installed packages announce by entry points.

A plug-in is known by its name before it is imported. Nothing of a package runs before its plug-in is needed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from connector.errors import ConfigurationError, ConnectorError, Problem
from connector.tracebacks import error_text

PlugIn = TypeVar("PlugIn")


class PlugInError(ConfigurationError):
    """A plug-in cannot be used. The text names the packages, and what to do."""

    def __init__(self, text: str) -> None:
        super().__init__([Problem("installed packages", 0, 0, "", text, "")])
        self.text = text


class PlugIns(Generic[PlugIn]):
    """The plug-ins of one kind, by name.

    Args:
        group: the group of the entry points. The name of an entry point is the name of the plug-in.
        noun: what an error calls a plug-in of this kind.
        mistake: takes the name and the imported object. Returns why the object is no plug-in of this kind, as
            the end of a sentence about the object. Empty = the object is a plug-in.
    """

    def __init__(
        self, group: str, noun: str, mistake: Callable[[str, Any], str] = lambda name, loaded: ""
    ) -> None:
        self._group = group
        self._noun = noun
        self._mistake = mistake

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all plug-ins, sorted. Imports none."""
        return tuple(dict.fromkeys(one.name for one in entry_points(self._group)))

    def find(self, name: str) -> importlib.metadata.EntryPoint:
        """Returns the entry point of a plug-in. Imports the packages around its module, but not the module.

        Raises:
            PlugInError: no package or several packages have a plug-in of this name, or the module of
                the plug-in is not there.
        """
        found = [one for one in entry_points(self._group) if one.name == name]
        if not found:
            raise PlugInError(
                f"no installed package has the {self._noun} {name!r}; install the connector anew "
                "(script/bootstrap): its entry points are missing or of another version"
            )
        if len(found) > 1:
            packages = ", ".join(map(_package, found))
            raise PlugInError(
                f"several packages have the {self._noun} {name!r}: {packages}; remove all but one"
            )
        with self.blame(name):
            missing = _missing_part(found[0].module)
        if missing:
            raise PlugInError(
                f"the {self._noun} {name!r} needs {missing}, which is not there: put it back, or install the "
                f"package {_package(found[0])} anew"
            )
        return found[0]

    def load(self, name: str) -> PlugIn:
        """Imports a plug-in.

        Raises:
            PlugInError: as :meth:`find` says, or the import fails, or the object is no plug-in of this kind.
        """
        found = self.find(name)
        with self.blame(name):
            loaded: PlugIn = found.load()
        if mistake := self._mistake(name, loaded):
            raise self._error(name, f"{found.value} {mistake}")
        return loaded

    def usable(self) -> Iterator[tuple[str, PlugIn]]:
        """Yields the plug-ins that can be loaded, with their names."""
        for name in self.names:
            try:
                loaded = self.load(name)
            except PlugInError:
                continue
            yield name, loaded

    def all(self) -> list[tuple[str, PlugIn]]:
        """Returns all plug-ins with their names. Raises as :meth:`load`."""
        return [(name, self.load(name)) for name in self.names]

    @contextlib.contextmanager
    def blame(self, name: str, failures: type[Exception] = Exception) -> Iterator[None]:
        """Turns an error of the code of a plug-in into a :class:`PlugInError`, but no ConnectorError.

        Args:
            failures: the errors that the plug-in is blamed for.
        """
        try:
            yield
        except ConnectorError:
            raise
        except (failures, SystemExit) as error:
            raise self._error(name, error_text(error)) from error

    def _error(self, name: str, reason: str) -> PlugInError:
        package = next(_package(one) for one in entry_points(self._group) if one.name == name)
        return PlugInError(
            f"the {self._noun} {name!r} of the package {package} cannot be used: {reason}; repair or remove "
            "that package"
        )


def entry_points(group: str) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Returns the entry points of a group, in the order of their names and values. Imports none.

    Reading the distributions takes some 20 ms, so they are read once for each ``sys.path``. A distribution
    that is found twice counts once.
    """
    return _select(group, tuple(sys.path))


@functools.lru_cache(maxsize=16)  # the groups of one path
def _select(group: str, path: tuple[str, ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    found = {(one.name, one.value): one for one in _read(path).select(group=group)}
    return tuple(found[key] for key in sorted(found))


@functools.lru_cache(maxsize=1)
def _read(path: tuple[str, ...]) -> Any:
    return importlib.metadata.entry_points()


def _missing_part(module: str) -> str:
    """Returns the first folder around a module that is not there, or else its file. Empty = all are there."""
    try:
        is_there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(f"{error.name}."):
            raise  # a package imports what is not there
        return f"the folder {error.name.replace('.', '/')}"
    return "" if is_there else f"the file {module.replace('.', '/')}.py"


def _package(entry: importlib.metadata.EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.module
