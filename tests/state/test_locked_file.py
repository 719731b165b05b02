"""The lock of a file tells whether the process that holds it is alive. What file systems promise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from connector.state.file_systems import is_shared, keeps_order
from connector.state.locked_file import LockedFile, exclusive, is_held, list_files, look
from tests.forked_command import PipedProcess

HOLD = """
import sys
from connector.state.file_systems import is_shared, keeps_order
from connector.state.locked_file import LockedFile
file = LockedFile.hold(sys.argv[1], b"mine")
print("held", flush=True)
sys.stdin.read()
"""


def hold(path: Path, content: bytes | None = None) -> LockedFile:
    file = LockedFile.hold(str(path), content)
    assert file is not None
    return file


@pytest.mark.process
def test_the_end_of_a_process_frees_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    with PipedProcess(path, script=HOLD) as holder:
        assert holder.stdout.readline() == "held\n"
        assert (LockedFile.take_over(path), LockedFile.hold(path), is_held(path)) == (None, None, True)
    assert not is_held(path)
    file = LockedFile.take_over(path)
    assert file is not None
    assert (file.read(), is_held(path)) == (b"mine", True)
    file.abandon()


def test_a_file_that_is_missing_is_not_made_by_a_takeover_or_a_look(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    assert (LockedFile.take_over(path), look(path), is_held(path)) == (None, None, False)
    assert os.listdir(tmp_path) == []


def test_an_abandoned_file_stays_and_a_removed_file_goes(tmp_path: Path) -> None:
    first, second = hold(tmp_path / "first"), hold(tmp_path / "second")
    for _ in range(2):
        first.abandon()
        second.remove()
    assert list_files(str(tmp_path)) == ["first"]
    assert not first.is_held()


def test_a_late_holder_sees_that_another_file_has_its_name_and_leaves_that_file(tmp_path: Path) -> None:
    late, other = hold(tmp_path / "file", b"late"), hold(tmp_path / "other", b"other")
    other.replace(str(tmp_path / "file"))
    assert (late.is_held(), other.is_held()) == (False, True)
    late.remove()
    assert (tmp_path / "file").read_bytes() == b"other"
    other.remove()
    assert os.listdir(tmp_path) == []


def test_the_content_is_replaced_or_continued(tmp_path: Path) -> None:
    file = hold(tmp_path / "file", b"a long text")
    file.write(b"short")
    file.append(b" and more")
    found = look(str(tmp_path / "file"))
    assert found is not None
    assert (found.content, found.is_held) == (b"short and more", True)
    file.abandon()
    again = hold(tmp_path / "file")
    assert again.read() == b"short and more"
    again.remove()


def test_a_file_that_exists_is_not_taken_as_a_new_file(tmp_path: Path) -> None:
    hold(tmp_path / "file").abandon()
    with pytest.raises(FileExistsError):
        LockedFile.hold(str(tmp_path / "file"), flags=os.O_EXCL)


def test_a_file_that_cannot_be_looked_at_counts_as_held(tmp_path: Path) -> None:
    """Nobody takes over on a guess."""
    (tmp_path / "file").symlink_to("/etc/passwd")
    assert (look(str(tmp_path / "file")), is_held(str(tmp_path / "file"))) == (None, True)
    assert LockedFile.take_over(str(tmp_path / "file")) is None


def test_one_at_a_time_is_in_an_exclusive_block(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with exclusive(path), pytest.raises(BlockingIOError), exclusive(path, waits=False):
        pass
    with exclusive(path, waits=False):
        assert list_files(str(tmp_path)) == ["lock"]


def test_a_file_system_without_a_journal_of_names_keeps_no_order(tmp_path: Path) -> None:
    assert (keeps_order("/proc"), is_shared("/proc")) == (False, False)
    with pytest.raises(FileNotFoundError):
        keeps_order(str(tmp_path / "missing"))
