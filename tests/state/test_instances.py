"""Every process of one ApplicationName has a name of its own, the same after a restart."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from connector.errors import ProviderError
from connector.messaging.state_store import InstanceNote
from connector.state.instances import InstanceLock, read_instances
from connector.state.locked_file import is_locked


def instance(path: Path, wanted: str | None = None) -> InstanceLock:
    return InstanceLock(str(path), wanted, lambda name: name.replace("/", "%2F"))


def test_several_on_one_host_get_numbers_and_free_ones_are_used_again(tmp_path: Path) -> None:
    host = socket.gethostname()
    first, second, third = instance(tmp_path), instance(tmp_path), instance(tmp_path)
    assert [i.name for i in (first, second, third)] == [host, f"{host}-2", f"{host}-3"]
    second.close()
    again = instance(tmp_path)
    assert again.name == f"{host}-2"
    for each in (first, third, again):
        each.close()


def test_a_directory_that_cannot_be_used_is_an_error_of_the_provider(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProviderError, match="cannot write"):
        instance(tmp_path / "file")


def test_an_instance_of_an_earlier_version_is_known_by_its_folder(tmp_path: Path) -> None:
    (tmp_path / "host-a").mkdir()
    (tmp_path / "host-a" / "lock").touch()
    (tmp_path / "published").mkdir()
    (tmp_path / "window.lock").touch()
    assert read_instances(str(tmp_path)) == [InstanceNote("host-a", False, {})]


def test_a_note_that_is_shorter_than_the_one_before_is_whole(tmp_path: Path) -> None:
    held = instance(tmp_path, "a")
    held.note({"long": "x" * 1000})
    held.note({"short": 1})
    (found,) = read_instances(str(tmp_path))
    assert set(found.note) == {"host", "pid", "started", "short"}
    assert found.note["pid"] == os.getpid()
    held.close()
    held.note({"late": 1})
    (found,) = read_instances(str(tmp_path))
    assert "late" not in found.note


def test_who_only_looks_keeps_nobody_from_a_name(tmp_path: Path) -> None:
    """A look holds a lock for a moment; whoever starts in that moment still gets the name."""
    instance(tmp_path, "a").close()
    descriptor = os.open(tmp_path / "a" / "lock", os.O_RDONLY)
    assert not is_locked(descriptor)
    threading.Timer(0.1, os.close, [descriptor]).start()
    held = instance(tmp_path, "a")
    held.close()
