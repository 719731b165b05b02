"""``connector explain``: shows what a message means and who would get it."""

from __future__ import annotations

import dataclasses
import json as json_module
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from connector.businessobjects.dump import masked_values
from connector.businessobjects.types import SECRET, text_of
from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    answer,
    answer_json,
    note,
    read_destination,
    read_input,
    user_code,
)
from connector.cli.deployment import load_for
from connector.cli.messages import as_document
from connector.cli.send import add_property
from connector.config.loading import CONVERSION, Configuration
from connector.config.timer_model import TimerEntry
from connector.errors import UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.history import file_name
from connector.messaging.message import PROPERTY_TYPES, Message
from connector.messaging.selector import may_match
from connector.printable import printable
from connector.service.assembly import make_explainer, make_provider
from connector.service.timer_times import DueTimes
from connector.text.iso_time import iso_time
from connector.text.json_text import to_json_text
from connector.workbench.explain import Explanation, ObjectFinding, SubscriptionFinding

_SENT: Final = (
    "JMSType",
    "JMSCorrelationID",
    "JMSPriority",
    "JMSDeliveryTime",
    "properties",
    "property_types",
    "body",
    "body_encoding",
)
_MAX_SHOWN: Final = 2000
_NEXT_TIMES: Final = 3

_NEEDED: Final = CONVERSION | {"subscriptions", "databases", "timers"}


def explain(
    what: Annotated[
        str | None,
        typer.Argument(metavar="FILE-OR-ID", help="A file with a body, or the id of a message in a queue."),
    ] = None,
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

    Without FILE-OR-ID shows the timers and their next times.

    FILE holds the body of a text message. By default it comes from the first InputDestination. The id is
    that of a message in an input, in the archive, error or unsubscribed destination, or in the queue of
    --destination. A copy is explained as a message of the input that it came from.
    Exit status 1 when the message would fail.
    """
    configuration = load_for(config, _NEEDED, in_process=True, thorough=True)
    if what is None:
        _show_timers(configuration, json=json)
        return
    target = None if destination is None else read_destination(destination, configuration)
    path = Path(what)
    if path.is_file():
        message, source = _message(path, type, property or ()), target or _first_input(configuration)
    elif type is not None or property:
        raise BadArgument(f"{what}: no such file, and --type and --property are for a file")
    else:
        message, source = _find(what, configuration, target)
    with user_code(configuration.directory):
        found = make_explainer(configuration).explain(message, str(source))
    _note_input(message, source, configuration)
    if json:
        answer_json(_document(found))
    else:
        _show(found, what)
    raise typer.Exit(1 if found.outcome == "failed" else 0)


def _show_timers(configuration: Configuration, *, json: bool) -> None:
    """Shows each timer: what it sends, and when it is due next."""
    if not configuration.timers:
        raise BadArgument("expected a FILE or the id of a message, because the configuration has no timers")
    now = round(time.time() * 1000)
    coming = [DueTimes.of(one).coming(now, _NEXT_TIMES) for one in configuration.timers]
    texts = [[iso_time(moment / 1000) for moment in moments] for moments in coming]
    timers = list(zip(configuration.timers, texts, strict=True))
    if json:
        keys = ("name", "to", "object", "times", "misfire")
        answer_json({"timers": [{**_facts(one, keys), "next": moments} for one, moments in timers]})
        return
    for one, moments in timers:
        answer(printable(f"timer {one.name}: {one.times}, misfire {one.misfire}"))
        answer(printable(f"  sends {one.object or 'a body'} to {one.to}"))
        answer(f"  next: {', '.join(moments)}")


def _facts(timer: TimerEntry, keys: Sequence[str]) -> dict[str, Any]:
    values = ((key, getattr(timer, key)) for key in keys)
    return {key: value if value is None else str(value) for key, value in values}


def _message(path: Path, format_: str | None, properties: list[str] | tuple[()]) -> Message:
    message = Message(read_input(path, str(path))[1], type=format_)
    for text in properties:
        add_property(message, text)
    return message


def _first_input(configuration: Configuration) -> Destination:
    inputs = configuration.connector.inputs
    if not inputs:
        raise BadArgument("--destination: the configuration has no InputDestination, so give one")
    if len(inputs) > 1:
        note(f"{inputs[0].destination} is the first of {len(inputs)} inputs; --destination names another")
    return inputs[0].destination


def _note_input(message: Message, source: Destination, configuration: Configuration) -> None:
    """Says on stderr why the adapter would not take the message at all."""
    inputs = [one for one in configuration.connector.inputs if one.destination == source]
    selectors = [one.selector for one in inputs]
    if not inputs:
        note(f"{source} is no InputDestination: the adapter takes no message from there")
    elif None not in selectors and not any(may_match(text or "", message) for text in selectors):
        note(f"the message does not fit the selector of {source}: {' | '.join(filter(None, selectors))}")


def _find(
    message_id: str, configuration: Configuration, target: Destination | None
) -> tuple[Message, Destination]:
    """Returns a message of a queue, and the input that it came from."""
    connector = configuration.connector
    inputs = [entry.destination for entry in connector.inputs if entry.destination.is_queue]
    queues = [target] if target is not None else [*inputs, *connector.copies.all]
    wanted = {message_id.removeprefix("ID:")}
    connection = make_provider(configuration).existing()
    try:
        for queue in dict.fromkeys(queues):
            try:
                for message in connection.browse(queue, ids=wanted):
                    if wanted & {(message.message_id or "").removeprefix("ID:"), file_name(message)}:
                        return message, _origin(message, queue, configuration)
            except UnknownDestination:
                continue
    finally:
        connection.close()
    looked = ", ".join(str(queue) for queue in queues)
    raise BadArgument(f"{message_id}: no such file, and no message of this id in {looked or 'any queue'}")


def _origin(message: Message, queue: Destination, configuration: Configuration) -> Destination:
    origin = message.properties.get("connector_origin_destination")
    return read_destination(origin, configuration) if isinstance(origin, str) else queue


def _document(found: Explanation) -> dict[str, Any]:
    """Returns the answer as JSON. A body that has a Ciphertext is null."""
    document = dataclasses.asdict(dataclasses.replace(found, objects=(), business_objects=()))
    del document["business_objects"]
    document["objects"] = [
        {
            "object": one.object,
            "verb": one.verb,
            "values": one.values,
            "subscriptions": [_finding(subscription, one) for subscription in one.subscriptions],
        }
        for one in found.objects
    ]
    return document


def _finding(found: SubscriptionFinding, bo: ObjectFinding) -> dict[str, Any]:
    document = dataclasses.asdict(dataclasses.replace(found, sent=None, mapped=None))
    del document["refused"], document["map"], document["mapped"]  # the reason tells of the first
    if found.mapped is not None:
        values = masked_values(found.mapped)
        document["mapped"] = {
            "map": found.map,
            "object": found.mapped.type,
            "verb": found.mapped.verb,
            "values": values,
        }
    if found.sent is not None:
        sent = as_document(found.sent)
        document["sent"] = {name: sent[name] for name in _SENT if name in sent}
        if bo.has_secret:
            document["sent"]["body"] = None
    return document


def _show(found: Explanation, what: str) -> None:
    has = "no format" if found.message_format is None else f"format {found.message_format}"
    answer(printable(f"{found.message_id or what} from {found.destination}, {has}"))
    for rule in found.rules:
        reasons = "; ".join(rule.reasons) or "matches"
        answer(f"  rule {rule.id}: {printable(reasons)}")
    answer(printable(found.why))
    if found.data_handler:
        config = f", options of {found.config}" if found.config else ""
        handler = f"data handler {found.data_handler} ({found.mime_type}{config}), named by {found.named_by}"
        answer(printable(handler))
    for name, value in found.options.items():
        answer(f"  {name}: {printable(json_module.dumps(value, ensure_ascii=False))}")
    for number, one in enumerate(found.objects, 1):
        _show_object(one, f"record {number}: " if len(found.objects) > 1 else "")
    if found.duplicate_key:
        answer(printable(f"duplicate_key {found.duplicate_key}"))
    if found.reason:
        answer(f"reason: {printable(found.reason)}")
    copy = "no copy is kept" if found.settled is None else f"a copy goes to {found.settled}"
    end = " if every subscriber confirms" if found.outcome == "published" else ""
    answer(f"{found.outcome}{end}, {copy}")
    note("nothing was sent")


def _show_object(found: ObjectFinding, place: str) -> None:
    answer(printable(f"{place}{found.object}.{found.verb}"))
    answer(to_json_text(found.values, indent=2))
    for subscription in found.subscriptions:
        answer(printable(f"  subscription {subscription.name}: {_fate(subscription)}"))
        if subscription.mapped is not None:
            made = subscription.mapped
            answer(printable(f"    {made.type}.{made.verb} of the map {subscription.map}"))
            for line in to_json_text(masked_values(made), indent=2).splitlines():
                answer(f"    {line}")
        for line in _properties(subscription.sent):
            answer(f"    {printable(line)}")
        if subscription.sent is not None and found.has_secret:
            answer(f"    its body is not shown, because the object has a {SECRET}")
        elif subscription.sent is not None:
            for line in _body(subscription.sent).splitlines():
                answer(f"    | {printable(line)}")


def _fate(found: SubscriptionFinding) -> str:
    if not found.wants or found.confirmed:
        return printable(found.reason)
    if found.reason:
        return f"cannot send it: {printable(found.reason)}"
    return "gets it" if found.sends_to is None else f"sends it to {found.sends_to}"


def _properties(message: Message | None) -> Iterator[str]:
    """Yields the properties of a message that is sent, without those that the connector always sets."""
    for name, value in ({} if message is None else message.properties).items():
        if not name.startswith("connector_"):
            yield f"{name} = {text_of(value)}"


def _body(message: Message) -> str:
    document = as_document(message)
    text: str = document["body"]
    shown = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}... (--json shows all)"
    return f"base64 {shown}" if "body_encoding" in document else shown
