"""The section ``provider`` with ``type: dropbox``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from connector.declare.section import ProviderSection
from connector.declare.value_types import (
    Boolean,
    PathName,
    ValueType,
    as_found,
    choice,
    duration,
    integer,
    leaf,
    refuse,
)


def _read_level(value: object) -> str:
    """Reads a level of directories, without / and first dot. The empty name is no level."""
    expected = "the name of a directory, without / and first dot, or '' for none"
    name = leaf(value, expected)
    if name and (not name.strip() or "/" in name or name.startswith(".") or name == "dropboxmq"):
        raise refuse(as_found(name), expected)
    return str(name)


_Level = Annotated[str, ValueType(_read_level, str, {"type": ["string", "number", "boolean"]}, "name | ''")]


class DropboxSection(ProviderSection):
    """A shared directory for the processes of one machine or many.

    Journals, published ids and instance locks lie under the root. There the commit of a settlement writes the
    published ids. So `state.directory` is refused.
    """

    root: PathName = Field(
        description="Directory that every adapter and every Spark worker sees under this path."
    )
    create: Boolean = Field(
        default=False,
        description="`true`: the first start makes a missing or empty root, and records the root in "
        "`.connector/root` beside this file. Afterwards a missing, empty or different root is an error. "
        "`false`: a missing or empty root is an error at once.",
    )
    incoming_directory: _Level = Field(
        default="incoming",
        description="Name of the directory between a queue and folders such as `working`. `''`: no such "
        "directory.",
    )
    outgoing_directory: _Level | None = Field(
        default=None,
        description="The same for sent messages, if a partner at this root has the two names the other way "
        "round. Both are empty or neither. Default: as `incoming_directory`.",
    )
    durability: Annotated[Literal["none", "batch"], choice("none", "batch")] = Field(
        default="batch",
        description="`batch`: sent and settled messages are synced to disk before they are visible.",
    )
    keep_processed: Annotated[float | None, duration(none="forever", zero=True)] = Field(
        default=7 * 86400.0, description="Messages in `processed/` and `expired/` are removed after this."
    )
    redelivery_limit: Annotated[int | None, integer(0, "deliveries", none="none")] = Field(
        default=None,
        description="Deliveries by any consumer before a message goes to the provider's own `error/`. The "
        "adapter's own limit is `max_attempts`.",
    )
    lease: Annotated[float | None, duration(none="none")] = Field(
        default=None,
        description="Time without a sign of life after which a client other than an adapter counts as dead "
        "despite its lock. For file systems with unreliable locks.",
    )
