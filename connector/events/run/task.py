"""A task: converts and publishes the events of one assignment, one after the other, by their numbers.

Apart from the deliveries, a task has no effects: it turns references into outcomes. A mistake in one event is
an outcome and never raises.
"""

from __future__ import annotations

import heapq
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from connector import faults
from connector.agent_trace import DETAILS, STEPS
from connector.businessobjects.dump import dump
from connector.businessobjects.instance import BusinessObject
from connector.errors import (
    BodyTooLarge,
    MalformedData,
    ProviderError,
    TooManyHops,
    UnknownBusinessObject,
)
from connector.events.hooks.grouped_log import LogGroups
from connector.events.hooks.task_hooks import task_hooks
from connector.events.outcome import Outcome, history, pack_prepared, retries_of, shorten
from connector.events.run.circuits import CallCounts, CircuitState
from connector.events.run.conversion_limit import ConversionLimit, ConversionTimer
from connector.events.run.convert import Converter
from connector.events.run.event_keys import FoundKey, RecordKey, find_keys, join_keys, with_keys
from connector.events.run.publication import (
    NOT_MAPPED,
    MatchedObject,
    Publication,
    TaskEvent,
    conditions_of,
    mapper_of,
    not_read,
    unsubscribed,
)
from connector.events.run.publish import Publisher
from connector.events.run.task_settings import NOTHING, TaskSettings, WorkItem
from connector.formats.datahandler import HandlerFailed
from connector.limits import stages
from connector.log import AT_WORK
from connector.messaging.duplicate_key import BODY
from connector.messaging.history import HOPS, check_hops
from connector.messaging.input import Input
from connector.messaging.message import Message
from connector.messaging.state_store import JournalHandle, TaskJournal
from connector.operate.reasons import ReasonKind
from connector.operate.trace_context import TRACEPARENT, valid_traceparent
from connector.requests.traced import JoiningRequests
from connector.sinks.contract import CallTimer, Event
from connector.sinks.lazy_requests import LazyRequests
from connector.sinks.replying import Unanswered
from connector.status import OutcomeKind
from connector.text.gzip_body import packed_limit
from connector.tracebacks import error_text, log_failure, message_of

if TYPE_CHECKING:
    from connector.declare.connector_section import Connector

_LEAVE_SECONDS = 1.0
"""Seconds at the end for requests in flight that no business process waits for."""
_NOBODY: Final[tuple[str, ...]] = ()


class _ConversionRaised(MalformedData):
    """The conversion raised an exception that is a mistake of its code. ``__cause__`` is that exception."""


def _with_group(number: int, order_group: list[WorkItem]) -> list[tuple[WorkItem, int]]:
    return [(item, number) for item in order_group]


def _sequence(numbered: tuple[WorkItem, int]) -> int:
    return numbered[0][0]


class TaskControl(CallTimer, ConversionTimer, Protocol):
    """A timer of calls and conversions that also tells a task to stop."""

    @property
    def stopping(self) -> bool:
        """Whether no further event begins."""

    @property
    def is_full(self) -> bool:
        """Whether a new process should go on with the next event, because this one keeps much memory."""

    def give_up(self) -> None:
        """Ends this process, so that a new one with more memory tries the event again. May do nothing."""


class Task:
    """Runs the events of one worker, assignment after assignment.

    Args:
        control: limits the time of calls of sinks.
        groups: of the log lines of all tasks of the process. None = the task has its own.

    Raises:
        ConnectorError: sinks or data handlers cannot be loaded.
    """

    def __init__(
        self,
        task_settings: TaskSettings,
        deployment: str,
        control: TaskControl,
        groups: LogGroups | None = None,
    ) -> None:
        self._task_settings = task_settings
        self._connector = task_settings.connector
        self._by_input = task_settings.by_input
        self._own = task_settings.own
        self._deployment = deployment
        self._access = task_settings.access.open()
        self._converter = Converter(task_settings, deployment)
        self._limit = ConversionLimit(control)
        self._hooks = task_hooks(task_settings, groups)
        self._publisher = Publisher(
            task_settings, deployment, self._converter, self._access, control, self._limit, self._hooks
        )
        self._conditions = conditions_of(task_settings.subscriptions)
        use_defaults = task_settings.connector.use_defaults
        self._mapper = mapper_of(task_settings.subscriptions, use_defaults=use_defaults)
        self._trace = task_settings.trace
        self._control = control
        spec = task_settings.requests
        self._values: Mapping[int, tuple[RecordKey, ...]] = NOTHING
        """What is known of the duplicate keys by values, by sequence."""
        self.keys: list[tuple[int, tuple[FoundKey, ...]]] = []
        """Sequences and their keys by values, as the last :meth:`run` has found them.

        A message that cannot be converted has none.
        """
        self.events = 0
        """Number of events that this task has taken."""
        count = self._hooks.count_request
        self._requests = LazyRequests(None if spec is None else lambda: spec, deployment, count)

    def run(
        self,
        handle: JournalHandle,
        order_groups: list[list[WorkItem]],
        batch: int = 0,
        circuits: Mapping[str, CircuitState] = NOTHING,
        paused: Mapping[str, float] = NOTHING,
        ids: Mapping[int, str] = NOTHING,
        asks_keys: bool = False,
        values: Mapping[int, tuple[RecordKey, ...]] = NOTHING,
    ) -> dict[bytes, list[int]]:
        """Runs all order groups. Returns the sequences by outcome, as JSON, without untouched events.

        A rolled back event stops its order group. A process that is not active, or a provider that fails,
        stops all order groups.

        The other arguments are those of :class:`.Assignment`. With ``asks_keys`` no sink is called, and
        :attr:`keys` has what was found.

        Raises:
            FileExistsError, FileNotFoundError: this assignment may not run (see JournalHandle).
            OSError: the journal cannot be written.
            ProviderError: the prepared messages cannot be made durable.
        """
        journal = handle.open()
        self._publisher.begin(batch, circuits, paused, ids)
        self._values = values
        self.keys = []
        outcomes: dict[bytes, list[int]] = {}
        try:
            try:
                if asks_keys:
                    self._find_keys(order_groups, journal, outcomes)
                else:
                    self._run(order_groups, journal, outcomes)
            finally:
                try:
                    AT_WORK.set(NOTHING)
                    self._access.sync()  # also after an error: the events done before are settled
                finally:
                    journal.close()
        except BaseException:
            for observe in self._hooks.abandoned:
                observe()
            raise
        return outcomes

    def _find_keys(
        self, order_groups: list[list[WorkItem]], journal: TaskJournal, outcomes: dict[bytes, list[int]]
    ) -> None:
        """Converts events to find their keys. Adds the outcome of one that cannot be read now, and stops."""
        for item, _ in heapq.merge(*map(_with_group, count(), order_groups), key=_sequence):
            if self._control.stopping or (self.keys and self.is_full):
                return
            journal.at(item[0])
            try:
                self.keys.append((item[0], self._keys_of(item)))
            except ProviderError as error:
                outcome = _given_back(error, item[3], not_read=True)
                outcomes[outcome.to_json()] = [item[0]]
                return

    def _keys_of(self, item: WorkItem) -> tuple[FoundKey, ...]:
        """Returns the keys of one event. Empty = its message cannot be converted.

        Raises:
            ProviderError: the message cannot be read now.
        """
        _, destination, reference, attempts, named = item
        settings = self._settings(named)
        self._limit.begin(settings.convert_timeout)
        self.events += 1
        try:
            limit = settings.max_body if settings.unpack == "none" else packed_limit(settings.max_body)
            message = self._access.load(reference, limit)
            message.delivery_count = attempts + history(message, self._own, destination)[0] + 1
            message.destination = destination
            AT_WORK.set({"message_id": message.message_id, "destination": destination})
            event = TaskEvent(item[0], destination, self._requests, message, input=named)
            matched = () if settings.duplicate_key == BODY else self._convert(event, message)
            with self._limit:
                return find_keys(settings, self._converter.body_of, message, matched)
        except (LookupError, MalformedData):
            return ()  # the event fails when it is to be delivered
        except MemoryError:
            self._give_up_memory()
            return ()

    def _without_duplicates(
        self, event: TaskEvent, message: Message, matched: list[MatchedObject]
    ) -> list[MatchedObject]:
        """Returns the objects of an event with their duplicate keys. Nobody gets those that are duplicates.

        Raises:
            MalformedData: the keys are not those of the first conversion, or the message has none.
        """
        known = self._values.get(event.sequence)
        if known is None:
            return matched
        settings = self._settings(event.input)
        found = find_keys(settings, self._converter.body_of, message, matched)
        return with_keys(matched, found, known, is_shared=settings.duplicate_key == BODY)

    @property
    def calls(self) -> Mapping[str, CallCounts]:
        """The calls of subscriptions that have failed, in the last :meth:`run`."""
        return self._publisher.gate.calls

    def take_told(self) -> dict[str, Any]:
        """Returns what hooks tell the driver, by their names, for the answer. Forgets it."""
        return {name: told for name, take in self._hooks.tellers if (told := take())}

    @property
    def is_full(self) -> bool:
        """Whether a new process should go on, because this one keeps much memory or has taken many events."""
        return self.events >= self._connector.worker_events or self._control.is_full

    def close(self) -> None:
        """Ends the requests of processes, and closes the sinks. Repeatable."""
        self._requests.stop(_LEAVE_SECONDS)
        self._publisher.close()

    def _run(
        self, order_groups: list[list[WorkItem]], journal: TaskJournal, outcomes: dict[bytes, list[int]]
    ) -> None:
        """Runs the events by their numbers, whatever their order groups are, and adds the outcomes."""
        before, data = None, b""
        is_noted = False  # whether the journal names the next event
        items = list(heapq.merge(*map(_with_group, count(), order_groups), key=_sequence))
        stopped: set[int] = set()
        for place, (item, group) in enumerate(items, 1):
            if group in stopped:
                continue
            if not is_noted:
                if self._control.stopping or (outcomes and self.is_full):
                    return
                journal.at(item[0])
            is_noted = False
            event = TaskEvent(item[0], item[1], self._requests, input=item[4])
            for observe in self._hooks.begun:
                observe(event)
            outcome, begun = self._event(event, item, journal)
            AT_WORK.set(NOTHING)
            for observe in self._hooks.ended:
                observe(event)
            if self._connector.container_managed_events and outcome.kind == OutcomeKind.FAILED:
                outcome = self._roll_back(item, outcome)
            if outcome.kind in (OutcomeKind.ROLLED_BACK, OutcomeKind.LATER):
                stopped.add(group)
            if outcome != before:  # most outcomes are equal
                before, data = outcome, outcome.to_json()
            if begun:
                following = None
                if not (outcome.kind == OutcomeKind.GIVEN_BACK or self._control.stopping or self.is_full):
                    rest = islice(items, place, None)
                    following = next((item[0] for item, group in rest if group not in stopped), None)
                is_noted = following is not None
                note = orjson.dumps(event.note) if event.note is not None else b""
                journal.done(item[0], data, following, note)
                faults.point("done")
            outcomes.setdefault(data, []).append(item[0])
            if outcome.kind == OutcomeKind.GIVEN_BACK:
                return

    def _settings(self, named: Input | None) -> Connector:
        """Returns the section ``connector`` as it holds for an input."""
        return self._connector if named is None else self._by_input[named]

    def _roll_back(self, item: WorkItem, failed: Outcome) -> Outcome:
        """Rolls back a failed event (ContainerManagedEvents) until its last attempt."""
        begun = item[3] + 1
        if begun < self._settings(item[4]).max_attempts:
            return failed._replace(kind=OutcomeKind.ROLLED_BACK)
        reason = failed.reason if begun == 1 else shorten(f"tried {begun} times: {failed.reason}")
        return failed._replace(attempts=failed.attempts + 1, reason=reason)

    def _event(self, event: TaskEvent, item: WorkItem, journal: TaskJournal) -> tuple[Outcome, bool]:
        """Returns the outcome of one event, and whether an external or transactional sink was called."""
        _, destination, reference, attempts, named = item
        settings = self._settings(named) if named is not None else self._connector
        confirmed: tuple[str, ...] = ()
        self._limit.begin(settings.convert_timeout)
        self.events += 1
        try:
            try:
                limit = settings.max_body if settings.unpack == "none" else packed_limit(settings.max_body)
                message = self._access.load(reference, limit)
            except LookupError as error:
                return not_read(_vanished(error), attempts, ReasonKind.UNREADABLE), False
            event.message = message
            earlier, confirmed = history(message, self._own, destination)
            attempts += earlier
            message.delivery_count = attempts + 1  # the file does not count workers that died since
            message.destination = destination  # also if the file lies in an in-progress destination
            AT_WORK.set({"message_id": message.message_id, "destination": destination})
            self._note_taken(event, message)
            event.objects = matched = self._convert(event, message)
            seconds = self._limit.used
            for observe_converted in self._hooks.converted:
                observe_converted(event, seconds)
            first = matched[0].bo
            if not any(one.subscribers for one in matched):
                reason = shorten("; ".join(dict.fromkeys(one.unwanted for one in matched)))
                outcome = unsubscribed(first.type, first.verb, reason, attempts)
                return self._with_refusal(outcome, message, reference), False
            retries = retries_of(message, self._own, destination)
            publish = partial(self._publisher.publish, event, confirmed, journal, reference, retries)
            if self._trace.level >= STEPS:
                fields = {"message_id": message.message_id}
                publish = partial(self._trace.step, "publish", fields, publish)
            publication = publish()
        except MalformedData as error:
            if event.message is not None:
                for observe_failure in self._hooks.not_converted:
                    observe_failure(event, error)
            return self._malformed(error, event, reference, attempts, confirmed), False
        except MemoryError as error:
            self._give_up_memory()
            return not_read(error_text(error), attempts, ReasonKind.TOO_LARGE), False
        except ProviderError as error:
            return _given_back(error, attempts, not_read=event.message is None), False
        outcome = self._outcome(publication, first, attempts, event.sequence)
        if outcome.kind == OutcomeKind.UNSUBSCRIBED:
            outcome = self._with_refusal(outcome, message, reference)
        return outcome, publication.begun or publication.transacted

    def _note_taken(self, event: TaskEvent, message: Message) -> None:
        """Tells of a message that was read, and joins the trace of its sender."""
        if self._trace.level >= DETAILS:
            self._trace(
                DETAILS,
                "message taken",
                message_id=message.message_id,
                destination=event.destination,
                bytes=len(message.body),
            )
        for observe in self._hooks.taken:
            observe(event)
        there = message.properties.get(TRACEPARENT)
        if there is not None and not event.traceparent and (traceparent := valid_traceparent(there)):
            event.traceparent = traceparent
            event.requests = JoiningRequests(self._requests, traceparent)

    def _outcome(
        self, publication: Publication, first: BusinessObject, attempts: int, sequence: int
    ) -> Outcome:
        # a managed event counts when it is rolled back
        begun = publication.begun or (publication.transacted and not self._connector.container_managed_events)
        outcome = publication.outcome(first.type, first.verb, attempts, begun=begun)
        if outcome.kind == OutcomeKind.LATER:
            outcome = outcome._replace(due=self._now() + int(publication.wait * 1000))
        if self._values and outcome.kind in (OutcomeKind.PUBLISHED, OutcomeKind.LATER):
            outcome = outcome._replace(keys=join_keys(self._values.get(sequence, ())))
        return outcome

    def _malformed(
        self,
        error: MalformedData,
        event: TaskEvent,
        reference: Any,
        attempts: int,
        confirmed: tuple[str, ...],
    ) -> Outcome:
        """Returns the outcome of an event whose message is no object."""
        kind = OutcomeKind.UNSUBSCRIBED if isinstance(error, UnknownBusinessObject) else OutcomeKind.FAILED
        message = event.message
        with self._limit:  # the text of an exception is code of its author, too
            place = self._place(error, message, event.destination, attempts)
            reason = shorten(f"{message_of(error)}{place}")
        outcome = Outcome(
            kind,
            reason=reason,
            attempts=attempts,
            delivered=confirmed if kind == OutcomeKind.FAILED else (),
            not_read=message is None,
            reason_kind=kind_of_mistake(error),
            place=place[2:-1],
        )
        if message is None or confirmed:  # subscriptions that have confirmed have replied
            return outcome
        return self._with_refusal(outcome, message, reference)

    def _now(self) -> int:
        """Returns the time by the clock of the provider, or of this machine if the provider is away."""
        try:
            return self._access.now()
        except ProviderError:
            return time.time_ns() // 1_000_000

    def _convert(self, event: TaskEvent, message: Message) -> list[MatchedObject]:
        """Returns the objects of a message with their events and subscribers.

        Raises:
            MalformedData: the conversion raised any exception, the message has made too many hops, or its
                duplicate keys are not those that were found before.
        """
        try:
            with self._limit:
                if HOPS in message.properties:
                    check_hops(message, self._settings(event.input).max_hops)
                if self._trace.level >= STEPS:
                    objects = self._trace.step(
                        "convert",
                        {"message_id": message.message_id},
                        partial(self._converter.convert, message, event.destination, event.input),
                    )
                else:
                    objects = self._converter.convert(message, event.destination, event.input)
                matched = self._match(objects, event, message)
                return self._without_duplicates(event, message, matched) if self._values else matched
        except BaseException as error:
            cause = error.__cause__ or error
            if isinstance(cause, MemoryError):
                traceback.clear_frames(cause.__traceback__)  # they hold the memory
                self._give_up_memory()
            if isinstance(error, MalformedData) or stages.is_interrupt(error):
                raise
            raise _ConversionRaised(f"the conversion raised {error_text(error)}") from error

    def _give_up_memory(self) -> None:
        """Lets another process try an event without enough memory, unless the event was the first here."""
        if self.events > 1:
            self._control.give_up()

    def _match(
        self, objects: Sequence[BusinessObject], event: TaskEvent, message: Message
    ) -> list[MatchedObject]:
        """Returns the objects of a message with their events and subscribers."""
        matched = []
        for record, bo in enumerate(objects, 1):
            if self._trace.level >= DETAILS:
                self._trace(
                    DETAILS,
                    "business object",
                    message_id=message.message_id,
                    object=bo.type,
                    verb=bo.verb,
                    values=dump(bo),
                )
            event_id = bo.object_event_id
            of_object = Event(
                event_id or "",
                event.destination,
                message.delivery_count,
                message,
                requests=event.requests,
                traceparent=event.traceparent,
            )
            number = record if event_id != message.message_id else 0
            wanted, refused_by = self._publisher.subscribers(bo), _NOBODY
            if self._conditions is not None:
                wanted, refused_by = self._conditions.choose(bo, wanted, number)
            mapped = NOT_MAPPED if self._mapper is None else self._mapper.make(bo, wanted, number)
            matched.append(MatchedObject(bo, of_object, wanted, number, event.input, refused_by, mapped))
        return matched

    def _place(self, error: MalformedData, message: Message | None, destination: str, attempts: int) -> str:
        """Logs the failure of a data handler and returns its place for the reason, or empty."""
        if not isinstance(error, HandlerFailed):
            return ""
        return log_failure(
            self._hooks,
            "a data handler has failed",
            error.__cause__ or error,
            error.handler,
            self._deployment,
            message_id=None if message is None else message.message_id,
            destination=destination,
            data_handler=type(error.handler).__name__,
            attempts=attempts,
        )

    def _with_refusal(self, outcome: Outcome, message: Message, reference: Any) -> Outcome:
        """Adds a reply to the outcome of a message that no process has taken, if one is awaited."""
        try:
            reply = self._publisher.refuse(message, outcome.reason or "", reference)
        except ProviderError as error:
            reason = shorten(str(error))
            return outcome._replace(
                kind=OutcomeKind.GIVEN_BACK, reason=reason, delivered=(), provider_failed=True
            )
        if isinstance(reply, Unanswered):
            return outcome._replace(reason=shorten(f"{outcome.reason}; {reply.reason}"))
        return outcome if reply is None else outcome._replace(sends=(pack_prepared(reply),))


def kind_of_mistake(error: MalformedData) -> ReasonKind:
    """Returns the kind of the reason for which a message is no object."""
    if isinstance(error, UnknownBusinessObject):
        return ReasonKind.UNSUBSCRIBED
    if isinstance(error, TooManyHops):
        return ReasonKind.LOOP
    if isinstance(error, BodyTooLarge) or isinstance(error.__cause__, MemoryError):
        return ReasonKind.TOO_LARGE
    is_mistake_of_code = isinstance(error, HandlerFailed | _ConversionRaised)
    return ReasonKind.HANDLER_FAILED if is_mistake_of_code else ReasonKind.MALFORMED


def _vanished(error: LookupError) -> str:
    return f"the message vanished between claim and read: {error}; nobody else may move claimed files"


def _given_back(error: ProviderError, attempts: int, *, not_read: bool) -> Outcome:
    reason = shorten(str(error))
    return Outcome(
        OutcomeKind.GIVEN_BACK, reason=reason, attempts=attempts, provider_failed=True, not_read=not_read
    )
