"""The queues of a deployment in a database: messages are sent and counted through its provider."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from connector.errors import UnknownDestination
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.crash.leftovers import database_leftovers
from tests.database_page import move


class DatabaseQueues:
    """The queues of a database.

    Args:
        url: of the database.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.provider = SqlProvider(Settings(url))

    def send(self, queue: str, sent: Sequence[Message]) -> list[str]:
        """Sends messages, and returns their ids."""
        with closing(self.provider.connect()) as connection:
            return connection.send(parse_destination(queue), sent)

    def messages(self, queue: str) -> list[Message]:
        """The messages of a queue, those that are claimed among them."""
        with closing(self.provider.existing()) as connection:
            try:
                return list(connection.browse(parse_destination(queue)))
            except UnknownDestination:
                return []

    def count(self, queue: str) -> int:
        """How many messages wait in a queue."""
        return self.provider.waiting(parse_destination(queue)).number

    def move_back(self, in_progress: str, queue: str, message_id: str) -> None:
        """Moves a message that nobody owns back to its input."""
        with closing(self.provider.connect()) as connection:
            lying = connection.find_unowned(parse_destination(in_progress))
            (number,) = (claim.reference[0] for claim in lying if claim.message_id == message_id)
        move(self.url, number, f"queue://{queue}")

    def leftovers(self, queues: Sequence[str]) -> list[str]:
        """What is left in queues, in tables, and in the files beside SQLite."""
        found = [f"{queue}: {message.message_id}" for queue in queues for message in self.messages(queue)]
        return found + database_leftovers(self.url)
