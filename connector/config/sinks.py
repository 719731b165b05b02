"""Finds the sinks of installed distributions, the connector's own among them."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from importlib.metadata import EntryPoint

from connector.errors import ConfigurationError, Problem
from connector.plugins import announced
from connector.sinks.contract import ENTRY_POINTS
from connector.sinks.subscription_model import ExternalEntry, PreparedEntry, SinkEntry, TransactionalEntry
from connector.tracebacks import error_text


class SinkProblem(Exception):
    """A sink cannot be used.

    Attributes:
        found, expected: as in :class:`connector.errors.Problem`.
    """

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}, expected {expected}")
        self.found, self.expected = found, expected


class Sinks:
    """The installed sinks by their keys. A sink is imported at the first use."""

    def __init__(self) -> None:
        self._announced: dict[str, list[EntryPoint]] = {}
        self._loaded: dict[str, type[SinkEntry]] = {}
        for entry_point in announced(ENTRY_POINTS):
            known = self._announced.setdefault(entry_point.name, [])
            if all(entry_point.value != other.value for other in known):  # a distribution may be found twice
                known.append(entry_point)

    @property
    def keys(self) -> Collection[str]:
        return self._announced.keys()

    def entry(self, key: str) -> type[SinkEntry]:
        """Returns the class of the entries with a sink.

        Raises:
            SinkProblem: two distributions bring this sink, or the import fails, or the class is not valid.
        """
        if key not in self._loaded:
            self._loaded[key] = self._load(key)
        return self._loaded[key]

    def usable(self) -> Iterator[tuple[str, type[SinkEntry]]]:
        """Yields the sinks that can be imported, with their keys."""
        for key in self.keys:
            try:
                yield key, self.entry(key)
            except SinkProblem:
                continue

    def all(self) -> list[tuple[str, type[SinkEntry]]]:
        """Returns all sinks, with their keys.

        Raises:
            ConfigurationError: a sink cannot be used.
        """
        try:
            return [(key, self.entry(key)) for key in self.keys]
        except SinkProblem as problem:
            raise ConfigurationError(
                [Problem("sinks", 0, 0, "", problem.found, problem.expected)]
            ) from problem

    def _load(self, key: str) -> type[SinkEntry]:
        entry_point, *others = self._announced[key]
        if others:
            both = " and ".join(_shown(one) for one in (entry_point, *others))
            raise SinkProblem(
                f"several installed sinks have the key {key!r}: {both}", "one of them installed"
            )
        try:
            entry = entry_point.load()
        except (Exception, SystemExit) as error:  # a user's module may raise any exception
            raise SinkProblem(
                f"the sink {_shown(entry_point)} cannot be imported: {error_text(error)}",
                "a package that is installed with all that it needs",
            ) from error
        if not isinstance(entry, type) or not issubclass(
            entry, ExternalEntry | PreparedEntry | TransactionalEntry
        ):
            raise SinkProblem(
                f"the sink {_shown(entry_point)} is no entry of a subscription",
                "a class that inherits from ExternalEntry, PreparedEntry or TransactionalEntry",
            )
        if inspect.isabstract(entry):
            missing = ", ".join(sorted(entry.__abstractmethods__))
            raise SinkProblem(f"the sink {_shown(entry_point)} lacks {missing}", "a class that has them")
        own = next((f for name, f in entry.model_fields.items() if key in (f.alias, name)), None)
        if own is None or not own.is_required():
            raise SinkProblem(
                f"the sink {_shown(entry_point)} has no needed field {key!r}",
                "a field with the name of the entry point, without a default",
            )
        return entry


def _shown(entry_point: EntryPoint) -> str:
    distribution = entry_point.dist.name if entry_point.dist is not None else "an unknown distribution"
    return f"{entry_point.value} of {distribution}"
