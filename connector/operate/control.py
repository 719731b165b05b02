"""What an operator tells the application: inputs and subscriptions that are paused, for all its instances."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Final, NamedTuple

from connector.errors import ConnectorError, DestinationError, ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.state_store import (
    ControlRecord,
    InstanceNote,
    PauseNote,
    ReloadNote,
    StateStore,
)
from connector.text.iso_time import iso_time
from connector.text.names import did_you_mean

_log: Final = logging.getLogger("connector.control")

_LOOK_SECONDS: Final = 1.0
_CLOCKS: Final = 5.0
"""Seconds that the clocks of two machines may differ. A reload too many changes nothing."""
_SHORTEST, _LONGEST = 5.0, 60.0
"""Seconds after which an event of a paused subscription comes again. They grow with the time of the pause."""
_ANSWER_PAUSE: Final = 0.1
_OBEY_SECONDS: Final = 5.0


class UnknownTarget(ConnectorError):
    """The text names no input and no subscription that can be paused."""


class TargetKind(StrEnum):
    """What can be paused."""

    INPUT = "input"
    SUBSCRIPTION = "subscription"


class Pausable(NamedTuple):
    """What can be paused.

    Args:
        what: the destination of the input, or the name of the subscription.
    """

    kind: TargetKind
    what: str


class Targets:
    """What can be paused in a deployment.

    Args:
        inputs: the destinations of the inputs, as text.
        is_managed: whether the events are under ContainerManagedEvents. Then no event comes again later, and
            no subscription can be paused.
    """

    def __init__(
        self, inputs: Iterable[str], subscriptions: Iterable[str], *, is_managed: bool = False
    ) -> None:
        self._is_managed = is_managed
        self._known = [
            *(Pausable(TargetKind.INPUT, one) for one in dict.fromkeys(inputs)),
            *(Pausable(TargetKind.SUBSCRIPTION, one) for one in subscriptions),
        ]

    def all_inputs(self) -> list[Pausable]:
        """Returns all inputs. Nothing is claimed while all of them are paused."""
        return [one for one in self._known if one.kind is TargetKind.INPUT]

    def find(self, names: Iterable[str], paused: Sequence[Pausable] = ()) -> list[Pausable]:
        """Returns what the names mean.

        Args:
            names: the name of a subscription, or an input. A bare name that no subscription has is a queue.
            paused: what can be named although the deployment does not have it any more.

        Raises:
            UnknownTarget: a name means nothing that can be paused.
        """
        known = list(dict.fromkeys([*self._known, *paused]))
        found = list(dict.fromkeys(self._find(name, known) for name in names))
        for one in found if self._is_managed else ():
            if one.kind is TargetKind.SUBSCRIPTION and one not in paused:
                raise UnknownTarget(
                    f"the subscription {one.what!r} cannot be paused, because ContainerManagedEvents lets no "
                    "event come again later: pause the inputs of its objects"
                )
        return found

    @staticmethod
    def _find(name: str, known: Sequence[Pausable]) -> Pausable:
        destination = own = ""
        with contextlib.suppress(DestinationError):
            own = str(parse_destination(name, own_names=True))
            destination = str(parse_destination(name, own_names=False))
        inputs = [Pausable(TargetKind.INPUT, one) for one in (destination, own)]
        for wanted in (Pausable(TargetKind.SUBSCRIPTION, name), *inputs):
            if wanted in known:
                return wanted
        names = [one.what for one in known]
        there_are = f"; there are {', '.join(names)}" if names else ""
        meant = did_you_mean(name, names) or did_you_mean(destination, names) or there_are
        raise UnknownTarget(f"there is no input and no subscription {name!r}{meant}")


class PauseResult(NamedTuple):
    """What a command has done.

    Args:
        unchanged: what was so before.
        waiting: running services that have not obeyed yet.
    """

    changed: list[str]
    unchanged: list[str]
    paused: list[PauseNote]
    waiting: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """Returns the answer of the command in JSON."""
        return {**self._asdict(), "paused": [pause_row(one) for one in self.paused]}


def pause_row(note: PauseNote) -> dict[str, Any]:
    """Returns an entry for JSON. ``since`` is in ISO 8601, UTC."""
    return {**asdict(note), "since": iso_time(note.since)}


def pause(record: ControlRecord, targets: Sequence[Pausable], *, by: str, reason: str = "") -> PauseResult:
    """Pauses inputs and subscriptions. What is paused already keeps its entry.

    Args:
        targets: to be paused.
        reason: why.

    Raises:
        ProviderError: the record cannot be changed.
    """
    now = round(time.time(), 3)
    with record.change() as control:
        known = set(targets_of(control.paused))
        new = [one for one in targets if one not in known]
        control.paused += [PauseNote(one.kind.value, one.what, by, now, reason) for one in new]
        control.paused.sort(key=lambda one: (one.kind, one.what))
    return _changes(targets, new, control.paused)


def resume(
    record: ControlRecord, targets: Sequence[Pausable], resting: Set[str] = frozenset()
) -> PauseResult:
    """Resumes inputs and subscriptions, and ends the rests of subscriptions.

    Args:
        targets: to be resumed.
        resting: the subscriptions that rest in an instance.

    Raises:
        ProviderError: the record cannot be changed.
    """
    subscriptions = {one.what for one in targets if one.kind is TargetKind.SUBSCRIPTION}
    with record.change() as control:
        ended = [one for one in targets_of(control.paused) if one in targets]
        control.paused = [one for one in control.paused if _target(one) not in ended]
        control.rested |= dict.fromkeys(sorted(subscriptions & resting), time.time())
    ended += [one for one in targets if one.what in subscriptions & resting and one not in ended]
    return _changes(targets, ended, control.paused)


def resting_in(instances: Iterable[InstanceNote]) -> set[str]:
    """Returns the subscriptions that rest in running instances."""
    return {row["subscription"] for one in instances if one.runs for row in one.note.get("resting", ())}


def await_obeyed(state: StateStore, targets: Sequence[Pausable], *, are_paused: bool) -> list[str]:
    """Waits until the running services know that targets are paused, or are not. Returns who does not answer.

    Raises:
        ProviderError: the state cannot be read.
    """
    wanted = {(one.kind.value, one.what) for one in targets}
    deadline = time.monotonic() + _OBEY_SECONDS
    while True:
        waiting = []
        for one in state.instances():
            known = one.note.get("paused")
            if not one.runs or known is None:
                continue  # only a service obeys
            found = wanted & {(kind, what) for kind, what in known}
            if found != (wanted if are_paused else set()):
                waiting.append(one.name)
        if not waiting or time.monotonic() >= deadline:
            return waiting
        time.sleep(_ANSWER_PAUSE)


def targets_of(paused: Iterable[PauseNote]) -> list[Pausable]:
    """Returns what is paused."""
    return [_target(one) for one in paused]


def _target(note: PauseNote) -> Pausable:
    return Pausable(TargetKind(note.kind), note.what)


def _changes(
    targets: Iterable[Pausable], changed: Sequence[Pausable], paused: list[PauseNote]
) -> PauseResult:
    return PauseResult(
        [one.what for one in changed], [one.what for one in targets if one not in changed], paused
    )


def ask_to_reload(record: ControlRecord, *, by: str) -> ReloadNote:
    """Asks all instances to read their configuration anew. Returns the request.

    Raises:
        ProviderError: the record cannot be changed.
    """
    with record.change() as control:
        number = 1 if control.reload is None else control.reload.number + 1
        control.reload = ReloadNote(number, by, round(time.time(), 3))
    return control.reload


class ReloadAnswer(NamedTuple):
    """What an instance has done about a request to reload. It stands in the note of the instance.

    Args:
        number: of the request. 0 = none since the start of the instance.
        result: ``reloaded`` or ``refused``. Empty without a request.
        restart: what is changed by a restart only.
    """

    number: int = 0
    result: str = ""
    reason: str = ""
    restart: Sequence[str] = ()


def reload_answers(
    instances: Iterable[InstanceNote], request: ReloadNote
) -> tuple[dict[str, ReloadAnswer], list[str]]:
    """Returns the answers to a request by instance, and the running services that have not answered."""
    answers: dict[str, ReloadAnswer] = {}
    waiting: list[str] = []
    for one in instances:
        if not one.runs or "reload" not in one.note:
            continue  # only a service reloads
        answer = ReloadAnswer(**one.note["reload"])
        if answer.number >= request.number:
            answers[one.name] = answer
        else:
            waiting.append(one.name)
    return answers, waiting


def await_reload(state: StateStore, *, by: str, seconds: float) -> dict[str, ReloadAnswer]:
    """Asks all instances to read their configuration anew, and waits for their answers.

    Args:
        by: who asks.

    Returns:
        the answers by instance. An instance without one has the result ``waits``, or ``ended``.

    Raises:
        ProviderError: the record cannot be changed, or no service runs.
    """
    request = ask_to_reload(state.control(), by=by)
    deadline = time.monotonic() + seconds
    asked: dict[str, None] = {}
    while True:
        answers, waiting = reload_answers(state.instances(), request)
        asked.update(dict.fromkeys([*answers, *waiting]))
        if not waiting or time.monotonic() >= deadline:
            break
        time.sleep(_ANSWER_PAUSE)
    if not asked:
        raise ProviderError("no service of this application runs; the next start reads the configuration")
    for name in asked:
        answers.setdefault(name, ReloadAnswer(result="waits" if name in waiting else "ended"))
    return dict(sorted(answers.items()))


def reload_document(answers: Mapping[str, ReloadAnswer]) -> dict[str, Any]:
    """Returns the document of ``connector reload --json``."""
    return {"instances": [{"instance": name, **one._asdict()} for name, one in answers.items()]}


class ControlWatch:
    """The control as one instance knows it. :meth:`delays` is for any thread, all others for one thread.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked_at = float("-inf")
        self._lock = threading.Lock()
        self._paused: dict[tuple[str, str], PauseNote] = {}
        self._seen: dict[tuple[str, str], float] = {}
        """When this instance has seen each pause first."""
        self.rested: Mapping[str, float] = {}
        """When an operator has ended the rest of a subscription, in seconds since 1970."""
        self._reload: ReloadNote | None = None
        self._answered = 0
        self._since = time.time() - _CLOCKS

    def look(self, record: ControlRecord, *, at_once: bool = False) -> bool:
        """Reads the record, at most once a second. Returns whether inputs or subscriptions have changed.

        Args:
            at_once: whether to read although the last look was just now.

        Raises:
            ProviderError: the record cannot be read.
        """
        now = self._clock()
        if not at_once and now - self._looked_at < _LOOK_SECONDS:
            return False
        control = record.read()
        self.rested = control.rested
        paused = {(one.kind, one.what): one for one in control.paused}
        self._looked_at, self._reload = now, control.reload
        if paused == self._paused:
            return False
        for key in paused.keys() - self._paused.keys():
            note = paused[key]
            _log.warning("paused by an operator", extra={**_name(note), "by": note.by, "reason": note.reason})
        for key in self._paused.keys() - paused.keys():
            _log.info("resumed by an operator", extra=_name(self._paused[key]))
        with self._lock:
            self._paused = paused
            self._seen = {key: self._seen.get(key, now) for key in paused}
        return True

    @property
    def answered(self) -> int:
        """The number of the last request to reload that needs no answer any more. 0 = there is none."""
        return 0 if self._reload is None else self._reload.number - (self.reload is not None)

    @property
    def reload(self) -> ReloadNote | None:
        """The request to reload that has to be answered. One from before the start needs no answer."""
        found = self._reload
        is_new = found is not None and found.number > self._answered and found.at > self._since
        return found if is_new else None

    def note_answer(self, request: ReloadNote) -> None:
        """Notes that a request to reload is answered."""
        self._answered = request.number

    def paused(self) -> list[list[str]]:
        """Returns what this instance knows to be paused: kind and name."""
        return [list(key) for key in sorted(self._paused)]

    def is_paused(self, destination: str) -> bool:
        """Whether an input is paused."""
        return (TargetKind.INPUT, destination) in self._paused

    def delays(self) -> Mapping[str, float]:
        """Returns the paused subscriptions, each with the seconds until its events come again."""
        if not self._paused:
            return {}
        with self._lock:
            now = self._clock()
            return {
                what: min(_LONGEST, max(_SHORTEST, now - since))
                for (kind, what), since in self._seen.items()
                if kind == TargetKind.SUBSCRIPTION
            }


def _name(note: PauseNote) -> dict[str, str]:
    return {"destination" if note.kind == TargetKind.INPUT else "subscription": note.what}
