"""Named places at which a test may make this process fail.

``CONNECTOR_FAULT=settle.committing:2=kill`` ends the process with SIGKILL the second time it reaches that
place. The other actions:

* ``killgroup`` sends SIGKILL to the whole process group.
* ``enospc`` and ``eacces`` raise the error of a full or forbidden disk.
* ``pause`` makes a file ``<place>.<pid>`` in ``CONNECTOR_FAULT_DIRECTORY`` and waits until the file is
  removed. Meanwhile another process can kill this process.

Commas separate several places. Each process counts for itself. Without the variable a place costs only an
empty call. :data:`PLACES` lists the places.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from typing import Final

PLACES: Final = (
    # the life of an event, in order
    "claim",
    # only with duplicate_key by values: the keys are found, and then reserved. No delivery has begun
    "keys.found",
    "keys.reserved",
    "begin",
    "deliver",
    "transaction.returned",
    "transaction.committed",
    "done",
    "task.answered",
    "history",
    "settle.record",
    "settle.committing",
    "settle.move",
    "settle.finished",
    # a task that stays has proved that it knows the secret, and has not said which task it is
    "task.connect",
    # a message of a topic on its way to the subscriptions. A message of another program is claimed first
    "fanout.claim",
    "fanout.link",
    # a lot: its number is written, its messages are claimed, their number is written, a task of Spark has
    # read a message, they are about to be settled, they are settled
    "lot.number",
    "lot.claimed",
    "lot.list",
    "lot.row",
    "lot.settling",
    "lot.settled",
    # a load: its lot is claimed, its files are complete and not in the table yet, the lot is in its table
    "load.claimed",
    "load.saved",
    "load.written",
    # a delayed file that is due is where messages wait
    "delayed.move",
    # what only a database has: a transaction before its commit, and a message that is prepared
    "claim.uncommitted",
    "prepare.uncommitted",
    "prepare",
    # a timer is due, its message is sent, all instances know
    "timer.due",
    "timer.sent",
    "timer.noted",
    # a message is sent once by key: its key is noted, all is done but the commit, the commit has happened
    "once.noted",
    "once.uncommitted",
    "once.committed",
    # a reload: nothing is in flight, the connection is closed, the new one works and nobody knows
    "reload.begin",
    "reload.closed",
    "reload.connected",
    # only at a broker. The record of redelivered messages was read, the claims are recorded, a rollback comes
    "claim.known",
    "claim.noted",
    "rollback",
)

_ACTIONS: Final = ("kill", "killgroup", "pause", "enospc", "eacces")


class _Faults:
    def __init__(self, text: str) -> None:
        self._countdown: dict[str, tuple[int, str]] = {}
        for part in text.split(","):
            place, _, action = part.strip().partition("=")
            name, _, nth = place.partition(":")
            if not name or action not in _ACTIONS:
                raise ValueError(f"CONNECTOR_FAULT: {part!r} is not PLACE[:NTH]={'|'.join(_ACTIONS)}")
            if name not in PLACES:  # a fault at an unknown place would never happen
                raise ValueError(
                    f"CONNECTOR_FAULT: there is no place {name!r}; there are {', '.join(PLACES)}"
                )
            self._countdown[name] = (int(nth or 1), action)

    def __call__(self, place: str) -> None:
        if place not in self._countdown:
            return
        left, action = self._countdown[place]
        self._countdown[place] = (left - 1, action)
        if left != 1:
            return
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif action == "killgroup":
            os.killpg(0, signal.SIGKILL)
        elif action == "pause":
            _block(place)
        else:
            number = errno.ENOSPC if action == "enospc" else errno.EACCES
            raise OSError(number, os.strerror(number), place)


def _block(place: str) -> None:
    mark = os.path.join(os.environ["CONNECTOR_FAULT_DIRECTORY"], f"{place}.{os.getpid()}")
    with open(mark, "x"):
        pass
    while os.path.exists(mark):
        time.sleep(0.01)


def _nothing(place: str) -> None:
    """Does nothing: no fault is configured."""


_text = os.environ.get("CONNECTOR_FAULT", "")
point: Callable[[str], None] = _Faults(_text) if _text else _nothing
"""Marks a place. Called with the name of the place."""
