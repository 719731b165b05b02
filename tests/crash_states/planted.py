"""Faults that are planted into the product, to show that the states find them.

Each is a function that replaces functions of the product in a forked process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from connector.stores.dropbox import files
from connector.stores.dropbox.committer import Committer
from connector.stores.dropbox.fan_out import FanOutFiles
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


def _hand_a_message_over_before_the_commit() -> None:
    add = FanOutFiles.add

    def add_moved(fan_out_files: FanOutFiles, *arguments: Any, **named: Any) -> Any:
        return add(fan_out_files, *arguments, **{**named, "moved": True})

    replace_functions(FanOutFiles, add=add_moved)


def _nothing(*arguments: object) -> None:
    """Does nothing."""


PLANTS: Final[Mapping[str, Callable[[], None]]] = {
    "skip the sync of a record": _skip_the_sync_of_a_record,
    "skip the sync of bodies": _skip_the_sync_of_bodies,
    "skip the sync of settled messages": _skip_the_sync_of_settled_messages,
    "skip the order of names": _skip_the_order_of_names,
    "hand a message over before the commit": _hand_a_message_over_before_the_commit,
}
"""The faults by name."""
