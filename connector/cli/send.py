"""``connector send``: sends messages to a queue or topic."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Annotated

import typer

from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ConfigOption,
    JsonOption,
    answer,
    answer_json,
    note,
    read_body,
    read_destination,
    whole_number,
)
from connector.cli.deployment import load_for
from connector.cli.destinations import NewOption, check_new
from connector.cli.hints import command_line
from connector.config.loading import Configuration
from connector.messaging.destination import Destination
from connector.messaging.message import (
    HIGHEST_PRIORITY,
    PROPERTY_TYPES,
    STANDARD_TYPES,
    Message,
    delivery_time_after,
    expiration_after,
    parse_property,
)
from connector.messaging.numbers import MAX_INT, MAX_LONG
from connector.messaging.provider import Connection
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.selectors.identifiers import check_property_name
from connector.printable import printable
from connector.service.assembly import make_provider
from connector.service.queues import INPUT, roles

_BATCH = 500


# long: more than half declares the options
def send(
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="queue://NAME or topic://NAME. A bare name is a queue.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    body: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The body, or a text that begins with {, [ or <. Left out: stdin.",
            show_default=False,
        ),
    ] = None,
    type: Annotated[str | None, typer.Option(metavar="T", help="JMSType.")] = None,
    property: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:TYPE=VALUE", help=f"A property. TYPE: {' '.join(PROPERTY_TYPES)}."),
    ] = None,
    correlation_id: Annotated[str | None, typer.Option(metavar="C", help="JMSCorrelationID.")] = None,
    reply_to: Annotated[str | None, typer.Option(metavar="D", help="JMSReplyTo, a destination.")] = None,
    priority: Annotated[
        int | None, whole_number(0, HIGHEST_PRIORITY, "N", "JMSPriority, 0 to 9. Default: 4.")
    ] = None,
    expires_in: Annotated[
        int | None, whole_number(0, MAX_LONG, "MS", "Milliseconds until expiration. 0: never.")
    ] = None,
    delay: Annotated[
        int | None, whole_number(0, MAX_LONG, "MS", "Milliseconds until delivery. 0: at once.")
    ] = None,
    count: Annotated[int, whole_number(1, MAX_INT, "N", "Number of equal messages.")] = 1,
    new: NewOption = False,
    bytes: Annotated[bool, typer.Option("--bytes", help="A bytes message. Otherwise text in UTF-8.")] = False,
    json: JsonOption = False,
) -> None:
    """Sends messages and prints their ids, one on each line.

    A queue that does not exist is made, with a warning if the configuration does not name the queue. A name
    that is like one of the configuration is refused unless --new is given.
    A topic hands the messages to the subscriptions that it has now. Without a subscription they are lost.
    """
    template = _template(read_body(body), is_text=not bytes)
    template.type, template.correlation_id = type or None, correlation_id or None
    if priority is not None:
        template.priority = priority
    for text in property or ():
        add_property(template, text)
    configuration = load_for(config)
    target = read_destination(destination, configuration)
    if target.view:
        raise BadArgument(f"{target} is a view of {target.base}: send to {target.base}")
    if reply_to is not None:
        template.reply_to = str(read_destination(reply_to, configuration))
    _set_times(template, expires_in or 0, delay or 0)
    try:
        template.check()
    except ValueError as error:
        raise BadArgument(str(error)) from None
    provider = make_provider(configuration)
    if delay and not provider.capabilities.delays:
        raise BadArgument("--delay: the provider cannot delay a message")
    with closing(provider.connect()) as connection:
        check_new(target, configuration, provider, is_meant=new)
        for one in _send(connection, target, template, count):
            if json:
                answer_json({"JMSMessageID": one})
            else:
                answer(one)
    if delay and provider.capabilities.shows_all and _stays_delayed(target, configuration, provider):
        note(
            f"no adapter runs, and the configuration does not poll {target}: the messages stay delayed until "
            "an adapter runs, or a client of the connector takes from there"
        )
    if sys.stdout.isatty() and not json and _waits(target, configuration, provider):
        note(f"no adapter runs; next: {printable(command_line('run --drain', config))}")


def _template(body: bytes, *, is_text: bool) -> Message:
    """Returns a message with a body."""
    if is_text:
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadArgument(
                f"the body is no UTF-8 text (byte {error.start}); give --bytes to send it as it is"
            ) from None
    return Message(body, message_class="T" if is_text else "B")


def _set_times(message: Message, expires_in: int, delay: int) -> None:
    """Sets the expiration and the time of the delivery. Both arguments are in milliseconds, 0 = none."""
    try:
        message.expiration = expiration_after(expires_in)
    except ValueError as error:
        raise BadArgument(f"--expires-in {expires_in}: {error}") from None
    try:
        message.delivery_time = delivery_time_after(delay)
    except ValueError as error:
        raise BadArgument(f"--delay {delay}: {error}") from None
    if 0 < expires_in <= delay:
        raise BadArgument(f"--delay {delay}: the message would expire before its delivery; give it more time")


def _send(connection: Connection, target: Destination, message: Message, count: int) -> Iterator[str]:
    """Sends a message several times. Yields each id."""
    for begin in range(0, count, _BATCH):
        yield from connection.send(target, [message] * min(count - begin, _BATCH))


def _waits(destination: Destination, configuration: Configuration, provider: AdapterProvider) -> bool:
    """Returns whether a message to a destination waits until somebody starts the adapter."""
    return roles(configuration).get(destination) == INPUT and not _runs(configuration, provider)


def _stays_delayed(destination: Destination, configuration: Configuration, provider: AdapterProvider) -> bool:
    """Returns whether nobody moves a delayed message of a destination for a foreign program that reads it."""
    return roles(configuration).get(destination) != INPUT and not _runs(configuration, provider)


def _runs(configuration: Configuration, provider: AdapterProvider) -> bool:
    """Returns whether an instance of the adapter runs."""
    state = provider.existing_state(configuration.connector.application_name)
    return any(one.runs for one in state.instances())


def add_property(message: Message, text: str) -> None:
    """Adds the property ``NAME:TYPE=VALUE``. Without TYPE it has the type that JMS defines, or string."""
    declared, separator, value = text.partition("=")
    name, _, kind = declared.partition(":")
    if not separator or not name:
        raise BadArgument(f"--property {text!r}: expected NAME:TYPE=VALUE, for example region:string=EU")
    if name in message.properties:
        raise BadArgument(f"--property {text!r}: the property {name!r} is set twice")
    kind = kind or STANDARD_TYPES.get(name, "string")
    if kind not in PROPERTY_TYPES:
        raise BadArgument(f"--property {text!r}: {kind!r} is no type; there are {', '.join(PROPERTY_TYPES)}")
    try:
        check_property_name(name, kind)
        message.set_property(name, parse_property(kind, value), kind)
    except ValueError as error:
        raise BadArgument(f"--property {text!r}: {error}") from None
