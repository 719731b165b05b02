"""The description of the server: OpenAPI 3.1, made from the business objects."""

from __future__ import annotations

from typing import Any, Final

from connector.businessobjects.definition import Definitions
from connector.businessobjects.metadata import MAX_TIMEOUT
from connector.http import problems
from connector.http.answers import STATUS
from connector.http.idempotency import HEADER, REPLAYED
from connector.http.schemas import SchemaObject, object_schemas, reference, sample
from connector.status import ReturnCode

PROBLEM: Final = "http.Problem"
"""The name of the schema of a problem document. No business object can have a dot in its name."""
KEY_PARAMETER: Final = {
    "name": HEADER,
    "in": "header",
    "description": "Chosen by the caller for this call. Repeated with the same key, it is not "
    "made a second time: the first answer comes again.",
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "pattern": r"^[\x21\x23-\x5b\x5d-\x7e]+$",
    },
}
_INTRODUCTION: Final = """\
Hands a business object to the adapter, which sends it to an application as a message and, where a
ResponseTimeout says so, waits for the reply. The answer is a document with the return code (status), the
business object, refilled where the application changed it, and the application's or the adapter's message
where it did not go well. What made no request at all is answered with a problem document (RFC 9457).
"""

_BAD: Final = {
    "400": "The JSON, a parameter or the Idempotency-Key cannot be read.",
    "401": "No token, or one that is wrong.",
    "403": "The call comes from a page of another server.",
    "405": "Only POST is taken.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "415": "The body is not JSON in UTF-8.",
    "421": "The call was meant for another host.",
    "422": "The data do not fit the business object, a time-out is longer than callers may wait, or the "
    "Idempotency-Key belongs to another call. As the document of an answer: the request cannot be sent as it "
    "is (FAIL).",
    "429": "The caller has named many wrong tokens, and has to wait. With Retry-After.",
    "500": "A mistake of the connector.",
}
_MEANINGS: Final = {
    ReturnCode.SUCCEED: "done; or sent, where no reply is awaited",
    ReturnCode.VALCHANGE: "done, and the application has changed values",
    ReturnCode.MULTIPLE_HITS: "the first of several that were found",
    ReturnCode.BO_DOES_NOT_EXIST: "the application does not have the object",
    ReturnCode.FAIL_RETRIEVE_BY_CONTENT: "the application found none with this content",
    ReturnCode.VALDUPES: "the application has the object already",
    ReturnCode.FAIL: "the request or the application failed",
    ReturnCode.UNABLE_TO_LOGIN: "the application could not log in",
    ReturnCode.APPRESPONSETIMEOUT: "no reply in time, or the provider failed",
}


def describe_requests(
    definitions: Definitions,
    with_tokens: bool,
    most_timeout: int = MAX_TIMEOUT,
    use_defaults: bool = False,
) -> dict[str, Any]:
    """Returns the OpenAPI document.

    Args:
        most_timeout: the longest ResponseTimeout of a caller, in ms.
        use_defaults: whether an attribute's default satisfies ``required``.
    """
    schemas = object_schemas(definitions, most_timeout, use_defaults)
    answers = {f"{name}.answer": _answer(reference(name)) for name in schemas if definitions[name].verbs}
    components: dict[str, Any] = {"schemas": {**schemas, **answers, PROBLEM: _problem()}}
    if with_tokens:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    having = [definition for definition in definitions.values() if definition.verbs]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Requests", "version": "1", "description": _INTRODUCTION},
        "servers": [{"url": "/"}],
        "tags": [{"name": each.name, "description": f"Version {each.version}."} for each in having],
        "paths": {
            f"/requests/{each.name}/{verb}": {
                "post": _operation(definitions, each.name, verb, with_tokens, most_timeout)
            }
            for each in having
            for verb in each.verbs
        },
        "components": components,
    }


def _operation(
    definitions: Definitions, name: str, verb: str, with_tokens: bool, most_timeout: int
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{name}.{verb}",
        "tags": [name],
        "summary": f"{name}.{verb}",
        "parameters": [
            {
                "name": "timeout",
                "in": "query",
                "description": "ResponseTimeout of this request in milliseconds; 0: look once for the reply, "
                "-1: do not wait for one. Left out: as the meta-objects say.",
                "schema": {"type": "integer", "minimum": -1, "maximum": most_timeout},
            },
            KEY_PARAMETER,
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": reference(name), "example": sample(definitions, name)}
            },
        },
        "responses": _responses(name, with_tokens),
    }
    if with_tokens:
        operation["security"] = [{"token": []}]
    return operation


def _responses(name: str, with_tokens: bool) -> dict[str, Any]:
    answered: dict[str, list[str]] = {}
    for code, meaning in _MEANINGS.items():
        answered.setdefault(str(STATUS[code].value), []).append(f"{code.name}: {meaning}.")
    answer = {"application/json": {"schema": reference(f"{name}.answer")}}
    problem = {problems.MEDIA_TYPE: {"schema": reference(PROBLEM)}}
    responses: dict[str, Any] = {
        status: {"description": " ".join(texts), "content": dict(answer)}
        for status, texts in answered.items()
    }
    responses["200"]["headers"] = {
        REPLAYED: {
            "description": f"Present where this is the answer to an earlier call with the same {HEADER}.",
            "schema": {"const": "true"},
        }
    }
    for status, text in _BAD.items():
        if status != "401" or with_tokens:
            responses[status] = {"description": text, "content": dict(problem)}
    if with_tokens:
        responses["401"]["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}, "required": True}}
    responses["404"]["description"] += " Or there is no such business object or verb."
    responses["404"]["content"] |= problem
    responses["409"]["description"] += f" Or the first call with this {HEADER} is still in progress."
    responses["409"]["content"] |= problem
    # The object comes back unchanged, and its meta-data may be the part that does not fit.
    unfit = {"type": "object", "description": "The object as it was sent, with what does not fit."}
    responses["422"]["content"] |= {"application/json": {"schema": _answer(unfit)}}
    responses["503"] = {
        "description": "Too many requests, the adapter is stopping, or the provider has failed. With "
        "Retry-After: nothing was sent.",
        "headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}},
        "content": {**answer, **problem},
    }
    return dict(sorted(responses.items()))


def _answer(of: SchemaObject) -> SchemaObject:
    return {
        "type": "object",
        "properties": {
            "status": {"description": "The return code.", "enum": [code.name for code in _MEANINGS]},
            "object": of,
            "message": {"description": "Why it did not go well.", "type": ["string", "null"]},
        },
        "required": ["status", "object", "message"],
        "additionalProperties": False,
    }


def _problem() -> SchemaObject:
    return {
        "type": "object",
        "description": "What is wrong with a call that made no request (RFC 9457).",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"description": "What is wrong, and what to do.", "type": "string"},
        },
        "required": ["type", "title", "status", "detail"],
    }
