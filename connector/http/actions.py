"""What operators can call below ``/control``: the same as the commands, with the same documents."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from connector.config.http_model import OPERATE, READ
from connector.config.loading import load
from connector.errors import ConnectorError, SelectorError, UnknownDestination
from connector.http.operator_calls import Action, ControlCall
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.selector import Selector, callers_selector
from connector.messaging.state_store import StateStore
from connector.operate.control import Pausable, await_reload, pause, reload_document, resume, targets_of
from connector.operate.errors import error_groups
from connector.operate.lives import find_named, read_life
from connector.operate.replay import Discard, Move, Mover, Order, check_target, make_choice, total
from connector.service.assembly import make_provider, make_targets
from connector.service.orders import archive_of, correct_message, find_source, replay_order, run_order
from connector.service.places import find_places, find_senders
from connector.service.status_document import as_json
from connector.status import OutcomeKind

_RELOAD_SECONDS: Final = 60.0
_CHOICE: Final = ("destination", "ids", "group", "kind", "reason", "selector", "limit", "yes", "expect")


class BadCall(ConnectorError):
    """A call has a value that it cannot have. The text names both."""


def _status(call: ControlCall) -> Any:
    return as_json(call.observer.status())


def _pause(call: ControlCall) -> Any:
    body = _Body(call.body, ("what", "all", "reason"))
    targets = make_targets(call.configuration)
    wanted = targets.all_inputs() if body.flag("all") else targets.find(body.names("what"))
    return pause(_state(call).control(), wanted, by=_who(call), reason=body.text("reason")).document()


def _resume(call: ControlCall) -> Any:
    body = _Body(call.body, ("what", "all", "reason"))
    record = _state(call).control()
    paused: list[Pausable] = targets_of(record.read().paused)
    wanted = paused if body.flag("all") else make_targets(call.configuration).find(body.names("what"), paused)
    return resume(record, wanted).document()


def _reload(call: ControlCall) -> Any:
    load(call.configuration.file, thorough=True)  # a mistake asks nobody
    return reload_document(await_reload(_state(call), by=_who(call), seconds=_RELOAD_SECONDS))


def _errors(call: ControlCall) -> Any:
    sources = _sources(call, call.query.get("destination", ""))
    messages: list[Iterable[Message]] = []
    with contextlib.closing(make_provider(call.configuration).existing()) as connection:
        for source in sources:
            try:
                messages.append(connection.browse(source))
            except UnknownDestination:
                if source not in call.configuration.connector.copies.errors:
                    raise
        groups = error_groups(itertools.chain.from_iterable(messages))
    return [one.document() for one in groups]


def _replay(call: ControlCall) -> Any:
    def make(body: _Body, source: Destination) -> Order:
        target = _target(call, body, source, allows_topic=False) if body.text("to") else None
        return replay_order(call.configuration, source, target, again=body.flag("again"))

    return _move_messages(call, ("to", "again"), make)


def _move(call: ControlCall) -> Any:
    return _move_messages(
        call, ("to",), lambda body, source: Move(_target(call, body, source, allows_topic=True))
    )


def _discard(call: ControlCall) -> Any:
    def make(body: _Body, source: Destination) -> Order:
        if source in call.configuration.connector.copies.every(OutcomeKind.PUBLISHED):
            raise BadCall(f"destination: {source} is the archive itself")
        return Discard(archive_of(call.configuration), _who(call), body.text("why"))

    return _move_messages(call, ("why",), make)


def _correct(call: ControlCall) -> Any:
    body = _Body(call.body, ("destination", "id", "body"))
    sources = _sources(call, body.text("destination"))
    source = find_source(call.configuration, sources, body.text("id"))
    to = correct_message(
        call.configuration, source, body.text("id"), body.text("body").encode(), by=_who(call)
    )
    return {"to": str(to)}


def _send(call: ControlCall) -> Any:
    body = _Body(call.body, ("destination", "type", "body"))
    message = Message(body.text("body").encode(), "T", type=body.text("type") or None)
    with contextlib.closing(make_provider(call.configuration).connect()) as connection:
        try:
            (sent,) = connection.send(call.configuration.destination(body.text("destination")), [message])
        except ValueError as error:
            raise BadCall(str(error)) from None
    return {"id": sent}


def _history(call: ControlCall) -> Any:
    configuration = call.configuration
    provider = make_provider(configuration)
    known = provider.existing_state(configuration.connector.application_name).history()
    life = read_life(known, find_named(known, call.path["id"])[-1])
    if not life.events:
        life = next(iter(find_senders(provider, known, call.path["id"])), life)
    return life.as_dict(find_places(configuration, provider, life))


ACTIONS: Final = (
    Action("GET", "/control/status", READ, _status),
    Action("GET", "/control/errors", READ, _errors),
    Action("GET", "/control/history/{id:path}", READ, _history),
    Action("POST", "/control/pause", OPERATE, _pause),
    Action("POST", "/control/resume", OPERATE, _resume),
    Action("POST", "/control/reload", OPERATE, _reload),
    Action("POST", "/control/replay", OPERATE, _replay),
    Action("POST", "/control/move", OPERATE, _move),
    Action("POST", "/control/discard", OPERATE, _discard),
    Action("POST", "/control/correct", OPERATE, _correct),
    Action("POST", "/control/send", OPERATE, _send),
)
"""What can be called."""


class _Body:
    """The values of a call."""

    def __init__(self, values: Mapping[str, Any], known: tuple[str, ...]) -> None:
        self._values = values
        for name in values.keys() - set(known):
            raise BadCall(f"there is no {name!r}; there are {', '.join(known)}")

    def text(self, name: str) -> str:
        found = self._values.get(name, "")
        if not isinstance(found, str):
            raise BadCall(f"{name}: expected a text")
        return found

    def flag(self, name: str) -> bool:
        found = self._values.get(name, False)
        if not isinstance(found, bool):
            raise BadCall(f"{name}: expected true or false")
        return found

    def number(self, name: str) -> int | None:
        found = self._values.get(name)
        if found is not None and (not isinstance(found, int) or isinstance(found, bool) or found < 0):
            raise BadCall(f"{name}: expected a number from 0")
        return found

    def names(self, name: str) -> list[str]:
        """Returns a text, or a list of texts, as a list."""
        found = self._values.get(name, [])
        names = [found] if isinstance(found, str) else found
        if not isinstance(names, list) or not all(isinstance(one, str) for one in names) or not names:
            raise BadCall(f"{name}: expected a text, or a list of texts")
        return names

    def has(self, name: str) -> bool:
        return name in self._values


def _move_messages(
    call: ControlCall, more: tuple[str, ...], make: Callable[[_Body, Destination], Order]
) -> Any:
    """Carries out an order on the messages that a call names. Without ``yes`` it only says which."""
    body = _Body(call.body, (*_CHOICE, *more))
    sources = _sources(call, body.text("destination"))
    ids = body.names("ids") if body.has("ids") else []
    choice = make_choice(
        ids, body.text("group"), body.text("kind"), body.text("reason"), _selector(body), body.number("limit")
    )
    movers = [Mover(source, choice, make(body, source)) for source in sources]
    yes, expect = body.flag("yes"), body.number("expect")
    try:
        run_order(call.configuration, movers, by=_who(call), why=body.text("why"), yes=yes, expect=expect)
    except UnknownDestination:
        if body.text("destination"):  # otherwise nothing has ever failed
            raise
    return total(movers).document()


def _selector(body: _Body) -> Selector | None:
    text = body.text("selector")
    try:
        return callers_selector(text) if text else None
    except SelectorError as error:
        raise BadCall(f"selector: {error}") from None


def _sources(call: ControlCall, text: str) -> Sequence[Destination]:
    """Returns the queue that a text names. An empty text is every error destination, also of inputs."""
    configuration = call.configuration
    found = (configuration.destination(text),) if text else configuration.connector.copies.errors
    queues = [one for one in found if one.is_queue]
    if not queues:
        raise BadCall("destination: expected a queue")
    return queues


def _target(call: ControlCall, body: _Body, source: Destination, *, allows_topic: bool) -> Destination:
    target = call.configuration.destination(body.text("to"))
    check_target(target, source, allows_topic=allows_topic)
    return target


def _state(call: ControlCall) -> StateStore:
    configuration = call.configuration
    return make_provider(configuration).state(configuration.connector.application_name)


def _who(call: ControlCall) -> str:
    return call.caller or "http"
