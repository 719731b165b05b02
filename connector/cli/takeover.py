"""``connector takeover``: declares a client dead whose lock never comes free."""

from __future__ import annotations

import difflib
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from connector.cli.common import DEFAULT_CONFIG, BadArgument, ConfigOption, answer, note
from connector.cli.deployment import load_for
from connector.cli.tables import ago, table
from connector.errors import ProviderError
from connector.messaging.notes import ClientNote, ClientState
from connector.messaging.provider_kind import AdapterProvider
from connector.printable import printable
from connector.service.assembly import make_provider
from connector.text.iso_time import iso_time


def takeover(
    client: Annotated[
        str, typer.Argument(metavar="CLIENT", help="The client. Left out: the clients are listed.")
    ] = "",
    config: ConfigOption = DEFAULT_CONFIG,
    it_is_dead: Annotated[
        bool, typer.Option("--it-is-dead", help="You know that the client's process does nothing any more.")
    ] = False,
) -> None:
    """Declares a client dead, so that others take over its claims.

    This is for a client whose lock never comes free, because its host hangs or the process is stopped. The
    claims of other dead clients are taken over without this command.
    If the client goes on after all, it settles no claim that others have taken over. An event in delivery is
    in doubt.
    """
    provider = make_provider(load_for(config))
    provider.check()
    clients = provider.clients()
    if not client:
        _list(clients)
        return
    known = next((one for one in clients if one.client_id == client), None)
    if known is None:
        raise BadArgument(_unknown(client, clients))
    if known.state is ClientState.ALIVE and not it_is_dead:
        raise BadArgument(
            f"client {client} may be alive: {_place(known)} has held its lock since {iso_time(known.since)}. "
            "End that process if you can: its lock is then released, and a running instance takes over "
            "without this command. If you cannot end the process, and are sure that it does nothing any "
            "more, give --it-is-dead"
        )
    _declare(provider, known)


def _declare(provider: AdapterProvider, known: ClientNote) -> None:
    client = known.client_id
    before = provider.declare_dead(client)
    if before is None:
        raise ProviderError(f"client {client} has just ended: there is nothing to take over by hand")
    if before is ClientState.DEAD:
        raise ProviderError(
            f"client {client} is dead, and its lock is free: a running instance takes over within 10 s, "
            "otherwise the next one that starts"
        )
    if before is ClientState.DECLARED_DEAD:
        raise ProviderError(
            f"client {client} was declared dead before; it is listed until somebody has taken over and "
            f"{_place(known)} has ended or connected anew"
        )
    answer(
        f"client {client} is declared dead: a running instance takes over, within 10 s or when the tasks of "
        "the client were waited for long enough (stop_timeout), otherwise the next one that starts"
    )


def _unknown(client: str, clients: Sequence[ClientNote]) -> str:
    names = [one.client_id for one in clients]
    nearest = difflib.get_close_matches(client, names, 1)
    text = f"there is no client {client!r}"
    if nearest:
        return f"{text}, did you mean {nearest[0]!r}?"
    return f"{text}; there are {', '.join(names)}" if names else f"{text}, and no other"


def _place(client: ClientNote) -> str:
    return f"process {client.pid} on {printable(client.host)}"


def _list(clients: Sequence[ClientNote]) -> None:
    if not clients:
        note("no clients")
        return
    now = time.time()
    rows = [
        (
            one.client_id,
            one.application or "-",
            one.instance or "-",
            one.host or "-",
            str(one.pid or "-"),
            one.state.value,
            ago(one.since, now),
        )
        for one in clients
    ]
    for line in table(("client", "application", "instance", "host", "pid", "state", "since"), rows):
        answer(line)
