"""The root of a ``dropbox``: whether it exists, whether it may be made, and which root it is.

A file system that is not mounted looks like a root that is missing or empty. A new root in its place would be
polled for ever. So a root carries an id, and a deployment records the roots that it has used.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from typing import Any, Final

from connector import own_files
from connector.errors import ProviderError, ProviderMisconfigured
from connector.state.locked_file import exclusive
from connector.stores.dropbox import files

OWN_DIRECTORY: Final = "dropboxmq"
"""The directory of the protocol under the root. A root with this directory is not empty."""

_ID: Final = "root-id"
FRESH: Final = "lost+found"
"""The directory of a fresh file system. A root without other entries is empty."""


class Root:
    """The root of a provider.

    The first :meth:`enter` may make the root. Every later call only recognises the root. A pickled copy makes
    nothing.

    Args:
        create: whether a root that is not in ``record`` is made if it is missing or empty, and gets an id if
            it has none.
        record: file in which a deployment records the roots that it has used. None = there is no deployment.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, create: bool, record: str | os.PathLike[str] | None = None
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._own = os.path.join(self.path, OWN_DIRECTORY)
        self._create = create
        self._record = None if record is None else KnownRoots(os.fspath(record))
        self._entered = False
        self._identity: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_create": False}

    def enter(self) -> None:
        """Ensures that the root exists, and is the root that was entered before.

        Raises:
            ProviderError: the root is missing, empty or another root, or it cannot be made or recorded.
        """
        self.check()
        if self._entered:
            return
        self._identity = self._adopt() if self._create else self._read_id()
        self._entered = True

    def check(self) -> bool:
        """Whether the root exists. False if :meth:`enter` would make the root. Makes nothing.

        Raises:
            ProviderError: the root is missing, empty or another root, and :meth:`enter` would not make it.
        """
        # Before the look at the root, which another thread or process may make and record meanwhile.
        entered = self._entered
        known = self._record.find(self.path) if self._record and self._create and not entered else None
        lack = self._why_unusable()
        if entered:
            if self._identity is not None and not lack and self._read_id() != self._identity:
                lack = "is another one"
            if lack or not os.path.isdir(self._own):
                raise root_gone_error(self.path, lack or "is another one")
            return True
        if known is not None and not lack and (found := self._read_id()) != known:
            lack = "is another one" if found else "has no id"
        if known is not None and lack:
            raise ProviderMisconfigured(
                f"the root {self.path} {lack}, but this deployment has used one there: is the file system "
                "mounted? If what is there now is right, connector accept-root accepts it"
            )
        if lack and not self._create:
            how = "create: true in the section provider" if self._record else "?create=true in the URL"
            raise ProviderMisconfigured(
                f"the root {self.path} {lack}: is the file system mounted? A new root is made with {how}"
            )
        return not lack

    def accept(self) -> str:
        """Makes the root, or accepts the existing root, and records the root.

        Returns:
            ``made``. ``marked``: the root existed and got an id. ``recorded``: the root existed and had an
                id. ``unchanged``: the root was recorded before.

        Raises:
            ProviderError: the root cannot be made or recorded.
        """
        assert self._record is not None, "only a deployment accepts a root"
        with self._record.lock(self.path):
            lack = self._why_unusable()
            before = self._read_id()
            identity = self._mark()
            if self._record.find(self.path) == identity:
                return "unchanged"
            self._record.write(self.path, identity)
        return "made" if lack else "recorded" if before else "marked"

    # -- inside ------------------------------------------------------------------------------------

    def _why_unusable(self) -> str:
        """Returns why the directory is not a root in use. Empty = it is in use."""
        try:
            with os.scandir(self.path) as entries:
                return "" if any(entry.name != FRESH for entry in entries) else "is empty"
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            raise _unusable(self.path, error) from error

    def _read_id(self) -> str | None:
        """Returns the id in the root. None = no id."""
        path = os.path.join(self._own, _ID)
        try:
            with open(path, "rb") as file:
                identity = file.read(100).decode("utf-8", "replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unusable(self.path, error) from error
        if not identity:
            raise ProviderMisconfigured(
                f"{path} is damaged: it holds no id; remove it, then connector accept-root"
            )
        return identity

    def _adopt(self) -> str:
        """Returns the id of a root that may be made, and records the root."""
        if self._record is None:
            return self._mark()
        identity = self._record.find(self.path)
        if identity is None:
            with self._record.lock(self.path):
                identity = self._record.find(self.path)  # another process may have been faster
                if identity is None:
                    identity = self._mark()
                    self._record.write(self.path, identity)
        return identity

    def _mark(self) -> str:
        """Makes a missing root, and gives a root without an id a new id. Returns the id.

        A root is made durable before it is recorded: after a power failure every record must have its root.
        """
        try:
            own_files.make_directories(self._own)
            identity = self._read_id()
            while identity is None:
                new = secrets.token_hex(8)
                working = os.path.join(self._own, f".{_ID}-{new}")
                files.write_new(working, f"{new}\n".encode(), sync=self._record is not None)
                try:
                    files.rename_new(working, os.path.join(self._own, _ID))
                except FileExistsError:  # another process was faster, and its id counts
                    files.remove(working)
                identity = self._read_id()
            if self._record is not None:
                for directory in (self._own, self.path, os.path.dirname(self.path)):
                    files.sync_directory(directory)
        except OSError as error:
            raise _unusable(self.path, error) from error
        return identity


class KnownRoots:
    """The roots that a deployment has used: a file with a line for each, the id and the path.

    A root within the deployment's directory is recorded by its relative path. So the record holds for a
    deployment that was moved, or that is reached by another path.

    Args:
        file: path of the record, in a separate directory within that of the deployment. The first write makes
            the directory.
    """

    def __init__(self, file: str) -> None:
        self._file = os.path.abspath(file)
        self._deployment = os.path.dirname(os.path.dirname(self._file)).rstrip(os.sep) + os.sep

    def find(self, path: str) -> str | None:
        """Returns the id of the root that the deployment has used under this path. None = no root.

        Raises:
            ProviderError: the record cannot be read.
        """
        return self._read().get(self._line(path))

    @contextlib.contextmanager
    def lock(self, root: str) -> Iterator[None]:
        """Keeps other processes from changing the record meanwhile.

        Args:
            root: the root to be recorded, for the error text.

        Raises:
            ProviderError: the record cannot be written.
        """
        directory = os.path.dirname(self._file)
        with contextlib.ExitStack() as stack:
            try:
                own_files.make_directories(directory)
                stack.enter_context(exclusive(os.path.join(directory, "lock")))
            except OSError as error:
                raise self._unwritable(root, error) from error
            yield

    def write(self, path: str, identity: str) -> None:
        """Records a root. Call this within :meth:`lock`.

        Raises:
            ProviderError: the record cannot be written.
        """
        lines = {**self._read(), self._line(path): identity}
        data = b"".join(b"%s %s\n" % (known.encode(), line) for line, known in lines.items())
        working = f"{self._file}.new"
        try:
            files.write_new(working, data, sync=True, replace=True)
            os.replace(working, self._file)
            files.sync_directory(os.path.dirname(self._file))
        except OSError as error:
            raise self._unwritable(path, error) from error

    def _read(self) -> dict[bytes, str]:
        try:
            with open(self._file, "rb") as file:
                lines = file.read().splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise ProviderError(f"cannot read {self._file}: {error.strerror}") from error
        return {
            path: known.decode("ascii", "replace") for known, _, path in (b.partition(b" ") for b in lines)
        }

    def _line(self, path: str) -> bytes:
        return os.fsencode(path.removeprefix(self._deployment)).replace(b"\n", b"\\n")

    def _unwritable(self, root: str, error: OSError) -> ProviderError:
        return ProviderError(
            f"the root {root} cannot be recorded: {error.strerror}: {error.filename or self._file}; give "
            "this user the right to write there, or leave out create: true and make the root by hand: "
            f"mkdir -p {os.path.join(root, OWN_DIRECTORY)}"
        )


def root_gone_error(root: str, lack: str = "is missing") -> ProviderError:
    """Returns the error of a root that was in use and is gone."""
    return ProviderError(
        f"the root {root} {lack} (moved, removed or not mounted): mount it again, or move it back"
    )


def _unusable(root: str, error: OSError) -> ProviderError:
    return ProviderError(
        f"the root {root} cannot be used: {error.strerror}: {error.filename}; "
        "make the directory, or give this user the right to write it"
    )
