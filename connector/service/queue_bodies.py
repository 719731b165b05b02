"""What the inputs of a queue take from outside: the formats and the size of a body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from connector.config.loading import Configuration
from connector.formats.handlers import choose_handler, normal_mime_type
from connector.messaging.destination import Destination
from connector.messaging.provider import Provider
from connector.service.assembly import make_requests


class QueueBodies(NamedTuple):
    """The bodies that a queue takes.

    Args:
        charsets: by the MIME type of each data handler, the character sets that its options name. Empty = the
            body says it, or it is UTF-8.
        takes_any: whether a data handler that is named by its class may read the queue. Such a data handler
            reads every MIME type.
        max_body: bytes of an unpacked body.
        is_packed: whether all bodies of the queue are gzip.
    """

    charsets: Mapping[str, frozenset[str]]
    takes_any: bool
    max_body: int
    is_packed: bool


def bodies_of(configuration: Configuration, provider: Provider, queue: Destination) -> QueueBodies:
    """Returns what a queue takes. The connector's own settings count for a queue that is no input.

    Args:
        provider: of the adapter.
    """
    settings = make_requests(configuration, provider).settings
    connector = configuration.connector
    inputs = [connector.of(one.input) for one in connector.inputs if one.destination == queue] or [connector]
    defaults = [one.data_handler_class_name or normal_mime_type(one.default_handler) for one in inputs]
    rules = settings.rules.rules if settings.rules is not None else ()
    chosen = [
        choose_handler((rule.handler,), default)[0]
        for rule in rules
        for default in defaults
        if rule.input_destination in (None, queue)
    ]
    charsets: dict[str, set[str]] = {}
    for spec in settings.handlers:
        if ":" not in spec.mime_type:
            known = charsets.setdefault(spec.mime_type, set())
            known.add(str(spec.options.get("charset", "")).strip())
    return QueueBodies(
        {mime_type: frozenset(names) for mime_type, names in charsets.items()},
        any(":" in one for one in (*defaults, *chosen)),
        max(one.max_body for one in inputs),
        all(one.unpack == "gzip" for one in inputs),
    )
