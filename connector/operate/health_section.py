"""The section ``health``: the limits within which an adapter is well."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import Field

from connector.declare.section import Section
from connector.declare.value_types import ValueType, as_found, duration, integer, leaf, refuse

_EXPECTED: Final = "a share from 0 to 1, such as 0.5"
_NUMBER: Final = re.compile(r"[01](\.[0-9]{1,6})?\Z|\.[0-9]{1,6}\Z")


def _read_share(value: object) -> float:
    written = leaf(value, _EXPECTED)
    if not _NUMBER.match(written) or float(written) > 1:
        raise refuse(as_found(written), _EXPECTED)
    return float(written)


_SHARE: Final = ValueType(
    _read_share,
    lambda value: int(value) if value == int(value) else value,
    {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": r"\$\{"}]},
    "share",
)


class Health(Section):
    """The limits beyond which the adapter is not well, for `connector status` and `/health/well`."""

    failed_share: Annotated[float, _SHARE] = Field(
        default=0.5,
        description="Share of failed events among the published and failed events of the last 5 minutes, of "
        "each input over all instances. Also of the deliveries of each subscription.",
    )
    failed_least: Annotated[int, integer(1, "events")] = Field(
        default=5, description="Fewer failures in 5 minutes are no matter of the adapter."
    )
    last_good_poll: Annotated[float | None, duration(none="none")] = Field(
        default=300.0,
        description="Time since the last good poll of an instance, beyond `PollFrequency`. Only while polls "
        "are due: not with `PollFrequency: no`, and not outside `PollStartTime` and `PollEndTime`. With "
        "a cron, time since a time of the cron without a good poll.",
    )
    oldest_waiting: Annotated[float | None, duration(none="none")] = Field(
        default=3600.0,
        description="Age of the oldest waiting message of an input that is not paused. With "
        "a cron, time since a time of the cron at which the message waited.",
    )
    error_waiting: Annotated[int | None, integer(0, "messages", none="none")] = Field(
        default=None,
        description="So many messages in the error destinations, or more, are a reason. Without this key "
        "they are a notice only.",
    )
    error_growth: Annotated[int | None, integer(0, "messages", none="none")] = Field(
        default=None, description="Messages that the error destinations have gained in 5 minutes."
    )
    workers_died: Annotated[int | None, integer(0, "processes", none="none")] = Field(
        default=10, description="Worker processes of an instance that ended by themselves in 5 minutes."
    )
    instances: Annotated[int, integer(0, "instances")] = Field(
        default=1,
        description="Fewer running instances are too few. `0`: an adapter that runs now and then, with "
        "`--once` or `--drain`.",
    )
    longest_step: Annotated[float, duration()] = Field(
        default=600.0,
        description="Time of one step of the adapter's loop, such as a poll or a commit. Beyond it "
        "`/health/live` says that the loop hangs.",
    )
