"""The status of an application: what its instances do, what waits, and whether it is well."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from connector.config.loading import Configuration
from connector.cron import Cron
from connector.errors import ProviderError
from connector.events.claim.free_disk import shortage_of
from connector.events.claim.polled_input import InputSettings
from connector.local_time import LOCAL
from connector.messaging.notes import BatchNote, ClientNote, ClientState, WaitingNote
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.state_store import InstanceNote, StateStore
from connector.operate.activity import WINDOW, Calls, last_hour, minutes_of, total
from connector.operate.well import Facts, InstanceFacts, Reason, Share, notices, well
from connector.service.assembly import make_event_settings
from connector.service.instance_notes import count_errors
from connector.service.poll_window import PollWindow
from connector.service.timer_notes import timer_rows
from connector.text.iso_time import iso_time

StatusRow = dict[str, Any]

_TIMES: Final = (
    "since",
    "oldest",
    "last_good_poll",
    "last_success",
    "last_failure",
    "time",
    "next_due",
    "last_fired",
)
_RECENT: Final = 300.0
"""Seconds that count as recent."""


class StatusReader:
    """Looks at an application as another process does. Changes nothing. For one thread at a time.

    Args:
        provider: of the messages. Belongs to this reader.
    """

    def __init__(self, configuration: Configuration, provider: AdapterProvider) -> None:
        self.configuration = configuration
        self._provider = provider
        self._inputs = make_event_settings(configuration, provider, "").inputs
        settings = configuration.connector
        self._window = PollWindow(settings.poll_start_time, settings.poll_end_time)

    def read(self, failure: str = "") -> dict[str, Any]:
        """Returns the status. Times are seconds since 1970, and each reason is a :class:`Reason`.

        :func:`as_json` makes texts of both.

        Args:
            failure: why the provider cannot be used, as the caller knows it. Empty = the reader finds out.
        """
        now = time.time()
        application = self.configuration.connector.application_name
        shortage = shortage_of(self._provider.disk(), self.configuration.min_free)
        found = StatusFound(now)
        obstacle = self._obstacle(application, found)
        failure = failure or obstacle
        databases = dict(self._check_databases())
        facts = replace(
            self._facts(found),
            provider=failure,
            disk=shortage,
            databases={name: problem for name, problem in databases.items() if problem},
        )
        reasons = well(facts, self.configuration.health)
        counts = total(row for minutes in found.minutes() for rows in minutes.values() for row in rows)
        return {
            "application": application,
            "well": not reasons,
            "reasons": reasons,
            "notices": notices(facts, self.configuration.health),
            "published_5m": counts.published,
            "failed_5m": counts.failed,
            "last_failure": max(found.failures().values(), key=_time, default=None),
            "workers_died_5m": counts.workers_died,
            "in_doubt": len(found.in_doubt),
            "error_waiting": found.error_waiting,
            "error_growth_5m": found.error_growth,
            "delayed": found.delayed,
            "provider_failure": failure or None,
            "disk_shortage": shortage or None,
            "databases": [{"database": name, "problem": one or None} for name, one in databases.items()],
            **found.tables(),
            "subscriptions": found.calls(one.name for one in self.configuration.subscriptions),
        }

    def _facts(self, found: StatusFound) -> Facts:
        """Returns what the instances and the queues tell."""
        now, waits = found.now, found.may_wait
        return Facts(
            provider_name=self.configuration.provider.type,
            path=self._provider.disk() or "",
            polls=bool(self._inputs),
            instances=[self._instance_facts(one, now) for one in found.notes],
            in_doubt=found.in_doubt,
            in_progress=str(self.configuration.connector.copies.in_progress or ""),
            inputs=found.shares_of_inputs(),
            subscriptions={
                row["subscription"]: Share(
                    row["calls_5m"], row["failed_5m"], row["last_error"] or "", row["last_failure"]
                )
                for row in found.calls(one.name for one in self.configuration.subscriptions)
            },
            errors=", ".join(map(str, self.configuration.connector.copies.errors)),
            error_waiting=found.error_waiting,
            error_growth=found.error_growth,
            ages={destination: self._since_due(age, now) for destination, age in found.ages().items()},
            resting={row["subscription"]: (row["reason"], row["since"]) for row in found.resting if waits},
            failing={
                row["subscription"]: (row["reason"], row["since"], row["failures"])
                for row in found.failing
                if waits
            },
            stopped={row["subscription"]: row["reason"] for row in found.loads if row["state"] == "stopped"},
            now=now,
        )

    def _instance_facts(self, found: InstanceNote, now: float) -> InstanceFacts:
        note = found.note
        died = total(minutes_of(note, now).get("", ())).workers_died
        return InstanceFacts(
            found.name,
            found.runs,
            died,
            self._idle(note, now) if found.runs else None,
            note.get("obstacle", ""),
            closed=note.get("closed", {}) if found.runs else {},
            left_open=note.get("left_open", {}) if found.runs else {},
        )

    def _obstacle(self, application: str, found: StatusFound) -> str:
        """Looks at the provider. Returns why it cannot be used. Empty = it can."""
        try:
            self._look(application, found)
        except ProviderError as error:
            return str(error)
        except OSError as error:  # such as too many open files
            return f"{error.strerror}: {error.filename}"
        return ""

    def _look(self, application: str, found: StatusFound) -> None:
        """Fills in what the provider tells.

        Raises:
            ProviderError: the provider cannot be used.
        """
        provider, settings = self._provider, self.configuration.connector
        is_there = provider.check()  # otherwise no adapter has run yet
        found.timers = timer_rows(self.configuration.timers, {}, found.now)
        found.inputs = [self._input(entry, found.now, looks=is_there) for entry in self._inputs]
        of_sources = zip((one.source for one in self._inputs), found.inputs, strict=True)
        found.delayed = sum({source: row["delayed"] for source, row in of_sources}.values())
        if not is_there:
            return
        state = provider.existing_state(application)
        found.notes = list(state.instances())
        clients = [one for one in provider.clients() if one.application == application]
        names = {one.client_id: one.instance for one in clients}
        batches = [one for one in provider.batches(settings.copies.in_progress) if one.client_id in names]
        found.workers = list(_workers(clients, batches, state))
        found.instances = _instances(clients, found.notes)
        found.batches = [_batch(one, names[one.client_id]) for one in _running(batches, found.workers)]
        found.resting = list(_rows_of(found.notes, "resting"))
        found.failing = list(_rows_of(found.notes, "failing"))
        doubts = [one.note.get("in_doubt", []) for one in found.notes if one.runs]
        found.in_doubt = max(doubts, key=len, default=[])  # every instance sees the same queue
        found.loads = list(_rows_of(found.notes, "loads"))
        control = state.control().read()
        found.paused = [asdict(one) for one in control.paused]
        found.timers = timer_rows(self.configuration.timers, control.timers, found.now)
        found.error_waiting = count_errors(provider, settings.copies)
        if found.error_waiting is not None:
            samples = [one for note in found.notes for one in note.note.get("error_waiting", ())]
            earlier = [one for one in samples if found.now - one[0] <= _RECENT]
            if earlier:
                found.error_growth = found.error_waiting - min(earlier)[1]

    def _input(self, entry: InputSettings, now: float, *, looks: bool) -> StatusRow:
        look = self._provider.waiting_in_place if entry.min_age else self._provider.waiting
        waiting = look(entry.source) if looks else WaitingNote(0, None)
        oldest = waiting.oldest
        return {
            "destination": str(entry.input.destination),
            "input": str(entry.input),
            "waiting": waiting.number,
            "delayed": waiting.delayed,
            "oldest": oldest,
            "age": round(max(0.0, now - oldest), 3) if oldest is not None else None,
        }

    def _idle(self, note: Mapping[str, Any], now: float) -> float | None:
        """Returns the seconds since the last good poll beyond PollFrequency. None = no poll was due."""
        settings, limit = self.configuration.connector, self.configuration.health.last_good_poll
        since = note.get("last_good_poll") or note.get("started")
        if settings.poll_frequency is None or since is None or limit is None:
            return None
        if isinstance(settings.poll_frequency, Cron):
            return self._since_due(now - float(since), now) or None
        pause = settings.poll_frequency / 1000
        moments = (now, now - limit - pause)
        if any(self._window.opens_at(datetime.datetime.fromtimestamp(one, LOCAL)) for one in moments):
            return None
        return max(0.0, now - float(since) - pause)

    def _since_due(self, seconds: float, now: float) -> float:
        """Returns how much of the last ``seconds`` has passed since a poll was due in them.

        Without a cron that is all of them, because a poll is always due.
        """
        frequency = self.configuration.connector.poll_frequency
        if not isinstance(frequency, Cron):
            return seconds
        due = frequency.next_after(datetime.datetime.fromtimestamp(now - seconds, LOCAL))
        return max(0.0, now - due.timestamp())

    def _check_databases(self) -> Iterable[tuple[str, str]]:
        """Yields the name of each database, and why it cannot be used."""
        if not self.configuration.databases:
            return
        from connector.service.database_check import problem_of  # SQLAlchemy, which most adapters never need

        for settings in self.configuration.databases:
            yield settings.name, problem_of(settings)


class StatusFound:
    """What a look has found."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.notes: list[InstanceNote] = []
        self.instances: list[StatusRow] = []
        self.batches: list[StatusRow] = []
        self.workers: list[StatusRow] = []
        self.resting: list[StatusRow] = []
        self.failing: list[StatusRow] = []
        self.in_doubt: list[str] = []
        self.loads: list[StatusRow] = []
        self.paused: list[StatusRow] = []
        self.inputs: list[StatusRow] = []
        self.timers: list[StatusRow] = []
        self.delayed = 0
        self.error_waiting: int | None = None
        self.error_growth: int | None = None

    def minutes(self) -> list[dict[str, list[list[int]]]]:
        """Returns the recent minutes of each instance, by input."""
        return [minutes_of(one.note, self.now) for one in self.notes]

    def failures(self) -> dict[str, dict[str, Any]]:
        """Returns the last failed event of each input."""
        found: dict[str, dict[str, Any]] = {}
        for one in self.notes:
            for name, failure in one.note.get("last_failures", {}).items():
                found[name] = max(found.get(name, failure), failure, key=_time)
        return found

    def shares_of_inputs(self) -> dict[str, Share]:
        """Returns the events of each input in the last five minutes, over all instances."""
        rows: dict[str, list[list[int]]] = {}
        for minutes in self.minutes():
            for name, found in minutes.items():
                rows.setdefault(name, []).extend(found)
        rows.pop("", None)
        failures, shares = self.failures(), {}
        for name, found in rows.items():
            counts, last = total(found), failures.get(name, {})
            since = counts.number * 60.0 if counts.number else None
            number = counts.published + counts.failed
            shares[name] = Share(number, counts.failed, _with_place(last), since)
        return shares

    def calls(self, names: Iterable[str]) -> list[StatusRow]:
        """Returns what each subscription has done in the last five minutes, over all instances."""
        oldest = int(self.now // 60) - WINDOW
        rows = []
        for name in names:
            found = [
                Calls(*one.note["calls"][name]) for one in self.notes if name in one.note.get("calls", ())
            ]
            recents = [minute for calls in found for minute in calls.minutes if minute[0] >= oldest]
            last = max(found, key=lambda one: one.last_failure or 0.0, default=Calls([]))
            rows.append(
                {
                    "subscription": name,
                    "calls_5m": sum(one[1] for one in recents),
                    "failed_5m": sum(one[2] for one in recents),
                    "last_success": max((one.last_success or 0.0 for one in found), default=0.0) or None,
                    "last_failure": last.last_failure,
                    "last_error": last.reason or None,
                }
            )
        return rows

    def _steps(self, destination: str) -> Iterable[Sequence[Sequence[int]]]:
        """Yields what each instance has counted of an input."""
        for one in self.notes:
            yield one.note.get("steps", {}).get(destination, ())

    def tables(self) -> dict[str, list[StatusRow]]:
        """Returns the rows of each kind. Those of inputs also have the counts of the last hour."""
        return {
            "instances": self.instances,
            "batches": self.batches,
            "workers": self.workers,
            "resting": self.resting,
            "failing": self.failing,
            "loads": self.loads,
            "paused": self.paused,
            "inputs": [
                {**row, "hour": last_hour(self._steps(row["destination"]), self.now)} for row in self.inputs
            ],
            "timers": self.timers,
        }

    @property
    def may_wait(self) -> bool:
        """Whether an event may wait for a subscription that rests. A number that is not known may be any."""
        numbers = [row[name] for row in self.inputs for name in ("waiting", "delayed")]
        return bool(self.batches) or any(number != 0 for number in numbers)

    def ages(self) -> dict[str, float]:
        """Returns the age of the oldest message of each input that is not paused."""
        paused = {row["what"] for row in self.paused}
        return {
            row["destination"]: row["age"]
            for row in self.inputs
            if row["age"] is not None and row["destination"] not in paused
        }


def _time(failure: Mapping[str, Any]) -> float:
    return float(failure["time"])


def _with_place(failure: Mapping[str, Any]) -> str:
    """Returns the reason of a failed event, with the line of code if the reason does not end with it."""
    reason, place = failure.get("reason", ""), failure.get("place")
    return f"{reason} ({place})" if place and not reason.endswith(f"({place})") else reason


def _instances(clients: Sequence[ClientNote], notes: Sequence[InstanceNote]) -> list[StatusRow]:
    """Returns a row for each instance.

    The row shows the living client of an instance. A running instance without one starts or reconnects. An
    instance that has ended has its latest client, whose claims wait for another instance.
    """
    by_name = {note.name: note for note in notes}
    running = {note.name for note in notes if note.runs}
    shown: dict[str, ClientNote] = {}
    for client in clients:  # the oldest first
        is_alive = client.state is ClientState.ALIVE
        before = shown.get(client.instance)
        if is_alive or (
            client.instance not in running and (before is None or before.state is not ClientState.ALIVE)
        ):
            shown[client.instance] = client
    rows = []
    for client in shown.values():
        note = by_name.get(client.instance)
        is_same = note is not None and note.note.get("pid") == client.pid
        rows.append(
            {
                "instance": client.instance,
                "client": client.client_id,
                "host": client.host,
                "pid": client.pid,
                "state": client.state.value,
                "since": client.since or None,
                "last_good_poll": note.note.get("last_good_poll") if note is not None and is_same else None,
            }
        )
    for note in notes:
        if note.runs and note.name not in shown:
            values = note.note
            rows.append(
                {
                    "instance": note.name,
                    "client": None,
                    "host": values.get("host"),
                    "pid": values.get("pid"),
                    "state": "not connected",
                    "since": values.get("started"),
                    "last_good_poll": values.get("last_good_poll"),
                }
            )
    return rows


def _running(batches: Sequence[BatchNote], workers: Sequence[StatusRow]) -> list[BatchNote]:
    """Leaves out claims that wait behind others. Keeps all batches of a client without events in workers."""
    at_work = {(row["client"], row["batch"]) for row in workers}
    busy = {client for client, _ in at_work}
    return [one for one in batches if (one.client_id, one.number) in at_work or one.client_id not in busy]


def _batch(batch: BatchNote, instance: str) -> StatusRow:
    return {
        "batch": batch.number,
        "instance": instance,
        "client": batch.client_id,
        "events": len(batch.claims),
        "destinations": sorted({str(claim.destination) for claim in batch.claims.values()}),
        "since": batch.since or None,
    }


def _workers(
    clients: Sequence[ClientNote], batches: Sequence[BatchNote], state: StateStore
) -> Iterable[StatusRow]:
    claims = {(batch.client_id, batch.number): batch.claims for batch in batches}
    for client in clients:
        for task in state.journals(client.client_id, client.instance).running():
            batch = claims.get((client.client_id, task.batch), {})
            claim = batch.get(task.sequence) if task.sequence is not None else None
            yield {
                "instance": client.instance,
                "client": client.client_id,
                "batch": task.batch,
                "host": task.host or None,
                "pid": task.pid or None,
                "message_id": claim.message_id if claim is not None else None,
                "destination": str(claim.destination) if claim is not None else None,
                "since": task.since,
            }


def stopped_loads(notes: Sequence[InstanceNote]) -> Iterable[StatusRow]:
    """Yields the loads that have stopped in running instances."""
    return (row for row in _rows_of(notes, "loads") if row["state"] == "stopped")


def _rows_of(notes: Sequence[InstanceNote], key: str) -> Iterable[StatusRow]:
    """Yields what the running instances say of subscriptions: those that rest, or loads that are not well."""
    for note in notes:
        for row in note.note.get(key, []) if note.runs else []:
            yield {"instance": note.name, **row}


def as_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the document of a :class:`StatusReader` with reasons and times as text: ISO 8601, UTC."""
    return {key: _as_json(value) for key, value in document.items()}


def _as_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_json(one) for one in value]
    if isinstance(value, Reason):
        return value.to_json()
    if not isinstance(value, dict):
        return value
    return {key: _iso(one) if key in _TIMES else one for key, one in value.items()}


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else iso_time(seconds)
