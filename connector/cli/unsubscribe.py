"""``connector unsubscribe``: removes a durable subscription."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from connector.cli.common import (
    DEFAULT_CONFIG,
    ClientIdOption,
    ConfigOption,
    JsonOption,
    answer_json,
    check_name,
    note,
)
from connector.cli.deployment import load_for
from connector.core.takeover import try_take_over
from connector.service.assembly import make_provider
from connector.service.queue_documents import info_document


def unsubscribe(
    subscription: Annotated[str, typer.Option(metavar="NAME", help="Name of the subscription.")],
    config: ConfigOption = DEFAULT_CONFIG,
    client_id: ClientIdOption = "",
    json: JsonOption = False,
) -> None:
    """Removes a durable subscription, shared or not, with all kept messages.

    A warning says how many messages those are. An error while consumers use the subscription, or while a
    message of the subscription is taken and not yet acknowledged.
    """
    check_name(subscription)
    provider = make_provider(load_for(config))
    # The client id is not held, because a running adapter without this input may have the same client id. A
    # broker removes a subscription only for its client id.
    held = client_id if provider.capabilities.transactions else ""
    with contextlib.closing(provider.connect(client_id=held)) as connection:
        try_take_over(connection, at_start=True)  # claims of dead clients keep a subscription from ending
        removed = connection.unsubscribe(subscription, client_id)
    if json:
        answer_json(info_document(removed))
    else:
        note(f"subscription {subscription!r} is removed")
