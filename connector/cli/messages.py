"""Shows messages, for people and as JSON."""

from __future__ import annotations

import base64
import datetime
from typing import Any

from connector.cli.common import answer, answer_json
from connector.messaging.message import MESSAGE_CLASSES, Message
from connector.printable import printable


def show(message: Message, *, as_json: bool, received: bool = False) -> None:
    """Answers with a message. A received message shows the first delivery in the delivery count, too."""
    if as_json:
        answer_json(as_document(message, received=received))
    else:
        answer(as_text(message))


def as_document(message: Message, *, received: bool = False) -> dict[str, Any]:
    """Returns a message as ``browse --json`` prints it. ``received`` includes a delivery count of 1."""
    document: dict[str, Any] = dict(message.headers())
    document["class"] = message.message_class
    properties: dict[str, Any] = dict(message.properties)
    types = dict(message.property_types)
    if received or message.delivery_count > 1:
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
    """Returns a value for JSON: NaN and infinity by name, because JSON does not have them."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    return value


def _time(milliseconds: int) -> str:
    """Returns a time for people, also where no calendar has the time."""
    try:
        found = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return "after all calendars"
    return found.isoformat(timespec="seconds")


def as_text(message: Message) -> str:
    """Returns a message for people: headers that are set, properties, body."""
    kind = MESSAGE_CLASSES[message.message_class]
    lines = [f"{printable(message.message_id or '')}  ({kind}, {len(message.body)} bytes)"]
    for name, value in message.headers().items():
        if name not in ("JMSMessageID", "JMSDestination") and value:
            lines.append(f"  {name}: {printable(str(value))}")
    if message.delivery_time:
        lines[-1] += f"  ({_time(message.delivery_time)})"
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
