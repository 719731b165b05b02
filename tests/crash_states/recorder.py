"""Records the file operations of a process: it replaces functions of ``os``, ``open`` and ``renameat2``.

The product has no seam for this. The recorder is for a forked process that ends afterwards, and nothing puts
the functions back. One lock holds the order: an operation and its record are one step.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from connector import own_files
from connector.stores.dropbox import files
from tests.crash_states.operations import ROOT, Kind, Node, Nodes, Operation, Recording, paths

_WRITING: Final = frozenset("wax+")
_AT_FDCWD: Final = -100
_FIRST_INODE: Final = 1 << 40
"""What is added to the number of a node, so that it is not the number of another file by chance."""
_lstat: Final = os.lstat

Watch = Callable[[], tuple[Any, ...] | None]


def replace_functions(owner: object, **functions: Callable[..., object]) -> None:
    """Replaces functions of a module or a class until the process ends."""
    for name, function in functions.items():
        patch.object(owner, name, function).start()


def scan(directory: Path, watched: tuple[str, ...], numbers: dict[int, int] | None = None) -> Nodes:
    """Returns the disk that a directory holds.

    Args:
        directory: whose entries are looked at.
        watched: the names of these entries.
        numbers: gets the number of the node of each inode. Known inodes keep their numbers.
    """
    nodes: Nodes = {ROOT: Node({})}
    numbers = {} if numbers is None else numbers
    free = max(numbers.values(), default=ROOT) + 1
    open_ = [(directory, ROOT)]
    while open_:
        path, number = open_.pop()
        entries = nodes[number].entries
        assert entries is not None
        with os.scandir(path) as found:
            for entry in sorted(found, key=lambda one: one.name):
                if number == ROOT and entry.name not in watched:
                    continue
                status = entry.stat(follow_symlinks=False)
                inside = numbers.get(status.st_ino)
                if inside is None:
                    inside = numbers[status.st_ino] = free
                    free += 1
                if inside not in nodes:
                    if stat.S_ISDIR(status.st_mode):
                        nodes[inside] = Node({})
                        open_.append((Path(entry.path), inside))
                    else:
                        content = Path(entry.path).read_bytes()
                        nodes[inside] = Node(None, content, status.st_mtime_ns)
                entries[entry.name] = inside
    return nodes


def show_numbers(numbers: Mapping[int, int]) -> None:
    """Makes ``os.lstat`` tell the numbers of nodes as inodes of files: they stay when a disk is made anew.

    Only for a process that ends afterwards.

    Args:
        numbers: by inode.
    """

    def lstat(path: Any, *, dir_fd: int | None = None) -> os.stat_result:
        found = _lstat(path, dir_fd=dir_fd)
        number = numbers.get(found.st_ino)
        if number is None or not stat.S_ISREG(found.st_mode):
            return found
        more = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
        return os.stat_result((found[0], number + _FIRST_INODE, *found[2:]), more)

    replace_functions(os, lstat=lstat)


class Recorder:
    """Records what happens under a directory from :meth:`start` on.

    Args:
        directory: of the deployment.
        watched: names of the entries of the directory that are recorded.
        watch: called before each record. Returns a fact that has become true, or None.
        numbers: of the nodes of known inodes. Gets the others.
    """

    def __init__(
        self, directory: Path, watched: tuple[str, ...], watch: Watch | None, numbers: dict[int, int]
    ) -> None:
        self._root = os.path.realpath(directory)
        self._watched = watched
        self._watch = watch
        self._numbers = numbers
        before = scan(directory, watched, numbers)
        self.recording: Final = Recording(before)
        self._next = max(numbers.values(), default=ROOT) + 1
        self._lock = threading.RLock()
        self._numbers[os.stat(self._root).st_ino] = ROOT

    def mark(self, *fact: object) -> None:
        """Records what the world outside has seen."""
        with self._lock:
            self._note(Operation(Kind.MARK, fact=fact, text=f"mark {fact}"))

    # -- what paths and descriptors mean -----------------------------------------------------------

    def _absolute(self, path: Any, dir_fd: int | None = None) -> str | None:
        """Returns the path under the recorded directories. None = elsewhere."""
        name = os.fsdecode(path)
        if dir_fd is not None and not name.startswith("/"):
            name = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), name)
        parent, last = os.path.split(os.path.abspath(name))
        return self._inside(os.path.join(os.path.realpath(parent), last))

    def _inside(self, path: str) -> str | None:
        if not path.startswith(f"{self._root}/"):
            return None
        first = path[len(self._root) + 1 :].partition("/")[0]
        return path if first in self._watched else None

    def _of_descriptor(self, descriptor: int) -> int | None:
        """Returns the inode of an open file. None = it is not recorded."""
        try:
            status = os.fstat(descriptor)
        except OSError:
            return None
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            return None
        return self._numbers.get(status.st_ino)

    def _place(self, path: str) -> tuple[int, str]:
        parent, name = os.path.split(path)
        return self._numbers[os.stat(parent).st_ino], name

    def _new(self, path: str) -> int:
        number = self._next
        self._next += 1
        self._numbers[_lstat(path).st_ino] = number
        return number

    def _short(self, path: str) -> str:
        return path[len(self._root) + 1 :]

    def _note(self, operation: Operation) -> None:
        if self._watch is not None:
            fact = self._watch()
            if fact is not None:
                self.recording.operations.append(Operation(Kind.MARK, fact=fact, text=f"mark {fact[0]}"))
        self.recording.operations.append(operation)

    # -- the functions -----------------------------------------------------------------------------

    def start(self) -> None:
        """Replaces the functions. They stay replaced until the process ends."""
        self._replace_names()
        self._replace_data()
        self._replace_open()

    def _replace_names(self) -> None:
        mkdir, unlink, rmdir, link = os.mkdir, os.unlink, os.rmdir, os.link
        rename, replace = os.rename, os.replace

        def make(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            with self._lock:
                mkdir(path, mode, dir_fd=dir_fd)
                if (there := self._absolute(path, dir_fd)) is not None:
                    parent, name = self._place(there)
                    text = f"mkdir {self._short(there)}"
                    self._note(Operation(Kind.MKDIR, self._new(there), parent, name, text=text))

        def remove(call: Callable[..., None], word: str) -> Callable[..., None]:
            def removed(path: Any, *, dir_fd: int | None = None) -> None:
                with self._lock:
                    there = self._absolute(path, dir_fd)
                    number = None
                    if there is not None and os.path.lexists(there):
                        number = self._numbers[_lstat(there).st_ino]
                    call(path, dir_fd=dir_fd)
                    if there is not None and number is not None:
                        text = f"{word} {self._short(there)}"
                        self._note(Operation(Kind.REMOVE, number, *self._place(there), text=text))

            return removed

        def linked(
            source: Any,
            target: Any,
            *,
            src_dir_fd: int | None = None,
            dst_dir_fd: int | None = None,
            follow_symlinks: bool = True,
        ) -> None:
            with self._lock:
                link(
                    source,
                    target,
                    src_dir_fd=src_dir_fd,
                    dst_dir_fd=dst_dir_fd,
                    follow_symlinks=follow_symlinks,
                )
                if (there := self._absolute(target, dst_dir_fd)) is not None:
                    number = self._numbers[_lstat(there).st_ino]
                    text = f"link {source} {self._short(there)}"
                    self._note(Operation(Kind.LINK, number, *self._place(there), text=text))

        def renamed(call: Callable[..., None]) -> Callable[..., None]:
            def rename_(
                source: Any, target: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
            ) -> None:
                with self._moving(self._absolute(source, src_dir_fd), self._absolute(target, dst_dir_fd)):
                    call(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

            return rename_

        replace_functions(
            os,
            mkdir=make,
            unlink=remove(unlink, "unlink"),
            remove=remove(unlink, "unlink"),
            rmdir=remove(rmdir, "rmdir"),
            link=linked,
            rename=renamed(rename),
            replace=renamed(replace),
        )
        os.supports_dir_fd.update((os.mkdir, os.unlink, os.rmdir, os.link, os.rename))
        os.supports_follow_symlinks.add(os.link)
        renameat2 = files._renameat2
        assert renameat2 is not None

        def rename_new(first: int, old: bytes, second: int, new: bytes, flags: int) -> int:
            source = self._absolute(old, None if first == _AT_FDCWD else first)
            target = self._absolute(new, None if second == _AT_FDCWD else second)
            failed = 0
            with self._moving(source, target) as call:
                failed = call(lambda: renameat2(first, old, second, new, flags))
            return failed

        replace_functions(files, _renameat2=rename_new)

    @contextmanager
    def _moving(self, source: str | None, target: str | None) -> Iterator[Callable[[Callable[[], int]], int]]:
        """Records a rename, unless the block raises or the call in it returns a failure."""
        failure = 0

        def run(call: Callable[[], int]) -> int:
            nonlocal failure
            failure = call()
            return failure

        with self._lock:
            if source is None or target is None:
                assert source is target is None, f"a rename into or out of the record: {source} {target}"
                yield run
                return
            number, before = -1, None
            if os.path.lexists(source):
                number, before = self._numbers[_lstat(source).st_ino], self._place(source)
            yield run
            if not failure and before is not None:
                text = f"rename {self._short(source)} {self._short(target)}"
                self._note(Operation(Kind.RENAME, number, *before, *self._place(target), text=text))

    def _replace_data(self) -> None:
        write, pwrite, ftruncate = os.write, os.pwrite, os.ftruncate
        fsync, fdatasync, utime, sendfile = os.fsync, os.fdatasync, os.utime, os.sendfile

        def written(descriptor: int, data: Any) -> int:
            with self._lock:
                return self.write(descriptor, data, lambda: write(descriptor, data))

        def written_at(descriptor: int, data: Any, offset: int) -> int:
            with self._lock:
                count = pwrite(descriptor, data, offset)
                self._note_write(descriptor, offset, bytes(memoryview(data)[:count]))
                return count

        def truncated(descriptor: int, size: int) -> None:
            with self._lock:
                ftruncate(descriptor, size)
                self._note_size(descriptor, size)

        def synced(call: Callable[[int], None]) -> Callable[[int], None]:
            def sync(descriptor: int) -> None:
                with self._lock:
                    call(descriptor)
                    number = self._of_descriptor(descriptor)
                    if number is not None:
                        text = f"{call.__name__} {self._name(descriptor)}"
                        self._note(Operation(Kind.SYNC, number, text=text))

            return sync

        def touched(path: Any, times: Any = None, **more: Any) -> None:
            with self._lock:
                utime(path, times, **more)
                status = os.stat(path)
                number = self._numbers.get(status.st_ino)
                if number is not None and stat.S_ISREG(status.st_mode):
                    text = f"utime {path}"
                    self._note(Operation(Kind.TOUCH, number, time_ns=status.st_mtime_ns, text=text))

        def sent(out: int, source: int, offset: int | None, count: int) -> int:
            with self._lock:
                at = os.lseek(out, 0, os.SEEK_CUR)
                number = sendfile(out, source, offset, count)
                begin = os.lseek(source, 0, os.SEEK_CUR) - number if offset is None else offset
                if number:
                    self._note_write(out, at, os.pread(source, number, begin))
                return number

        replace_functions(
            os,
            write=written,
            pwrite=written_at,
            ftruncate=truncated,
            fsync=synced(fsync),
            fdatasync=synced(fdatasync),
            utime=touched,
            sendfile=sent,
        )
        os.supports_fd.add(os.utime)
        assert shutil._USE_CP_SENDFILE  # type: ignore[attr-defined] # copies without it are not recorded

    def write(self, descriptor: int, data: Any, call: Callable[[], int]) -> int:
        """Makes and records a write at the position of a descriptor."""
        with self._lock:
            if self._of_descriptor(descriptor) is None:
                return call()
            count = call()
            offset = os.lseek(descriptor, 0, os.SEEK_CUR) - count  # of an appended write, too
            self._note_write(descriptor, offset, bytes(memoryview(data).cast("B")[:count]))
            return count

    def _note_write(self, descriptor: int, offset: int, data: bytes) -> None:
        number = self._of_descriptor(descriptor)
        if number is not None:
            text = f"write {self._name(descriptor)} at {offset}: {data[:60]!r}"
            kind, now = Kind.WRITE, os.fstat(descriptor).st_mtime_ns
            self._note(Operation(kind, number, offset=offset, data=data, time_ns=now, text=text))

    def _note_size(self, descriptor: int, size: int) -> None:
        number = self._of_descriptor(descriptor)
        if number is not None:
            text = f"truncate {self._name(descriptor)} to {size}"
            now = os.fstat(descriptor).st_mtime_ns
            self._note(Operation(Kind.TRUNCATE, number, offset=size, time_ns=now, text=text))

    def _name(self, descriptor: int) -> str:
        return self._short(os.readlink(f"/proc/self/fd/{descriptor}"))

    def _replace_open(self) -> None:
        open_, plain = os.open, builtins.open

        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if not flags & (os.O_CREAT | os.O_TRUNC):
                return open_(path, flags, mode, dir_fd=dir_fd)
            with self._lock:
                there = self._absolute(path, dir_fd)
                is_new = there is not None and not os.path.lexists(there)
                descriptor = open_(path, flags, mode, dir_fd=dir_fd)
                if there is None:
                    return descriptor
                if is_new:
                    parent, name = self._place(there)
                    number, text = self._new(there), f"create {self._short(there)}"
                    now = os.fstat(descriptor).st_mtime_ns
                    self._note(Operation(Kind.CREATE, number, parent, name, time_ns=now, text=text))
                elif flags & os.O_TRUNC:
                    self._note_size(descriptor, 0)
                return descriptor

        recorder = self

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                return recorder.write(self.fileno(), data, lambda: super(File, self).write(data))

            def truncate(self, size: int | None = None) -> int:
                number = super().truncate(size)
                with recorder._lock:
                    recorder._note_size(self.fileno(), number)
                return number

        def open_file(file: Any, mode: str = "r", buffering: int = -1, *more: Any, **named: Any) -> Any:
            opener = named.get("opener", opened)
            if not _WRITING & set(mode) or opener not in (opened, own_files.opener):
                return plain(file, mode, buffering, *more, **named)
            path = file if isinstance(file, int) else os.fspath(file)
            if not isinstance(path, int) and self._absolute(path) is None:
                return plain(file, mode, buffering, *more, **named)
            assert buffering == -1, "no file of the product is opened without a buffer"
            assert "+" not in mode, "no file of the product is read and written"
            named.pop("opener", None)
            raw = File(path, mode.replace("b", "").replace("t", ""), opener=opener)
            buffered = io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, *more, **named)

        replace_functions(os, open=opened)
        os.supports_dir_fd.add(os.open)
        for module in (builtins, io):
            replace_functions(module, open=open_file)


def disks_differ(first: Nodes, second: Nodes) -> list[str]:
    """Returns what two disks differ in: paths, contents, and names of one inode."""
    one, two = paths(first), paths(second)
    found = [f"only in the first: {path}" for path in sorted(set(one) - set(two))]
    found += [f"only in the second: {path}" for path in sorted(set(two) - set(one))]
    shared = sorted(set(one) & set(two))
    for path in shared:
        left, right = first[one[path]], second[two[path]]
        if left.content != right.content:
            found.append(f"{path}: {left.content!r} {right.content!r}")
    alike = {one[path]: two[path] for path in shared}
    found += [f"{path}: another inode" for path in shared if alike[one[path]] != two[path]]
    return found
