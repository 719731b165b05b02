"""The state of the instances of an application at a broker: a directory that all instances share."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import secrets
import socket
import tempfile
from collections.abc import Iterator, Sequence
from typing import Final

from connector import own_files
from connector.errors import CapabilityError, ProviderError, remedy
from connector.messaging.destination import Destination
from connector.messaging.notes import OwnerNote, owning_client
from connector.messaging.state_store import BrokerStateStore
from connector.state.directory import StateDirectory, own_folder
from connector.state.duplicates import read_keys, write_keys
from connector.state.journal import JournalDirectory
from connector.state.locked_file import LockedFile, list_files, look
from connector.state.redeliveries import RedeliveryFile

_PENDING: Final = ".pending-"
_BEGINS, _ENDS, _NAMES, _QUEUE = "+", "-", "@", "="
_CLIENTS: Final = "clients"
_CLIENT: Final = re.compile(r"b[0-9a-f]{12}")
"""The id of a connection to a broker."""


class RemoteState(StateDirectory, BrokerStateStore):
    """The state of an application at a broker.

    Args:
        directory: of the deployment, or ``state.directory``.
    """

    def __init__(self, directory: str, application: str) -> None:
        self.application = application
        super().__init__(os.path.join(directory, own_folder(application)))

    def dead_clients(self, instance: str, client_id: str) -> dict[str, JournalDirectory]:
        return {
            name: journals
            for note in self.instances()
            if note.name == instance or not note.runs
            for name, journals in self._clients(note.name)
            if name != client_id
        }

    def _clients(self, instance: str) -> Iterator[tuple[str, JournalDirectory]]:
        """Yields the clients of an instance with their journals."""
        with os.scandir(os.path.join(self.path, self._folder(instance))) as entries:
            clients = sorted(one.path for one in entries if one.is_dir(follow_symlinks=False))
        for path in clients:
            yield os.path.basename(path).partition(".")[0], JournalDirectory(path)

    def identity(self) -> str:
        """Returns the id of this state, made at the first call. Raises ProviderError if that fails."""
        path = os.path.join(self.path, "id")
        try:
            own_files.make_directories(self.path)
            with contextlib.suppress(FileExistsError), tempfile.NamedTemporaryFile("w", dir=self.path) as new:
                new.write(secrets.token_hex(8))
                new.flush()
                os.link(new.name, path)
            with open(path, encoding="ascii") as file:
                return file.read()
        except OSError as error:
            raise ProviderError(f"cannot use {path}: {error.strerror}{remedy(error)}") from error

    def has_id(self, identity: str) -> bool:
        """Whether this is the state with an id. Makes nothing, never raises."""
        try:
            with open(os.path.join(self.path, "id"), encoding="ascii") as file:
                return file.read() == identity
        except (OSError, ValueError):
            return False

    def mark(self) -> str:
        """Returns the text by which a message in progress names this state and its application."""
        return f"{self.identity()} {self.application}"

    def check_mode(self, client_id: str, in_progress: Destination | None) -> None:
        """Checks that no client has left something that only another InProgressDestination, or none, settles.

        Raises:
            CapabilityError: one has.
            ProviderError: the state cannot be read.
        """
        for other in ClientFile.known(self):
            queue = ClientFile.queue(self, other)
            if in_progress is None or queue not in ("", str(in_progress)):
                raise CapabilityError(
                    f"an instance with InProgressDestination {queue} lives, or has left messages there: stop "
                    "it, and start once more with that queue. If the queue is empty, remove the files in "
                    f"{_clients(self)}"
                )
        if in_progress is not None and (self.redeliveries().read() or self.claims_of_others(client_id)):
            raise CapabilityError(
                "an instance without an InProgressDestination lives, or has left events of which only "
                f"{self.path} knows how far they are: stop it, and start without the InProgressDestination "
                "until they are settled"
            )

    def claims_of_others(self, client_id: str) -> set[str]:
        found: set[str] = set()
        for note in self.instances():
            for name, journals in self._clients(note.name):
                if name != client_id:
                    found |= journals.open_claims()
        return found

    def redeliveries(self) -> RedeliveryFile:
        return RedeliveryFile(self.path)

    def pend(self, client_id: str, cycle: int, keys: Sequence[str]) -> None:
        """Records a commit that comes next, with the keys that it publishes.

        Raises:
            ProviderError: the record cannot be written.
        """
        try:
            own_files.make_directories(self.published)
            with open(self._pending(client_id, cycle), "wb", opener=own_files.opener) as file:
                file.write(write_keys(keys))
        except OSError as error:
            raise ProviderError(f"cannot write {error.filename}: {error.strerror}{remedy(error)}") from error

    def confirm(self, client_id: str, cycle: int) -> None:
        pending = self._pending(client_id, cycle)
        with contextlib.suppress(FileNotFoundError):
            if os.stat(pending).st_size:
                os.rename(pending, os.path.join(self.published, f"{client_id}-{cycle}"))
            else:
                os.unlink(pending)

    def drop(self, client_id: str, cycle: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._pending(client_id, cycle))

    def pending(self) -> list[tuple[str, int]]:
        known = self._with_journals()
        return [one for one in self._all_pending() if one[0] not in known]

    def clients(self) -> set[str]:
        return self._with_journals() | set(ClientFile.known(self))

    def _with_journals(self) -> set[str]:
        return {name for note in self.instances() for name, _ in self._clients(note.name)}

    def pending_of(self, client_id: str) -> set[int]:
        return {cycle for owner, cycle in self._all_pending() if owner == client_id}

    def _all_pending(self) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.published):
                client_id, _, cycle = name.removeprefix(_PENDING).rpartition("-")
                if name.startswith(_PENDING) and cycle.isdecimal():
                    found.append((client_id, int(cycle)))
        return sorted(found)

    def pending_keys(self, client_id: str) -> list[tuple[int, list[str]]]:
        """Returns the pending commits of a client, each with its published keys."""
        found: list[tuple[int, list[str]]] = []
        for owner, cycle in self._all_pending():
            if owner == client_id:
                with (
                    contextlib.suppress(FileNotFoundError),
                    open(self._pending(client_id, cycle), "rb") as file,
                ):
                    found.append((cycle, read_keys(file.read())))
        return found

    def hold_pending(self, client_id: str) -> bool:
        pending = self.pending_keys(client_id)
        keys = [key for _, published in pending for key in published if key]
        in_flight = os.path.join(self.in_flight, client_id)
        with contextlib.suppress(FileNotFoundError):
            if keys:
                own_files.make_directories(self.in_flight)
                with open(f"{in_flight}.new", "wb", opener=own_files.opener) as file:
                    file.write(write_keys(keys))
                os.rename(f"{in_flight}.new", in_flight)
            else:
                os.unlink(in_flight)
        return bool(pending)

    def _pending(self, client_id: str, cycle: int) -> str:
        return os.path.join(self.published, f"{_PENDING}{client_id}-{cycle}")


class ClientFile:
    """The file of one client with messages in progress, locked while the client lives.

    The first line is the instance. Further lines name the application, the process and the in-progress
    destination. Each session of the client adds a line when it begins, and another line when it ends cleanly.
    """

    def __init__(self, state: RemoteState, client_id: str) -> None:
        self._client_id = client_id
        self._application = state.application
        self._path = os.path.join(_clients(state), client_id)
        self._file: LockedFile | None = None
        self.sessions: frozenset[str] = frozenset()
        """The sessions of a dead client that have not ended cleanly."""

    @staticmethod
    def owner(directory: str, client_id: str) -> OwnerNote | None:
        """Returns the note about the client of a message in progress. None = no application knows the client.

        Args:
            directory: of the state of all applications.
        """
        for path in _find(directory, client_id):
            if (found := look(path)) is not None:
                instance, *lines = found.content.decode(errors="replace").split("\n")
                named = [line.removeprefix(_NAMES) for line in lines if line.startswith(_NAMES)]
                application, who = named if len(named) == 2 else ("", f"the client {client_id}")
                return owning_client(who, application, instance, lives=found.is_held)
        return None

    @staticmethod
    def is_name(text: str) -> bool:
        """Whether a text may be the id of a client. Any program may have sent the message with the text."""
        return _CLIENT.fullmatch(text) is not None

    @staticmethod
    def known(state: RemoteState) -> list[str]:
        """Returns the clients with a file."""
        with contextlib.suppress(FileNotFoundError):
            return list_files(_clients(state))
        return []

    @staticmethod
    def queue(state: RemoteState, client_id: str) -> str:
        """Returns the in-progress destination of a client. Empty = unknown, or the file is gone."""
        found = look(os.path.join(_clients(state), client_id))
        lines = found.content.decode(errors="replace").split("\n") if found is not None else []
        return next((one.removeprefix(_QUEUE) for one in lines[1:] if one.startswith(_QUEUE)), "")

    @staticmethod
    def exists(directory: str, client_id: str) -> bool:
        """Whether a client of an application has a file, as long as it lives and until its takeover."""
        return bool(_find(directory, client_id))

    def hold(self, instance: str, queue: str) -> None:
        """Makes and locks the file. Repeatable. Raises ProviderError if that fails."""
        if self._file is not None:
            return
        try:
            own_files.make_directories(os.path.dirname(self._path))
            process = f"process {os.getpid()} on {socket.gethostname()}"
            lines = instance, _NAMES + self._application, _NAMES + process, _QUEUE + queue
            self._file = LockedFile.hold(self._path, "\n".join(lines).encode())
        except OSError as error:
            raise ProviderError(f"cannot write {self._path}: {error.strerror}{remedy(error)}") from error

    def begin_session(self, name: str) -> None:
        """Adds a session. Raises ProviderError if that fails."""
        self._add(f"\n{_BEGINS}{name}")

    def end_session(self, name: str) -> None:
        """Adds the end of a session without an open transaction. Raises ProviderError if that fails."""
        self._add(f"\n{_ENDS}{name}")

    def _add(self, line: str) -> None:
        assert self._file is not None
        try:
            self._file.append(line.encode())
        except OSError as error:
            raise ProviderError(f"cannot write {self._path}: {error.strerror}{remedy(error)}") from error

    def take_over(self) -> str | None:
        """Locks the file of a dead client, and returns its instance.

        Returns None if the client lives, if another client takes over, or if there is no file.
        """
        self._file = LockedFile.take_over(self._path)
        if self._file is None:
            return None
        instance, *lines = self._file.read().decode().split("\n")
        begun, ended = (
            {line.removeprefix(sign) for line in lines if line.startswith(sign)} for sign in (_BEGINS, _ENDS)
        )
        self.sessions = frozenset(begun - ended)
        return instance

    def close(self, *, removes: bool) -> None:
        """Unlocks the file. Repeatable."""
        if self._file is not None and removes:
            self._file.remove()
        elif self._file is not None:
            self._file.abandon()


def _find(directory: str, client_id: str) -> list[str]:
    """Returns the files of a client, in the states of all applications."""
    if not ClientFile.is_name(client_id):
        return []
    return glob.glob(os.path.join(glob.escape(directory), "*", _CLIENTS, client_id))


def _clients(state: RemoteState) -> str:
    return os.path.join(state.path, _CLIENTS)
