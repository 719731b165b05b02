"""What becomes of one event in its task: the event, its objects, the answers of subscribers, the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from connector.businessobjects.instance import BusinessObject
from connector.events.outcome import Outcome, pack_prepared, shorten
from connector.messaging.history import Note
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared
from connector.operate.reasons import ReasonKind
from connector.requests.contract import Requests
from connector.sinks.contract import Event
from connector.sinks.retry_later import join_retries
from connector.sinks.subscriptions import Subscription
from connector.status import OutcomeKind


class MatchedObject(NamedTuple):
    """An object of a message, with the subscriptions that want the object.

    Args:
        bo: the object.
        event: the event of the object.
        subscribers: in the order of their calls.
        record: the number of the object in a body that was split, from 1. 0 = the body was not split.
    """

    bo: BusinessObject
    event: Event
    subscribers: Sequence[Subscription]
    record: int = 0

    def label(self, subscription: str) -> str:
        """Returns the name by which ``connector_delivered`` names a subscription that has confirmed."""
        return f"{subscription}#{self.record}" if self.record else subscription

    @property
    def place(self) -> str:
        """The start of a reason: ``record 3: ``, or empty."""
        return f"record {self.record}: " if self.record else ""

    @property
    def unwanted(self) -> str:
        return f"{self.place}no subscription wants {self.bo.type}.{self.bo.verb}"


@dataclass(slots=True, eq=False)
class TaskEvent:
    """One event at work, as hooks see it.

    Args:
        sequence: the number of its claim.
        destination: the input.
        requests: makes the requests of business processes. A hook may put others around them.
        message: None before it is read.
        traceparent: what the event gives to all that it sends. Empty = nothing. A hook may set it.
        objects: of the message. Empty before the conversion.
        note: for the history, which also stands in the journal. A hook sets it.
    """

    sequence: int
    destination: str
    requests: Requests
    message: Message | None = None
    traceparent: str = ""
    objects: Sequence[MatchedObject] = ()
    note: Note | None = None


@dataclass(slots=True)
class Publication:
    """The answers of the subscribers.

    Args:
        delivered: subscriptions that have confirmed, in this stay in the queue or an earlier stay.
        prepared: messages to send when the event is published.
        replies: replies of sinks that have confirmed. They are sent with any outcome of the event.
        refusals: replies that say why a sink has failed. They are sent if the event has failed.
        failures: error texts by subscription.
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
            kind: of the reason.
            subscription: that has failed.
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

    @property
    def is_plain(self) -> bool:
        """Whether all subscriptions have confirmed, and nothing is sent or told."""
        return bool(self.delivered) and not (
            self.failures
            or self.later
            or self.prepared
            or self.replies
            or self.unwanted
            or self.unanswered
            or self.inactive is not None
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


def outcome_of(
    object_name: str, verb: str | None, attempts: int, publication: Publication, *, begun: bool
) -> Outcome:
    """Returns the outcome of an event whose object was offered to its subscribers.

    Args:
        object_name, verb: of the object.
        attempts: begun deliveries before this one.
        publication: the answers of the subscribers.
        begun: whether this delivery counts.
    """
    delivered = publication.delivered
    before, attempts = attempts, attempts + begun
    if publication.is_plain:
        return Outcome(OutcomeKind.PUBLISHED, object_name, verb, None, attempts, delivered)
    prepared, replies = _pack(publication.prepared), _pack(publication.replies)
    if publication.inactive is not None:
        return Outcome(
            OutcomeKind.GIVEN_BACK,
            object_name,
            verb,
            shorten(publication.inactive),
            before,
            delivered,
            sends=replies,
            discards=prepared + _pack(publication.refusals),
            provider_failed=publication.provider_failed,
            must_repeat=publication.must_repeat,
        )
    if publication.failures:
        reason = shorten(
            "; ".join(filter(None, publication.failures + publication.later + publication.unanswered))
        )
        sends = replies + _pack(publication.refusals)
        return Outcome(
            OutcomeKind.FAILED,
            object_name,
            verb,
            reason,
            attempts,
            delivered,
            sends,
            discards=prepared,
            reason_kind=publication.reason_kind,
            subscription=publication.subscription,
            place=publication.place,
        )
    if publication.later:
        return Outcome(
            OutcomeKind.LATER,
            object_name,
            verb,
            shorten("; ".join(filter(None, publication.later))),
            before,
            delivered,
            sends=replies,
            discards=prepared + _pack(publication.refusals),
            retries=join_retries(publication.retries),
            reason_kind=publication.reason_kind,
            subscription=publication.subscription,
            place=publication.place,
        )
    if not delivered and not prepared:
        reason = shorten("; ".join(publication.unsubscribed + publication.unwanted))
        return unsubscribed(object_name, verb, reason, attempts)
    unwanted = shorten("; ".join(publication.unwanted)) or None
    return Outcome(
        OutcomeKind.PUBLISHED,
        object_name,
        verb,
        unwanted,
        attempts,
        delivered,
        prepared + replies,
        unanswered=shorten("; ".join(publication.unanswered)),
    )


def not_read(reason: str, attempts: int, kind: ReasonKind) -> Outcome:
    """Returns the outcome of an event that has failed before its message was read."""
    return Outcome(OutcomeKind.FAILED, reason=reason, attempts=attempts, not_read=True, reason_kind=kind)


def unsubscribed(object_name: str, verb: str | None, reason: str, attempts: int) -> Outcome:
    """Returns the outcome of an event that no subscription wants."""
    kind = ReasonKind.UNSUBSCRIBED
    return Outcome(OutcomeKind.UNSUBSCRIBED, object_name, verb, reason, attempts, reason_kind=kind)


def _pack(prepared: tuple[Prepared, ...]) -> tuple[Any, ...]:
    return tuple([pack_prepared(one) for one in prepared]) if prepared else ()
