"""Outcomes, in the form that travels from a task to the driver and that journals keep."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import orjson

from connector.messaging.claim import Claim
from connector.messaging.destination import known_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared
from connector.operate.own_history import OwnHistory
from connector.sinks.retry_later import split_retries
from connector.status import OutcomeKind


class Outcome(NamedTuple):
    """The outcome of one event, or of several events with equal outcomes.

    Args:
        kind: as JSON has it, its value.
        object, verb: of the business object. None if there was no object.
        reason: the reason for anything but published.
        attempts: all begun deliveries of this message, earlier stays in the queue included.
        delivered: names of the subscriptions that have confirmed.
        sends: messages to send in the commit, replies among them, as ``[handle, destination]``.
        discards: prepared messages that must not be sent.
        provider_failed: given back because the provider failed, not because a process was not active.
        not_read: decided without reading the message. Then ``attempts`` and ``delivered`` exclude earlier
            stays in the queue, and settling adds them.
        must_repeat: given back after a delivery that counts and has to be repeated.
        due: later: when the message comes again, in milliseconds since 1970.
        retries: later: the tries of each delivery (:func:`.sinks.retry_later.join_retries`).
        bare: failed, and a broker has refused the whole copy, so the copy has the body only.
        reason_kind: a :class:`~connector.operate.reasons.ReasonKind`. Empty = there is no reason.
        subscription: the first one that has failed. Empty = none.
        place: ``FILE:LINE`` of user code that has failed. Empty = none.
        unanswered: why the sender of a published request gets no reply, for the history. Empty = it gets one.
        keys: published or later: the duplicate keys by values (``duplicate_key``), one on each line. Empty =
            there are none.
    """

    kind: OutcomeKind
    object: str | None = None
    verb: str | None = None
    reason: str | None = None
    attempts: int = 0
    delivered: tuple[str, ...] = ()
    sends: tuple[Any, ...] = ()
    discards: tuple[Any, ...] = ()
    provider_failed: bool = False
    not_read: bool = False
    must_repeat: bool = False
    bare: bool = False
    due: int = 0
    retries: str = ""
    reason_kind: str = ""
    subscription: str = ""
    place: str = ""
    unanswered: str = ""
    keys: str = ""

    @property
    def comes_again(self) -> bool:
        """Whether the message goes back to its queue, so that this outcome is not final."""
        return self.kind in _COMES_AGAIN

    @property
    def rolls_back(self) -> bool:
        """Whether the whole transaction of a broker is rolled back for this outcome."""
        return self.kind in _ROLLS_BACK

    @property
    def is_plain(self) -> bool:
        """Whether the message was published without any message to send or discard."""
        return self.kind == OutcomeKind.PUBLISHED and not (
            self.sends or self.discards or self.not_read or self.unanswered or self.keys
        )

    def row(self) -> dict[str, Any]:
        """Returns the outcome as fields of a :class:`~connector.messaging.history.HistoryRow`."""
        return {
            "what": self.kind,
            "object": self.object or "",
            "verb": self.verb or "",
            "kind": self.reason_kind,
            "reason": "; ".join(filter(None, (self.reason, self.unanswered))),
            "place": self.place,
            "subscription": self.subscription,
            "sent": tuple(sorted({str(packed[1]) for packed in self.sends})) if self.sends else (),
            "due": self.due,
            "delivered": () if self.kind == OutcomeKind.PUBLISHED else self.delivered,
        }

    def to_json(self) -> bytes:
        """Returns one line of JSON without trailing defaults."""
        end = len(self)
        while end > 1 and not self[end - 1]:
            end -= 1
        return orjson.dumps(self[:end])

    @classmethod
    def from_list(cls, values: list[Any]) -> Outcome:
        """Undoes :meth:`to_json`.

        Raises:
            ValueError: the values are no outcome.
        """
        if values and isinstance(values[0], int):
            del values[0]  # journals of an earlier version name the event here
        try:
            for position in range(_DELIVERED, min(len(values), _DELIVERED + 3)):
                values[position] = tuple(values[position])  # JSON has no tuples
            return cls(OutcomeKind(values[0]), *values[1:])
        except (IndexError, TypeError, ValueError):
            raise ValueError(f"{values!r} is no outcome") from None


MAX_REASON: Final = 8192
"""Bytes of a reason that are kept with the message."""
_LONGEST_PLACE: Final = 1000
_PLACE: Final = re.compile(rb" \([^()\n]+:\d+\)\Z")


def shorten(text: str) -> str:
    """Returns at most :data:`MAX_REASON` bytes of a text, cut between characters.

    Lone surrogates are escaped.

    A place in user code, `` (FILE:LINE)``, stays at the end.
    """
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= MAX_REASON:
        return data.decode()
    found = _PLACE.search(data, len(data) - _LONGEST_PLACE)
    end = b"..." + (found.group() if found is not None else b"")
    return data[: MAX_REASON - len(end)].decode("utf-8", "ignore") + end.decode("utf-8", "ignore")


_DELIVERED: Final = Outcome._fields.index("delivered")
_MAX_ATTEMPTS: Final = 1 << 30
"""Most attempts that a property may claim, so that JMSXDeliveryCount stays an int of 32 bits."""


def history(message: Message, own: OwnHistory, destination: str) -> tuple[int, tuple[str, ...]]:
    """Returns the history of a message from its properties.

    Args:
        message: with its properties.
        own: says whether they count.

    Returns:
        begun deliveries of earlier stays in a queue, and names of the subscriptions that have confirmed.
            There are names only if the event failed or was given back. After any other outcome the event
            starts anew for all subscriptions.
    """
    properties = message.properties
    if not properties or not any(name.startswith("connector_") for name in properties):
        return 0, ()
    if not own.counts(message, destination):
        return 0, ()
    attempts = properties.get("connector_attempts")
    earlier = min(attempts, _MAX_ATTEMPTS) if isinstance(attempts, int) and attempts > 0 else 0
    if properties.get("connector_outcome", OutcomeKind.FAILED) not in (
        OutcomeKind.FAILED,
        OutcomeKind.GIVEN_BACK,
        OutcomeKind.LATER,
    ):
        return earlier, ()
    delivered = properties.get("connector_delivered")
    return earlier, split_names(delivered) if isinstance(delivered, str) else ()


def retries_of(message: Message, own: OwnHistory, destination: str) -> dict[str, int]:
    """Returns the tries of each delivery of a message that comes again. See :func:`history`."""
    text = message.properties.get("connector_retries")
    if (
        not isinstance(text, str)
        or not own.counts(message, destination)
        or message.properties.get("connector_outcome") != OutcomeKind.LATER
    ):
        return {}
    return split_retries(text)


_ROLLS_BACK: Final = (OutcomeKind.GIVEN_BACK, OutcomeKind.ROLLED_BACK)
_COMES_AGAIN: Final = (*_ROLLS_BACK, OutcomeKind.LATER)


_RECORDS: Final = re.compile(r"(.+#)([0-9]{1,9})(?:-([0-9]{1,9}))?", re.DOTALL)


def join_names(names: Iterable[str]) -> str:
    """Joins names of subscriptions for one property. A ``;`` within a name is escaped.

    Neighbouring records of one subscription are one part: ``store#1;store#2;store#3`` is ``store#1-3``.
    """
    spans: dict[str, list[list[int]]] = {}
    parts = []
    for name in names:
        text = name.replace("%", "%25").replace(";", "%3B")
        found = _RECORDS.fullmatch(text)
        if found is None:
            parts.append(text)
            continue
        number, spans_of_name = int(found[2]), spans.setdefault(found[1], [])
        if spans_of_name and spans_of_name[-1][1] + 1 == number:
            spans_of_name[-1][1] = number
        else:
            spans_of_name.append([number, number])
    for text, of_name in spans.items():
        parts += [f"{text}{first}" if first == last else f"{text}{first}-{last}" for first, last in of_name]
    return ";".join(parts)


def split_names(text: str) -> tuple[str, ...]:
    """Undoes :func:`join_names`, but for the order of the names."""
    names: list[str] = []
    for part in text.split(";"):
        found = _RECORDS.fullmatch(part)
        if found is not None and found[3] is not None and 0 < int(found[3]) - int(found[2]) < _MAX_RECORDS:
            names += [f"{found[1]}{number}" for number in range(int(found[2]), int(found[3]) + 1)]
        elif part:
            names.append(part)
    return tuple(name.replace("%3B", ";").replace("%25", "%") for name in names)


_MAX_RECORDS: Final = 10_000_000
"""Most records that a property may claim."""


def event_fields(cycle: int, claim: Claim, message_id: str, outcome: Outcome) -> dict[str, object]:
    """Returns the fields of a log line about the outcome of an event."""
    return {
        "message_id": message_id,
        "destination": str(claim.destination),
        "object": outcome.object,
        "verb": outcome.verb,
        "outcome": outcome.kind,
        "kind": outcome.reason_kind or None,
        "subscription": outcome.subscription or None,
        "reason": outcome.reason,
        "delivered": None if outcome.kind == OutcomeKind.PUBLISHED else join_names(outcome.delivered) or None,
        "attempts": outcome.attempts,
        "cycle": cycle,
    }


def pack_prepared(prepared: Prepared) -> list[Any]:
    return [prepared.handle, str(prepared.destination)]


def unpack_prepared(packed: Any) -> Prepared:
    return Prepared(packed[0], known_destination(packed[1]))
