"""The duplicate keys of an event by the values of its objects, or by its body (``duplicate_key``).

A key counts as its digest, so that no value of an object stands in the state of the adapter. Two events are
one if object, verb and text are equal. The text is as the template writes it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from connector.businessobjects.instance import BusinessObject, UnknownAttribute
from connector.businessobjects.types import text_of
from connector.errors import MalformedData, ObjectRefused
from connector.messaging.duplicate_key import BODY
from connector.messaging.message import Message
from connector.sinks.template import TextTemplate, find_value

if TYPE_CHECKING:
    from connector.declare.connector_section import Connector
    from connector.events.run.publication import MatchedObject

_MAX_TEXT: Final = 200
_DIGITS: Final = 40
"""Digits of a digest."""


class FoundKey(NamedTuple):
    """A key as a task finds it.

    Args:
        digest: Empty = the object has no key, because nobody wants the object.
        text: for people, shortened.
    """

    digest: str
    text: str


NO_KEY: Final = FoundKey("", "")


class RecordKey(NamedTuple):
    """What the driver says of one key of an event.

    Args:
        digest: as a task has found it.
        key: in the duplicate window. Empty = the object has no key.
        reason: why the object is a duplicate. Empty = it is none.
    """

    digest: str
    key: str
    reason: str = ""


def join_keys(records: Iterable[RecordKey]) -> str:
    """Returns the keys of an event, as :class:`.Outcome` has them."""
    return "\n".join(dict.fromkeys([one.key for one in records if one.key]))


def body_key(body: bytes) -> FoundKey:
    """Returns the key of a body."""
    found = hashlib.sha256(body).hexdigest()[:_DIGITS]
    return FoundKey(found, f"body {found}")


def find_keys(
    connector: Connector,
    body_of: Callable[[Message, Connector], bytes],
    message: Message,
    objects: Iterable[MatchedObject],
) -> tuple[FoundKey, ...]:
    """Returns the keys of a message.

    Args:
        connector: the section as it holds for the input.
        body_of: returns the body that a data handler gets.
        objects: of the message. With ``body`` they are not needed.

    Raises:
        MalformedData: the message has no key.
    """
    template = connector.duplicate_key or ""
    if template == BODY:
        return (body_key(body_of(message, connector)),)
    return object_keys(template, ((one.bo, one.place) if one.subscribers else None for one in objects))


def with_keys(
    objects: Sequence[MatchedObject],
    found: Sequence[FoundKey],
    known: Sequence[RecordKey],
    *,
    is_shared: bool,
) -> list[MatchedObject]:
    """Returns the objects of a message with their keys. Nobody gets those that are duplicates.

    Args:
        found: now.
        known: what the driver says of the keys that were found before.
        is_shared: whether the whole message has one key.

    Raises:
        MalformedData: the keys are not those that were found before.
    """
    if [one.digest for one in found] != [one.digest for one in known]:
        first = "another key" if known else "no key"
        second = ", ".join([one.text for one in found if one.digest]) or "none"
        raise MalformedData(
            f"duplicate_key came out differently: the first conversion had {first}, the second {second}"
        )
    if is_shared:
        return [one._replace(key=known[0].key, shares_key=True) for one in objects]
    return [
        one._replace(
            key=record.key, duplicate=record.reason, subscribers=() if record.reason else one.subscribers
        )
        for one, record in zip(objects, known, strict=True)
    ]


def object_keys(template: str, objects: Iterable[tuple[BusinessObject, str] | None]) -> tuple[FoundKey, ...]:
    """Returns the keys of the objects of a message.

    Args:
        template: with the attributes in braces.
        objects: each with the place before a reason: ``record 3: ``. None = nobody wants the object.

    Raises:
        MalformedData: an attribute of the template is not set, or blank.
    """
    return tuple([NO_KEY if one is None else _object_key(_parsed(template), *one) for one in objects])


def _object_key(template: TextTemplate, bo: BusinessObject, place: str) -> FoundKey:
    try:
        for name in template.names:
            value = find_value((bo,), name)[1]
            if value is None or not text_of(value).strip():
                what = "is not set" if value is None else "is blank"
                raise MalformedData(f"{place}duplicate_key needs {name}, which {what}")
        text = template.fill((bo,)) or ""
    except (ObjectRefused, UnknownAttribute) as error:
        raise MalformedData(f"{place}duplicate_key: {error}") from None
    whole = "\0".join((bo.type, bo.verb or "", text)).encode("utf-8", "surrogatepass")
    shown = text.encode("utf-8", "backslashreplace").decode()
    shown = shown if len(shown) <= _MAX_TEXT else f"{shown[:_MAX_TEXT]}..."
    return FoundKey(hashlib.sha256(whole).hexdigest()[:_DIGITS], shown)


@functools.lru_cache(maxsize=100)
def _parsed(template: str) -> TextTemplate:
    return TextTemplate(template)
