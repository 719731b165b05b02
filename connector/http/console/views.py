"""What the pages show. Each function reads what a command of the same name reads, and changes nothing."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from connector.config.loading import Configuration
from connector.config.resolved import as_document, as_yaml, explained
from connector.errors import ConnectorError, UnknownDestination
from connector.http.console.bodies import shown_body
from connector.messaging.destination import Destination
from connector.messaging.message import MESSAGE_CLASSES, Message
from connector.messaging.selector import callers_selector
from connector.operate.activity import STEP
from connector.operate.errors import error_groups, group_of
from connector.operate.lives import find_ids, find_named, read_last, read_life
from connector.service.assembly import make_provider
from connector.service.observer import Observer
from connector.service.orders import archive_of
from connector.service.places import find_places, find_senders
from connector.service.queues import find_destinations, role_of, roles
from connector.service.status_document import as_json
from connector.text.iso_time import iso_time, read_since

Query = Mapping[str, str]
View = dict[str, Any]

_PAGE: Final = 50
"""Messages of a page."""
_SEARCH_SECONDS: Final = 1.0
_SORTED: Final[Mapping[str, Callable[[Message], int]]] = {
    "newest": lambda one: one.timestamp or 0,
    "largest": lambda one: len(one.body),
}
_NO_CALLS: Final = {"failed_5m": None, "last_success": None, "last_error": None}
"""Of a subscription that the status does not know yet."""
_MOST_LIVES: Final = 20
_MOST_EVENTS: Final = 200
_EXPLAIN_SECONDS: Final = 20.0


class NotFound(ConnectorError):
    """There is no such message. The text says where it was looked for."""


class NotSeen(ConnectorError):
    """The provider has not answered since the start. The text says so."""


class BadQuestion(ConnectorError):
    """A field of a form has a value that it cannot have. The text names both."""


def overview(observer: Observer, _: Query) -> View:
    status = as_json(observer.status(at_once=True))
    if "inputs" not in status:
        raise NotSeen(", ".join(one["text"] for one in status["reasons"]))
    paused = {(row["kind"], row["what"]): row for row in status["paused"]}
    inputs = [
        {
            **row,
            "paused": paused.get(("input", row["destination"])),
            "chart": _chart(row["hour"]),
            "rate": _rate(row["hour"]),
        }
        for row in status["inputs"]
    ]
    resting = {row["subscription"]: row for row in status["resting"]}
    failing = {row["subscription"]: row for row in status["failing"]}
    calls = {row["subscription"]: row for row in status["subscriptions"]}
    subscriptions = [
        {
            "name": one.name,
            "object": one.object,
            "verbs": one.verbs,
            "target": one.target(),
            "paused": paused.get(("subscription", one.name)),
            "resting": resting.get(one.name),
            "failing": failing.get(one.name),
            "calls": calls.get(one.name, _NO_CALLS),
            "seconds": _mean(observer.activity.deliveries.rows().get(one.name)),
        }
        for one in observer.configuration.subscriptions
    ]
    return {"status": status, "inputs": inputs, "subscriptions": subscriptions}


def queues(observer: Observer, _: Query) -> View:
    configuration = observer.configuration
    provider = make_provider(configuration)
    found = [
        {
            "info": one,
            "name": str(one.destination),
            "role": role_of(one.destination, configuration) or "",
        }
        for one in observer.reads.get("queues", lambda: find_destinations(configuration, provider))
    ]
    return {"queues": found, "counts_all": provider.capabilities.shows_all}


def messages(observer: Observer, query: Query) -> View:
    """The messages of a queue that fit a selector and a group of reasons, 50 on a page.

    They come in the order of taking, or sorted. A search ends after a second, and goes on with the next page.
    """
    queue, order = _queue(observer, query), query.get("order", "")
    begin = _number(query.get("from", ""))
    unreadable: list[str] = []

    def tell(message: Message, reason: str) -> None:
        unreadable.append(f"{message.message_id}: {reason}")

    with _connection(observer) as connection:
        found = itertools.islice(connection.browse(queue, tell, delayed="delayed" in query), begin, None)
        search = _Search(_fits(query), None if order in _SORTED else _PAGE)
        rows = search.run(found)
    if order in _SORTED:
        rows.reverse()  # of equal messages the last one comes first
        rows = heapq.nlargest(_PAGE, rows, key=_SORTED[order])
    return {
        "queue": str(queue),
        "asked": {name: query.get(name, "") for name in ("selector", "group", "order", "delayed")},
        "orders": {"": "order of taking", **{name: name for name in _SORTED}},
        "next": begin + search.seen if search.has_more else None,
        "looked": search.seen if search.is_cut else 0,
        "rows": [_row(one) for one in rows],
        "unreadable": unreadable[:_PAGE],
        "targets": _targets(observer),
    }


class _Search:
    """Takes messages that fit, until there are enough or the time is over.

    Args:
        most: messages. None = no limit.
    """

    def __init__(self, fits: Callable[[Message], bool], most: int | None) -> None:
        self._fits = fits
        self._most = most
        self.seen = 0
        """Messages that were looked at."""
        self.has_more = self.is_cut = False
        """Whether there are further messages, and whether the time was over."""

    def run(self, messages: Iterator[Message]) -> list[Message]:
        """Returns the messages that fit."""
        found: list[Message] = []
        until = time.monotonic() + _SEARCH_SECONDS
        for one in messages:
            self.is_cut = self.seen > 0 and time.monotonic() > until
            if self.is_cut or len(found) == self._most:
                self.has_more = True
                break
            self.seen += 1
            if self._fits(one):
                found.append(one)
        return found


def _fits(query: Query) -> Callable[[Message], bool]:
    group = query.get("group", "")
    selector = callers_selector(query["selector"]) if query.get("selector") else None

    def fits(one: Message) -> bool:
        return (selector is None or selector.matches(one)) and (not group or group_of(one) == group)

    return fits


def message(observer: Observer, query: Query) -> View:
    """One message with headers, properties and body."""
    queue, identity = _queue(observer, query), query.get("id", "")
    with _connection(observer) as connection:
        parts = (False,) if queue.view else (False, True)
        found = (
            one for delayed in parts for one in connection.browse(queue, ids=[identity], delayed=delayed)
        )
        one = next((each for each in found if each.message_id == identity), None)
    if one is None:
        raise NotFound(f"{identity} is not in {queue} any more; its history may say where it went")
    return {
        "queue": str(queue),
        "id": identity,
        "headers": {name: value for name, value in one.headers().items() if value},
        "properties": [(name, one.property_types[name], value) for name, value in one.properties.items()],
        "kind": MESSAGE_CLASSES[one.message_class],
        "body": shown_body(one),
        "can_correct": _can_correct(observer, queue, one),
        "targets": _targets(observer),
    }


def explain(observer: Observer, query: Query) -> View:
    """What a message means and who would get it. The message waits in a queue, or is a body for a trial."""
    if "body" not in query:
        identity = query.get("id", "").removeprefix("ID:")  # with its prefix no id is the name of a file
        return _explain(observer, f"ID:{identity}", destination=str(_queue(observer, query)))
    if not query["body"]:
        return {"found": None, "problem": "there is no body"}
    with tempfile.NamedTemporaryFile(prefix="connector-console-") as file:
        file.write(query["body"].encode())
        file.flush()
        options = {name: query[name] for name in ("type", "destination") if query.get(name)}
        return _explain(observer, file.name, **options)


def _explain(observer: Observer, what: str, **options: str) -> View:
    """Returns the answer of ``connector explain``.

    The command runs the data handlers of the deployment, which may hang on a body. So it runs in a process of
    its own, and is ended after a while.
    """
    settings = observer.configuration
    words = [f"--{name}={value}" for name, value in {**options, "config": str(settings.file)}.items()]
    if any("\0" in one for one in (what, *words)):
        raise BadQuestion("found the character U+0000, which no id, type or destination has")
    try:
        done = subprocess.run(
            (sys.executable, "-m", "connector.cli", "explain", "--json", *words, "--", what),
            cwd=settings.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_EXPLAIN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"found": None, "problem": f"the explanation took longer than {_EXPLAIN_SECONDS:.0f} s"}
    try:
        found = json.loads(done.stdout)
        for one in found["objects"]:
            one["text"] = json.dumps(one["values"], indent=2, ensure_ascii=False)
        return {"found": found, "problem": ""}
    except ValueError:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["the command said nothing"]
        return {"found": None, "problem": lines[-1]}


def errors(observer: Observer, query: Query) -> View:
    """The groups of failed messages."""
    queues: Sequence[Destination] = observer.configuration.connector.copies.errors
    if query.get("destination"):
        queues = [_queue(observer, query)]
    tracebacks = observer.activity.tracebacks
    groups = []
    for queue in queues:
        for one in observer.reads.get(("errors", queue), partial(_groups, observer, queue)):
            traceback = tracebacks.find(one["subscription"] or "", one["place"] or "")
            groups.append({**one, "queue": str(queue), "traceback": traceback})
    return {"queues": [str(queue) for queue in queues], "groups": groups, "targets": _targets(observer)}


def _groups(observer: Observer, queue: Destination) -> list[dict[str, Any]]:
    with _connection(observer) as connection:
        try:
            return [one.document() for one in error_groups(connection.browse(queue))]
        except UnknownDestination:
            return []  # nothing has ever failed


def history(observer: Observer, query: Query) -> View:
    """The lives of the messages that were asked for. With a time alone, all that has happened since then."""
    configuration = observer.configuration
    provider = make_provider(configuration)
    known = provider.existing_state(configuration.connector.application_name).history()
    asked = {name: query.get(name, "").strip() for name in ("id", "correlation_id", "key", "since")}
    try:
        since = read_since(asked["since"]) if asked["since"] else 0.0
    except ValueError as error:
        raise BadQuestion(f"since: {error}") from None
    ids = find_named(known, asked["id"], since) if asked["id"] else []
    if asked["correlation_id"] or asked["key"]:
        names = {name: asked[name] or None for name in ("correlation_id", "key")}
        ids += find_ids(known, **names, since=since)
    lives = [read_life(known, one, since) for one in ids[:_MOST_LIVES]]
    if asked["id"] and not any(one.events for one in lives):
        lives = find_senders(provider, known, asked["id"])
    is_by_time = bool(since) and not any(asked[name] for name in ("id", "correlation_id", "key"))
    events = read_last(known, since, _MOST_EVENTS + 1) if is_by_time else []
    return {
        "asked": asked,
        "is_asked": any(asked.values()),
        "lives": [one.as_dict(find_places(configuration, provider, one)) for one in lives if one.events],
        "more": max(0, len(ids) - _MOST_LIVES),
        "events": [one.as_dict() for one in events[-_MOST_EVENTS:]],
        "has_earlier": len(events) > _MOST_EVENTS,
    }


def configuration(observer: Observer, _: Query) -> View:
    found: Configuration = observer.configuration
    static = found.metaobjects.static.get(found.connector.configuration_meta_object or "")
    sent = {entry.id: entry.properties for entry in static.entries} if static else {}
    return {
        "yaml": as_yaml(as_document(found)),
        "sections": explained(found),
        "file": str(found.file),
        "inputs": [str(one.destination) for one in found.connector.inputs],
        "rules": [(rule, sent.get(rule.id, rule.handler)) for rule in static.rules] if static else [],
        "definitions": [
            found.metaobjects.definitions[name] for name in sorted(found.metaobjects.definitions)
        ],
    }


@contextlib.contextmanager
def _connection(observer: Observer) -> Iterator[Any]:
    with contextlib.closing(make_provider(observer.configuration).existing()) as connection:
        yield connection


def _queue(observer: Observer, query: Query) -> Destination:
    queue = observer.configuration.destination(query.get("queue") or query.get("destination") or "")
    if not queue.is_queue:
        raise NotFound(f"{queue} is a topic, which keeps no messages; its subscriptions do")
    return queue


def _targets(observer: Observer) -> list[str]:
    """Returns destinations of the configuration, as proposals for a form."""
    return [str(one) for one in roles(observer.configuration)]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _row(one: Message) -> dict[str, Any]:
    return {
        "id": one.message_id or "",
        "time": iso_time(one.timestamp / 1000) if one.timestamp else "",
        "due": iso_time(one.delivery_time / 1000) if one.delivery_time else "",
        "type": one.type or "",
        "size": len(one.body),
        "deliveries": one.delivery_count,
        "reason": one.properties.get("connector_reason", ""),
    }


def _can_correct(observer: Observer, queue: Destination, one: Message) -> bool:
    """Whether a form for another body is shown: for a text that failed, and that a page shows whole."""
    configuration = observer.configuration
    is_error = queue in configuration.connector.copies.errors and archive_of(configuration)(one) is not None
    body = shown_body(one)
    return is_error and body.kind in ("JSON", "text") and not body.is_cut


def _rate(hour: list[tuple[int, int]]) -> float:
    """Returns the mean number of events per second since the start of the last whole step."""
    return sum(map(sum, hour[-2:])) / (STEP + time.time() % STEP)


class _Chart(NamedTuple):
    """A chart of the last hour. Lengths are in units of the drawing, which is 100 high.

    Args:
        bars: position, height of the published part and of the failed part.
        published, failed: events of the hour.
        most: events of the highest bar.
    """

    bars: list[tuple[int, float, float]]
    published: int
    failed: int
    most: int


def _chart(hour: list[tuple[int, int]]) -> _Chart:
    most = max(published + failed for published, failed in hour)
    scale = 100 / most if most else 0.0
    bars = [
        (place, round(published * scale, 1), round(failed * scale, 1))
        for place, (published, failed) in enumerate(hour)
    ]
    return _Chart(bars, sum(one for one, _ in hour), sum(one for _, one in hour), most)


def _mean(row: list[float] | None) -> float | None:
    """Returns the mean duration of a row of :class:`connector.operate.activity.Durations`."""
    number = sum(row[1:], 0.0) if row is not None else 0.0
    return row[0] / number if row is not None and number else None
