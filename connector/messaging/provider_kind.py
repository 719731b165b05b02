"""The kinds of provider, and how a package registers one.

A package registers a :class:`ProviderKind` under an entry point::

    [project.entry-points."connector.providers"]
    shelf = "shelves.registration:KIND"

The name of the entry point is the ``type`` of the section ``provider`` in adapter.yaml. That name is also the
scheme of a URL for :func:`connector.messaging.connect`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from connector.messaging.destination import Destination
from connector.messaging.notes import BatchNote, ClientNote, ClientState, WaitingNote
from connector.messaging.provider import Connection, Provider
from connector.messaging.roles import Looking
from connector.messaging.state_store import StateStore
from connector.messaging.subscription import TopicSubscription
from connector.plugins import PlugIns


class AdapterProvider(Provider, Protocol):
    """A provider with the operations that an adapter and its commands need beside messages.

    This is a separate contract, because a program that only uses messages does not need these operations.
    :class:`ProviderKind` makes this provider from adapter.yaml, and a :class:`Provider` from a URL. All these
    operations look without a connection. So an operator can look while adapters work, and when no adapter can
    start.

    A class of a provider that other processes cannot see, or whose broker does not tell, inherits the answers
    below: there is nothing to see, and nobody to be declared dead.
    """

    def check(self) -> bool:
        """Checks that :meth:`Provider.connect` would find everything it needs. Makes nothing.

        Returns:
            whether the provider exists. False = the first connection makes it.

        Raises:
            ProviderError: a connection would fail. ProviderMisconfigured, if only a correction ends that.
        """

    def clients(self) -> Sequence[ClientNote]:
        """Returns the clients that live, or are dead and not taken over. Connects nothing. Never raises."""
        return []

    def batches(self, in_progress: Destination | None) -> Sequence[BatchNote]:
        """Returns the open claims of all clients, by client and batch. Connects nothing.

        Raises:
            ProviderError: this user may not look.
        """
        return []

    def waiting(self, source: Destination | TopicSubscription) -> WaitingNote:
        """Returns the number of messages that wait in a queue or a subscription, and the time of the oldest.

        The number is 0 if the queue or the subscription is missing. Connects nothing.

        Raises:
            ProviderError: this user may not look.
        """
        return WaitingNote(0, None)

    def waiting_in_place(self, source: Destination | TopicSubscription) -> WaitingNote:
        """Works like :meth:`waiting`, but a message that others write in place is as old as its last change.

        Asked only with the capability ``min_age``.
        """
        return self.waiting(source)

    def existing_state(self, application: str) -> StateStore:
        """Returns the same store as :meth:`Provider.state`, for looking only. Makes nothing."""
        return self.state(application)

    def declare_dead(self, client_id: str) -> ClientState | None:
        """Marks a client as dead whose lock never comes free, on an operator's word.

        Other clients then take over, as from any dead client. If the client goes on after all, it must not
        settle claims that others have been given.

        Returns:
            the state before. Only a client that was alive is changed. None = there is no such client.

        Raises:
            ProviderError: the client cannot be marked.
        """
        return {one.client_id: one.state for one in self.clients()}.get(client_id)

    def disk(self) -> str | None:
        """Returns a path on the disk that keeps the messages. None = they are on no disk of this machine."""
        return None

    def connect_operator(self, application: str) -> Connection:
        """Opens a connection for an operator who moves messages of an adapter.

        The connection is no instance of the adapter, and does not disturb any.

        Raises:
            ProviderError: as :meth:`Provider.connect`.
        """
        return self.connect()

    def delayed_queues(self, application: str) -> Sequence[Destination]:
        """Returns the queues of its own in which messages of an adapter wait until their time comes.

        A provider that delays a message in its own queue has none.
        """
        return ()

    def survey_once(self, application: str) -> Sequence[Finding]:
        """Connects, and tries what sending once by key needs at a server. Leaves no message behind.

        Asked only if an application sends once by key (:mod:`connector.messaging.once`). A local provider has
        nothing to try.

        Raises:
            ProviderError: the server cannot be reached.
        """
        return ()

    def existing(self) -> Looking:
        """Opens a connection that only looks and makes nothing.

        Raises:
            ProviderError: the provider does not exist yet.
        """
        return self.connect()


@dataclass(frozen=True, slots=True)
class DeploymentPaths:
    """The directories of a deployment that concern the provider, and the limits of its adapter.

    Args:
        directory: of ``adapter.yaml``, absolute. A provider may keep records in ``.connector`` below it.
        state: ``state.directory``, absolute. May not exist yet. None = not given.
        poll_quantity: most messages that a poll takes of an input.
        max_body: bytes. A larger body is not read. None = no limit.
    """

    directory: Path
    state: Path | None = None
    poll_quantity: int = 1
    max_body: int | None = None


class Finding(NamedTuple):
    """A result of ``connector check --connect``.

    Args:
        name: an ability, in words.
        able: whether the provider has it.
        text: details, such as the reason of a refusal.
        needed: whether no event can be processed without the ability.
    """

    name: str
    able: bool
    text: str = ""
    needed: bool = False


@runtime_checkable
class Surveyor(Protocol):
    """A provider whose abilities depend on the server that it connects to."""

    def survey(
        self,
        application: str,
        destinations: Iterable[Destination],
        subscriptions: Iterable[TopicSubscription] = (),
    ) -> Sequence[Finding]:
        """Connects, and tries what the server can do. Leaves nothing behind.

        Raises:
            ProviderError, CapabilityError: the server cannot be reached.
        """


class SectionProblem(NamedTuple):
    """A mistake in the section of a provider.

    Args:
        location: the keys that lead to the value, from the section on: ``("root",)``.
        found: the value found, or the mistake.
        expected: the expected value.
        nearest: the right name that a misspelt name is closest to, if any.
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
        done: ``made``, ``marked``, ``recorded`` or ``unchanged``. docs/reference/commands.md explains them.
    """

    path: str
    done: str


def _no_problems(section: Any, paths: DeploymentPaths) -> Iterable[SectionProblem]:
    return ()


def _many_machines(section: Any) -> bool:
    return False


def _no_packages(section: Any) -> Sequence[str]:
    return ()


def _no_root(section: Any, paths: DeploymentPaths) -> AcceptedRoot | None:
    return None


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """The registration of a provider: how a package configures, checks and makes a provider.

    The functions get the section as it was read, an object of the class that ``section`` returns.

    Args:
        section: returns the model of the section ``provider``, a subclass of
            :class:`connector.declare.section.ProviderSection`. Reading, errors, JSON Schema, ``connector
            config`` and the reference page come from the fields. This is a function, so that a program that
            opens a URL need not import the model.
        make: makes the provider of a deployment. Connects to nothing and makes no file.
        open: makes the provider of a URL, from the text behind the colon and the options of
            :func:`connector.messaging.connect`. Raises TypeError or ValueError for a wrong option.
        check: finds mistakes that the model cannot see. Connects to nothing and makes no file.
        accept_root: accepts the root as it is, for ``connector accept-root``. Returns None if nothing is
            recorded.
        own_state: where the provider keeps journals, duplicate window and instance locks, in words: "under
            its root". ``state.directory`` is then a mistake. Empty = the provider uses ``state.directory``.
        one_process: whether the messages are those of one process. Then only tests without Spark can use the
            provider.
        one_machine: whether the messages of a section are those of one machine. Then Spark runs there, too.
        packages: returns the Maven coordinates of the jars that a section needs, for ``connector jars``.
        own_selectors: whether a server evaluates the selectors, in a language that may have more than that of
            JMS. Then a selector that is none of JMS is no mistake.
        own_names: whether names of destinations are those of a server, such as a broker. Otherwise they have
            to be names of directories, also where none are made.
        lacks: finds parts that the section needs and that this machine lacks, for ``connector check``.
            Connects to nothing and makes no file.
    """

    section: Callable[[], type[Any]]
    make: Callable[[Any, DeploymentPaths], AdapterProvider]
    open: Callable[..., Provider]
    check: Callable[[Any, DeploymentPaths], Iterable[SectionProblem]] = _no_problems
    accept_root: Callable[[Any, DeploymentPaths], AcceptedRoot | None] = _no_root
    own_state: str = ""
    one_process: bool = False
    one_machine: Callable[[Any], bool] = _many_machines
    packages: Callable[[Any], Sequence[str]] = _no_packages
    own_selectors: bool = False
    own_names: bool = False
    lacks: Callable[[Any, DeploymentPaths], Iterable[SectionProblem]] = _no_problems


def _mistake(name: str, kind: Any) -> str:
    return "" if isinstance(kind, ProviderKind) else "is no ProviderKind"


PROVIDERS: Final = PlugIns[ProviderKind]("connector.providers", "provider", _mistake)
"""The providers of installed packages."""
