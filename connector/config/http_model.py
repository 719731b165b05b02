"""The section ``http``, requests over HTTP, and its check."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from connector.config.events_model import EventEntry, check_events
from connector.declare.connector_section import Connector
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.reading import Location, node_at
from connector.declare.section import Section
from connector.declare.tree import Items, Leaf, Table
from connector.declare.value_types import (
    Boolean,
    Size,
    Text,
    ValueType,
    as_found,
    choice,
    duration,
    integer,
    leaf,
    one_or_list,
    refuse,
)
from connector.plugins import PlugInError, PlugIns

SHORT: Final = 16
"""A token with fewer characters can be guessed."""
PAGES: Final = PlugIns[Any]("connector.pages", "page")
"""Pages of the server that only some adapters have: classes as :class:`connector.http.pages.Pages` says."""
CONSOLE: Final = "console"
"""The pages that ``console: true`` asks for."""
_TOKENS: Final = ("http", "tokens")


@dataclass(frozen=True, slots=True)
class Address:
    """The address that a server listens on.

    Args:
        port: 0 = any free port.
    """

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address. False for a name other than localhost."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Tells whether a host, without port and brackets, is this machine itself."""
    if host.casefold() in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_ADDRESS: Final = re.compile(
    r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)):([0-9]{1,5})\Z"
)


def _read_address(value: object) -> Address:
    expected = "an address and a port, 127.0.0.1:8080 or [::1]:8080"
    written = leaf(value, expected)
    match = _ADDRESS.match(written)
    if match is None or int(match[3]) > 65535:
        raise refuse(as_found(written), expected)
    host = match[1] or match[2]
    if match[1] or re.fullmatch(r"[0-9.]+", host):
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise refuse(as_found(written), expected) from None
    return Address(host, int(match[3]))


_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z")


def _read_token(value: object) -> str:
    expected = "a token: letters, digits and - . _ ~ + /, then any = (RFC 6750)"
    written = leaf(value, expected)
    if not written:
        # The list would be empty, and every caller that reaches the port would be let in.
        raise refuse("an empty token", expected)
    if not _TOKEN.match(written):
        raise refuse("a text that cannot be sent as a bearer token", expected)
    return str(written)


_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?\Z")


def _read_host(value: object) -> str:
    expected = "the name of a host, without port"
    written = leaf(value, expected)
    if not _HOST.match(written):
        raise refuse(as_found(written), expected)
    return written.casefold()


_Token = Annotated[str, ValueType(_read_token, str, {"type": ["string", "number"]}, "token")]
READ: Final = "read"
OPERATE: Final = "operate"
REQUEST: Final = "request"
SEND: Final = "send"
ROLES: Final = (READ, OPERATE, REQUEST, SEND)
"""What a token may allow: to see, to steer, to make requests, and to send messages."""
_OBJECTS: Final = re.compile(REQUEST + r":[^\s.:*]+\.(?:\*|[^\s.:*]+)\Z")
_ROLE: Final = choice(*ROLES)


def _read_role(value: object) -> str:
    if isinstance(value, Leaf) and _OBJECTS.match(value):
        return str(value)
    return str(_ROLE.read(value))


_ROLES: Final = {
    "anyOf": [*_ROLE.schema["anyOf"], {"type": "string", "pattern": f"^{_OBJECTS.pattern[:-2]}$"}]
}
_Role = Annotated[str, ValueType(_read_role, str, _ROLES, f"{_ROLE.label} | {REQUEST}:OBJECT.VERB")]
_HostName = Annotated[str, ValueType(_read_host, str, {"type": "string"}, "name")]


class TokenEntry(Section):
    """A token that lets callers in. Written as a text, or as a mapping."""

    token: _Token = Field(repr=False, description="Bearer token, from the environment as `${TOKEN}`.")
    name: Text | None = Field(
        default=None, description="Of the caller, for the log. Default: `token` and its position."
    )
    roles: Annotated[tuple[_Role, ...], BeforeValidator(one_or_list)] = Field(
        default=ROLES,
        description="What the caller may do. `read`: see the status and the metrics. `operate`: pause, "
        "replay, and all else that changes something. `request`: make requests. `request:Customer.*` "
        "and `request:Customer.Create`: make those alone. `send`: send messages to the queues of `events`. "
        "Left out: all of them.",
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"token": value} if isinstance(value, Leaf) else value

    def short_form(self) -> str | dict[str, Any]:
        """Returns the token in the shortest form for the file."""
        more = self.model_dump(exclude={"token"}, exclude_defaults=True)
        return {"token": self.token, **more} if more else self.token


class Http(Section):
    """Requests, health, metrics and control over HTTP, while `connector run` serves. Left out: no server."""

    listen: Annotated[Address, ValueType(_read_address, str, {"type": "string"}, "host:port")] = Field(
        default=Address("127.0.0.1", 8080),
        description="Address of the server. Port 0: any free port, see the log. An address that other "
        "machines can reach needs `tokens`.",
    )
    tokens: Annotated[
        tuple[TokenEntry, ...],
        BeforeValidator(one_or_list),
        PlainSerializer(lambda value: [entry.short_form() for entry in value]),
    ] = Field(
        default=(),
        repr=False,
        description="Bearer tokens, from the environment as `${TOKEN}`. Each lets a caller in. None: "
        "everybody on this machine may read, and nobody may make requests, send or operate.",
    )
    events: Annotated[
        tuple[EventEntry, ...],
        BeforeValidator(one_or_list),
        PlainSerializer(lambda value: [entry.short_form() for entry in value]),
    ] = Field(
        default=(),
        description="Queues that take messages over HTTP. `queue://orders` takes them by "
        "`POST /events/orders`, of a token with the role `send` or with a `signature`.",
    )
    hosts: Annotated[tuple[_HostName, ...], BeforeValidator(one_or_list)] = Field(
        default=(),
        description="Names under which clients reach the server through a proxy. Otherwise a loopback "
        "address accepts only names of loopback. Pages of these hosts may make requests.",
    )
    console: Boolean = Field(
        default=False,
        description="`true`: the server has the pages below `/console`. With tokens, people sign in with a "
        "token of the role `read`.",
    )
    max_body: Size = Field(
        default=1 << 20,
        description="Largest body of a request or of a message. A larger body is not read. Counts the bytes "
        "of an unpacked body.",
    )
    max_requests: Annotated[int, integer(1, "requests")] = Field(
        default=1000, description="Requests in progress at a time. One more request is refused with 503."
    )
    max_timeout: Annotated[float, duration()] = Field(
        default=300.0,
        description="Longest ResponseTimeout that a caller may ask for, by `?timeout=` or in the dynamic "
        "meta-object. More is refused with 422. The static meta-object may say more.",
    )
    idempotency_time: Annotated[float, duration()] = Field(
        default=86400.0,
        description="How long an answer is kept for the `Idempotency-Key` of its request. The key of a "
        "message is kept for 24 hours.",
    )
    idempotency_keys: Annotated[int, integer(1, "answers")] = Field(
        default=10_000, description="Most kept answers, before the oldest are removed."
    )


def check_http(http: Http | None, connector: Connector, reporter: ProblemReporter) -> None:
    """Reports settings that would let in more callers than intended, and pages that are not there."""
    if http is None:
        return
    written = _tokens_of_file(reporter)
    tokens = [entry.token for entry in http.tokens]
    for location, token in written:
        # Other empty values count as not given. Without a token every caller would be let in.
        if token.is_absent and token.from_environment and not reporter.problems.is_reported(token.position):
            reporter.add(location, f"{token.raw} is empty", "a token, or no tokens at all")
    if not written and not http.listen.is_loopback:
        reporter.add(
            ("http", "listen"),
            f"{http.listen} can be reached by other machines, and there are no tokens",
            "tokens, or a loopback address: 127.0.0.1, [::1]",
        )
    _check_names(http, reporter)
    has_sender = any(SEND in entry.roles for entry in http.tokens)
    check_events(http.events, connector, reporter, has_sender=has_sender)
    if http.console:
        try:
            PAGES.find(CONSOLE)
        except PlugInError as error:
            reporter.add(("http", "console"), error.text, "")
    for location, token in written:
        if 0 < len(token) < SHORT and token in tokens:
            reporter.add(
                location,
                f"a token of {len(token)} characters can be guessed",
                f"{SHORT} or more: python3 -c 'import secrets; print(secrets.token_urlsafe())'",
                warning=True,
            )


def _tokens_of_file(reporter: ProblemReporter) -> list[tuple[Location, Leaf]]:
    """Returns each token of the file with its location. Tokens with a mistake are included."""
    node = node_at(reporter.tree, _TOKENS)
    if isinstance(node, Items):
        return [
            (location, token)
            for i, item in enumerate(node.items)
            for location, token in (
                ((*_TOKENS, i, "token"), item.entries.get("token"))
                if isinstance(item, Table)
                else ((*_TOKENS, i), item),
            )
            if isinstance(token, Leaf)
        ]
    return [(_TOKENS, node)] if isinstance(node, Leaf) else []


def _check_names(http: Http, reporter: ProblemReporter) -> None:
    """Reports tokens that stand twice, names that stand twice, and tokens that allow nothing."""
    for number, entry in enumerate(http.tokens):
        before = http.tokens[:number]
        location = (*_TOKENS, number)
        if any(entry.token == one.token for one in before):
            reporter.add(location, "a token that stands twice", "one entry with all its roles")
        if entry.name is not None and any(entry.name == one.name for one in before):
            reporter.add((*location, "name"), f"{entry.name!r} is the name of another token", "another name")
        written = node_at(reporter.tree, (*location, "roles"))
        if isinstance(written, Items) and not written.items:
            reporter.add((*location, "roles"), "no role", "read, operate, request or send")
