"""The contract of a StateStore, which keeps the state of the instances of one ApplicationName.

The state is the *names* that running instances hold, the *journals* of the tasks, the *window* of
published ids, and the *control*: what operators have told the application. A driver uses a
:class:`StateStore`, and sends a :class:`JournalHandle` with each assignment.
The worker opens the handle, in another process and perhaps on another host.

Every store guarantees:

* A held name or journal becomes free when its process dies, in any way. A store that cannot see the end of a
  process frees them after a *lease* without a sign of life. Such a process may live, but begins no delivery
  once its journals are sealed.
* Readers see everything that a worker has written before its death. If a server may forget a write, the
  worker writes again, and the store holds the journal until then.
* :meth:`ClientJournals.seal` is atomic against :meth:`JournalHandle.open` and :meth:`TaskJournal.begin`.
  Reads after the seal show every task that these two let pass.

The suite in ``tests/provider_suite/state.py`` of the repository tests an implementation.
:class:`connector.state.directory.StateDirectory` keeps files,
:class:`connector.stores.sql.state.PostgresState` keeps rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

from connector.messaging.history import History, Note


class ClaimNote(NamedTuple):
    """Details of a claim at a broker.

    Args:
        destination: the input, as text.
        expiration: JMSExpiration of the message in milliseconds since 1970. 0 = the message never expires.
    """

    destination: str
    identity: str
    expiration: int = 0


@dataclass(slots=True)
class CycleJournal:
    """The combined content of the journals of one batch.

    Args:
        done: outcomes by sequence, as written.
        begun: how often the delivery of an event was begun, by sequence. Includes events that are done.
        at_work: how often an event was the last in a journal, by sequence. The event may be begun. Excludes
            events that are done, and journals that were closed cleanly.
        claims: by sequence, from :meth:`BrokerJournals.note_claims`.
        notes: for the history, by sequence, of events that are done.
    """

    done: dict[int, object] = field(default_factory=dict)
    begun: dict[int, int] = field(default_factory=dict)
    at_work: dict[int, int] = field(default_factory=dict)
    claims: dict[int, ClaimNote] = field(default_factory=dict)
    notes: dict[int, Note] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InstanceNote:
    """Details of an instance that runs or has run.

    Args:
        runs: whether a process holds the name now.
        note: the last note of the instance. Empty if there is none.
    """

    name: str
    runs: bool
    note: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TaskNote:
    """The current work of a running task.

    Args:
        host, pid: of the process that writes the journal. Empty and 0 if unknown.
        sequence: of the event at work. None if there is none.
        since: time of the last write to the journal, in seconds since 1970.
    """

    batch: int
    host: str
    pid: int
    sequence: int | None
    since: float


class TaskJournal(Protocol):
    """The journal of one running task, held by its process.

    Every method but :meth:`close` raises OSError if the line cannot be written. Then the line counts as not
    written, and the event must not be delivered.
    """

    def at(self, sequence: int) -> None:
        """Records that an event is converted next. :meth:`done` also does so for ``following``."""

    def begin(self, sequence: int) -> None:
        """Records that the first external delivery of an event comes next.

        Raises:
            FileNotFoundError: another client has taken over, so the event must not be delivered.
        """

    def check(self) -> None:
        """Checks that this task may still deliver events. Writes nothing.

        Raises:
            FileNotFoundError: another client has taken over.
        """

    def done(self, sequence: int, outcome: bytes, following: int | None = None, note: bytes = b"") -> None:
        """Records the outcome after the last delivery of an event.

        Args:
            outcome: JSON without a line end.
            following: the next event at work, if there is one. One write records both.
            note: for the history, JSON without a line end. Empty = none.
        """

    def close(self) -> None:
        """Records that the task has ended cleanly, with no event at work. Never raises. Repeatable.

        If this cannot be written, the journal is held until a later write, or until the process ends.
        """


class JournalHandle(Protocol):
    """Names the journal of one task, which may not exist yet. Picklable, to travel to the worker."""

    def open(self) -> TaskJournal:
        """Opens the journal for this process alone, until the journal is closed or the process ends.

        Forked processes do not hold the journal.

        Raises:
            FileExistsError: the task has run before, runs now, or was sealed.
            FileNotFoundError: all journals of the client are sealed.
            OSError: the journal cannot be made.
        """

    def read(self, into: CycleJournal) -> bool:
        """Adds the content of the journal. False if no task has opened the journal.

        Raises:
            OSError: the journal cannot be read.
        """


class ClientJournals(Protocol):
    """The journals of one client, for its own driver or a driver that takes over."""

    def make(self) -> None:
        """Allows workers to open the handles from now on.

        Raises:
            ProviderError: the store cannot be used.
        """

    def file(self, batch: int, task: int, number: int) -> JournalHandle:
        """Returns the handle of the journal of a task.

        Args:
            batch: number of the poll or polls that took the claims, unique for the client.
            task: position of the task in the job.
            number: of the job, unique for the client. The claims of one batch may run in several jobs.
        """

    def seal(self, handles: Iterable[JournalHandle] | None = None) -> None:
        """Prevents tasks from opening these journals from now on.

        Args:
            handles: None = all journals of the client, which may be dead. Then tasks with open journals
                begin no more deliveries. They may still record that an event is done. Repeatable.

        Raises:
            OSError: the store cannot be used, and a task may still begin.
        """

    def wait(self, timeout: float, handles: Iterable[JournalHandle] | None = None) -> bool:
        """Waits until no task holds these journals. False if a task still does after ``timeout``.

        Args:
            timeout: seconds.
            handles: None = all journals of the client.

        Raises:
            OSError: the store cannot tell.
        """

    def end_writers(self) -> None:
        """Ends the processes on this machine that hold a journal, without waiting for them."""

    def read(self) -> dict[int, CycleJournal]:
        """Returns the content of the journals by batch. Omits batches without journals.

        Raises:
            OSError: the journals cannot be read.
        """

    def running(self) -> Sequence[TaskNote]:
        """Returns the work of tasks that hold journals. Changes nothing, never raises."""

    def forget(self, batch: int | None = None) -> None:
        """Removes the journals of a settled batch. None = all journals of the client.

        Raises:
            ProviderError: the journals cannot be removed. They go with all journals of the client.
        """


class PublishedIds(Protocol):
    """The duplicate window of one ApplicationName, as one client sees it.

    The window remembers the last published ids, at least as many as its size. The provider records an id with
    the settlement of its message, so that both happen or neither. The window reads these records.

    Two instances may hold two unpublished copies of one message. So each instance reserves the keys that it
    has in flight, and leaves the keys of other instances alone.

    Every method raises ProviderError if the store cannot be used.
    """

    def __contains__(self, key: str) -> bool:
        """Tells whether this client knows that a message of this key was published. Cheap."""

    def add(self, keys: Iterable[str]) -> None:
        """Remembers keys that this client, or a dead one, has published."""

    def remove(self, keys: Iterable[str]) -> None:
        """Forgets keys of :meth:`add` whose events have failed in the end. Only a broker needs that."""
        return

    def reserve(self, keys: Sequence[str], held: Sequence[str] = ()) -> set[str]:
        """Reserves ``keys`` for publication. Returns the keys that another client has in flight.

        Afterwards the window has all keys that other clients published before they released a key.

        Args:
            keys: to be published. Returned keys are not reserved.
            held: keys that were reserved before and are not settled yet. All others are released.
        """

    def release(self, client_id: str | None = None) -> None:
        """Releases all reserved keys of this client.

        If no client takes over from a dead client, the end of the dead client releases its keys. The messages
        have gone back, and another client has to publish them.

        Args:
            client_id: releases the keys of this dead client instead. Reads its published keys first.
        """


class HeldInstance(Protocol):
    """The name of one instance, held for the life of the process."""

    name: str

    def note(self, values: Mapping[str, Any]) -> None:
        """Replaces the noted values of this instance (:meth:`StateStore.instances`).

        The values need not survive a power cut. Never raises.
        """

    def close(self) -> None:
        """Releases the name. Repeatable."""


@dataclass(frozen=True, slots=True)
class PauseNote:
    """An entry of :class:`Control`: what is paused.

    Args:
        kind: ``input`` or ``subscription``.
        what: the destination of the input, or the name of the subscription.
        by: who has paused it.
        since: the time, in seconds since 1970.
        reason: why. May be empty.
    """

    kind: str
    what: str
    by: str
    since: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReloadNote:
    """The last request to read the configuration anew.

    Args:
        number: of the request, from 1.
        by: who has asked.
        at: the time, in seconds since 1970.
    """

    number: int
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class TimerNote:
    """How far the instances of an application are with a timer. Times are in milliseconds since 1970.

    Args:
        times: when the timer is due, as text.
        until: every due time up to here has its message, or needs none.
        fired: the due time of the last message. None = there was none.
        message_id: of the last message.
        error: why the next message could not be sent. Empty = no attempt has failed.
    """

    times: str
    until: int
    fired: int | None = None
    message_id: str = ""
    error: str = ""


@dataclass(slots=True)
class Control:
    """What operators have told an application, and how far its timers are.

    Args:
        reload: None = nobody has asked so far.
        timers: by name.
    """

    paused: list[PauseNote] = field(default_factory=list)
    reload: ReloadNote | None = None
    timers: dict[str, TimerNote] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns the values for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Control:
        """Undoes :meth:`to_json`. Raises TypeError or KeyError for other values."""
        reload = values.get("reload")
        return cls(
            [PauseNote(**one) for one in values["paused"]],
            None if reload is None else ReloadNote(**reload),
            {name: TimerNote(**one) for name, one in values.get("timers", {}).items()},
        )


class ControlRecord(Protocol):
    """The :class:`Control` of an application, for all its instances. It survives a power cut.

    Every method raises ProviderError if the store cannot be used.
    """

    def read(self) -> Control:
        """Returns the control. Cheap, and not to be changed."""

    def change(self) -> AbstractContextManager[Control]:
        """Returns a context with the control, in which no other client changes it.

        The changed control is written whole at the end of the context, and not after an exception.
        """


class CallLimits(NamedTuple):
    """How many calls are kept.

    Args:
        seconds: after the last change of a call.
        number: of calls.
        size: of all calls, in bytes. The limits of number and size may be passed by some calls for a while.
    """

    seconds: float
    number: int
    size: int


class KeptCall(NamedTuple):
    """A call that was begun before.

    Args:
        fingerprint: of the call that has the key.
        is_at_work: whether the call has not ended, and the record that has begun it is open in any process.
        status: of the answer. 0 = there is no answer, and there will be none.
        body: of the answer.
    """

    fingerprint: str
    is_at_work: bool
    status: int
    body: bytes


class CallRecord(Protocol):
    """The calls over HTTP that had a key, for all instances of an application. Thread-safe.

    Every method but :meth:`close` raises ProviderError if the store cannot be used.
    """

    def begin(self, key: str, fingerprint: str) -> KeptCall | None:
        """Returns the call that has the key. None = the call is new, and is now kept as begun.

        A new call survives the end of this process, and a power cut where the store keeps messages over one.

        Args:
            key: letters and digits.
            fingerprint: equal for equal calls.
        """

    def finish(self, key: str, fingerprint: str, status: int, body: bytes) -> None:
        """Keeps the answer of a call that was begun.

        Args:
            status: 0 = there will be no answer, and nobody knows whether the call had an effect.
            body: text in UTF-8.
        """

    def forget(self, key: str) -> None:
        """Removes a call that had no effect."""

    def close(self) -> None:
        """Ends the calls that are at work. Repeatable, never raises."""


class StateStore(Protocol):
    """The state of the instances of one ApplicationName. For one thread."""

    def control(self) -> ControlRecord:
        """Returns the record of what operators have told the application. Makes nothing."""

    def calls(self, limits: CallLimits) -> CallRecord:
        """Returns the record of the calls that had a key. Makes nothing."""

    def instance(self, wanted: str | None) -> HeldInstance:
        """Returns the name of this instance, held until closed.

        Args:
            wanted: the configured name. None = the host's name, with a number if several run.

        Raises:
            ProviderError: a living process has the configured name, or the store cannot be used.
        """

    def instances(self) -> Sequence[InstanceNote]:
        """Returns the instances that run or have run, by name. Changes nothing, never raises."""

    def journals(self, client_id: str, instance: str) -> ClientJournals:
        """Returns the journals of one client of an instance. Makes nothing."""

    def window(self, client_id: str, size: int) -> PublishedIds:
        """Returns the duplicate window.

        Args:
            client_id: owner of the keys in flight.
            size: number of keys to remember, at least.

        Raises:
            ProviderError: the store cannot be used.
        """

    def history(self, instance: str = "") -> History:
        """Returns the history of the application. Makes nothing.

        Args:
            instance: that appends rows. Empty = another program.
        """


class BrokerJournals(ClientJournals, Protocol):
    """The journals of a client at a broker, which does not show the claims of a dead client."""

    def note_claims(self, batch: int, claims: Mapping[int, ClaimNote]) -> None:
        """Records the claims of a batch, by sequence.

        Raises:
            ProviderError: the store cannot be used.
        """

    def open_claims(self) -> Set[str]:
        """Returns the identities of all recorded claims of batches that are not settled."""


@dataclass(slots=True)
class RedeliveryNote:
    """An entry of :class:`RedeliveryRecord`.

    Args:
        origin: the claim whose transaction was rolled back, as ``client/cycle/sequence``.
        holder: the claim of an open transaction that has the message now. Empty = the message is awaited.
        since: time of the rollback, in seconds since 1970.
        values: of the adapter, for JSON.
    """

    identity: str
    origin: str
    holder: str
    since: float
    values: list[Any]

    def to_list(self) -> list[Any]:
        """Returns the fields in their order."""
        return [self.identity, self.origin, self.holder, self.since, self.values]


class RedeliveryRecord(Protocol):
    """The messages that a broker delivers again, for all instances of an application.

    Every method raises ProviderError if the store cannot be used.
    """

    def read(self) -> Sequence[RedeliveryNote]:
        """Returns the entries, the oldest first. Cheap, and not to be changed."""

    def change(self) -> AbstractContextManager[list[RedeliveryNote]]:
        """Returns a context with the entries, in which no other client changes them.

        The changed list is written at the end of the context.
        """


class BrokerStateStore(StateStore, Protocol):
    """The state of the instances of an application at a broker.

    A commit is *pending* from the moment before it until its answer. If the answer is lost, the commit stays
    pending until somebody finds out whether it has happened. Its published keys are in flight so long.
    """

    def dead_clients(self, instance: str, client_id: str) -> Mapping[str, BrokerJournals]:
        """Returns the journals of ended clients, by client.

        These are clients of this instance, and of instances that do not run.

        Args:
            instance, client_id: the caller, who lives.
        """

    def journals(self, client_id: str, instance: str) -> BrokerJournals: ...

    def claims_of_others(self, client_id: str) -> Set[str]:
        """Returns the identities of claims of all other clients whose transactions are not settled."""

    def redeliveries(self) -> RedeliveryRecord:
        """Returns the record of redelivered messages."""

    def pending(self) -> Sequence[tuple[str, int]]:
        """Returns client and cycle of the pending commits of clients without journals."""

    def clients(self) -> Set[str]:
        """Returns the clients with journals, and those with messages in progress. They may live."""

    def pending_of(self, client_id: str) -> Set[int]:
        """Returns the cycles of the pending commits of one client."""

    def confirm(self, client_id: str, cycle: int) -> None:
        """Ends a pending commit that has happened. Its published keys get into the window."""

    def drop(self, client_id: str, cycle: int) -> None:
        """Ends a pending commit that has not happened. Repeatable."""

    def hold_pending(self, client_id: str) -> bool:
        """Releases the keys of an ended client, but for those of pending commits.

        Returns whether a commit is pending.
        """
