"""The file operations that the protocol needs."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable
from typing import Final, Self

from connector import own_files
from connector.errors import BodyTooLarge, MalformedData, ProviderError
from connector.state import file_systems
from connector.stores.dropbox import codec

_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1
_MOST_FOLDERS: Final = 64
MANY: Final = 8
"""Number of files in a folder from which it pays to open the folder before the renames."""
_READ_ONLY_REGULAR: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REPLACE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_OF_ALL_FILES: Final = frozenset(
    (
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EXDEV, errno.EMFILE, errno.ENFILE, errno.ENOMEM),
        *(errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENODEV, errno.EINTR),
        *(errno.ENOLCK, errno.ECONNREFUSED, errno.ECONNRESET, errno.ESHUTDOWN, errno.EREMOTEIO),
    )
)
"""Errors of a file system, whatever the file is."""
_STUCK: Final = frozenset(
    (
        *(errno.EPERM, errno.EBUSY, errno.ETXTBSY, errno.EISDIR, errno.EINVAL, errno.EUCLEAN),
        *(errno.EIO, errno.ESTALE),
    )
)
"""Errors of a rename or removal that may lie in the file: its owner, its attributes, a mount, a bad inode."""

_libc = ctypes.CDLL(None, use_errno=True)
_renameat2 = getattr(_libc, "renameat2", None)  # integers and bytes are passed unchanged


def rename_new(source: str, target: str) -> None:
    """Renames, but never over an existing name. ``rename(2)`` would replace the file silently.

    Raises:
        FileExistsError: ``target`` exists.
        OSError: as ``os.rename``.
    """
    if _renameat2 is not None:
        old = source.encode("utf-8", "surrogateescape")
        new = target.encode("utf-8", "surrogateescape")
        if not _renameat2(_AT_FDCWD, old, _AT_FDCWD, new, _RENAME_NOREPLACE):
            return
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(number, os.strerror(number), source, None, target)
    os.link(source, target, follow_symlinks=False)
    os.unlink(source)


class OpenFolders:
    """Folders that are open while many files are renamed between them.

    A rename by whole paths costs up to a third more, because the kernel follows both paths each time. After a
    failed rename, for any reason, the caller tries again by whole paths. That attempt names the cause.

    Args:
        root: the folder that all paths are relative to. Ends with a slash.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._descriptors: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the folders. The next use opens them again."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def rename_new(self, source: str, target: str) -> bool:
        """Renames as :func:`rename_new`. False if that does not work this way."""
        if _renameat2 is None:
            return False
        old_folder, _, old = source.rpartition("/")
        new_folder, _, new = target.rpartition("/")
        descriptors = self._descriptors
        try:
            first = descriptors[old_folder] if old_folder in descriptors else self._open(old_folder)
            second = descriptors[new_folder] if new_folder in descriptors else self._open(new_folder)
        except OSError:
            return False
        before = old.encode("utf-8", "surrogateescape")
        after = new.encode("utf-8", "surrogateescape")
        return not _renameat2(first, before, second, after, _RENAME_NOREPLACE)

    def rename(self, source: str, old: str, target: str, new: str) -> bool:
        """Renames as ``os.rename``, between two folders. False if that does not work this way."""
        descriptors = self._descriptors
        try:
            first = descriptors[source] if source in descriptors else self._open(source)
            second = descriptors[target] if target in descriptors else self._open(target)
            os.rename(old, new, src_dir_fd=first, dst_dir_fd=second)
        except OSError:
            return False
        return True

    def _open(self, folder: str) -> int:
        if len(self._descriptors) >= _MOST_FOLDERS:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), folder)
        descriptor = os.open(self._root + folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._descriptors[folder] = descriptor
        return descriptor


def same_file(first: str, second: str) -> bool:
    """Whether two names are one inode. False if either is missing."""
    try:
        return os.path.samestat(os.lstat(first), os.lstat(second))
    except FileNotFoundError:
        return False


def is_readable(path: str) -> bool:
    """Whether a file is regular and this user may read it. True also for a file that is gone."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode) and os.access(path, os.R_OK, effective_ids=True)
    except FileNotFoundError:
        return True


def read_regular(path: str, limit: int) -> tuple[bytes, os.stat_result]:
    """Returns the content of a regular file. Does not follow a link, and never blocks on a pipe.

    Raises:
        MalformedData: not a regular file, or larger than ``limit`` bytes.
        FileNotFoundError: the file is gone.
        OSError: the file cannot be read.
    """
    try:
        descriptor = os.open(path, _READ_ONLY_REGULAR)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise MalformedData("the message is not a regular file") from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise MalformedData("the message is not a regular file")
        if status.st_size > limit:
            raise BodyTooLarge(f"the body has {status.st_size} bytes, more than max_body ({limit} bytes)")
        size = status.st_size
        body = os.read(descriptor, size + 1)
        if len(body) == size:
            return body, status
        chunks = [body]  # a short read, or a file that still grows although it is in target/
        total = len(body)
        while chunk := os.read(descriptor, 1 << 20):
            chunks.append(chunk)
            total += len(chunk)
            if total > limit:
                raise BodyTooLarge(f"the body has more than max_body ({limit} bytes)")
        return b"".join(chunks), status
    finally:
        os.close(descriptor)


def write_new(path: str, data: bytes, *, sync: bool, replace: bool = False) -> None:
    """Writes a file that did not exist. After any error no file is left.

    Raises:
        FileExistsError: the file exists, and ``replace`` is false.
        OSError: the file cannot be written. After a failed sync the content counts as lost.
    """
    descriptor = os.open(path, _REPLACE if replace else _NEW, own_files.FILE)
    try:
        written = os.write(descriptor, data)
        while written < len(data):
            written += os.write(descriptor, memoryview(data)[written:])
        if sync:
            os.fdatasync(descriptor)
    except BaseException as error:
        if isinstance(error, OSError):
            _add_path(error, path)
        os.close(descriptor)
        remove(path)
        raise
    os.close(descriptor)


def _add_path(error: OSError, path: str) -> None:
    """Adds the path to an error of a descriptor, whose error names no file."""
    if error.filename is None:
        error.filename = path


def start_writeback(descriptor: int) -> None:
    """Lets the kernel begin to write a file, so that a later sync of many files is one disk commit."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def sync_files(paths: list[str]) -> None:
    """Makes files durable, many for nearly the cost of one."""
    descriptors = []
    at = ""
    try:
        for path in paths:
            at = path
            descriptor = os.open(path, _READ_ONLY_REGULAR)
            descriptors.append(descriptor)
            start_writeback(descriptor)
        for path, descriptor in zip(paths, descriptors, strict=True):
            at = path
            os.fdatasync(descriptor)
    except OSError as error:
        _add_path(error, at)
        raise
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def sync_directory(path: str) -> None:
    """Makes the names in a directory durable."""
    try:
        own_files.sync_directory(path)
    except OSError as error:
        _add_path(error, path)
        raise


def sync_earlier(path: str) -> None:
    """Makes the names in a directory durable before any later change of a name in any directory.

    Costs nothing where the file system keeps that order.
    """
    if not file_systems.keeps_order(path):
        sync_directory(path)


def make_directory(path: str) -> None:
    """Makes a directory, and those above it, before any name that is changed later. It may exist.

    Raises:
        OSError: as ``os.makedirs``.
    """
    changed = []
    while not os.path.isdir(path) and (parent := os.path.dirname(path)) != path:
        changed.append(path)
        path = parent
    if changed:
        own_files.make_directories(changed[0])
        for made in reversed(changed):
            sync_earlier(os.path.dirname(made))


def remove(path: str) -> None:
    """Removes a file that may already be gone."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


DELAYED: Final = "delayed"
"""The folder of messages that wait for a time. Their file names are ``<due>.<name>``."""


def split_due(name: str) -> tuple[int, str]:
    """Returns the time and the name of a message in a file name of :data:`DELAYED`. 0 = no file of ours."""
    due, _, rest = name.partition(".")
    return (int(due), rest) if due.isascii() and due.isdigit() and rest else (0, name)


def rename_to_free_name(source: str, target: str, fit: Callable[[str, str], str]) -> str:
    """Renames to ``target``, or to a similar name if another file has that name already.

    If both names are the same file (a link whose second half was interrupted), the old name is removed.
    ``fit`` shortens a name that is too long without a loss (``HeaderStore.fit``).

    Raises:
        OSError: as ``os.rename``, or the headers cannot be written.
    """
    folder, _, name = target.rpartition("/")
    candidate = target
    number = 1
    while True:
        try:
            rename_new(source, candidate)
            return candidate
        except FileExistsError:
            if same_file(source, candidate):
                os.unlink(source)
                return candidate
            number += 1
            if folder.endswith(f"/{DELAYED}"):  # a millisecond later there is room
                due, rest = split_due(name)
                candidate = f"{folder}/{due + number - 1}.{rest}"
                continue
            own = source.rpartition("/")[2].rpartition(codec.TAG)[0]
            if number == 2 and codec.file_of(own) == name:  # the other file has had that bare name, too
                candidate = f"{folder}/{own}"
                continue
            candidate = f"{folder}/{fit(codec.add_properties(name, f'{codec.OWN}copyI={number}'), source)}"


def names_in(folder: str) -> list[str]:
    """Returns the names in a folder. Empty if the folder is missing."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def count(folder: str) -> int:
    """Returns the number of messages in a folder: regular files that are not hidden.

    Raises:
        ProviderError: the folder cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            return sum(entry.name[0] != "." and entry.is_file(follow_symlinks=False) for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise unreadable(folder, error) from error


def is_of_one_file(error: OSError, directory: str) -> bool:
    """Whether an error lies in one file, or in its folder, and not in the whole file system.

    Args:
        directory: a directory that can be read as long as the file system works.
    """
    if error.errno in _OF_ALL_FILES:
        return False
    if error.errno in (errno.EIO, errno.ESTALE):  # one bad file, or the whole file system
        try:
            os.listdir(directory)
        except OSError:
            return False
    return True


def closed_folder(error: OSError) -> str | None:
    """Returns the folder that this user may not change, if that is why a rename failed. Otherwise None."""
    for path in (error.filename, error.filename2):
        if isinstance(path, str):
            folder = os.path.dirname(path)
            if os.path.isdir(folder) and not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
                return folder
    return None


def is_stuck(error: OSError, directory: str) -> bool:
    """Whether a file cannot be renamed or removed, though its folders could be changed.

    Args:
        directory: as for :func:`is_of_one_file`.
    """
    return error.errno in _STUCK and is_of_one_file(error, directory) and closed_folder(error) is None


def is_directory(path: str) -> bool:
    """Whether a directory exists. ``os.path.isdir`` would be False also if this user may not look.

    Raises:
        ProviderError: this user may not look.
    """
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: OSError) -> ProviderError:
    """Returns the error of a path that exists and cannot be read."""
    return ProviderError(f"cannot read {path}: {error.strerror}; give this user the right to read it")
