"""``connector move``: moves messages of a queue as they are."""

from __future__ import annotations

from typing import Annotated

import typer

from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, SelectorOption
from connector.cli.replay import (
    ExpectOption,
    GroupOption,
    IdOption,
    KindOption,
    LimitOption,
    ReasonOption,
    YesOption,
    read_choice,
    read_target,
    run_order,
)
from connector.operate.replay import Move


def move(
    destination: Annotated[str, typer.Argument(metavar="DEST", help="The queue of the messages.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="Where they go: a queue, or a topic.")],
    config: ConfigOption = DEFAULT_CONFIG,
    id: IdOption = None,
    group: GroupOption = "",
    kind: KindOption = "",
    reason: ReasonOption = "",
    selector: SelectorOption = None,
    limit: LimitOption = None,
    yes: YesOption = False,
    expect: ExpectOption = None,
    json: JsonOption = False,
) -> None:
    """Moves messages of a queue to another one, as they are. Without --yes it only says which.

    The choices and the exit status are those of connector replay.
    """
    run_order(
        lambda source, configuration: Move(read_target(to, source, configuration, option="TO")),
        read_choice(id, group, kind, reason, selector, limit),
        destination,
        config,
        yes=yes,
        expect=expect,
        json=json,
    )
