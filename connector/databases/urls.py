"""URLs of databases, and texts about their errors."""

from __future__ import annotations

import os
import re
from typing import Any, Final

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from connector.errors import WrongValue
from connector.tracebacks import message_of

URL_EXPECTED: Final = (
    "sqlite:///./FILE, sqlite:////DIRECTORY/FILE or postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE"
)
_POSTGRESQL: Final = re.compile(r"(jdbc:)?(postgres|postgresql|psql|pg|pgsql)(?!\+psycopg\Z)(\+\w+)?")
"""The schemes by which other programs name PostgreSQL."""
INSTALL: Final = "pip install 'event-connector[postgresql]'"
_DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}


def parse_url(text: str) -> URL:
    """Reads the URL of a database. Raises :class:`WrongValue`."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise WrongValue("a text that is no URL", URL_EXPECTED) from None
    backend = url.get_backend_name()
    if url.drivername != "postgresql" and _POSTGRESQL.fullmatch(url.drivername):
        raise WrongValue(
            f"a URL of {url.drivername!r}", "postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE"
        )
    if url.drivername not in (backend, _DRIVERS.get(backend)) or backend not in _DRIVERS:
        raise WrongValue(f"a URL of {url.drivername!r}", URL_EXPECTED)
    if backend == "sqlite":
        if url.host or url.query or not url.database or url.database == ":memory:":
            raise WrongValue("a URL of SQLite that does not name a file", URL_EXPECTED)
    elif "@" in (url.host or ""):
        raise WrongValue("a host with '@'", "a password with '@' written as %40")
    elif not url.host or not url.database:
        raise WrongValue("a URL without host or database", URL_EXPECTED)
    elif "password" in url.query:
        raise WrongValue("a password behind '?'", "the password before the host: USER:PASSWORD@HOST")
    return url.set(drivername=_DRIVERS[backend])


def parse_any_url(text: str) -> URL:
    """Reads the URL of any database that SQLAlchemy has a dialect and an installed driver for.

    Raises:
        WrongValue: as :func:`parse_url`, or the dialect or the driver is missing.
    """
    try:
        url = make_url(text)
        if url.get_backend_name() in _DRIVERS or _POSTGRESQL.fullmatch(url.drivername):
            url = parse_url(text)
        url.get_dialect().import_dbapi()
    except WrongValue:
        raise
    except NoSuchModuleError:
        raise WrongValue(
            f"a URL of {url.drivername!r}", "a dialect of SQLAlchemy that is installed"
        ) from None
    except (ArgumentError, ValueError):
        raise WrongValue("a text that is no URL", URL_EXPECTED) from None
    except ImportError as error:
        raise WrongValue(
            f"a URL of {url.drivername!r}, whose driver cannot be imported ({error})",
            f"an installed driver; for PostgreSQL: {INSTALL}",
        ) from None
    return url


def missing_driver(text: str) -> str | None:
    """Returns why the driver of a right URL cannot be imported. None = the driver is there."""
    try:
        make_url(text).get_dialect().import_dbapi()
    except ImportError as error:
        return str(error)
    return None


def at(url: URL, directory: str | os.PathLike[str]) -> URL:
    """Returns a URL with an absolute path of the SQLite file. Other URLs do not change."""
    if url.get_backend_name() != "sqlite":
        return url
    return url.set(database=os.path.abspath(os.path.join(directory, url.database or "")))


def title_of(url: URL) -> str:
    """Returns a database for texts: the file of SQLite, or the URL without the password."""
    if url.get_backend_name() == "sqlite":
        return url.database or ""
    return url.set(query={}).render_as_string(hide_password=True)


def own_options(url: URL) -> dict[str, Any]:
    """Returns the options that the environment of the process must not set for a connection to PostgreSQL.

    Otherwise PGHOSTADDR, PGOPTIONS and PGCLIENTENCODING would lead to another server, to other tables or to
    other texts than the URL says. The URL has precedence.
    """
    options = {"hostaddr": "", "options": "", "client_encoding": "utf8"}
    return {name: value for name, value in options.items() if name not in url.query}


def network_options(url: URL, seconds: float) -> dict[str, Any]:
    """Returns options of a connection to PostgreSQL that is lost after ``seconds`` of silence of the host.

    The URL has precedence. The options of :func:`own_options` are among them.
    """
    options = {
        "connect_timeout": max(2, int(seconds)),
        "keepalives_idle": max(1, int(seconds)),
        "keepalives_interval": max(1, int(seconds * 0.3)),
        "tcp_user_timeout": int(seconds * 1000),
    }
    return own_options(url) | {name: value for name, value in options.items() if name not in url.query}


_SERVER: Final = "look whether the server runs and can be reached"
_MISTAKES: Final = re.compile(
    "password authentication|authentication failed|no pg_hba.conf entry|role .* does not exist"
    "|database .* does not exist|permission denied|must be owner|not a database|malformed"
    "|readonly database|unable to open|definition of service|does not support SSL|certificate file",
    re.IGNORECASE,
)
"""Errors that stay until somebody corrects the configuration or the server."""
_OF_VARIABLES: Final = re.compile(
    "SSL|certificate|GSSAPI|channel binding|service file|definition of service|requirement|session is "
    "|hot standby mode",
    re.IGNORECASE,
)
"""Errors that a variable of the environment may cause, such as PGSSLMODE or PGSERVICE."""
_VARIABLES: Final = ("PGSSL", "PGSERVICE", "PGGSS", "PGCHANNEL", "PGREQUIRE", "PGTARGET")
"""The beginnings of the names of such variables."""
_ADVICE: Final = (
    ("is locked", "another program holds the file: end that program, or wait for it"),
    ("is full|no space|could not extend", "make room on the disk"),
    ("disk i/o error", "make room on the disk, and look whether the disk works"),
    ("readonly database|unable to open", "give this user the right to write the file and its directory"),
    ("read-only transaction|in recovery", "connect to the server that writes"),
    ("password|authentication|role .* does not exist", "correct the user and the password"),
    ("database .* does not exist", "correct the name of the database"),
    ("permission denied|must be owner", "give this user the rights on the tables"),
    ("deadlock|could not serialize", "nothing was done, try again"),
    ("not a database|malformed", "restore the file from a backup, or use another"),
    ("too many|remaining connection slots|queuepool", "lower pool_size, or let the server take more"),
    ("refused|terminat|closed|lost|timeout|starting up|shutting down|translate|consuming", _SERVER),
)
"""A pattern of an error text -> the remedy."""


def is_mistake(error: SQLAlchemyError) -> bool:
    """Whether the error stays until somebody corrects a mistake, for example a wrong password."""
    return _MISTAKES.search(str(error.orig if isinstance(error, DBAPIError) else error)) is not None


def reason_of(error: SQLAlchemyError) -> str:
    """Returns the text of an error on one line with the remedy, without statement, parameters and link."""
    found = " ".join(message_of(error).split())
    variables = [name for name in sorted(os.environ) if name.startswith(_VARIABLES)]
    if variables and _OF_VARIABLES.search(found):
        return f"{found}: look at the URL, and at {', '.join(variables)} in the environment"
    for pattern, advice in _ADVICE:
        if re.search(pattern, found, re.IGNORECASE):
            return f"{found}: {advice}"
    return found
