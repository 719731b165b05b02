"""``connector receive``: takes messages, with or without acknowledgement."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Literal, NoReturn

import typer

from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ClientIdOption,
    ConfigOption,
    JsonOption,
    SelectorOption,
    SharedOption,
    SubscriptionOption,
    check_subscription,
    flush,
    note,
    read_destination,
    read_selector,
    read_topic,
    whole_number,
)
from connector.cli.deployment import load_for
from connector.cli.destinations import NewOption, check_new
from connector.cli.messages import show
from connector.core.session import sole_session
from connector.core.takeover import try_take_over
from connector.errors import MalformedData, ProviderError, SubscriptionError
from connector.messaging.client import AcknowledgeMode, Consumer, ReceivedMessage, Session
from connector.messaging.destination import Destination
from connector.messaging.notes import OwnerNote, count_owners
from connector.messaging.numbers import MAX_INT
from connector.messaging.roles import Looking
from connector.messaging.subscription import SubscriptionInfo, TopicSubscription
from connector.printable import printable
from connector.service.assembly import make_provider, with_poll_quantity

_MODES = {
    "auto": AcknowledgeMode.INDIVIDUAL,
    "client": AcknowledgeMode.CLIENT,
    "none": AcknowledgeMode.CLIENT,
    "rollback": AcknowledgeMode.TRANSACTED,
}


# long: more than half declares the options
def receive(
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="queue://NAME or topic://NAME. A bare name is a queue.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    count: Annotated[int, whole_number(1, MAX_INT, "N", "Largest number of messages.")] = 1,
    wait: Annotated[
        int,
        whole_number(0, MAX_INT, "MS", "Milliseconds to wait for each message."),
    ] = 0,
    selector: SelectorOption = None,
    subscription: SubscriptionOption = None,
    shared: SharedOption = False,
    client_id: ClientIdOption = "",
    ack: Annotated[
        Literal["auto", "client", "none", "rollback"],
        typer.Option(
            help="auto: each message after printing. client: all at the end, together. none: not at all. "
            "rollback: a transaction that is rolled back.",
        ),
    ] = "auto",
    new: NewOption = False,
    json: JsonOption = False,
) -> None:
    """Takes messages, highest priority first, then oldest, and prints them like browse.

    Messages that are not acknowledged, with --ack none and rollback, wait again, redelivered. A topic
    without --subscription gives the messages that are sent while this command waits. A queue or subscription
    that does not exist is made. For a queue that the configuration does not name there is a warning. A name
    that is like one of the configuration is refused unless --new is given. An existing subscription is used
    with the selector that it has.
    Exit status 0 also when nothing came. 1 when a message could not be read, which then waits again.
    """
    configuration = load_for(config)
    target = read_destination(destination, configuration)
    if subscription is not None:
        read_topic(destination, configuration)
        check_subscription(subscription, client_id, shared=shared)
    elif shared:
        raise BadArgument("--shared: say which subscription with --subscription")
    provider = make_provider(with_poll_quantity(configuration, count))
    is_lent = provider.capabilities.transactions
    if not is_lent:  # a selector at a broker is the broker's
        read_selector(selector)
    connection = provider.connect(client_id=client_id)
    with contextlib.closing(
        sole_session(connection, _MODES[ack], provider.capabilities, connection, client_id=client_id)
    ) as session:
        try_take_over(connection, at_start=True)
        if not is_lent:
            check_new(target, configuration, provider, is_meant=new)
        if subscription is None:
            consumer: Consumer = session.consumer(target, selector or "")
        else:
            wanted = TopicSubscription(
                target, subscription, client_id, durable=True, shared=shared, selector=selector or ""
            )
            known = connection.subscriptions()
            consumer = _attach(session, _as_it_is(wanted, known, any_selector=selector is None))
        number, unreadable = _take(consumer, target, count, wait / 1000, ack, as_json=json)
        if number + unreadable < count and target.is_queue:
            _tell_owners(connection, target)
    _end(number, unreadable, target, as_json=json)


def _take(
    consumer: Consumer, target: Destination, count: int, wait: float, ack: str, *, as_json: bool
) -> tuple[int, int]:
    """Takes, shows and acknowledges messages. Returns how many were shown, and how many cannot be read."""
    number = unreadable = 0
    last: ReceivedMessage | None = None
    while number + unreadable < count:
        try:
            message = consumer.receive(wait)
        except MalformedData as error:
            unreadable += 1
            reason = printable(str(error))
            note(f"connector: a message of {target} cannot be read and waits again: {reason}")
            continue
        if message is None:
            break
        show(message, as_json=as_json, received=True)
        flush()  # the reader has the message before the acknowledgement removes it
        if ack == "auto":
            message.acknowledge()
        number, last = number + 1, message
    if ack == "client" and last is not None:
        if unreadable:  # an acknowledgement would include the message that could not be shown
            note("connector: nothing was acknowledged")
        else:
            last.acknowledge()
    return number, unreadable


def _tell_owners(connection: Looking, queue: Destination) -> None:
    """Notes what stays in a queue because other clients own it."""
    owned: list[OwnerNote] = []
    with contextlib.suppress(ProviderError):  # who may receive may perhaps not look
        owned = [one for notes in connection.owners(queue).values() for one in notes]
    for owner, number in count_owners(owned):
        count = f"{number:,} message{'s are' if number != 1 else ' is'}"
        note(f"connector: of {queue} {count} {printable(str(owner))}")


def _end(number: int, unreadable: int, target: Destination, *, as_json: bool) -> NoReturn:
    if not as_json:
        note(f"{number} message{'s' * (number != 1)} from {target}")
    raise typer.Exit(1 if unreadable else 0)


def _as_it_is(
    wanted: TopicSubscription, known: Iterable[SubscriptionInfo], *, any_selector: bool
) -> TopicSubscription:
    """Returns the existing subscription, so that attaching never makes a new one and loses the messages.

    Args:
        any_selector: whether any selector of the existing subscription is accepted.

    Raises:
        SubscriptionError: the existing subscription has another topic or selector.
    """
    key = (wanted.name, wanted.client_id)
    for found in (info.subscription for info in known):
        if not found.durable or (found.name, found.client_id) != key:
            continue
        if found.topic != wanted.topic:
            raise SubscriptionError(
                f"the subscription {wanted.name!r} is one of {found.topic}, not of {wanted.topic}: receive "
                f"from {found.topic}, or remove the subscription with connector unsubscribe"
            )
        if not any_selector and found.selector != wanted.selector:
            has = f"the selector {found.selector!r}" if found.selector else "no selector"
            raise SubscriptionError(
                f"the subscription {wanted.name!r} of {wanted.topic} has {has}: leave out --selector to "
                "receive the messages that the subscription keeps. To change the selector, run connector "
                "subscribe, which removes these messages"
            )
        return replace(wanted, selector=found.selector, no_local=found.no_local)
    return wanted


def _attach(session: Session, wanted: TopicSubscription) -> Consumer:
    if wanted.shared:
        return session.shared_durable_consumer(wanted.topic, wanted.name, wanted.selector)
    return session.durable_consumer(wanted.topic, wanted.name, wanted.selector, no_local=wanted.no_local)
