"""The journals in a directory, in which tasks record deliveries.

The driver learns outcomes only when a job has ended, and a task may outlive the driver. So each task appends
to its own file: ``A n`` before event *n* is converted, ``B n`` before its first external delivery,
``D n outcome`` after the last. The task creates the file exclusively, so that no task ever runs twice. The
process that writes the file locks it for life, so that others know when the journal is complete. After any
failure, an event is

* *done* (a ``D`` line), and settled with that outcome,
* *begun* (a ``B`` line only), and in doubt, at most one event of each task at a time,
* *at work* (an ``A`` line only, the last of the journal), and was being converted,
* *untouched*, and never delivered.

``N n note`` stands behind a ``D`` line, for the history. ``A -`` says that no event is at work, because the
task has ended cleanly. Journals of earlier versions have no ``A`` lines.

A line that lacks its end was being written when the process died, and counts as not written. This is right
for ``B`` too, because the delivery comes after the line.

A client that takes over renames the directory, then reads the journals. A task writes ``B``, then checks that
its journal still has its name. So no task delivers an event that was read as untouched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import socket
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from connector import own_files
from connector.errors import ProviderError, remedy
from connector.messaging.state_store import (
    BrokerJournals,
    ClaimNote,
    CycleJournal,
    JournalHandle,
    TaskJournal,
    TaskNote,
)
from connector.state.locked_file import LockedFile, is_locked, look

CLOSED: Final = ".closed"
"""End of the name of a directory whose client is being taken over."""
_CLAIMS: Final = ".claims"
_NOTHING_AT_WORK: Final = b"A -\n"
_RETRY: Final = 0.02


class Journal(TaskJournal):
    """The journal of one running task (see :class:`connector.messaging.state_store.TaskJournal`).

    Args:
        path: the file. Its directory must exist.

    Raises:
        FileExistsError: this task has run before, or runs now.
        FileNotFoundError: the directory is closed, because another client has taken over.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._at_work = False
        file = LockedFile.hold(path, flags=os.O_EXCL | os.O_APPEND)
        if file is None:
            raise FileNotFoundError(path)  # the directory was closed between the two calls
        self._file = file
        _open.add(self)
        try:
            self._append(os.fsencode(f"P {os.getpid()} {socket.gethostname()}\n"))
        except OSError:
            self.close()
            raise
        if not file.is_held():
            self.close()
            raise FileNotFoundError(path)

    def at(self, sequence: int) -> None:
        self._append(b"A %d\n" % sequence)
        self._at_work = True

    def begin(self, sequence: int) -> None:
        self._append(b"B %d\n" % sequence)
        self.check()

    def check(self) -> None:
        if not os.access(self._path, os.F_OK):  # half the price of stat
            raise FileNotFoundError(
                errno.ENOENT, "another client has taken over from this client", self._path
            )

    def done(self, sequence: int, outcome: bytes, following: int | None = None, note: bytes = b"") -> None:
        self._at_work = following is not None
        if note:
            outcome = b"%b\nN %d %b" % (outcome, sequence, note)
        if following is None:
            self._append(b"D %d %b\n" % (sequence, outcome))
        else:
            self._append(b"D %d %b\nA %d\n" % (sequence, outcome, following))

    def _append(self, line: bytes) -> None:
        """Writes the line at once. If the disk fills up meanwhile, nothing of the line remains."""
        try:
            written = os.write(self._file.descriptor, line)
            if written != len(line):
                os.ftruncate(self._file.descriptor, os.fstat(self._file.descriptor).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            reason = (
                f"cannot write the journal of a task: {error.strerror}; make room on the disk, or give this "
                "user the right to write there. The messages stay claimed until then, none is lost"
            )
            raise OSError(error.errno, reason, self._path) from error

    def close(self) -> None:
        if self._at_work:
            self._at_work = False
            with contextlib.suppress(OSError):
                self._append(_NOTHING_AT_WORK)
        self._release()

    def _release(self) -> None:
        self._file.abandon()
        _open.discard(self)


_open: weakref.WeakSet[Journal] = weakref.WeakSet()


def _close_in_child() -> None:
    """Closes the journals in a forked process, which must not keep the locks of its parent."""
    for journal in list(_open):
        journal._release()


os.register_at_fork(after_in_child=_close_in_child)


@dataclass(frozen=True, slots=True)
class JournalFile(JournalHandle):
    """Names a journal by its path."""

    path: str

    def open(self) -> Journal:
        return Journal(self.path)

    def read(self, into: CycleJournal) -> bool:
        try:
            read_journal(self.path, into)
        except FileNotFoundError:
            return False
        return True


def read_journal(path: str | os.PathLike[str], into: CycleJournal) -> None:
    """Adds the content of one journal."""
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
            elif kind == b"N":
                into.notes[sequence] = orjson.loads(outcome)
            elif kind == b"A":
                at_work = sequence
        except ValueError:
            continue
    if at_work is not None:
        into.at_work[at_work] = into.at_work.get(at_work, 0) + 1


class JournalDirectory(BrokerJournals):
    """The journals of a client in a directory."""

    def __init__(self, path: str) -> None:
        self.path = path

    def make(self) -> None:
        try:
            own_files.make_directories(self.path)
        except OSError as error:
            raise ProviderError(f"cannot make {self.path}: {error.strerror}{remedy(error)}") from error

    def file(self, batch: int, task: int, number: int) -> JournalFile:
        return JournalFile(os.path.join(self.path, f"{batch}.{task}.{number}"))

    def read(self) -> dict[int, CycleJournal]:
        result: dict[int, CycleJournal] = {}
        for path in self._files():
            batch = _batch_of(path)
            if batch is not None:
                with contextlib.suppress(FileNotFoundError):  # settled meanwhile
                    read_journal(path, result.setdefault(batch, CycleJournal()))
            elif path.endswith(_CLAIMS) and (number := _number_of(path)).isdecimal():
                # a transaction whose events are all decided without a task has no other file
                result.setdefault(int(number), CycleJournal())
        for batch, journal in result.items():
            with contextlib.suppress(FileNotFoundError), open(self._claims_file(batch), "rb") as file:
                journal.claims = {number: ClaimNote(*note) for number, *note in orjson.loads(file.read())}
        return result

    def note_claims(self, batch: int, claims: Mapping[int, ClaimNote]) -> None:
        self._write(self._claims_file(batch), [(number, *note) for number, note in claims.items()])

    def open_claims(self) -> frozenset[str]:
        found: set[str] = set()
        for path in self._files():
            if path.endswith(_CLAIMS):
                with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                    found.update(ClaimNote(*note).identity for _, *note in orjson.loads(file.read()))
        return frozenset(found)

    @staticmethod
    def _write(path: str, value: Sequence[Any]) -> None:
        """Replaces a file."""
        try:
            with open(f"{path}.new", "wb", opener=own_files.opener) as file:
                file.write(orjson.dumps(value))
            os.rename(f"{path}.new", path)
        except OSError as error:
            raise ProviderError(f"cannot write {path}: {error.strerror}{remedy(error)}") from error

    def _claims_file(self, batch: int) -> str:
        return os.path.join(self.path, f"{batch}{_CLAIMS}")

    def running(self) -> list[TaskNote]:
        found = []
        for path in self._files():
            batch = _batch_of(path)
            try:
                note = None if batch is None else _read_running(path, batch)
            except OSError:
                continue
            if note is not None:
                found.append(note)
        return found

    def seal(self, handles: Iterable[JournalHandle] | None = None) -> None:
        if handles is None:
            self._close()
            return
        for path in _paths(handles):  # opened exclusively, so a file in place of a journal stops the task
            with contextlib.suppress(FileExistsError):  # a task has opened it
                descriptor = os.open(
                    path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, own_files.FILE
                )
                try:
                    os.write(descriptor, b"S\n")
                finally:
                    os.close(descriptor)

    def _close(self) -> None:
        if not self.path.endswith(CLOSED):
            closed = self.path + CLOSED
            with contextlib.suppress(FileNotFoundError):
                os.rename(self.path, closed)
            self.path = closed

    def wait(self, timeout: float, handles: Iterable[JournalHandle] | None = None) -> bool:
        deadline = time.monotonic() + timeout
        for path in self._files() if handles is None else _paths(handles):
            while not _is_free(path):
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_RETRY)
        return True

    def end_writers(self) -> None:
        host = socket.gethostname()
        for path in self._files():
            if _is_free(path):
                continue
            try:
                with open(path, "rb") as journal:
                    pid, where = _writer(journal.readline())
                if pid and where == host:  # the process holds the lock, so the pid is still its own
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                continue

    def forget(self, batch: int | None = None) -> None:
        if batch is None:
            shutil.rmtree(self.path, ignore_errors=True)
            shutil.rmtree(self.path + CLOSED, ignore_errors=True)
            return
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.path):
                if name.partition(".")[0] == str(batch):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(f"{self.path}/{name}")

    def _files(self) -> Iterator[str]:
        try:
            names = sorted(os.listdir(self.path))
        except FileNotFoundError:
            return
        for name in names:
            yield os.path.join(self.path, name)


def _paths(handles: Iterable[JournalHandle]) -> Iterator[str]:
    for handle in handles:
        assert isinstance(handle, JournalFile)
        yield handle.path


def _is_free(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        if is_locked(descriptor):
            return False
        if not os.fstat(descriptor).st_size:
            # Made, but not yet locked. The task that waits for our lock finds no file, and does not begin.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return True
    finally:
        os.close(descriptor)


def _number_of(path: str) -> str:
    """Returns the first part of the name of a file. That of our files is the number of a batch."""
    return os.path.basename(path).partition(".")[0]


def _batch_of(path: str) -> int | None:
    """Returns the batch of a journal. None if the file is no journal."""
    batch, _, rest = os.path.basename(path).partition(".")
    return int(batch) if batch.isdecimal() and rest[:1].isdecimal() else None


def _writer(line: bytes) -> tuple[int, str]:
    """Returns pid and host from the first line of a journal. 0 if the line lacks them."""
    kind, _, rest = os.fsdecode(line).partition(" ")
    pid, _, host = rest.partition(" ")
    return (int(pid), host.strip()) if kind == "P" and pid.isdecimal() else (0, "")


def _read_running(path: str, batch: int) -> TaskNote | None:
    """Returns the work of the process that holds a journal. None if none does."""
    journal = look(path)
    if journal is None or not journal.is_held:
        return None
    pid, host = _writer(journal.content.partition(b"\n")[0])
    found = CycleJournal()
    read_journal(path, found)
    sequence = next(iter(found.at_work), None)
    return TaskNote(batch, host, pid, sequence, journal.touched)
