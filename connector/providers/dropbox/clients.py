"""Who is alive: a client holds a lock on its file in ``dropboxmq/clients/`` as long as it lives.

The kernel drops the lock when the process dies, however it dies, so whoever gets the lock knows
that the owner is dead, and is the only one who takes over from it.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import secrets
import socket
import time
from dataclasses import asdict, dataclass, fields
from typing import Final

from connector.errors import ProviderError

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@functools.lru_cache(maxsize=4096)
def base36(number: int) -> str:
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
        if not number:
            return text


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """What the file of a client says about it.

    Args:
        application: ApplicationName of an adapter; empty for a client that is none.
        instance: name of the instance of the adapter.
        host, pid: where it runs.
        started: seconds since 1970.
    """

    application: str = ""
    instance: str = ""
    host: str = ""
    pid: int = 0
    started: float = 0.0

    @classmethod
    def here(cls, application: str = "", instance: str = "") -> ClientInfo:
        return cls(application, instance, socket.gethostname(), os.getpid(), round(time.time(), 3))


def new_client_id() -> str:
    """Unique for every start of every process, sorts by time, needs no escape in a file name."""
    return base36(time.time_ns() // 1000) + "".join(secrets.choice(_DIGITS) for _ in range(3))


class ClientLock:
    """The living mark of one client. :meth:`close` takes it away."""

    def __init__(self, directory: str, info: ClientInfo) -> None:
        self.info = info
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
        try:
            os.write(self._descriptor, json.dumps(asdict(info)).encode())
        except OSError as error:
            self.close()
            raise ProviderError(
                f"cannot write {self._path}: {error.strerror}; make room on the disk"
            ) from error

    def close(self) -> None:
        """Ends the life of this client; its claims, if any are left, may be taken over."""
        if self._descriptor < 0:
            return
        try:
            os.unlink(self._path)
        except OSError:
            pass
        os.close(self._descriptor)
        self._descriptor = -1

    def abandon(self) -> None:
        """Releases the lock but leaves the file, so that whoever recovers finds what is left."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class DeadClient:
    """A client whose process is gone. Holds its lock: nobody else takes over meanwhile."""

    def __init__(self, client_id: str, info: ClientInfo, path: str, descriptor: int) -> None:
        self.client_id = client_id
        self.info = info
        self._path = path
        self._descriptor = descriptor

    def forget(self) -> None:
        """Nothing of it is left."""
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass
        self.release()

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def dead_clients(directory: str, own: str) -> list[DeadClient]:
    """The clients whose lock is free, locked now by us; the caller forgets or releases each."""
    found = []
    for client_id in sorted(os.listdir(directory)):
        if client_id == own or client_id.startswith("."):
            continue
        path = os.path.join(directory, client_id)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        if not lock(descriptor) or not _is_linked(path, descriptor):
            os.close(descriptor)
            continue
        found.append(DeadClient(client_id, _read_info(descriptor), path, descriptor))
    return found


def _read_info(descriptor: int) -> ClientInfo:
    """What the file of a client says; a client that died before it had written it is no adapter yet."""
    try:
        values = json.loads(os.read(descriptor, 65536))
        return ClientInfo(
            **{field.name: values[field.name] for field in fields(ClientInfo) if field.name in values}
        )
    except (ValueError, TypeError):
        return ClientInfo()


def living_clients(directory: str) -> set[str]:
    """Ids of all clients that have a file; those of the dead are removed when taken over."""
    return {name for name in os.listdir(directory) if not name.startswith(".")}


def lock(descriptor: int) -> bool:
    """Takes an exclusive lock if it is free.

    Raises:
        ProviderError: the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise ProviderError(
            f"the file system of the root has no file locks ({error.strerror}); "
            "use one that has (a local one, NFS 4), they tell the living from the dead"
        ) from error
    return True


def _is_linked(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
