"""The kinds of provider, and how a package registers one.

A package registers a :class:`ProviderKind` under an entry point::

    [project.entry-points."connector.providers"]
    shelf = "shelves.registration:KIND"

The name of the entry point is the ``type`` of the section ``provider`` in adapter.yaml. It is also the
scheme of a URL for :func:`connector.messaging.connect`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from connector.errors import ConnectorError
from connector.messaging.destination import Destination
from connector.messaging.notes import BatchNote, ClientNote, ClientState, WaitingNote
from connector.messaging.provider import Connection, Provider
from connector.messaging.subscription import TopicSubscription
from connector.state.store import StateStore

GROUP: Final = "connector.providers"
"""The group of the entry points."""


class AdapterProvider(Provider, Protocol):
    """What an adapter and its commands need of a provider beside messages.

    A contract of its own, because a program that uses messages needs none of it: :class:`ProviderKind` makes
    this one from adapter.yaml, and the smaller one from a URL. All of it looks without a connection. So an
    operator sees what is there while adapters work, and when none can start. A remote provider tells what its
    broker tells.
    """

    def check(self) -> bool:
        """Looks whether :meth:`Provider.connect` would find what it needs, and makes nothing.

        Returns:
            whether there is anything to look at; False = the first connection makes it.

        Raises:
            ProviderError: it would not.
        """

    def clients(self) -> Sequence[ClientNote]:
        """The clients that live, or are dead and not taken over yet. Connects nothing, never raises."""

    def batches(self, in_progress: Destination | None) -> Sequence[BatchNote]:
        """The open claims of all clients, by client and batch. Connects nothing.

        Raises:
            ProviderError: this user may not look.
        """

    def waiting(self, source: Destination | TopicSubscription) -> WaitingNote:
        """What waits in a queue or a subscription; nothing where there is none. Connects nothing.

        Raises:
            ProviderError: this user may not look.
        """

    def existing_state(self, application: str) -> StateStore:
        """As :meth:`Provider.state`, to look only: it makes nothing."""

    def declare_dead(self, client_id: str) -> ClientState | None:
        """Marks a client whose lock never comes free as dead, on an operator's word.

        Others take over from it then, as from any dead client. Should it go on after all, it must not settle
        what others have been given.

        Returns:
            its state before: only one that was alive is changed. None = there is no such client.

        Raises:
            ProviderError: it cannot be marked.
        """

    def existing(self) -> Connection:
        """A connection that only looks: it makes nothing.

        Raises:
            ProviderError: there is nothing to look at.
        """


@dataclass(frozen=True, slots=True)
class DeploymentPaths:
    """The directories of a deployment that concern its provider.

    Args:
        directory: of ``adapter.yaml``, absolute. A provider may keep records in ``.connector`` below it.
        state: ``state.directory``, absolute; None where it is not given. It may not exist yet.
    """

    directory: Path
    state: Path | None = None


class SectionProblem(NamedTuple):
    """A mistake in the section of a provider.

    Args:
        location: the keys that lead to the value, from the section on: ``("root",)``.
        found: what stands there, or what is wrong with it.
        expected: what should stand there.
        nearest: the right name that a misspelt one is closest to, if any.
        warning: whether the configuration works all the same.
    """

    location: tuple[str | int, ...]
    found: str
    expected: str
    nearest: str | None = None
    warning: bool = False


class AcceptedRoot(NamedTuple):
    """The root that ``connector accept-root`` has accepted.

    Args:
        path: of the root.
        done: ``made``, ``marked``, ``recorded`` or ``unchanged``; docs/reference/commands.md explains them.
    """

    path: str
    done: str


def _no_problems(section: Any, paths: DeploymentPaths) -> Iterable[SectionProblem]:
    return ()


def _many_machines(section: Any) -> bool:
    return False


def _no_root(section: Any, paths: DeploymentPaths) -> AcceptedRoot | None:
    return None


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """What a package registers: how a provider is configured, checked and made.

    The functions get the section as it was read, an object of the class that ``section`` returns.

    Args:
        section: returns the model of the section ``provider``, a subclass of
            :class:`connector.config.section.ProviderSection`. Reading, errors, JSON Schema, ``connector
            config`` and the reference page come from its fields. It is a function, so that a program that
            opens a URL need not import the model.
        make: makes the provider of a deployment. It connects to nothing and makes no file.
        open: makes the provider of a URL, from what stands behind the colon and the options of
            :func:`connector.messaging.connect`. Raises TypeError or ValueError for a wrong option.
        check: finds mistakes that the model cannot see. It connects to nothing and makes no file.
        accept_root: accepts the root as it is, for ``connector accept-root``. Returns None where nothing is
            recorded.
        own_state: where the provider keeps journals, duplicate window and instance locks, in words: "under
            its root". ``state.directory`` is then a mistake. Empty for a provider that takes it.
        one_process: whether the messages are those of one process. Then only tests without Spark can use it.
        one_machine: whether the messages of a section are those of one machine. Then Spark runs there, too.
    """

    section: Callable[[], type[Any]]
    make: Callable[[Any, DeploymentPaths], AdapterProvider]
    open: Callable[..., Provider]
    check: Callable[[Any, DeploymentPaths], Iterable[SectionProblem]] = _no_problems
    accept_root: Callable[[Any, DeploymentPaths], AcceptedRoot | None] = _no_root
    own_state: str = ""
    one_process: bool = False
    one_machine: Callable[[Any], bool] = _many_machines


class InstalledProvider:
    """A provider that a package registers. Nothing of the package is imported before it is asked for.

    Every method raises ConnectorError, which names the package, where its code cannot be imported.

    Args:
        name: of the entry point.
        entries: the entry points of that name; more than one is an error when it is used.
    """

    def __init__(self, name: str, entries: Sequence[EntryPoint]) -> None:
        self.name = name
        self._entries = entries

    def kind(self) -> ProviderKind:
        """What the package registers."""
        packages = [_package(entry) for entry in self._entries]
        if len(packages) > 1:
            raise ConnectorError(
                f"several packages register the provider {self.name!r}: {', '.join(packages)}; remove all "
                "but one"
            )
        with self._importing(Exception):
            kind = self._entries[0].load()
        if not isinstance(kind, ProviderKind):
            raise self._error(
                f"{self._entries[0].value} is no ProviderKind; install the package anew, in a version that "
                "fits this one of the connector"
            )
        return kind

    def section(self) -> type[Any]:
        """The model of its section."""
        kind = self.kind()
        with self._importing(Exception):
            return kind.section()

    def make(self, section: Any, paths: DeploymentPaths) -> AdapterProvider:
        """The provider of a deployment."""
        kind = self.kind()
        with self._importing(ImportError):
            return kind.make(section, paths)

    def open(self, location: str, **options: Any) -> Provider:
        """The provider of a URL; raises as its ``open`` does."""
        kind = self.kind()
        with self._importing(ImportError):
            return kind.open(location, **options)

    def check(self, section: Any, paths: DeploymentPaths) -> list[SectionProblem]:
        """The mistakes that its ``check`` finds."""
        kind = self.kind()
        with self._importing(Exception):
            return list(kind.check(section, paths))

    @contextlib.contextmanager
    def _importing(self, failures: type[Exception]) -> Iterator[None]:
        """Names the package in an error of its code."""
        try:
            yield
        except ConnectorError:
            raise
        except failures as error:
            raise self._error(f"{type(error).__name__}: {error}; repair or remove that package") from error

    def _error(self, reason: str) -> ConnectorError:
        return ConnectorError(
            f"the provider {self.name!r} of the package {_package(self._entries[0])} cannot be used: {reason}"
        )


def installed_providers() -> Mapping[str, InstalledProvider]:
    """The providers that installed packages register, by name. Imports none of them."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, []).append(entry)
    return {name: InstalledProvider(name, found[name]) for name in sorted(found)}


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.module
