"""``connector subscribe``: makes a durable subscription."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from connector.cli.common import (
    DEFAULT_CONFIG,
    BadArgument,
    ClientIdOption,
    ConfigOption,
    JsonOption,
    SelectorOption,
    SharedOption,
    answer_json,
    check_subscription,
    note,
    read_selector,
    read_topic,
)
from connector.cli.deployment import load_for
from connector.cli.destinations import NewOption, check_new
from connector.core.takeover import try_take_over
from connector.messaging.subscription import TopicSubscription
from connector.service.assembly import make_provider
from connector.service.queue_documents import subscription_document


def subscribe(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="topic://NAME.")],
    subscription: Annotated[str, typer.Option(metavar="NAME", help="Name of the subscription.")],
    config: ConfigOption = DEFAULT_CONFIG,
    shared: SharedOption = False,
    client_id: ClientIdOption = "",
    selector: SelectorOption = None,
    no_local: Annotated[
        bool, typer.Option("--no-local", help="No messages that clients of this client id send.")
    ] = False,
    new: NewOption = False,
    json: JsonOption = False,
) -> None:
    """Makes a durable subscription, which from now on keeps the messages that are sent to the topic.

    An equal subscription that exists already stays unchanged. A subscription with another topic, selector or
    --no-local is made anew, and the messages that it had kept are lost. While consumers use the subscription,
    that is an error. A topic whose name is like one of the configuration is refused unless --new is given.
    """
    configuration = load_for(config)
    wanted = TopicSubscription(
        read_topic(topic, configuration),
        subscription,
        client_id,
        durable=True,
        shared=shared,
        selector=selector or "",
        no_local=no_local,
    )
    check_subscription(subscription, client_id, shared=shared)
    if shared and no_local:
        raise BadArgument(
            "--no-local and --shared exclude each other: a shared subscription has no connection of its own"
        )
    provider = make_provider(configuration)
    if not provider.capabilities.transactions:  # a selector at a broker is the broker's
        read_selector(selector)
    with contextlib.closing(provider.connect(client_id=client_id)) as connection:
        check_new(wanted.topic, configuration, provider, is_meant=new, is_made=True)
        try_take_over(connection, at_start=True)  # claims of dead clients keep a subscription from ending
        connection.poller(wanted).close()
    if json:
        answer_json(subscription_document(wanted))
    else:
        note(f"subscription {subscription!r} of {wanted.topic} keeps what is sent from now on")
