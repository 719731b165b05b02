"""``connector browse``: looks at the messages of a queue and takes nothing."""

from __future__ import annotations

import base64
import itertools
from typing import Annotated, Any

import typer

from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    answer,
    answer_json,
    note,
    printable,
)
from connector.config.loading import load
from connector.errors import DestinationError
from connector.messaging.destination import parse_destination
from connector.messaging.message import MESSAGE_CLASSES, Message
from connector.parts import make_provider


def browse(
    destination: Annotated[str, typer.Argument(metavar="DEST", help="queue://NAME; a bare name is a queue.")],
    config: ConfigOption = DEFAULT_CONFIG,
    selector: Annotated[
        str | None, typer.Option(metavar="S", help="Only messages that match; not in this version yet.")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=0, help="At most so many messages.")] = None,
    json: JsonOption = False,
) -> None:
    """Shows the messages of a destination that wait or are in progress, in the order of taking.

    Takes nothing. With --json each message is an object on a line of its own.
    """
    if selector is not None:
        raise BadArgument("--selector: this version has no selectors yet")
    try:
        target = parse_destination(destination)
    except DestinationError as error:
        raise BadArgument(str(error)) from None
    connection = make_provider(load(config)).existing()
    messages = connection.browse(target)
    count = 0
    for message in itertools.islice(messages, limit):
        count += 1
        if json:
            answer_json(as_document(message))
        else:
            answer(as_text(message))
    if not json:
        note(f"{count} message{'s' * (count != 1)} in {target}")


def as_document(message: Message) -> dict[str, Any]:
    """A message as ``browse --json`` prints it."""
    document: dict[str, Any] = dict(message.headers())
    document["class"] = message.message_class
    properties: dict[str, Any] = dict(message.properties)
    types = dict(message.property_types)
    if message.delivery_count > 1:
        properties["JMSXDeliveryCount"] = message.delivery_count
        types["JMSXDeliveryCount"] = "int"
    document["properties"] = {name: _number(value) for name, value in properties.items()}
    document["property_types"] = types
    try:
        document["body"] = message.body.decode("utf-8")
    except UnicodeDecodeError:
        document["body"] = base64.b64encode(message.body).decode()
        document["body_encoding"] = "base64"
    return document


def _number(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are shown by their names."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    return value


def as_text(message: Message) -> str:
    """A message for people: headers that are set, properties, body."""
    kind = MESSAGE_CLASSES[message.message_class]
    lines = [f"{printable(message.message_id or '')}  ({kind}, {len(message.body)} bytes)"]
    for name, value in message.headers().items():
        if name not in ("JMSMessageID", "JMSDestination") and value:
            lines.append(f"  {name}: {printable(str(value))}")
    if message.delivery_count > 1:
        lines.append(f"  JMSXDeliveryCount: {message.delivery_count}")
    for name, value in message.properties.items():
        lines.append(f"  {printable(name)} ({message.property_types[name]}): {printable(str(value))}")
    try:
        body = message.body.decode("utf-8")
    except UnicodeDecodeError:
        body = f"base64 {base64.b64encode(message.body).decode()}"
    if len(body) > 2000:
        body = f"{body[:2000]}... ({len(body)} characters; --json shows all)"
    lines.extend(f"  | {printable(line)}" for line in body.splitlines())
    return "\n".join(lines)
