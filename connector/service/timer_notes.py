"""How far the timers of an application are, as all its instances note it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from connector.config.timer_model import TimerEntry
from connector.messaging.state_store import ControlRecord, TimerNote
from connector.service.timer_times import DueTimes


def forget_others(record: ControlRecord, names: Collection[str]) -> None:
    """Removes the notes of timers that the deployment does not have, so that they begin anew if they return.

    Raises:
        ProviderError: the record cannot be used.
    """
    if record.read().timers.keys() <= set(names):
        return
    with record.change() as control:
        control.timers = {name: note for name, note in control.timers.items() if name in names}


def timer_rows(timers: Iterable[TimerEntry], notes: dict[str, TimerNote], now: float) -> list[dict[str, Any]]:
    """Returns a row for each timer, for ``connector status``.

    The times are in seconds since 1970. ``last_fired`` is a due time. A ``next_due`` in the past is of a
    message that could not be sent so far.

    Args:
        notes: by the name of the timer.
        now: in seconds since 1970.
    """
    rows = []
    for entry in timers:
        note = notes.get(entry.name)
        if note is None or note.times != entry.times:
            note = TimerNote(entry.times, 0)
        begin = note.until if note.error else max(note.until, round(now * 1000))
        rows.append(
            {
                "name": entry.name,
                "to": str(entry.to),
                "times": entry.times,
                "next_due": DueTimes.of(entry).next_after(begin) / 1000,
                "last_fired": None if note.fired is None else note.fired / 1000,
                "last_error": note.error or None,
            }
        )
    return rows
