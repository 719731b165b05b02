"""The section ``provider`` with ``type: dropbox``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from connector.config.kinds import (
    Boolean,
    Kind,
    PathName,
    as_found,
    choice,
    duration,
    integer,
    leaf,
    refuse,
)
from connector.config.section import ProviderSection


def _read_level(value: object) -> str:
    """Reads a level of directories, without / and first dot. The empty name is no level."""
    expected = "the name of a directory, without / and first dot, or '' for none"
    name = leaf(value, expected)
    if name and (not name.strip() or "/" in name or name.startswith(".") or name == "dropboxmq"):
        raise refuse(as_found(name), expected)
    return str(name)


_Level = Annotated[str, Kind(_read_level, str, {"type": ["string", "number", "boolean"]}, "name | ''")]


class DropboxSection(ProviderSection):
    """A shared directory: every process that sees it takes part, on one machine or many.

    Journals, published ids and instance locks lie under the root, where the commit of a settlement writes the
    published ids. So `state.directory` is refused.
    """

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
    redelivery_limit: Annotated[int | None, integer(0, "deliveries", none="none")] = Field(
        default=None,
        description="Deliveries of a message by any consumer before it goes to the provider's own `error/`; "
        "the adapter's own limit is `max_attempts`.",
    )
    lease: Annotated[float | None, duration(none="none")] = Field(
        default=None,
        description="A client without a sign of life for so long counts as dead although it holds its lock, "
        "adapters excepted; for file systems whose locks cannot be trusted.",
    )
