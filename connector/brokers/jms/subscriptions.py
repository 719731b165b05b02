"""The durable subscriptions that this deployment has made at a broker, shared and unshared.

A shared and an unshared durable subscription of one client id cannot have the same name (JMS 2.0, 8.3.4).
Some brokers take both for one subscription, and do not refuse the second.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from typing import Final

from connector import own_files
from connector.errors import ProviderError, SubscriptionError

_FOLDER: Final = "subscriptions"


class SubscriptionRecords:
    """Which durable subscriptions are shared, in a file each.

    Args:
        directory: of the state of all applications. Made when first needed.
    """

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, _FOLDER)

    @contextlib.contextmanager
    def record(self, client_id: str, name: str, *, shared: bool) -> Iterator[None]:
        """Records a subscription that the block makes. Without success the record is as before.

        Raises:
            SubscriptionError: the name belongs to a subscription of the other kind.
            ProviderError: the record cannot be used.
        """
        path = self._path(client_id, name)
        try:
            is_new = self._record(path, client_id, name, shared=shared)
        except (OSError, ValueError) as error:
            raise ProviderError(f"cannot use {path}: {error}") from error
        try:
            yield
        except BaseException:
            if is_new:
                self.remove(client_id, name)
            raise

    def _record(self, path: str, client_id: str, name: str, *, shared: bool) -> bool:
        """Returns whether the record is new."""
        own_files.make_directories(self._directory)
        working = f"{path}.{os.getpid()}"
        with open(working, "w", encoding="utf-8", opener=own_files.opener) as file:
            json.dump({"client_id": client_id, "subscription": name, "shared": shared}, file)
        try:
            os.link(working, path)
            return True
        except FileExistsError:
            with open(path, encoding="utf-8") as file:
                known = bool(json.load(file)["shared"])
        finally:
            os.unlink(working)
        if known != shared:
            whose = f" --client-id {client_id}" if client_id else ""
            raise SubscriptionError(
                f"the subscription {name!r} is {_kind(known)}, and {_kind(shared)} was asked for: use "
                f"another name, or remove it first: connector unsubscribe --subscription {name}{whose}"
            )
        return False

    def remove(self, client_id: str, name: str) -> None:
        """Removes the record of a subscription. Does nothing if there is none."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self._path(client_id, name))

    def _path(self, client_id: str, name: str) -> str:
        key = json.dumps([client_id, name]).encode()
        return os.path.join(self._directory, hashlib.sha256(key).hexdigest()[:40])


def _kind(shared: bool) -> str:
    return "a shared one" if shared else "an unshared one"
