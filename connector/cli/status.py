"""``connector status``: shows the activity of the instances of an application. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json
from connector.cli.tables import ago, span, table
from connector.config.loading import Configuration, load
from connector.events.free_disk import shortage_of
from connector.messaging.notes import BatchNote, ClientNote, ClientState
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.state_store import InstanceNote, StateStore
from connector.service.assembly import make_event_settings, make_provider
from connector.text.iso_time import iso_time

StatusRow = dict[str, Any]


def status(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Shows instances, running batches, the work of each worker, and the messages that wait in the inputs.

    A worker is shown while it has events. Messages that an input's selector passes over count as waiting.
    """
    configuration = load(config)
    document = _look(configuration, make_provider(configuration))
    if json:
        answer_json({key: _as_json(value) for key, value in document.items()})
        return
    for line in _text(document, time.time()):
        answer(line)


def _look(configuration: Configuration, provider: AdapterProvider) -> dict[str, Any]:
    application = configuration.connector.application_name
    shortage = shortage_of(provider.disk(), configuration.min_free) or None
    document: dict[str, Any] = {"application": application, "disk_shortage": shortage}
    if not provider.check():  # no adapter has run yet
        return {
            **document,
            "instances": [],
            "batches": [],
            "workers": [],
            "resting": [],
            "paused": [],
            "inputs": _inputs(configuration, provider, looks=False),
        }
    state = provider.existing_state(application)
    clients = [one for one in provider.clients() if one.application == application]
    names = {one.client_id: one.instance for one in clients}
    batches = [
        one
        for one in provider.batches(configuration.connector.in_progress_destination)
        if one.client_id in names
    ]
    workers = list(_workers(clients, batches, state))
    return {
        **document,
        "instances": _instances(clients, state.instances()),
        "batches": [_batch(one, names[one.client_id]) for one in _running(batches, workers)],
        "workers": workers,
        "resting": list(_resting(state.instances())),
        "paused": [asdict(one) for one in state.control().read().paused],
        "inputs": _inputs(configuration, provider, looks=True),
    }


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


def _resting(notes: Sequence[InstanceNote]) -> Iterable[StatusRow]:
    """Yields the subscriptions that rest in a running instance."""
    for note in notes:
        for row in note.note.get("resting", []) if note.runs else []:
            yield {"instance": note.name, **row}


def _inputs(configuration: Configuration, provider: AdapterProvider, *, looks: bool) -> list[StatusRow]:
    rows = []
    for entry in make_event_settings(configuration, provider, "").inputs:
        waiting = provider.waiting(entry.source) if looks else None
        oldest = waiting.oldest if waiting is not None else None
        rows.append(
            {
                "destination": str(entry.destination),
                "waiting": waiting.number if waiting is not None else 0,
                "delayed": waiting.delayed if waiting is not None else 0,
                "oldest": oldest,
                "age": round(max(0.0, time.time() - oldest), 3) if oldest is not None else None,
            }
        )
    return rows


def _as_json(value: Any) -> Any:
    """Returns the value with times as text: ISO 8601, UTC."""
    if not isinstance(value, list):
        return value
    return [
        {key: _iso(one) if key in ("since", "oldest", "last_good_poll") else one for key, one in row.items()}
        for row in value
    ]


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else iso_time(seconds)


def _text(document: Mapping[str, Any], now: float) -> Iterable[str]:
    if document["disk_shortage"]:
        yield f"nothing is claimed: {document['disk_shortage']}"
    yield from _part(
        f"instances of {document['application']}",
        "none runs",
        ("instance", "host", "pid", "state", "since", "last good poll", "client"),
        [
            (
                row["instance"],
                _cell(row["host"]),
                _cell(row["pid"]),
                row["state"],
                ago(row["since"], now),
                ago(row["last_good_poll"], now),
                _cell(row["client"]),
            )
            for row in document["instances"]
        ],
    )
    yield from _part(
        "running batches",
        "none",
        ("batch", "instance", "events", "claimed", "destinations"),
        [
            (
                str(row["batch"]),
                row["instance"],
                f"{row['events']:,}",
                ago(row["since"], now),
                ", ".join(row["destinations"]),
            )
            for row in document["batches"]
        ],
    )
    yield from _part(
        "workers with events",
        "none",
        ("pid", "host", "instance", "batch", "message at work", "since", "destination"),
        [
            (
                _cell(row["pid"]),
                _cell(row["host"]),
                row["instance"],
                str(row["batch"]),
                _cell(row["message_id"]),
                ago(row["since"], now),
                _cell(row["destination"]),
            )
            for row in document["workers"]
        ],
    )
    yield from _part(
        "resting subscriptions",
        "none",
        ("subscription", "instance", "since", "last failure"),
        [
            (row["subscription"], row["instance"], ago(row["since"], now), row["reason"])
            for row in document["resting"]
        ],
    )
    yield from _part(
        "paused by operators",
        "nothing",
        ("what", "kind", "since", "by", "reason"),
        [
            (row["what"], row["kind"], ago(row["since"], now), row["by"], _cell(row["reason"]))
            for row in document["paused"]
        ],
    )
    yield from _part(
        "inputs",
        "none",
        ("destination", "waiting", "delayed", "age of the oldest"),
        [
            (
                row["destination"],
                f"{row['waiting']:,}",
                f"{row['delayed']:,}",
                span(row["age"]) if row["age"] is not None else "-",
            )
            for row in document["inputs"]
        ],
    )


def _part(title: str, nothing: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    if not rows:
        yield f"{title}: {nothing}"
        return
    yield title
    yield from table(titles, rows, indent=2)


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)
