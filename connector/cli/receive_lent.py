"""``connector receive`` on a broker, whose transactions settle or give back all their messages together."""

from __future__ import annotations

import contextlib
import time
from typing import Final, Literal

from connector.cli.common import flush, note, printable
from connector.cli.messages import show
from connector.errors import MalformedData
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.polling import Poller
from connector.messaging.provider import Connection
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription

_NO_LIMIT: Final = 1 << 40
_PAUSE: Final = 0.02


def receive_lent(
    provider: AdapterProvider,
    source: Destination | TopicSubscription,
    *,
    client_id: str,
    selector: str,
    count: int,
    wait: float,
    ack: Literal["auto", "client", "none", "rollback"],
    as_json: bool,
) -> tuple[int, int]:
    """Takes and shows messages.

    Args:
        source: a queue, or a subscription with the selector.
        client_id: of JMS. Empty = none.
        selector: for a queue.
        count: largest number of messages.
        wait: seconds to wait for each message.
        ack: as the option of the verb.

    Returns:
        the numbers of shown messages and of unreadable messages.
    """
    with contextlib.closing(provider.connect(client_id=client_id)) as connection:
        poller = connection.poller(source, selector=selector)
        return _receive(connection, poller, count=count, wait=wait, ack=ack, as_json=as_json)


def _receive(
    connection: Connection, poller: Poller, *, count: int, wait: float, ack: str, as_json: bool
) -> tuple[int, int]:
    access = connection.access().open()
    shown = unreadable = 0
    taken: list[Claim] = []
    for number in range(count):
        # Each cycle is a transaction. With "auto" each message has its own.
        cycle, sequence = (number, 0) if ack == "auto" else (0, number)
        claim = _take(poller, cycle, sequence, wait)
        if claim is None:
            break
        taken.append(claim)
        try:
            message = access.load(claim.reference, _NO_LIMIT)
        except MalformedData as error:
            unreadable += 1
            note(f"connector: a message cannot be read and waits again: {printable(str(error))}")
        else:
            shown += 1
            show(message, as_json=as_json, received=True)
            flush()  # the reader has the message before the acknowledgement removes it
        if ack == "auto":
            connection.settle([Settlement(claim, give_back=bool(unreadable))])
            if unreadable:
                break  # the broker would give the same message again
    if ack == "client" and taken:
        if unreadable:
            note("connector: nothing was acknowledged")
        connection.settle([Settlement(claim, give_back=bool(unreadable)) for claim in taken])
    elif ack == "rollback" and taken:
        connection.settle([Settlement(claim, give_back=True) for claim in taken])
    return shown, unreadable


def _take(poller: Poller, cycle: int, sequence: int, seconds: float) -> Claim | None:
    deadline = time.monotonic() + seconds
    while (claim := poller.take(cycle, sequence)) is None and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    return claim
