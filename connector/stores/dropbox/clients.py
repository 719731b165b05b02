"""Living clients: a client holds a lock on its file in ``dropboxmq/clients/`` as long as it lives.

The kernel drops the lock when the process dies, for any reason. So a client that gets the lock knows that the
owner is dead. Only this client takes over.

If locks cannot be trusted, a *lease* is added. Each client touches its file. A client that has not done so
for the time of the lease counts as dead, although its lock is held. The client that takes over replaces that
file by a new file. So the late owner finds out (:meth:`ClientLock.is_ours`). Adapters are excepted, because
their journals are read only when their tasks have ended.

An operator may *declare* any client dead that holds its lock (:func:`declare_dead`). Then a file without a
lock replaces the client's file. The old file is kept beside the new file, because the late owner may claim
once more before it finds out. As long as the old file is locked, every recovery looks for such claims again.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import secrets
import socket
import time
from dataclasses import asdict, dataclass, fields, replace
from typing import Final

from connector.errors import ProviderError
from connector.messaging.notes import ClientNote, ClientState
from connector.state.locks import is_locked, try_lock

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@functools.lru_cache(maxsize=4096)
def base36(number: int) -> str:
    """Returns a number from 0 in lower-case digits and letters. Neighbours differ in the last digit only."""
    return _DIGITS[number] if number < 36 else base36(number // 36) + _DIGITS[number % 36]


@dataclass(frozen=True, slots=True)
class ClientFile:
    """The content of the file of a client.

    Args:
        application: ApplicationName of an adapter. Empty for a client that is no adapter.
        instance: name of the instance of the adapter.
        host, pid: the machine and the process of the client.
        started: seconds since 1970.
        origin: connections of equal origin count as one, for no-local and temporary destinations.
        declared_dead: whether an operator has declared the client dead.
    """

    application: str = ""
    instance: str = ""
    host: str = ""
    pid: int = 0
    started: float = 0.0
    origin: str = ""
    declared_dead: bool = False

    @classmethod
    def here(cls, application: str = "", instance: str = "", origin: str = "") -> ClientFile:
        return cls(application, instance, socket.gethostname(), os.getpid(), round(time.time(), 3), origin)


def new_client_id() -> str:
    """Returns an id that is unique for every start of every process.

    The ids sort by time, and need no escape in a file name.
    """
    return base36(time.time_ns() // 1000) + "".join(secrets.choice(_DIGITS) for _ in range(3))


class ClientLock:
    """The locked file of a living client. :meth:`close` removes the file."""

    def __init__(self, directory: str, info: ClientFile) -> None:
        while True:
            self.client_id = new_client_id()
            self._path = os.path.join(directory, self.client_id)
            try:
                self._descriptor = os.open(
                    self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666
                )
            except FileExistsError:
                continue
            except OSError as error:
                raise ProviderError(
                    f"cannot write {self._path}: {error.strerror}; give this user the right to write there"
                ) from error
            if lock(self._descriptor) and _is_linked(self._path, self._descriptor):
                break
            os.close(self._descriptor)  # taken for dead between the two calls: start again
        self.info = info if info.origin else replace(info, origin=self.client_id)
        try:
            os.write(self._descriptor, json.dumps(asdict(self.info)).encode())
        except OSError as error:
            self.close()
            raise ProviderError(
                f"cannot write {self._path}: {error.strerror}; make room on the disk"
            ) from error

    def touch(self) -> None:
        """Shows other clients with a lease that this client is alive."""
        with contextlib.suppress(OSError):
            os.utime(self._descriptor)

    def is_ours(self) -> bool:
        """Whether this client is alive to the others. False after another client has taken over."""
        try:
            return self._descriptor >= 0 and _is_linked(self._path, self._descriptor)
        except OSError:
            return False

    def is_declared_dead(self) -> bool:
        """Whether an operator has declared this client dead."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            return read_info(descriptor).declared_dead
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Ends this client. Any remaining claims may be taken over."""
        if self._descriptor < 0:
            return
        if self.is_ours():
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        os.close(self._descriptor)
        self._descriptor = -1

    def abandon(self) -> None:
        """Releases the lock but leaves the file, so that a recovery finds the claims."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class DeadClientLock:
    """A client whose process is gone. Holds its lock, so that no other client takes over meanwhile."""

    def __init__(self, client_id: str, info: ClientFile, path: str, descriptor: int) -> None:
        self.client_id = client_id
        self.info = info
        self._path = path
        self._descriptor = descriptor

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor >= 0

    def remove(self) -> None:
        """Removes the files of the client.

        A client that was declared dead stays known while its process may go on.
        """
        late = _late(self._path)
        if not _is_file_locked(late):
            for path in (self._path, late):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        self.release()

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def dead_clients(directory: str, own: str, lease: float | None = None) -> list[DeadClientLock]:
    """Returns the clients whose lock was free, and locks them. The caller forgets or releases each.

    Args:
        directory: of the clients.
        own: id of the calling client.
        lease: seconds after which a client counts as dead although it holds its lock. None = never.
    """
    found = []
    for client_id in sorted(os.listdir(directory)):
        if client_id == own or client_id.startswith("."):
            continue
        path = os.path.join(directory, client_id)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        if not lock(descriptor):
            taken = _take_lease(directory, own, path, descriptor, lease) if lease is not None else -1
            os.close(descriptor)
            if taken < 0:
                continue
            descriptor = taken
        elif not _is_linked(path, descriptor):
            os.close(descriptor)
            continue
        found.append(DeadClientLock(client_id, read_info(descriptor), path, descriptor))
    return found


def is_alive(directory: str, client_id: str, own: str, lease: float | None) -> bool:
    """Whether a client that holds a lock is alive: it has a file, touched within the lease."""
    path = os.path.join(directory, client_id)
    if client_id == own:
        return os.path.exists(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if read_info(descriptor).declared_dead:
            return False
        return lease is None or not _is_overdue(directory, own, descriptor, lease)
    finally:
        os.close(descriptor)


def declare_dead(directory: str, client_id: str) -> ClientState | None:
    """Declares a client that holds its lock dead. The next client that looks takes over.

    Returns:
        the state before. Only a client that was alive is changed. None = there is no such client.

    Raises:
        ProviderError: the file of the client cannot be written.
    """
    path = os.path.join(directory, client_id)
    if not client_id or client_id.startswith(".") or "/" in client_id:
        return None
    try:
        with open(f"{directory}.lock", "ab") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)  # as a takeover by a lease does
            with open(path, "rb") as shown:
                info = read_info(shown.fileno())
                state = _state(info, shown.fileno())
            if state is not ClientState.ALIVE:
                return state
            late = _late(path)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(late)
            os.link(path, late)
            substitute = os.path.join(directory, f".{client_id}.dead")
            with open(substitute, "wb") as file:
                file.write(json.dumps(asdict(replace(info, declared_dead=True))).encode())
            os.rename(substitute, path)
            return state
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ProviderError(f"cannot write {path}: {error.strerror}") from error


def list_clients(directory: str) -> list[ClientNote]:
    """Returns the clients that have a file, the oldest first. Changes nothing.

    Clients that vanish meanwhile are left out.
    """
    found = []
    try:
        names = sorted(living_clients(directory))
    except OSError:
        return []
    for client_id in names:
        try:
            descriptor = os.open(
                os.path.join(directory, client_id), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
            )
        except OSError:
            continue
        try:
            info = read_info(descriptor)
            state = _state(info, descriptor)
        except OSError:
            continue
        finally:
            os.close(descriptor)
        found.append(
            ClientNote(client_id, info.application, info.instance, info.host, info.pid, info.started, state)
        )
    return found


def _state(info: ClientFile, descriptor: int) -> ClientState:
    if info.declared_dead:
        return ClientState.DECLARED_DEAD
    return ClientState.ALIVE if is_locked(descriptor) else ClientState.DEAD


def _late(path: str) -> str:
    """Returns the path to which the file of a client declared dead moves.

    The client's process holds its lock.
    """
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.late")


def _is_file_locked(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return is_locked(descriptor)
    finally:
        os.close(descriptor)


def _is_overdue(directory: str, own: str, descriptor: int, lease: float) -> bool:
    """Whether a client has not touched its file for the lease, by the clock that stamps the files."""
    try:
        with contextlib.suppress(FileNotFoundError):
            os.utime(os.path.join(directory, own))
        now = os.stat(os.path.join(directory, own)).st_mtime
    except OSError:
        return False
    return now - os.fstat(descriptor).st_mtime > lease and not read_info(descriptor).application


def _take_lease(directory: str, own: str, path: str, descriptor: int, lease: float) -> int:
    """Takes over from a client that holds its lock but is overdue: a new locked file replaces its file.

    Returns the descriptor of the new file, -1 if there is nothing to take over.
    """
    if not own or not _is_overdue(directory, own, descriptor, lease):
        return -1
    guard = os.open(f"{directory}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)  # of two takeovers at once, the second finds a fresh file
        if not _is_linked(path, descriptor) or not _is_overdue(directory, own, descriptor, lease):
            return -1
        substitute = os.path.join(directory, f".{os.path.basename(path)}.{own}")
        taken = os.open(substitute, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(taken, fcntl.LOCK_EX)
            os.write(taken, json.dumps(asdict(read_info(descriptor))).encode())
            os.rename(substitute, path)
        except BaseException:
            os.close(taken)
            raise
        return taken
    except OSError as error:
        raise ProviderError(f"cannot take over from {path}: {error.strerror}") from error
    finally:
        os.close(guard)


def read_info(descriptor: int) -> ClientFile:
    """Returns the content of the file of a client. A client that died before writing is no adapter."""
    try:
        values = json.loads(os.pread(descriptor, 65536, 0))
        return ClientFile(
            **{field.name: values[field.name] for field in fields(ClientFile) if field.name in values}
        )
    except (ValueError, TypeError):
        return ClientFile()


def holds_lock(directory: str, client_id: str) -> bool:
    """Whether a client has a file and its process lives, according to the lock."""
    return _is_file_locked(os.path.join(directory, client_id))


def info_of(directory: str, client_id: str) -> ClientFile | None:
    """Returns the content of the file of a client. None if there is no file."""
    try:
        descriptor = os.open(os.path.join(directory, client_id), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return read_info(descriptor)
    finally:
        os.close(descriptor)


def living_clients(directory: str) -> set[str]:
    """Returns the ids of all clients that have a file. A takeover removes the files of dead clients."""
    return {name for name in os.listdir(directory) if not name.startswith(".")}


def lock(descriptor: int) -> bool:
    """Takes an exclusive lock if it is free. Raises as :func:`connector.state.locks.try_lock`."""
    return try_lock(descriptor, "the root")


def _is_linked(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
