"""The ``sql`` provider: queues and topics in the tables of a database, SQLite or PostgreSQL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from connector.providers.sql.provider import SqlProvider


def open_provider(
    location: str,
    *,
    directory: str | os.PathLike[str] = ".",
    schema: str | None = None,
    pool_size: int = 5,
    durability: str = "batch",
    **options: Any,
) -> SqlProvider:
    """The provider of the URL ``sql:<location>``.

    Args:
        location: the URL of the database, ``sqlite:///./messages.db``.
        directory: that the file of SQLite is relative to.
        schema, pool_size: see docs/reference/configuration.md.
        durability: ``batch`` or ``none``.
        options: the others of :class:`~connector.providers.sql.provider.SqlProvider`.

    Raises:
        TypeError, ValueError: there is no such option, or it has no such value.
    """
    from connector.providers.sql.database import Settings, parse_url
    from connector.providers.sql.provider import SqlProvider

    if durability not in ("batch", "none"):
        raise ValueError(f"{durability!r} is no durability; there are 'batch' and 'none'")
    url = parse_url(location).render_as_string(hide_password=False)
    settings = Settings(url, schema, pool_size, durability == "batch")
    return SqlProvider(settings.at(directory), **options)
