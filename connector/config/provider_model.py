"""The section ``provider``: one class a type, since each type has keys of its own."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from connector.config.kinds import (
    Boolean,
    Kind,
    PathName,
    Size,
    as_found,
    choice,
    duration,
    integer,
    leaf,
    refuse,
)
from connector.config.section import Section

TYPES: Final = ("dropbox", "memory")
"""The providers of this version."""


def _type(own: str) -> Kind:
    """The type that a section is of; what is none is answered with all there are."""
    schema: dict[str, Any] = choice(own).schema
    return Kind(choice(*TYPES).read, str, schema, own)


def _read_level(value: object) -> str:
    """A level of directories, without / and first dot; the empty name is none."""
    expected = "the name of a directory, without / and first dot, or '' for none"
    name = leaf(value, expected)
    if name and (not name.strip() or "/" in name or name.startswith(".") or name == "dropboxmq"):
        raise refuse(as_found(name), expected)
    return str(name)


_Level = Annotated[str, Kind(_read_level, str, {"type": ["string", "number", "boolean"]}, "name | ''")]
_Redeliveries = Annotated[int | None, integer(0, "deliveries", none="none")]


class Provider(Section):
    """Where messages live."""

    type: str


class Dropbox(Provider):
    """A shared directory: every process that sees it takes part, on one machine or many."""

    type: Annotated[Literal["dropbox"], _type("dropbox")] = Field(
        default="dropbox", description="The provider: `dropbox` or `memory`."
    )
    root: PathName = Field(
        description="Directory that every adapter and every Spark worker sees under this path."
    )
    create: Boolean = Field(
        default=False,
        description="`true`: the first start makes the root where it is missing or empty, and records it in "
        "`.connector/root` beside this file. From then on a root that is missing, empty or another one is an "
        "error. `false`: a root that is missing or empty is an error at once.",
    )
    incoming_directory: _Level = Field(
        default="incoming",
        description="Name of the directory between a queue and its `working`, `target` ...; `''` where there "
        "is none.",
    )
    outgoing_directory: _Level | None = Field(
        default=None,
        description="The same for what is sent, where a partner who exchanges messages through this root has "
        "the two the other way round; both are empty or neither. Default: as `incoming_directory`.",
    )
    durability: Annotated[Literal["none", "batch"], choice("none", "batch")] = Field(
        default="batch",
        description="`batch`: what is sent or settled is synced to disk before it is visible.",
    )
    keep_processed: Annotated[float | None, duration(none="forever", zero=True)] = Field(
        default=7 * 86400.0, description="`processed/` and `expired/` are pruned after this."
    )
    redelivery_limit: _Redeliveries = Field(
        default=None,
        description="Deliveries of a message by any consumer before it goes to the provider's own `error/`; "
        "the adapter's own limit is `max_attempts`.",
    )
    lease: Annotated[float | None, duration(none="none")] = Field(
        default=None,
        description="A client without a sign of life for so long counts as dead although it holds its lock, "
        "adapters excepted; for file systems whose locks cannot be trusted.",
    )


class Memory(Provider):
    """Messages in the memory of one process, lost with it: for tests that run without Spark.

    `check` and every command refuse it, since they are processes of their own;
    `connector.testing.deployment` takes it.
    """

    type: Annotated[Literal["memory"], _type("memory")] = Field(description="`memory`.")
    max_bytes: Size = Field(
        default=64 << 20, description="Bytes of messages that it holds; a sender waits for room."
    )
    send_timeout: Annotated[float, duration(zero=True)] = Field(
        default=30.0, description="How long a sender waits for room; then the send has failed."
    )
    accept_persistent: Boolean = Field(
        default=False,
        description="`true`: takes persistent messages too, although it cannot keep what they promise.",
    )
    redelivery_limit: _Redeliveries = Field(
        default=None, description="Deliveries of a message by any consumer before it counts as undeliverable."
    )
