"""One entry of ``subscriptions``: who wants which business object."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from connector.config.destinations import SINK
from connector.config.kinds import (
    Boolean,
    Kind,
    Text,
    as_found,
    duration,
    integer,
    leaf,
    one_or_list,
    refuse,
)
from connector.config.section import Section
from connector.messaging.destination import Destination

_AN_OBJECT = re.compile(r"[A-Za-z0-9_*?]+\Z")


def _read_object(value: object) -> str:
    expected = "the name of a business object, or a pattern with * and ?"
    name = leaf(value, expected)
    if not _AN_OBJECT.match(name):
        raise refuse(as_found(name), expected)
    return str(name)


ObjectPattern = Annotated[str, Kind(_read_object, str, {"type": "string"}, "name or pattern")]


class Subscription(Section):
    """Who wants which business object. Every subscription that matches gets the event."""

    object: ObjectPattern = Field(description="A business object, or a pattern: `Order*`, `*`.")
    verbs: Annotated[tuple[Text, ...] | None, BeforeValidator(one_or_list)] = Field(
        default=None, description="Verbs; left out: every verb."
    )
    process: Text | None = Field(
        default=None, description="A business process, `module:function`, beside `adapter.yaml` or installed."
    )
    destination: Annotated[Destination, SINK] | None = Field(
        default=None, description="A queue or topic; sent in the same commit that settles the event."
    )
    name: Text = Field(default="", description="Default: the object and the process or destination.")
    timeout: Annotated[float | None, duration(none="none")] = Field(
        default=None,
        description="Longest time a process may take; then its worker is ended, and the event runs again "
        "alone, up to `max_attempts`.",
    )
    retries: Annotated[int, integer(0, "attempts")] = Field(
        default=0, description="For `TemporaryFailure` only: attempts in place, with back-off."
    )
    mime_type: Text | None = Field(
        default=None,
        description="Format of the message or reply sent; left out: the connector's default data handler, "
        "and for a reply that which has read the request.",
    )
    format: Text | None = Field(
        default=None,
        description="Format of the message or reply sent; left out: `OutputFormat` of the rule.",
    )
    reply: Boolean = Field(
        default=False,
        description="`true`: the events of a process are requests, and what it returns is the reply, sent to "
        "their JMSReplyTo in the commit that settles them.",
    )
