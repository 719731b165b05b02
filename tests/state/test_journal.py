"""The outcome journal says of every event whether its delivery was begun and how it ended.

``test_suite.py`` shows what every journal promises.
"""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.errors import ProviderError
from connector.messaging.state_store import CycleJournal
from connector.state.journal import Journal, JournalDirectory, JournalFile
from tests.forked_command import PipedProcess
from tests.tables import rows


@pytest.fixture
def directory(tmp_path: Path) -> JournalDirectory:
    journals = JournalDirectory(str(tmp_path / "journals"))
    journals.make()
    return journals


def writer(directory: JournalDirectory, code: str) -> PipedProcess:
    """A process that writes the first journal."""
    prelude = "import os, signal, sys\nfrom connector.state.journal import Journal\n"
    return PipedProcess(directory.file(1, 0, 0).path, script=prelude + code)


WRITE = """
journal = Journal(sys.argv[1])
journal.begin(0)
print("begun", flush=True)
sys.stdin.readline()
"""


def read(path: str | os.PathLike[str] | JournalFile) -> CycleJournal:
    result = CycleJournal()
    (path if isinstance(path, JournalFile) else JournalFile(os.fspath(path))).read(result)
    return result


def test_the_event_at_work_is_the_last_that_a_journal_names(directory: JournalDirectory) -> None:
    path = directory.file(1, 0, 0)
    journal = path.open()
    found = []
    for step in (
        partial(journal.at, 4),
        partial(journal.begin, 4),
        partial(journal.done, 4, b"[4]", 5),
        partial(journal.at, 6),  # 5 had an outcome that no journal keeps
        journal.close,
    ):
        step()
        found.append(read(path))
    assert [one.at_work for one in found] == [{4: 1}, {4: 1}, {5: 1}, {6: 1}, {}]
    assert [one.begun for one in found] == [{}, *[{4: 1}] * 4]
    assert found[-1].done == {4: [4]}


def test_the_next_event_is_noted_in_the_write_that_ends_the_one_before(
    directory: JournalDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = directory.file(1, 0, 0).open()
    journal.at(0)
    written: list[bytes] = []
    write = os.write

    def note(descriptor: int, data: bytes) -> int:
        written.append(data)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", note)
    journal.done(0, b"[0]", 1)
    journal.done(1, b"[1]")
    journal.close()
    assert written == [b"D 0 [0]\nA 1\n", b"D 1 [1]\n"]


@settings(max_examples=50)
@given(cut=st.integers(0, 200))
def test_a_line_that_was_being_written_counts_as_not_written(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("journal") / "1.0.0"
    journal = Journal(str(path))
    for sequence in (3, 12):
        journal.begin(sequence)
        journal.done(sequence, b"[%d]" % sequence)
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    complete = whole[:cut].count(b"\n")
    found = read(path)
    assert set(found.begun) == {s for line, s in ((1, 3), (3, 12)) if complete > line}
    assert found.done == {s: [s] for line, s in ((2, 3), (4, 12)) if complete > line}


@rows(
    "lines, done, begun",
    [
        # a journal of an earlier version names no event at work
        (b'P 1 host\nB 0\nD 0 ["published"]\nB 1\n', {0: ["published"]}, {0: 1, 1: 1}),
        # lines that mean nothing are passed over
        (b"P 1 host\nB x\nB\n\nX 1\nD 2 {broken\nB 3\nD 4 null\n", {4: None}, {3: 1}),
    ],
)
def test_any_journal_is_read(
    tmp_path: Path, lines: bytes, done: dict[int, object], begun: dict[int, int]
) -> None:
    (tmp_path / "1.0.0").write_bytes(lines)
    found = read(tmp_path / "1.0.0")
    assert (found.done, found.begun, found.at_work) == (done, begun, {})


def test_a_task_begins_no_more_deliveries_once_its_directory_is_closed(directory: JournalDirectory) -> None:
    """Whoever took over may have read the event as untouched. What was begun before is still heard."""
    journal = directory.file(1, 0, 0).open()
    journal.begin(6)
    directory.seal()
    journal.done(6, b"[6]", 7)
    with pytest.raises(FileNotFoundError, match="another client has taken over from this client"):
        journal.begin(7)
    assert directory.read().get(1, CycleJournal()).done == {6: [6]}
    directory.forget()
    with pytest.raises(FileNotFoundError, match="another client has taken over from this client"):
        journal.begin(8)
    journal.close()


FORK = """
reading, writing = os.pipe()
child = os.fork()
if not child:
    os.write(writing, b"x")
    signal.pause()
os.read(reading, 1)  # it has come back from the fork
print(child, flush=True)
"""
START = """
import subprocess
sleeper = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
print(sleeper.pid, flush=True)
"""


@pytest.mark.process
@pytest.mark.parametrize("way", [FORK, START], ids=["forks", "starts"])
def test_a_process_that_a_task_forks_or_starts_does_not_keep_its_lock(
    directory: JournalDirectory, way: str
) -> None:
    parent = writer(directory, WRITE.replace('print("begun", flush=True)\n', way))
    child = int(parent.stdout.readline())
    try:
        assert not directory.wait(0)
        parent.kill()
        parent.wait()
        assert directory.wait(120)
        os.kill(child, 0)  # it lives on, and nobody has to wait for it
    finally:
        os.kill(child, signal.SIGKILL)
        parent.end()


@pytest.mark.process
def test_writers_elsewhere_are_not_ended(directory: JournalDirectory) -> None:
    code = WRITE.replace("journal = ", "import socket\nsocket.gethostname = lambda: 'elsewhere'\njournal = ")
    with writer(directory, code) as child:
        child.stdout.readline()
        directory.end_writers()
        assert not directory.wait(0)
        child.communicate("\n")
        assert child.wait() == 0, "nobody has ended it"


@pytest.mark.process
def test_a_disk_that_fills_up_in_the_middle_of_a_line_leaves_nothing_of_it(
    directory: JournalDirectory,
) -> None:
    code = """
import resource
journal = Journal(sys.argv[1])
size = os.path.getsize(sys.argv[1])
soft = resource.getrlimit(resource.RLIMIT_FSIZE)
for room in range(1, 7):  # "B 123456" cut after every byte would be another number
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, soft[1]))
    try:
        journal.begin(123456)
        sys.exit("it was written")
    except OSError as error:
        print(error, flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, soft)
journal.begin(7)
"""
    with writer(directory, code) as child:
        said = [child.stdout.readline() for _ in range(6)]
        assert child.wait(120) == 0
    for line in said:
        assert "cannot write the journal of a task: No space left on device; make room on the disk" in line
        assert directory.file(1, 0, 0).path in line
    assert directory.read().get(1, CycleJournal()).begun == {7: 1}


def test_a_journal_that_cannot_be_written_at_all_is_no_journal(directory: JournalDirectory) -> None:
    path = Path(directory.path)
    path.rmdir()
    path.touch()
    with pytest.raises(OSError, match="Not a directory"):
        directory.file(1, 0, 0).open()
    with pytest.raises(ProviderError, match="cannot make"):
        JournalDirectory(str(path / "below")).make()
