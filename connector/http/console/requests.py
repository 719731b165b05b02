"""The form that makes a request, and what the OpenAPI document says about the request."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.concurrency import run_in_threadpool

from connector.http.calls import RequestCalls
from connector.http.idempotency import REPLAYED
from connector.http.problems import HttpProblem, title
from connector.http.tokens import Caller
from connector.service.observer import Observer
from connector.text.json_text import to_json_text

_log = logging.getLogger("connector.http")

_MOST_ROWS: Final = 18
_MAX_INTEGER: Final = 2**31 - 1


class Shown(NamedTuple):
    """What a request was answered with.

    Args:
        status: code and name.
        good: whether the application has done what was asked for.
        code: the return code. Empty = no request was made.
        seconds: until the answer came.
        repeated: whether this is the answer to an earlier call.
        text: the document, or why no request was made.
    """

    status: str
    good: bool
    code: str
    seconds: float
    repeated: bool
    text: str


class RequestTable(NamedTuple):
    """The attributes of an object.

    Args:
        rows: name of the attribute, what it takes, and what else is said.
    """

    name: str
    rows: list[tuple[str, str, str]]


class RequestForm:
    """Shows and sends the form of a request."""

    def __init__(self, calls: RequestCalls, description: Mapping[str, Any]) -> None:
        self._calls = calls
        paths: Mapping[str, Any] = description["paths"]
        self._paths = {path: of for path, of in paths.items() if path.startswith("/requests/")}
        self._schemas: Mapping[str, Any] = description["components"]["schemas"]

    @property
    def most_bytes(self) -> int:
        """Bytes of the largest form: each byte of a body may take three."""
        return 3 * self._calls.max_body + (1 << 16)

    def view(self, _: Observer, query: Mapping[str, str]) -> dict[str, Any]:
        """Returns all requests, or the form of the one that is asked for.

        Raises:
            HttpProblem: 404, there is no such request.
        """
        if "object" in query:
            return self._form({name: query.get(name, "") for name in ("object", "verb")})
        objects: dict[str, list[str]] = {}
        for path in self._paths.values():
            name, _, verb = path["post"]["operationId"].partition(".")
            objects.setdefault(name, []).append(verb)
        return {"name": "", "objects": objects}

    async def send(self, caller: Caller, given: Mapping[str, str]) -> tuple[HTTPStatus, dict[str, Any]]:
        """Makes a request. Returns the status of the page, and the form with the answer.

        Raises:
            HttpProblem: 404, there is no such request.
        """
        name = self._calls.name_of(given.get("object", ""), given.get("verb", ""))
        body = given.get("body", "").replace("\r\n", "\n")  # as a browser sends the line ends of a text area
        timeout, key = (given.get(field, "").strip() for field in ("timeout", "key"))
        began = time.monotonic()
        status = HTTPStatus.OK
        try:
            response = await self._calls.make(caller, name, body.encode(), timeout=timeout, key=key)
        except HttpProblem as problem:
            status, took = problem.status, time.monotonic() - began
            shown = Shown(_words(status), False, "", took, False, problem.detail)
        else:
            took = time.monotonic() - began
            answered, repeated = HTTPStatus(response.status_code), REPLAYED in response.headers
            code, text = await run_in_threadpool(_document, bytes(response.body))  # which may be large
            shown = Shown(_words(answered), answered < HTTPStatus.BAD_REQUEST, code, took, repeated, text)
        _log_request(caller, name, shown)
        return status, self._form({**given, "body": body}, shown)

    def _form(self, given: Mapping[str, str], answer: Shown | None = None) -> dict[str, Any]:
        name = self._calls.name_of(given["object"], given["verb"])
        operation = self._paths[f"/requests/{given['object']}/{given['verb']}"]["post"]
        content = operation["requestBody"]["content"]["application/json"]
        body = given.get("body", to_json_text(content["example"], indent=2))
        return {
            "name": name,
            "form": {"timeout": "", "key": "", **given, "body": body},
            "rows": min(_MOST_ROWS, body.count("\n") + 2),
            "answer": answer,
            "tables": list(_tables(self._schemas, given["object"], set())),
            "meanings": {code: one["description"] for code, one in operation["responses"].items()},
        }


def _words(status: HTTPStatus) -> str:
    return f"{status.value} {title(status)}"


def _document(body: bytes) -> tuple[str, str]:
    """Returns the return code of an answer, and its text with indents and all digits."""
    document = json.loads(body, parse_float=Decimal)
    return document["status"], to_json_text(document, indent=2)


def _log_request(caller: Caller, name: str, shown: Shown) -> None:
    """Logs a request without its data, which a refusal may quote."""
    result = f"{shown.status}: {shown.code}" if shown.code else shown.status
    if shown.repeated:
        result += ", the answer to an earlier call"
    business_object, _, verb = name.partition(".")
    fields = {"token": caller.name, "object": business_object, "verb": verb, "result": result}
    _log.info("a request came from the console", extra=fields)


def _tables(schemas: Mapping[str, Any], name: str, seen: set[str]) -> Iterator[RequestTable]:
    """Yields a table for an object, and one for each object that it holds."""
    seen.add(name)
    schema = schemas[name]
    required = schema.get("required", ())
    attributes: Mapping[str, Any] = schema["properties"]
    yield RequestTable(
        name, [(one, _takes(of), _said(of, one in required)) for one, of in attributes.items()]
    )
    for of in attributes.values():
        child = _child(of)
        if child and child not in seen:
            yield from _tables(schemas, child, seen)


def _said(schema: Mapping[str, Any], required: bool) -> str:
    default = f"Default: {to_json_text(schema['default'])}." if "default" in schema else ""
    return " ".join(filter(None, ("Required." if required else "", schema.get("description"), default)))


def _child(schema: Mapping[str, Any]) -> str:
    """Returns the object that an attribute holds. Empty = it holds none."""
    parts = [schema.get("items", schema), *schema.get("anyOf", ())]
    return next((_name(one) for one in parts if "$ref" in one), "")


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _takes(schema: Mapping[str, Any]) -> str:
    """Returns what an attribute takes, in a few words."""
    if "$ref" in schema:
        return _name(schema)
    kinds = schema.get("type", ())
    kind = kinds if isinstance(kinds, str) else next(iter(kinds), "")
    if kind == "array":
        return f"list of {_takes(schema['items'])}"
    for part in schema.get("anyOf", ()):
        if part.get("type") != "null" and part.get("maxLength") != 0:
            return _takes(part)
    if "pattern" in schema:
        return "date"
    if kind == "integer" and schema.get("maximum", _MAX_INTEGER) < _MAX_INTEGER:
        least = "at most" if schema["minimum"] < 0 else f"{schema['minimum']} to"
        return f"integer, {least} {schema['maximum']}"
    kind = "text" if kind == "string" else kind
    return f"{kind}, at most {schema['maxLength']} characters" if "maxLength" in schema else kind
