"""Faults that only a loss of power shows, planted into the product to see that the states find them.

Each is a function that replaces functions of the product in a forked process. Faults that a kill shows are in
``tests/crashing/planted.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from connector.stores.dropbox import files
from connector.stores.dropbox.committer import Committer
from tests.crash_states.recorder import replace_functions


def _skip_the_sync_of_a_record() -> None:
    write = files.write_new

    def write_unsynced(path: str, data: bytes, *, sync: bool, replace: bool = False) -> None:
        write(path, data, sync=sync and "/transaction/" not in path, replace=replace)

    replace_functions(files, write_new=write_unsynced)


def _skip_the_sync_of_bodies() -> None:
    replace_functions(files, sync_files=_nothing)


def _skip_the_sync_of_settled_messages() -> None:
    replace_functions(Committer, sync=_nothing)


def _skip_the_order_of_names() -> None:
    replace_functions(files, sync_earlier=_nothing)


def _nothing(*arguments: object) -> None:
    """Does nothing."""


PLANTS: Final[Mapping[str, Callable[[], None]]] = {
    "skip the sync of a record": _skip_the_sync_of_a_record,
    "skip the sync of bodies": _skip_the_sync_of_bodies,
    "skip the sync of settled messages": _skip_the_sync_of_settled_messages,
    "skip the order of names": _skip_the_order_of_names,
}
"""The faults by name."""
