"""What travels to the workers about databases. SQLAlchemy is imported only where a database is used."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sqlalchemy.engine import URL


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """A database of ``databases:`` in adapter.yaml. Picklable.

    Args:
        name: the key in the file.
        url: with the password.
    """

    name: str
    url: str = field(repr=False)

    def at(self, directory: str | os.PathLike[str]) -> DatabaseSettings:
        """Returns these settings with an absolute path of a SQLite file."""
        from connector.databases import urls

        return replace(self, url=urls.at(self.parsed, directory).render_as_string(hide_password=False))

    @property
    def parsed(self) -> URL:
        from sqlalchemy.engine import make_url

        return make_url(self.url)

    @property
    def title(self) -> str:
        """The database in texts, without the password."""
        from connector.databases.urls import title_of

        return title_of(self.parsed)


class EventKey(NamedTuple):
    """Names an event for its rows.

    Args:
        event: digest that names the stored message (:func:`digest`).
        message_id: the JMSMessageID, for people.
        client: the connection of the adapter that runs the event.
        batch: number of the batch that runs the event, unique for the client.
    """

    event: str
    message_id: str
    client: str
    batch: int


def digest(identity: str) -> str:
    """Returns the digest of the text that names a stored message."""
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
