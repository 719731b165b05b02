"""``connector explain``: shows what a message means and who would get it."""

from __future__ import annotations

import json as json_module
from dataclasses import fields, is_dataclass
from pathlib import Path
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
    read_destination,
)
from connector.cli.send import add_property
from connector.config.loading import Configuration, load
from connector.errors import UnknownDestination
from connector.events.explain import Explainer, Explanation, ObjectFinding
from connector.messaging.destination import Destination
from connector.messaging.message import PROPERTY_TYPES, Message
from connector.parts import explaining_settings, make_event_settings, make_provider


def explain(
    what: Annotated[
        str,
        typer.Argument(metavar="FILE-OR-ID", help="A file with a body, or the id of a message in a queue."),
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    type: Annotated[str | None, typer.Option(metavar="T", help="JMSType of the body in FILE.")] = None,
    property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:TYPE=VALUE",
            help=f"A property of the body in FILE. TYPE: {' '.join(PROPERTY_TYPES)}.",
        ),
    ] = None,
    destination: Annotated[
        str | None,
        typer.Option(metavar="D", help="The input of the body in FILE, or the queue of the message."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Shows the rule, the data handler, the object, and who would get it. Sends and takes nothing.

    FILE holds the body of a text message. By default it comes from the first InputDestination. The id is
    that of a message in an input, in the archive, error or unsubscribed destination, or in the queue of
    --destination. A copy is explained as a message of the input that it came from.
    Exit status 1 when the message would fail.
    """
    configuration = load(config, in_process=True)
    target = None if destination is None else read_destination(destination)
    path = Path(what)
    if path.is_file():
        message, source = _message(path, type, property or ()), target or _first_input(configuration)
    else:
        message, source = _find(what, configuration, target)
    settings = make_event_settings(configuration, "")
    explainer = Explainer(explaining_settings(configuration), settings.copies, str(configuration.directory))
    found = explainer.explain(message, str(source))
    if json:
        answer_json(_document(found))
    else:
        _show(found, what)
    raise typer.Exit(1 if found.outcome == "failed" else 0)


def _message(path: Path, format_: str | None, properties: list[str] | tuple[()]) -> Message:
    try:
        message = Message(path.read_bytes(), type=format_)
    except OSError as error:
        raise BadArgument(f"{path}: {error.strerror}") from None
    for text in properties:
        add_property(message, text)
    return message


def _first_input(configuration: Configuration) -> Destination:
    inputs = configuration.connector.inputs
    if not inputs:
        raise BadArgument("--destination: the configuration has no InputDestination, so give one")
    return inputs[0].destination


def _find(
    message_id: str, configuration: Configuration, target: Destination | None
) -> tuple[Message, Destination]:
    """Returns a message of a queue, and the input that it came from.

    Raises:
        BadArgument: there is no such message.
    """
    connector = configuration.connector
    inputs = [entry.destination for entry in connector.inputs if entry.destination.is_queue]
    copies = (
        connector.error_destination,
        connector.unsubscribed_destination,
        connector.archive_destination,
        connector.in_progress_destination,
    )
    queues = [target] if target is not None else [*inputs, *(one for one in copies if one is not None)]
    wanted = {message_id.removeprefix("ID:")}
    connection = make_provider(configuration).existing()
    try:
        for queue in dict.fromkeys(queues):
            try:
                for message in connection.browse(queue):
                    if (message.message_id or "").removeprefix("ID:") in wanted:
                        return message, _origin(message, queue)
            except UnknownDestination:
                continue
    finally:
        connection.close()
    looked = ", ".join(str(queue) for queue in queues)
    raise BadArgument(f"{message_id}: no such file, and no message of this id in {looked or 'any queue'}")


def _origin(message: Message, queue: Destination) -> Destination:
    origin = message.properties.get("connector_origin_destination")
    return read_destination(origin) if isinstance(origin, str) else queue


def _document(value: Any) -> Any:
    if is_dataclass(value):
        names = [one.name for one in fields(value) if one.name != "business_objects"]
        return {name: _document(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        return [_document(one) for one in value]
    return value


def _show(found: Explanation, what: str) -> None:
    has = "no format" if found.message_format is None else f"format {printable(found.message_format)}"
    answer(f"{printable(found.message_id or what)} from {found.destination}, {has}")
    for rule in found.rules:
        reasons = "; ".join(rule.reasons) or "matches"
        answer(f"  rule {rule.name}: {printable(reasons)}")
    answer(found.why)
    if found.data_handler:
        options = f", options of {found.config}" if found.config else ""
        answer(f"data handler {found.data_handler} ({found.mime_type}{options}), named by {found.named_by}")
    for number, one in enumerate(found.objects, 1):
        _show_object(one, f"record {number}: " if len(found.objects) > 1 else "")
    if found.error:
        answer(f"error: {printable(found.error)}")
    copy = "no copy is kept" if found.settled is None else f"a copy goes to {found.settled}"
    end = " if every subscriber confirms" if found.outcome == "published" else ""
    answer(f"{found.outcome}{end}, {copy}")
    note("nothing was sent")


def _show_object(found: ObjectFinding, place: str) -> None:
    answer(f"{place}{found.object}.{found.verb}")
    answer(json_module.dumps(found.values, ensure_ascii=False, indent=2))
    for subscription in found.subscriptions:
        answer(
            f"  subscription {subscription.name}: {'gets it' if subscription.wants else subscription.reason}"
        )
