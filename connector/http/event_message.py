"""Makes a message from the head and the body of a call."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from starlette.datastructures import Headers

from connector.errors import BodyTooLarge, MalformedData
from connector.formats.handlers import normal_mime_type
from connector.http.bodies import too_large
from connector.http.problems import HttpProblem
from connector.messaging.message import CONTENT_ENCODING, CONTENT_TYPE, NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.selectors.identifiers import check_property_name
from connector.operate.trace_context import TRACEPARENT, valid_traceparent
from connector.service.queue_bodies import QueueBodies
from connector.text.gzip_body import unpack
from connector.text.names import did_you_mean, shown

OURS: Final = "x-connector-"
PROPERTY: Final = "x-connector-property-"
"""Begins the name of a header that becomes a property."""
_RESERVED: Final = ("connector_", "jms")
_BY_HEADER: Final = {CONTENT_ENCODING: "Content-Encoding", TRACEPARENT: TRACEPARENT}
"""Properties that a header of HTTP sets."""
_MIME_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+", re.ASCII)
_GZIP: Final = ("gzip", "x-gzip")
_TEXTS: Final = ("json", "jsonl", "x-ndjson", "xml")
"""The ends of MIME types of texts, beside ``text/...``."""


class EventHead(NamedTuple):
    """What the head of a call says of its message.

    Args:
        mime_type: of the body, in the form of the keys of data handlers. Empty = the call names none.
        is_packed: whether the header ``Content-Encoding`` says that the body is gzip.
        properties: of the message, by name.
    """

    mime_type: str
    is_packed: bool
    properties: Mapping[str, str]


def read_head(headers: Headers, bodies: QueueBodies) -> EventHead:
    """Returns what the head says of the message.

    Raises:
        HttpProblem: 415, the queue does not take such a body. 400, a header is not valid.
    """
    return EventHead(_mime_type(headers, bodies), _is_packed(headers), _properties(headers))


def _mime_type(headers: Headers, bodies: QueueBodies) -> str:
    given = set(headers.getlist("content-type"))
    if len(given) > 1:
        raise _bad("found two headers Content-Type that differ, expected one")
    written = given.pop() if given else ""
    mime_type = normal_mime_type(written)
    if mime_type and not _MIME_TYPE.fullmatch(mime_type):
        raise _bad(f"found the Content-Type {shown(written)}, expected TYPE/SUBTYPE")
    if mime_type in bodies.charsets:
        _check_charset(written, bodies.charsets[mime_type], mime_type)
    elif not bodies.takes_any:
        known = sorted(bodies.charsets)
        found = f"{shown(written)} has no data handler" if mime_type else "found no Content-Type"
        detail = f"{found}{did_you_mean(mime_type, known)}; expected one of {', '.join(known)}"
        raise _not_taken(detail, {"Accept": ", ".join(known)})
    return mime_type


def _check_charset(written: str, configured: frozenset[str], mime_type: str) -> None:
    """Checks that a data handler reads the character set that a header names.

    Args:
        configured: by the options of the data handler. An empty name = UTF-8, or as a body of XML says.
    """
    parameters = (part.partition("=") for part in written.split(";")[1:])
    named = next((value for name, _, value in parameters if name.strip().casefold() == "charset"), "")
    named = named.strip().strip('"')
    if not named or ("" in configured and "xml" in mime_type):
        return
    read = {_codec(name or "utf-8") for name in configured}
    if "utf-8" in read:
        read.add("ascii")
    if _codec(named) not in read:
        names = ", ".join(sorted(name or "UTF-8" for name in configured))
        detail = f"found the charset {shown(named)}, and the data handler of {mime_type} reads {names}"
        raise _not_taken(detail, {})


def _codec(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""


def _is_packed(headers: Headers) -> bool:
    written = ",".join(headers.getlist("content-encoding"))
    found = [word for part in written.split(",") if (word := part.strip().casefold()) not in ("", "identity")]
    if len(found) > 1 or (found and found[0] not in _GZIP):
        detail = f"found the Content-Encoding {shown(written)}, expected gzip or none"
        raise _not_taken(detail, {"Accept-Encoding": "gzip, identity"})
    return bool(found)


def _properties(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw_name, raw_value in headers.raw:
        header = raw_name.decode("latin-1")
        if not header.startswith(OURS):
            continue
        name = header.removeprefix(PROPERTY)
        if name == header:
            raise _bad(f"there is no header {shown(header)}; there is {PROPERTY}NAME")
        _check_name(name)
        if name in found:
            raise _bad(f"the property {name} stands twice")
        found[name] = _value(name, raw_value)
    traceparent = valid_traceparent(",".join(headers.getlist(TRACEPARENT)))  # two are none
    return {**found, TRACEPARENT: traceparent} if traceparent else found


def _check_name(name: str) -> None:
    try:
        check_property_name(name, "string")
    except ValueError as error:
        raise _bad(f"{PROPERTY}{name}: {error}") from None
    if name.startswith(_RESERVED):
        raise _bad(f"{PROPERTY}{name}: names that begin with connector_ or JMS are not for senders")
    if name in _BY_HEADER:
        raise _bad(f"{PROPERTY}{name}: the header {_BY_HEADER[name]} sets this property")


def _value(name: str, raw: bytes) -> str:
    try:
        value = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _bad(f"the property {name} is not UTF-8") from None
    if any(unicodedata.category(character) == "Cc" for character in value):
        raise _bad(f"the property {name} has a control character")
    return value


def content_of(head: EventHead, body: bytes, bodies: QueueBodies, limit: int, said_by: str) -> bytes:
    """Returns the unpacked body.

    Args:
        limit: bytes of the unpacked body.
        said_by: the key of the limit in adapter.yaml.

    Raises:
        HttpProblem: 413, the unpacked body is larger. 400, the body is no gzip, or is damaged.
    """
    if not (head.is_packed or (bodies.is_packed and body)):
        return body
    try:
        return unpack(body, limit, "Content-Encoding" if head.is_packed else "unpack of the input")
    except BodyTooLarge:
        raise too_large(limit, said_by) from None
    except MalformedData as error:
        raise _bad(str(error)) from None


def make_message(head: EventHead, body: bytes, *, is_reliable: bool) -> Message:
    """Returns the message. A body of text that is UTF-8 is a text message, any other one is of bytes.

    Args:
        is_reliable: whether the provider keeps persistent messages.

    Raises:
        HttpProblem: 400, the message is not valid.
    """
    is_text = not head.is_packed and _is_text(head.mime_type) and _is_utf8(body)
    mode = PERSISTENT if is_reliable else NON_PERSISTENT
    message = Message(body, "T" if is_text else "B", delivery_mode=mode)
    for name, value in head.properties.items():
        message.set_property(name, value)
    if head.mime_type:
        message.set_property(CONTENT_TYPE, head.mime_type)
    if head.is_packed:
        message.set_property(CONTENT_ENCODING, "gzip")
    try:
        message.check()
    except ValueError as error:
        raise _bad(str(error)) from None
    return message


def _is_text(mime_type: str) -> bool:
    kind, _, format_ = mime_type.partition("/")
    return kind in ("text", "xml") or format_.rpartition("+")[2] in _TEXTS


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _bad(detail: str) -> HttpProblem:
    return HttpProblem(HTTPStatus.BAD_REQUEST, detail)


def _not_taken(detail: str, headers: Mapping[str, str]) -> HttpProblem:
    return HttpProblem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail, headers)
