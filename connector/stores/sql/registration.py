"""The registration of the provider ``sql`` (see :mod:`connector.messaging.provider_kind`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connector.messaging.provider_kind import DeploymentPaths, ProviderKind, SectionProblem
from connector.own_files import open_to_others

if TYPE_CHECKING:
    from connector.stores.sql.provider import SqlProvider
    from connector.stores.sql.section import SqlSection


def _section() -> type[SqlSection]:
    from connector.stores.sql.section import SqlSection

    return SqlSection


def _open(
    location: str,
    *,
    directory: str | os.PathLike[str] = ".",
    schema: str | None = None,
    pool_size: int = 5,
    durability: str = "batch",
    **options: Any,
) -> SqlProvider:
    """Returns the provider of the URL ``sql:<location>``.

    Args:
        location: the URL of the database, ``sqlite:///./messages.db``.
        directory: the base of a relative SQLite file.
        options: the others of :class:`~connector.stores.sql.provider.SqlProvider`.

    Raises:
        TypeError, ValueError: there is no such option, or it has no such value.
    """
    from connector.databases.urls import parse_url
    from connector.stores.sql.database import Settings
    from connector.stores.sql.provider import SqlProvider

    if durability not in ("batch", "none"):
        raise ValueError(f"{durability!r} is no durability; there are 'batch' and 'none'")
    url = parse_url(location).render_as_string(hide_password=False)
    settings = Settings(url, schema, pool_size, durability == "batch")
    return SqlProvider(settings.at(directory), **options)


def _make(section: SqlSection, paths: DeploymentPaths) -> SqlProvider:
    return _open(
        section.url,
        directory=paths.directory,
        schema=section.schema_,
        pool_size=section.pool_size,
        durability=section.durability,
        keep_processed=section.keep_processed,
        redelivery_limit=section.redelivery_limit,
        state_directory=paths.state,
    )


def _is_sqlite(section: SqlSection) -> bool:
    return section.url.startswith("sqlite:")


def _check(section: SqlSection, paths: DeploymentPaths) -> Iterator[SectionProblem]:
    from connector.databases.urls import INSTALL, missing_driver

    if reason := missing_driver(section.url):
        found = f"a URL of PostgreSQL, whose driver cannot be imported ({reason})"
        yield SectionProblem(("url",), found, f"an installed driver: {INSTALL}")
    if not _is_sqlite(section):
        return
    from connector.state.file_systems import file_obstacle, is_shared
    from connector.stores.sql.database import Settings

    if section.schema_ is not None:
        yield SectionProblem(("schema",), "a schema with SQLite, which has none", "no schema")
    file = Settings(section.url).at(paths.directory).file
    assert file is not None
    directory = Path(file).parent
    if reason := file_obstacle(Path(file)):
        yield SectionProblem(("url",), reason, "a database of SQLite, or a place for a new one")
        return
    while not directory.exists():
        directory = directory.parent
    if is_shared(str(directory)):
        yield SectionProblem(
            ("url",),
            f"{file} lies on a file system of several machines, where SQLite loses messages",
            "a file on a disk of this machine, or PostgreSQL",
        )
    if open_file := open_to_others(file):
        yield SectionProblem(("url",), *open_file, warning=True)


KIND: Final = ProviderKind(section=_section, make=_make, open=_open, check=_check, one_machine=_is_sqlite)
