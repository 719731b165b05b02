"""The rights of files, for tests that run as an ordinary user or as root."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from connector.stores.dropbox import files

_PRIVILEGES = 0b1110
"""The capabilities to read and write any file, and to act as its owner.

CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER.
"""
_ANOTHER_USER = 65534


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    """Lets the rights of files bind this thread, as they bind an ordinary user."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    effective = sets[0]
    sets[0] &= ~_PRIVILEGES
    assert libc.capset(header, sets) == 0
    try:
        yield
    finally:
        sets[0] = effective
        assert libc.capset(header, sets) == 0


@contextlib.contextmanager
def stuck(*paths: Path) -> Iterator[None]:
    """Lets this thread neither rename nor remove files. The other files of their folders are as before.

    As root the files belong to another user, in a directory with the sticky bit. An ordinary user cannot make
    such files, so the operations themselves fail.
    """
    if os.geteuid() != 0:
        with _failing(frozenset(path.name for path in paths)):
            yield
        return
    folders = {path.parent: path.parent.stat() for path in paths}
    for folder in folders:
        os.chown(folder, _ANOTHER_USER, _ANOTHER_USER)
        folder.chmod(0o1777)
    for path in paths:
        os.chown(path, _ANOTHER_USER, _ANOTHER_USER)
    try:
        with without_privileges():
            yield
    finally:
        for folder, before in folders.items():
            os.chown(folder, before.st_uid, before.st_gid)
            folder.chmod(before.st_mode)


@contextlib.contextmanager
def _failing(names: frozenset[str]) -> Iterator[None]:
    rename, rename_new, unlink = os.rename, files.rename_new, os.unlink

    def check(path: Any) -> None:
        if os.path.basename(path) in names:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), path)

    def failing_rename(source: Any, target: Any, **folders: Any) -> None:
        check(source)
        rename(source, target, **folders)

    def failing_rename_new(source: str, target: str) -> None:
        check(source)
        rename_new(source, target)

    def failing_unlink(path: Any, **folders: Any) -> None:
        check(path)
        unlink(path, **folders)

    with (
        mock.patch.object(os, "rename", failing_rename),
        mock.patch.object(os, "unlink", failing_unlink),
        mock.patch.object(files, "rename_new", failing_rename_new),
    ):
        yield
