"""The outcome journal: what was delivered, written where it happens (design, section 4).

The driver learns outcomes only when a job has ended, and a task may outlive the driver. So each
task appends to a file of its own: ``A n`` before event *n* is converted, ``B n`` before its first
external delivery, ``D n outcome`` after the last, ``E`` when all of its events have one. The file is
created exclusively, so that no task ever runs twice, and locked for the life of the process that writes
it, so that whoever takes over knows when there is nothing more to come. After any failure:

* *done* (a ``D`` line): it is settled with that outcome;
* *begun* (a ``B`` line only): in doubt, at most one event of each task at a time;
* *at work* (an ``A`` line only, the last of the journal): it was being converted;
* *untouched*: never delivered.

``A -`` says that no event is at work any more: the task has ended in order. Journals of earlier versions
have no ``A`` lines.

A line that lacks its end was being written when the process died, and counts as not written; that
is right for ``B`` too, because the delivery comes after it.

Who takes over renames the directory first, and reads then. A task writes ``B`` first, and looks then
whether its journal still has its name. So no event is delivered that was read as untouched.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import socket
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from connector.errors import ProviderError

_CLOSED: Final = ".closed"
_END: Final = b"E\n"
_NOTHING_AT_WORK: Final = b"A -\n"
_RETRY: Final = 0.02


class Journal:
    """The journal of one running task.

    Args:
        path: the file; its directory must exist.

    Raises:
        FileExistsError: this task has run before, or runs now.
        FileNotFoundError: the directory is closed: somebody has taken over from this client.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._at_work = False
        self._descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666
        )
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        _open.add(self)
        try:
            self._append(os.fsencode(f"P {os.getpid()} {socket.gethostname()}\n"))
        except OSError:
            self.close()
            raise
        if os.fstat(self._descriptor).st_nlink == 0 or not os.path.exists(path):
            self.close()  # the directory was closed between the two calls
            raise FileNotFoundError(path)

    def at(self, sequence: int) -> None:
        """Before an event is converted. :meth:`done` says the same of the event after it.

        Raises:
            OSError: it cannot be written.
        """
        self._append(b"A %d\n" % sequence)
        self._at_work = True

    def begin(self, sequence: int) -> None:
        """Before the first external delivery of an event.

        Raises:
            FileNotFoundError: somebody has taken over; then the event must not be delivered.
            OSError: it cannot be written; the same.
        """
        self._append(b"B %d\n" % sequence)
        if not os.access(self._path, os.F_OK):  # half the price of stat
            raise FileNotFoundError(errno.ENOENT, "somebody has taken over from this client", self._path)

    def done(self, sequence: int, outcome: bytes, following: int | None = None) -> None:
        """After the last delivery of an event.

        Args:
            sequence: of the event.
            outcome: JSON without a line end.
            following: the event that is at work from now on, where there is one.

        Raises:
            OSError: it cannot be written; the event stays in doubt.
        """
        self._at_work = following is not None
        if following is None:
            self._append(b"D %d %b\n" % (sequence, outcome))
        else:
            self._append(b"D %d %b\nA %d\n" % (sequence, outcome, following))

    def end(self) -> None:
        """After the last event, when every one of the task has its ``D`` line.

        Raises:
            OSError: it cannot be written.
        """
        self._at_work = False
        self._append(_END)

    def _append(self, line: bytes) -> None:
        """One write; a disk that fills up in the middle of it leaves nothing of the line."""
        written = os.write(self._descriptor, line)
        if written != len(line):
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Nothing more comes: the task has ended, in order. Repeatable."""
        if self._at_work:
            self._at_work = False
            with contextlib.suppress(OSError):
                self._append(_NOTHING_AT_WORK)
        self._release()

    def _release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        _open.discard(self)


_open: weakref.WeakSet[Journal] = weakref.WeakSet()


def _close_in_child() -> None:
    """A process that a business process forks must not keep the lock when this one is gone."""
    for journal in list(_open):
        journal._release()


os.register_at_fork(after_in_child=_close_in_child)


@dataclass(slots=True)
class CycleJournal:
    """What the journals of one cycle say together.

    Args:
        done: outcome by sequence, as it was written.
        begun: how often the delivery of an event was begun without an outcome, by sequence.
        at_work: how often an event was the last that a journal names, by sequence; it may be begun.
    """

    done: dict[int, object] = field(default_factory=dict)
    begun: dict[int, int] = field(default_factory=dict)
    at_work: dict[int, int] = field(default_factory=dict)


def journal_name(cycle: int, partition: int, attempt: int) -> str:
    return f"{cycle}.{partition}.{attempt}"


def attempt_path(path: str, attempt: int) -> str:
    """The journal of one runner of a task: the first has the task's own path."""
    return f"{path}.{attempt}" if attempt else path


def read_journal(path: str, into: CycleJournal) -> None:
    """Adds what one journal says."""
    with open(path, "rb") as journal:
        data = journal.read()
    at_work: int | None = None
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        kind, _, rest = line.partition(b" ")
        number, _, outcome = rest.partition(b" ")
        if kind in (b"A", b"D"):
            at_work = None
        try:
            sequence = int(number)
            if kind == b"B":
                into.begun[sequence] = into.begun.get(sequence, 0) + 1
            elif kind == b"D":
                into.done[sequence] = orjson.loads(outcome)
            elif kind == b"A":
                at_work = sequence
        except ValueError:
            continue
    if at_work is not None:
        into.at_work[at_work] = into.at_work.get(at_work, 0) + 1


def has_ended(path: str) -> bool:
    """Whether a task has come to its end with an outcome of every event in its journal."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        size = os.fstat(descriptor).st_size
        last = len(_END) + 1  # with the line end before it: an outcome may end in these bytes
        return size >= last and os.pread(descriptor, last, size - last) == b"\n" + _END
    finally:
        os.close(descriptor)


class JournalDirectory:
    """The journals of one client, as the driver sees them.

    Args:
        path: the directory; made when missing.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def make(self) -> None:
        """Raises ProviderError when the directory cannot be made."""
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise ProviderError(f"cannot make {self.path}: {error.strerror}") from error

    def file(self, cycle: int, partition: int, attempt: int) -> str:
        return os.path.join(self.path, journal_name(cycle, partition, attempt))

    def gate(self, cycle: int) -> str:
        """Path of the file that tells the tasks of a cycle to begin; goes with its journals."""
        return os.path.join(self.path, f"{cycle}.gate")

    def read(self, cycle: int) -> CycleJournal:
        """All journals of a cycle."""
        result = CycleJournal()
        for path in self._files():
            if os.path.basename(path).partition(".")[0] == str(cycle):
                read_journal(path, result)
        return result

    def read_all(self) -> dict[int, CycleJournal]:
        """The journals of every cycle, by cycle."""
        result: dict[int, CycleJournal] = {}
        for path in self._files():
            cycle = os.path.basename(path).partition(".")[0]
            if cycle.isdigit():
                read_journal(path, result.setdefault(int(cycle), CycleJournal()))
        return result

    def seal(self, paths: Sequence[str]) -> None:
        """Tasks that have not opened one of these journals never will, nor a further one after it.

        A task of a failed or cancelled job may be about to begin. Journals are opened exclusively, so
        a file in its place keeps it off.

        Raises:
            OSError: it cannot be made; then a task may still begin.
        """
        for path in paths:
            attempt = 0
            while True:
                try:
                    descriptor = os.open(
                        attempt_path(path, attempt),
                        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
                        0o666,
                    )
                except FileExistsError:
                    attempt += 1
                    continue
                try:
                    os.write(descriptor, b"S\n")
                finally:
                    os.close(descriptor)
                break

    def wait(self, timeout: float) -> bool:
        """Waits until no task writes any of them; False when one still does after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        for path in self._files():
            while not _is_free(path):
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_RETRY)
        return True

    def end_writers(self) -> None:
        """Ends the processes on this machine that still write one, without waiting for them."""
        host = socket.gethostname()
        for path in self._files():
            if _is_free(path):
                continue
            try:
                with open(path, "rb") as journal:
                    kind, pid, where = os.fsdecode(journal.readline()).split(" ", 2)
                # it holds the lock, so the number is still its own
                if kind == "P" and where.strip() == host:
                    os.kill(int(pid), signal.SIGKILL)
            except (OSError, ValueError):
                continue

    def close(self) -> None:
        """No task can open a journal any more: those that have not begun never will."""
        if not self.path.endswith(_CLOSED):
            closed = self.path + _CLOSED
            try:
                os.rename(self.path, closed)
            except FileNotFoundError:
                pass
            self.path = closed

    def forget(self, cycle: int) -> None:
        """Removes the journals of a cycle that is settled."""
        for path in self._files():
            if os.path.basename(path).partition(".")[0] == str(cycle):
                try:
                    os.unlink(path)
                except FileNotFoundError:
                    pass

    def remove(self) -> None:
        """Removes them all."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.rmtree(self.path + _CLOSED, ignore_errors=True)

    def _files(self) -> Iterator[str]:
        try:
            names = sorted(os.listdir(self.path))
        except FileNotFoundError:
            return
        for name in names:
            yield os.path.join(self.path, name)


def _is_free(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if not os.fstat(descriptor).st_size:
            # made, but not yet locked: whoever waits for our lock finds its file gone, and does not begin
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
