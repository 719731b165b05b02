"""``http.events``: the queues that take messages over HTTP, and their check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from connector.declare.connector_section import Connector
from connector.declare.destinations import INTAKE
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.reading import Location
from connector.declare.section import Section
from connector.declare.tree import Leaf
from connector.declare.value_types import Text, ValueType, as_found, leaf, refuse
from connector.messaging.destination import Destination
from connector.text.names import nearest

_EVENTS: Final = ("http", "events")
_SHORT: Final = 16
"""A secret with fewer characters can be guessed."""
_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
"""The name of a header (RFC 9110, 5.1)."""


def _read_field_name(value: object) -> str:
    expected = "the name of a header, such as X-Hub-Signature-256"
    written = leaf(value, expected)
    if not _FIELD_NAME.match(written):
        raise refuse(as_found(written), expected)
    return str(written)


class Signature(Section):
    """The signature of a sender, in place of a token."""

    header: Annotated[str, ValueType(_read_field_name, str, {"type": "string"}, "header")] = Field(
        description="The header with the signature: `sha256=` and the hexadecimal HMAC-SHA256 of the body "
        "as it was sent."
    )
    secret: Text = Field(
        repr=False, description="The key of the HMAC, which the sender has too, such as `${file:./hook.key}`."
    )


class EventEntry(Section):
    """A queue that takes messages over HTTP. Written as a text, or as a mapping."""

    destination: Annotated[Destination, INTAKE] = Field(
        description="The queue. `queue://orders` takes messages by `POST /events/orders`."
    )
    signature: Signature | None = Field(
        default=None,
        description="The sender signs each body, and needs no token. Left out: a token of the role `send`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"destination": value} if isinstance(value, Leaf) else value

    def short_form(self) -> Any:
        """Returns the entry in the shortest form for the file."""
        more = self.model_dump(exclude={"destination"}, exclude_defaults=True)
        return {"destination": str(self.destination), **more} if more else str(self.destination)


def check_events(
    events: Sequence[EventEntry], connector: Connector, reporter: ProblemReporter, *, has_sender: bool
) -> None:
    """Reports queues that stand twice or have another role, and queues that nobody can send to or reads.

    Args:
        has_sender: whether a token has the role ``send``.
    """
    roles: dict[Destination | None, str] = {
        destination: key for key, destination in reversed(connector.all_destinations)
    }
    names = [one.destination.name for one in connector.inputs if one.destination.is_queue]
    seen: set[Destination] = set()
    for number, entry in enumerate(events):
        location: Location = (*_EVENTS, number)
        queue = entry.destination
        if queue in seen:
            reporter.add(location, f"{queue} stands twice", "it once")
        seen.add(queue)
        if queue in roles:
            found = f"{queue} is the {roles[queue]} too, which only the adapter fills"
            reporter.add(location, found, "another queue")
        elif connector.inputs and queue.name not in names:
            reporter.add(
                location,
                f"{queue} is not polled: another adapter has to read what comes there",
                "one of InputDestination",
                near if (near := nearest(queue.name, names)) is None else f"queue://{near}",
                warning=True,
            )
        if entry.signature is None and not has_sender:
            found = f"nobody can send to {queue}: it has no signature, and no token has the role send"
            reporter.add(location, found, "a signature, or http.tokens with the role send", warning=True)
        elif entry.signature is not None and len(entry.signature.secret) < _SHORT:
            reporter.add(
                (*location, "signature", "secret"),
                f"a secret of {len(entry.signature.secret)} characters can be guessed",
                f"{_SHORT} or more: python3 -c 'import secrets; print(secrets.token_urlsafe())'",
                warning=True,
            )
