"""The section ``provider`` with ``type: sql``."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from connector.databases.urls import URL_EXPECTED, parse_url
from connector.declare.section import ProviderSection
from connector.declare.value_types import Text, ValueType, choice, duration, integer, leaf, refuse
from connector.errors import WrongValue


def _read_url(value: object) -> str:
    try:
        return parse_url(leaf(value, URL_EXPECTED)).render_as_string(hide_password=False)
    except WrongValue as error:
        raise refuse(error.found, error.expected) from None


_SCHEMA: Final[dict[str, Any]] = {"type": "string", "pattern": r"^sqlite:///|^postgresql(\+psycopg)?://|\$\{"}
_Url = Annotated[str, ValueType(_read_url, str, _SCHEMA, "URL")]


class SqlSection(ProviderSection):
    """Tables in a database: SQLite for the processes of one machine, PostgreSQL for many machines.

    SQLite needs no server. Journals and instance locks of SQLite lie in the directory `FILE.state` beside the
    file, or in `state.directory`.
    """

    url: _Url = Field(
        repr=False,
        description="Of the database. A SQLite file is relative to this file, and its directory is made. "
        "PostgreSQL needs the extra `postgresql`. Give its password as `${NAME}` from the environment.",
    )
    schema_: Text | None = Field(
        default=None,
        alias="schema",
        description="Schema of PostgreSQL with the tables, made if missing. Default: the first of the "
        "user's search path.",
    )
    pool_size: Annotated[int, integer(1, "connections", maximum=1000)] = Field(
        default=5, description="Connections that each process keeps open to the database."
    )
    durability: Annotated[Literal["none", "batch"], choice("none", "batch")] = Field(
        default="batch",
        description="`batch`: sent and settled messages are on the disk before they are visible. `none`: a "
        "power failure may undo the last changes.",
    )
    keep_processed: Annotated[float | None, duration(none="forever", zero=True)] = Field(
        default=7 * 86400.0,
        description="Expired messages, and messages settled without a copy, are removed after this.",
    )
    redelivery_limit: Annotated[int | None, integer(0, "deliveries", none="none")] = Field(
        default=None,
        description="Deliveries by any consumer before a message counts as undeliverable. The adapter's own "
        "limit is `max_attempts`.",
    )
