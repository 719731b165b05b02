"""The clients of a root: each has a file in ``dropboxmq/clients/``, and holds the file while it is alive.

A client that gets the lock of such a file knows that the owner is dead. Only this client takes over
(:mod:`connector.state.locked_file`).

If locks cannot be trusted, a *lease* is added. Each client touches its file. A client that has not done so
for the time of the lease counts as dead, although its file is held. The client that takes over replaces that
file by a new file. So the late owner finds out (:meth:`OwnClient.check`). Adapters are excepted, because
their journals are read only when their tasks have ended.

An operator may *declare* any client dead that is alive (:func:`declare_dead`). Then a file that nobody holds
replaces the client's file. The old file is kept beside the new file, because the late owner may claim
once more before it finds out. As long as the old file is held, every recovery looks for such claims again.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Final

from connector import own_files
from connector.errors import ClaimLost, ProviderError, remedy
from connector.messaging.notes import ClientNote, ClientState
from connector.state.locked_file import LockedFile, Look, exclusive, is_held, list_files, look

_BEATS: Final = 3
_CHECK_SECONDS: Final = 1.0
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@functools.lru_cache(maxsize=4096)
def base36(number: int) -> str:
    """Returns a number from 0 in lower-case digits and letters. Neighbours differ in the last digit only."""
    return _DIGITS[number] if number < 36 else base36(number // 36) + _DIGITS[number % 36]


@dataclass(frozen=True, slots=True)
class ClientDetails:
    """The content of the file of a client.

    Args:
        application: ApplicationName of an adapter. Empty for a client that is no adapter.
        started: seconds since 1970.
        origin: connections of equal origin count as one, for no-local and temporary destinations.
    """

    application: str = ""
    instance: str = ""
    host: str = ""
    pid: int = 0
    started: float = 0.0
    origin: str = ""
    declared_dead: bool = False

    @classmethod
    def here(cls, application: str = "", instance: str = "", origin: str = "") -> ClientDetails:
        return cls(application, instance, socket.gethostname(), os.getpid(), round(time.time(), 3), origin)

    @classmethod
    def parse(cls, content: bytes) -> ClientDetails:
        """Returns the details in a file. A client that died before it wrote the file is no adapter."""
        try:
            values = json.loads(content)
            return cls(**{one.name: values[one.name] for one in fields(cls) if one.name in values})
        except (ValueError, TypeError):
            return cls()

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def new_client_id() -> str:
    """Returns an id that is unique for every start of every process.

    The ids sort by time, and need no escape in a file name.
    """
    return base36(time.time_ns() // 1000) + "".join(secrets.choice(_DIGITS) for _ in range(3))


class OwnClient:
    """A client of this process, alive until :meth:`close` or :meth:`abandon`.

    With a lease, a thread touches the file of the client every third of the lease.

    Args:
        details: without an origin, the client id is the origin.
        lease: seconds after which others take the client for dead. None = never, except by an operator.

    Raises:
        ProviderError: the file cannot be written.
    """

    def __init__(self, directory: str, details: ClientDetails, lease: float | None = None) -> None:
        self._lease = lease
        self._fresh = _CHECK_SECONDS if lease is None else lease / 2
        self._ended = threading.Event()
        self._file = self._hold(directory, details)
        self._checked = time.monotonic()
        if lease is not None:
            name = f"heartbeat-{self.client_id}"
            threading.Thread(target=self._beat, args=(lease / _BEATS,), name=name, daemon=True).start()

    def _hold(self, directory: str, details: ClientDetails) -> LockedFile:
        while True:
            self.client_id = new_client_id()
            self.details = details if details.origin else replace(details, origin=self.client_id)
            path = os.path.join(directory, self.client_id)
            try:
                file = LockedFile.hold(path, self.details.to_json(), flags=os.O_EXCL)
            except FileExistsError:
                continue
            except OSError as error:
                raise ProviderError(f"cannot write {path}: {error.strerror}{remedy(error)}") from error
            if file is not None:  # otherwise taken for dead before it had the lock
                return file

    def check_soon(self) -> None:
        """Checks the same as :meth:`check`, unless it was checked a moment ago. Cheap."""
        if time.monotonic() - self._checked > self._fresh:
            self.check()
            self._touch()

    def check(self) -> None:
        """Checks that this client is alive to others.

        Raises:
            ClaimLost: another client has taken over.
        """
        if self._file.is_held():
            return
        found = look(self._file.path)
        if found is not None and ClientDetails.parse(found.content).declared_dead:
            raise ClaimLost(
                f"client {self.client_id} was declared dead by an operator (connector takeover); "
                "its messages are redelivered, to this client or another: connect anew"
            )
        if self._lease is not None:
            raise ClaimLost(
                f"client {self.client_id} was taken for dead: it has not run for longer than its lease "
                f"of {self._lease:g} s; its messages come again, to us or another: connect anew"
            )

    def _touch(self) -> None:
        self._checked = time.monotonic()
        if self._lease is not None:
            with contextlib.suppress(OSError):
                os.utime(self._file.descriptor)

    def _beat(self, interval: float) -> None:
        while not self._ended.wait(interval):
            if self._file.is_held():
                self._touch()

    def close(self) -> None:
        """Ends this client. Any remaining claims may be taken over."""
        self._ended.set()
        self._file.remove()

    def abandon(self) -> None:
        """Ends this client as a crash would: the file stays, so that a recovery finds the claims."""
        self._ended.set()
        self._file.abandon()


def dead_clients(directory: str, own: str, lease: float | None = None) -> Iterator[LockedFile]:
    """Yields the files of dead clients, and holds them. The caller removes or abandons each.

    Args:
        own: id of the calling client.
        lease: seconds after which a client counts as dead although its file is held. None = never.
    """
    for client_id in list_files(directory):
        if client_id != own:
            file = LockedFile.take_over(os.path.join(directory, client_id))
            if file is None and lease is not None and own:
                file = _take_lease(directory, own, client_id, lease)
            if file is not None:
                yield file


def remove_dead(file: LockedFile) -> None:
    """Removes the files of a dead client. If it was declared dead, they stay while its process may go on."""
    late = _late(file.path)
    if not is_held(late):
        for path in (file.path, late):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    file.abandon()


def find_alive(directory: str, client_id: str, own: str, lease: float | None) -> ClientDetails | None:
    """Returns a client that is alive. None if the client is dead or does not exist."""
    found = look(os.path.join(directory, client_id))
    if found is None or _state(found) is not ClientState.ALIVE:
        return None
    if lease is not None and client_id != own and _is_overdue(directory, own, found, lease):
        return None
    return ClientDetails.parse(found.content)


def declare_dead(directory: str, client_id: str) -> ClientState | None:
    """Declares a client dead that is alive. The next client that looks takes over.

    Returns:
        the state before. Only a client that was alive is changed. None = there is no such client.

    Raises:
        ProviderError: the file of the client cannot be written.
    """
    path = os.path.join(directory, client_id)
    if not client_id or client_id.startswith(".") or "/" in client_id:
        return None
    try:
        with exclusive(f"{directory}.lock"):  # as a takeover by a lease does
            found = look(path)
            if found is None:
                return None
            state = _state(found)
            if state is not ClientState.ALIVE:
                return state
            late = _late(path)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(late)
            os.link(path, late)
            substitute = os.path.join(directory, f".{client_id}.dead")
            with open(substitute, "wb", opener=own_files.opener) as file:
                file.write(replace(ClientDetails.parse(found.content), declared_dead=True).to_json())
            os.rename(substitute, path)
            return state
    except OSError as error:
        raise ProviderError(f"cannot write {path}: {error.strerror}") from error


def list_clients(directory: str) -> list[ClientNote]:
    """Returns the clients that have a file, the oldest first. Changes nothing."""
    found: list[ClientNote] = []
    try:
        names = list_files(directory)
    except OSError:
        return found
    for client_id in names:
        one = look(os.path.join(directory, client_id))
        if one is not None:
            details = ClientDetails.parse(one.content)
            who = details.application, details.instance, details.host, details.pid, details.started
            found.append(ClientNote(client_id, *who, _state(one)))
    return found


def _state(found: Look) -> ClientState:
    if ClientDetails.parse(found.content).declared_dead:
        return ClientState.DECLARED_DEAD
    return ClientState.ALIVE if found.is_held else ClientState.DEAD


def _late(path: str) -> str:
    """Returns the path of the old file of a client that was declared dead. Its process may hold that file."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.late")


def _is_overdue(directory: str, own: str, found: Look, lease: float) -> bool:
    """Whether a client has not touched its file for the lease, by the clock that stamps the files."""
    try:
        with contextlib.suppress(FileNotFoundError):
            os.utime(os.path.join(directory, own))
        now = os.stat(os.path.join(directory, own)).st_mtime
    except OSError:
        return False
    return now - found.touched > lease and not ClientDetails.parse(found.content).application


def _take_lease(directory: str, own: str, client_id: str, lease: float) -> LockedFile | None:
    """Takes over from a client that is overdue although its file is held: a new file replaces its file."""
    path = os.path.join(directory, client_id)
    found = look(path)
    if found is None or not found.is_held or not _is_overdue(directory, own, found, lease):
        return None
    try:
        with exclusive(f"{directory}.lock"):
            found = look(path)  # of two takeovers at once, the second finds a fresh file
            if found is None or not _is_overdue(directory, own, found, lease):
                return None
            file = LockedFile.hold(os.path.join(directory, f".{client_id}.{own}"), found.content)
            if file is not None:
                try:
                    file.replace(path)
                except OSError:
                    file.remove()
                    raise
            return file
    except OSError as error:
        raise ProviderError(f"cannot take over from {path}: {error.strerror}") from error
