"""What the instances of an application keep on one machine: journals and locks in a directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from urllib.parse import quote

from connector.providers.sql.database import Database
from connector.providers.sql.window import SqlWindow
from connector.state.directory import StateDirectory


class SqlState(StateDirectory):
    """See :class:`connector.state.store.StateStore`: the window is in the database, the rest in a directory.

    Args:
        directory: of all applications.
        database: returns the one with the published keys.
        application: whose state it is.
    """

    def __init__(self, directory: str, database: Callable[[], Database], application: str) -> None:
        super().__init__(
            os.path.join(directory, _folder(application)), folder=_folder, keys_of=lambda data: ()
        )
        self._database = database
        self._application = application

    def window(self, client_id: str, size: int) -> SqlWindow:  # type: ignore[override]
        """See :meth:`connector.state.store.StateStore.window`."""
        return SqlWindow(self._database(), self._application, client_id, size)


def _folder(name: str) -> str:
    """A name of a user's as that of a folder."""
    return f"@{quote(name, safe='')}"
