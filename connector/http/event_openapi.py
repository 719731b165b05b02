"""The part of the OpenAPI document that describes ``POST /events/{queue}``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from connector.http import problems
from connector.http.event_calls import EventQueue
from connector.http.event_message import PROPERTY
from connector.http.idempotency import HEADER, REPLAYED
from connector.http.openapi import KEY_PARAMETER, PROBLEM
from connector.http.schemas import SchemaObject, reference

TAG: Final = "http.events"
"""No business object can have a dot in its name."""
_INTRODUCTION: Final = """\
POST /events/QUEUE makes a message of its body. The answer comes when the message is durable, and not when the
adapter has processed it.
"""
_DOCUMENT: Final[SchemaObject] = {
    "type": "object",
    "properties": {"id": {"description": "The id of the message.", "type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}
_BAD: Final = {
    "400": "A header, the Idempotency-Key or the gzip of the body cannot be read, or there is a parameter.",
    "401": "No token, or one that is wrong.",
    "403": "The token lacks the role send, the signature is wrong, or the call comes from a page of another "
    "server.",
    "404": "No such queue takes messages.",
    "405": "Only POST is taken.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large, or its content is.",
    "415": "No data handler reads the Content-Type or its charset, or there is another Content-Encoding than "
    "gzip.",
    "421": "The call was meant for another host.",
    "422": "The Idempotency-Key belongs to another call.",
    "429": "The caller has named many wrong tokens, and has to wait. With Retry-After.",
    "500": "A mistake of the connector.",
    "501": "The provider cannot keep the key.",
}


def add_events(document: dict[str, Any], queues: Iterable[EventQueue], *, with_tokens: bool) -> None:
    """Adds the paths of queues to an OpenAPI document."""
    document["info"]["description"] += f"\n{_INTRODUCTION}"
    document["tags"].append({"name": TAG, "description": "Messages for the adapter."})
    for queue in queues:
        document["paths"][queue.path] = {"post": _operation(queue, with_tokens)}


def _operation(queue: EventQueue, with_tokens: bool) -> dict[str, Any]:
    types = ["*/*"] if queue.bodies.takes_any else sorted(queue.bodies.charsets)
    operation: dict[str, Any] = {
        "operationId": f"{TAG}.{queue.destination.name}",
        "tags": [TAG],
        "summary": f"A message for {queue.destination}",
        "description": f"At most {queue.max_body} bytes. Each header {PROPERTY}NAME becomes a property.",
        "parameters": [KEY_PARAMETER],
        "requestBody": {"required": True, "content": {one: {} for one in types}},
        "responses": _responses(with_tokens=with_tokens and queue.signature is None),
    }
    if queue.signature is not None:
        signature = {
            "name": queue.signature.header,
            "in": "header",
            "required": True,
            "description": "sha256= and the hexadecimal HMAC-SHA256 of the body with the shared secret.",
            "schema": {"type": "string", "pattern": "^sha256=[0-9a-fA-F]{64}$"},
        }
        operation["parameters"] = [signature, KEY_PARAMETER]
    elif with_tokens:
        operation["security"] = [{"token": []}]
    return operation


def _responses(*, with_tokens: bool) -> dict[str, Any]:
    answer = {"application/json": {"schema": _DOCUMENT}}
    problem = {problems.MEDIA_TYPE: {"schema": reference(PROBLEM)}}
    replayed = {"description": "Always there.", "schema": {"const": "true"}}
    responses: dict[str, Any] = {
        "200": {
            "description": f"The message of an earlier call with the same {HEADER} and body.",
            "headers": {REPLAYED: replayed},
            "content": answer,
        },
        "202": {"description": "The message is durable.", "content": answer},
        "503": {
            "description": "Too many calls, the adapter is stopping, its disk is almost full, or the "
            "provider is away. With Retry-After: the same call may be repeated.",
            "headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}},
            "content": problem,
        },
    }
    for status, text in _BAD.items():
        if status not in ("401", "429") or with_tokens:
            responses[status] = {"description": text, "content": problem}
    if with_tokens:
        responses["401"]["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}, "required": True}}
    return dict(sorted(responses.items()))
