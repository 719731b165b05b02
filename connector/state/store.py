"""The contract of a StateStore: what the instances of one ApplicationName keep beside messages.

Three things: the *names* that running instances hold, the *journals* of the tasks, and the *window* of
published ids. A driver uses a :class:`StateStore`. It sends a :class:`JournalHandle` with each assignment.
The worker opens that, in another process and perhaps on another host.

What a store must keep up, whatever it stands on:

* A name or a journal that is held comes free by itself when its process has died, however it died. A store
  that cannot see the end of a process lets it come free when the process has given no sign of life for a
  *lease*. Such a process may live, but it begins no delivery once its journals are sealed.
* What a worker has written before it died is there for whoever reads after that. A store whose server may
  forget it has the worker write it again, and holds the journal until then.
* :meth:`ClientJournals.seal` is atomic against :meth:`JournalHandle.open` and :meth:`TaskJournal.begin`: a
  task that they let pass is seen by whoever reads after the seal.

:class:`connector.testing.state.StateStoreSuite` tests an implementation.
:class:`connector.state.directory.StateDirectory` keeps files,
:class:`connector.providers.sql.state.PostgresState` keeps rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(slots=True)
class CycleJournal:
    """What the journals of one batch say together.

    Args:
        done: outcome by sequence, as it was written.
        begun: how often the delivery of an event was begun, by sequence; those that are done are among them.
        at_work: how often an event was the last that a journal names, by sequence; it may be begun. An event
            that is done is not among them, nor is one whose journal was closed in order.
    """

    done: dict[int, object] = field(default_factory=dict)
    begun: dict[int, int] = field(default_factory=dict)
    at_work: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InstanceNote:
    """What is known of an instance that has run.

    Args:
        name: of the instance.
        runs: whether a process holds the name now.
        note: what it has noted last; empty where that is nothing.
    """

    name: str
    runs: bool
    note: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TaskNote:
    """What a task that runs is doing.

    Args:
        batch: number of its batch.
        host, pid: of the process that writes the journal; empty and 0 where that is not known.
        sequence: of the event at work; None where there is none.
        since: when it wrote its journal last, in seconds since 1970.
    """

    batch: int
    host: str
    pid: int
    sequence: int | None
    since: float


class TaskJournal(Protocol):
    """The journal of one running task, held by its process.

    Every method but :meth:`close` raises OSError where nothing can be written. The line then counts as not
    written, and the event must not be delivered.
    """

    def at(self, sequence: int) -> None:
        """Before an event is converted. :meth:`done` says the same of the event after it."""

    def begin(self, sequence: int) -> None:
        """Before the first external delivery of an event.

        Raises:
            FileNotFoundError: somebody has taken over from this client; the event must not be delivered.
        """

    def done(self, sequence: int, outcome: bytes, following: int | None = None) -> None:
        """After the last delivery of an event.

        Args:
            sequence: of the event.
            outcome: JSON without a line end.
            following: the event that is at work from now on, where there is one. Both are written at once.
        """

    def close(self) -> None:
        """The task has ended, in order: no event is at work. Never raises. Repeatable.

        What cannot be written now is written as soon as it can be, and the journal is held until then.
        """


class JournalHandle(Protocol):
    """Names the journal of one task, which need not be there yet. Picklable: it travels to the worker."""

    def open(self) -> TaskJournal:
        """The journal, for this process alone, until it is closed or the process ends.

        A process that this one forks does not hold it.

        Raises:
            FileExistsError: the task has run before, runs now, or was sealed.
            FileNotFoundError: all journals of the client are sealed.
            OSError: it cannot be made.
        """

    def read(self, into: CycleJournal) -> bool:
        """Adds what the journal says; False where no task has opened it.

        Raises:
            OSError: it cannot be read.
        """


class ClientJournals(Protocol):
    """The journals of one client, as a driver sees them: its own, or the one that takes over."""

    def make(self) -> None:
        """Whoever has a handle can open it from now on.

        Raises:
            ProviderError: that is not possible.
        """

    def file(self, batch: int, task: int, number: int) -> JournalHandle:
        """The handle of the journal of a task.

        Args:
            batch: the number of the poll or polls that its claims come from, unique for the client.
            task: its place in its job.
            number: of the job, unique for the client; the claims of one number may run in several.
        """

    def seal(self, handles: Iterable[JournalHandle] | None = None) -> None:
        """No task opens one of these journals any more.

        Args:
            handles: None = all journals of the client, which may be dead. Then no task that has one open
                begins a delivery any more. It may still say that one is done. Repeatable.

        Raises:
            OSError: that is not possible; then a task may still begin.
        """

    def wait(self, timeout: float, handles: Iterable[JournalHandle] | None = None) -> bool:
        """Waits until no task holds one of these journals; False when one still does after ``timeout``.

        Args:
            timeout: seconds.
            handles: None = all journals of the client.

        Raises:
            OSError: nobody knows.
        """

    def end_writers(self) -> None:
        """Ends the processes on this machine that hold a journal, without waiting for them."""

    def read(self) -> dict[int, CycleJournal]:
        """What the journals say, by batch; nothing of a batch that has none.

        Raises:
            OSError: they cannot be read.
        """

    def running(self) -> Sequence[TaskNote]:
        """What the tasks that hold a journal are doing. Changes nothing, never raises."""

    def forget(self, batch: int | None = None) -> None:
        """Removes the journals of a batch that is settled; None = all of the client.

        Raises:
            ProviderError: that is not possible; they go with all of the client.
        """


class PublishedIds(Protocol):
    """The duplicate window of one ApplicationName, as one client sees it.

    It remembers the last published ids, as many as it was made for at least. The provider records them: with
    the settlement that they belong to, so that both happen or none. The window reads them.

    Two instances may hold two copies of one message, neither published yet. So each says which keys it has in
    flight, and keeps off those of a neighbour.

    Every method raises ProviderError where the store cannot be used.
    """

    def __contains__(self, key: str) -> bool:
        """Whether a message of this key was published, as far as this client knows. Cheap."""

    def add(self, keys: Iterable[str]) -> None:
        """Remembers keys that this client has just published, or is told that a dead one has."""

    def reserve(self, keys: Sequence[str], held: Sequence[str] = ()) -> set[str]:
        """Says that this client is about to publish ``keys``; returns those that a neighbour has in flight.

        After it the window has everything that neighbours published before they released a key.

        Args:
            keys: to be published; those that are returned are not reserved.
            held: keys that were reserved before and are not settled yet. All others are released.
        """

    def release(self, client_id: str | None = None) -> None:
        """Nothing of this client is in flight any more.

        Where nobody takes over from a dead client, nobody calls this for it. Then the end of the client
        releases its keys, however it ends. Its messages are back, and somebody else has to publish them.

        Args:
            client_id: of a dead client that is meant instead; what it has published is read first.
        """


class HeldInstance(Protocol):
    """The name of one instance, held for the life of the process."""

    name: str

    def note(self, values: Mapping[str, Any]) -> None:
        """Keeps a few values for whoever asks (:meth:`StateStore.instances`), in place of those before.

        Need not survive a power cut. Never raises.
        """

    def close(self) -> None:
        """Gives the name up. Repeatable."""


class StateStore(Protocol):
    """What the instances of one ApplicationName keep beside messages. For one thread."""

    def instance(self, wanted: str | None) -> HeldInstance:
        """The name of this instance, held until closed.

        Args:
            wanted: the configured name; None = the host's name, with a number where several run.

        Raises:
            ProviderError: a living process has the configured name, or the store cannot be used.
        """

    def instances(self) -> Sequence[InstanceNote]:
        """The instances that run or have run, by name. Changes nothing, never raises."""

    def journals(self, client_id: str, instance: str) -> ClientJournals:
        """The journals of one client of an instance; makes nothing."""

    def window(self, client_id: str, size: int) -> PublishedIds:
        """The duplicate window.

        Args:
            client_id: names what this client has in flight.
            size: keys to remember, at least.

        Raises:
            ProviderError: the store cannot be used.
        """
