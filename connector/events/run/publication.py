"""What becomes of one event in its task: the event, its objects, the answers of subscribers, the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from connector.businessobjects.instance import BusinessObject
from connector.events.outcome import Outcome, pack_prepared, shorten
from connector.messaging.history import Note
from connector.messaging.input import Input
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared
from connector.operate.reasons import ReasonKind
from connector.requests.contract import Requests
from connector.sinks.contract import Event
from connector.sinks.retry_later import join_retries
from connector.sinks.subscriptions import Subscription
from connector.status import OutcomeKind

if TYPE_CHECKING:
    from connector.sinks.conditions import Conditions
    from connector.sinks.mapper import Mapper


NOT_MAPPED: Final[Mapping[str, BusinessObject]] = {}


class MatchedObject(NamedTuple):
    """An object of a message, with the subscriptions that want the object.

    Args:
        subscribers: in the order of their calls.
        record: the number of the object in a body that was split, from 1. 0 = the body was not split.
        input: of the message, if the input has keys of its own.
        refused_by: the subscriptions whose ``when`` says no.
        mapped: the objects that maps have made, by subscription. Empty = there are no maps.
        key: in the duplicate window, by the values of the object. Empty = there is none.
        shares_key: whether the key is that of the whole message.
        duplicate: why the object is a duplicate, so that nobody gets it. Empty = it is none.
    """

    bo: BusinessObject
    event: Event
    subscribers: Sequence[Subscription]
    record: int = 0
    input: Input | None = None
    refused_by: Sequence[str] = ()
    mapped: Mapping[str, BusinessObject] = NOT_MAPPED
    key: str = ""
    shares_key: bool = False
    duplicate: str = ""

    def as_delivered_to(self, name: str) -> MatchedObject:
        """Returns this object as a subscription gets it."""
        made = self.mapped.get(name)
        if made is None:
            return self
        return self._replace(bo=made, event=replace(self.event, mapped_from=self.bo))

    def label(self, subscription: str) -> str:
        """Returns the name by which ``connector_delivered`` names a subscription that has confirmed."""
        return f"{subscription}#{self.record}" if self.record else subscription

    @property
    def place(self) -> str:
        """The start of a reason: ``record 3: ``, or empty."""
        return f"record {self.record}: " if self.record else ""

    @property
    def unwanted(self) -> str:
        if self.duplicate:
            return f"{self.place}{self.duplicate}"
        return f"{self.place}{unwanted_text(self.bo.type, self.bo.verb, self.refused_by)}"


def unwanted_text(object_name: str, verb: str | None, refused_by: Sequence[str]) -> str:
    """Returns the reason of an object that no subscription wants.

    Args:
        refused_by: the subscriptions whose ``when`` says no.
    """
    refusal = f" (the when of {', '.join(refused_by)} says no)" if refused_by else ""
    return f"no subscription wants {object_name}.{verb}{refusal}"


def conditions_of(subscriptions: Sequence[Subscription]) -> Conditions | None:
    """Returns the conditions of subscriptions. None = none has ``when``."""
    if all(one.when is None for one in subscriptions):
        return None
    from connector.sinks.conditions import Conditions  # few subscriptions have a condition

    return Conditions(subscriptions)


def mapper_of(subscriptions: Sequence[Subscription], *, use_defaults: bool) -> Mapper | None:
    """Returns what makes the objects of subscriptions with ``map``. None = none has one."""
    if all(one.map is None for one in subscriptions):
        return None
    from connector.sinks.mapper import Mapper  # few subscriptions have a map

    return Mapper(use_defaults=use_defaults)


@dataclass(slots=True, eq=False)
class TaskEvent:
    """One event at work, as hooks see it.

    Args:
        sequence: the number of its claim.
        requests: makes the requests of business processes. A hook may put others around them.
        message: None before it is read.
        traceparent: what the event gives to all that it sends. Empty = nothing. A hook may set it.
        objects: of the message. Empty before the conversion.
        note: for the history, which also stands in the journal. A hook sets it.
        input: if it has keys of its own (:attr:`.TaskSettings.by_input`), else None.
    """

    sequence: int
    destination: str
    requests: Requests
    message: Message | None = None
    traceparent: str = ""
    objects: Sequence[MatchedObject] = ()
    note: Note | None = None
    input: Input | None = None


@dataclass(slots=True)
class Publication:
    """The answers of the subscribers.

    Args:
        delivered: subscriptions that have confirmed, in this stay in the queue or an earlier stay.
        prepared: messages to send when the event is published.
        replies: replies of sinks that have confirmed, and what these sinks have sent. They are sent with any
            outcome of the event.
        refusals: replies that say why a sink has failed. They are sent if the event has failed.
        later: error texts of the subscriptions that have failed for a while. Empty for one that rests or is
            paused.
        retries: the tries of each of these deliveries, this one included.
        wait: seconds until the next try of all of them.
        reason_kind, subscription, place: of the first failure, as :class:`.Outcome` has them.
        unsubscribed: subscriptions that do not want the object after all.
        unwanted: records of the message that no subscription wants.
        unanswered: why requests get no reply.
        inactive: why the event has to come again: a process is not active, or a provider cannot take a
            message. Otherwise None.
        provider_failed: whether the provider is the reason of ``inactive``.
        begun: whether an external delivery was begun.
        transacted: whether a transactional sink was called.
        must_repeat: the reply of a sink cannot be made now, so that the sink has to be called again.
    """

    delivered: tuple[str, ...] = ()
    prepared: tuple[Prepared, ...] = ()
    replies: tuple[Prepared, ...] = ()
    refusals: tuple[Prepared, ...] = ()
    failures: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    retries: dict[str, int] = field(default_factory=dict)
    wait: float = 0.0
    reason_kind: str = ""
    subscription: str = ""
    place: str = ""
    unsubscribed: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    inactive: str | None = None
    provider_failed: bool = False
    begun: bool = False
    transacted: bool = False
    must_repeat: bool = False

    def fail(self, reason: str, kind: ReasonKind, subscription: str, where: str = "") -> None:
        """Adds a failure.

        Args:
            reason: with ``where`` at its end.
            where: `` (FILE:LINE)``, or empty.
        """
        if not self.failures:
            self._blame(kind, subscription, where)
        self.failures += (reason,)

    def postpone(self, reason: str, kind: ReasonKind, subscription: str) -> None:
        """Adds a failure of a delivery that is tried again later."""
        if not (self.failures or self.reason_kind):
            self._blame(kind, subscription, "")
        self.later += (reason,)

    def outcome(self, object_name: str, verb: str | None, attempts: int, *, begun: bool) -> Outcome:
        """Returns the outcome of the event.

        Args:
            begun: whether this delivery counts.
        """
        found = Outcome(OutcomeKind.PUBLISHED, object_name, verb, None, attempts + begun, self.delivered)
        has_told = self.failures or self.later or self.unwanted or self.unanswered
        if self.delivered and self.inactive is None and not (has_told or self.prepared or self.replies):
            return found
        prepared, replies, refusals = _pack(self.prepared), _pack(self.replies), _pack(self.refusals)
        if self.inactive is not None:
            return found._replace(
                kind=OutcomeKind.GIVEN_BACK,
                reason=shorten(self.inactive),
                attempts=attempts,
                sends=replies,
                discards=prepared + refusals,
                provider_failed=self.provider_failed,
                must_repeat=self.must_repeat,
            )
        if not (self.failures or self.later):
            if not (self.delivered or prepared):
                reason = _join(self.unsubscribed + self.unwanted)
                return unsubscribed(object_name, verb, reason, found.attempts)
            return found._replace(
                reason=_join(self.unwanted) or None,
                sends=prepared + replies,
                unanswered=_join(self.unanswered),
            )
        found = found._replace(reason_kind=self.reason_kind, subscription=self.subscription, place=self.place)
        if self.failures:
            return found._replace(
                kind=OutcomeKind.FAILED,
                reason=_join(self.failures + self.later + self.unanswered),
                sends=replies + refusals,
                discards=prepared,
            )
        return found._replace(
            kind=OutcomeKind.LATER,
            reason=_join(self.later),
            attempts=attempts,
            sends=replies,
            discards=prepared + refusals,
            retries=join_retries(self.retries),
        )

    def outcome_since(self, before: Publication) -> OutcomeKind:
        """Returns the outcome of the one delivery that was made since ``before``, a copy of this object."""
        if self.inactive is not None:
            return OutcomeKind.GIVEN_BACK
        if len(self.failures) > len(before.failures):
            return OutcomeKind.FAILED
        if len(self.later) > len(before.later):
            return OutcomeKind.LATER
        has_refused = len(self.unsubscribed) > len(before.unsubscribed)
        return OutcomeKind.UNSUBSCRIBED if has_refused else OutcomeKind.PUBLISHED

    def _blame(self, kind: ReasonKind, subscription: str, where: str) -> None:
        self.reason_kind, self.subscription, self.place = kind, subscription, where[2:-1]


def not_read(reason: str, attempts: int, kind: ReasonKind) -> Outcome:
    """Returns the outcome of an event that has failed before its message was read."""
    return Outcome(OutcomeKind.FAILED, reason=reason, attempts=attempts, not_read=True, reason_kind=kind)


def unsubscribed(object_name: str, verb: str | None, reason: str, attempts: int) -> Outcome:
    """Returns the outcome of an event that no subscription wants."""
    kind = ReasonKind.UNSUBSCRIBED
    return Outcome(OutcomeKind.UNSUBSCRIBED, object_name, verb, reason, attempts, reason_kind=kind)


def _pack(prepared: tuple[Prepared, ...]) -> tuple[Any, ...]:
    return tuple([pack_prepared(one) for one in prepared]) if prepared else ()


def _join(reasons: tuple[str, ...]) -> str:
    return shorten("; ".join(filter(None, reasons)))
