"""What a failed event has committed in databases, although no task has told its outcome.

A worker may die behind the commit of its transaction again and again. Then the event fails without a task
that finds the row. So the driver looks for the rows. The copy names the subscriptions that have committed,
and what their processes have sent leaves with the settlement.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from connector.databases.settings import DatabaseSettings, digest
from connector.errors import NotActive, ProviderError
from connector.events.run.event_identity import identity_of
from connector.messaging.access import MessageAccess
from connector.messaging.claim import Claim
from connector.messaging.settlement import Prepared


class Committed(NamedTuple):
    """What an event has committed.

    Args:
        delivered: labels of the subscriptions.
        sends: what their processes have sent.
    """

    delivered: tuple[str, ...] = ()
    sends: tuple[Prepared, ...] = ()


class CommittedRows:
    """Looks for the rows of failed events."""

    def __init__(
        self,
        databases: Sequence[DatabaseSettings],
        application: str,
        access: MessageAccess,
    ) -> None:
        self._settings = databases
        self._application = application
        self._access = access

    def of(self, claim: Claim, key: str | None, values: Sequence[str] = ()) -> Committed:
        """Returns what an event has committed, with its messages prepared and durable.

        Args:
            key: the duplicate key that the claim tells. None = duplicates are not eliminated.
            values: its duplicate keys by values.

        Raises:
            ProviderError: a database cannot be read now, or the messages cannot be prepared.
        """
        from connector.databases.database import Database
        from connector.databases.outcomes import rows_of
        from connector.sinks.sending import unpack_sent

        message = claim.headers()
        try:
            identity = identity_of(key, self._access, claim.reference, message)
            others = [identity_of(one, self._access, claim.reference, message) for one in values]
        except LookupError:  # nobody can settle it here any more
            return Committed()
        found = Committed()
        for settings in self._settings:
            with closing(Database(settings)) as database:
                try:
                    with database.connect() as connection:
                        rows = rows_of(connection, self._application, claim.message_id)
                except NotActive as error:
                    raise ProviderError(str(error)) from error
            for row in rows:
                _, mark, record = row.message_id.removeprefix(claim.message_id).rpartition("#")
                texts = (f"{one}{mark}{record}" for one in (identity, *others))
                if row.event not in map(digest, (*others, *texts)):
                    continue
                label = f"{row.subscription}{mark}{record}"
                sent = unpack_sent(row.sent) if row.sent else ()
                sends = [
                    self._access.prepare(
                        one.destination, one.message, f"{claim.reference}|{label}\nsent {number}"
                    )
                    for number, one in enumerate(sent, 1)
                ]
                found = Committed((*found.delivered, label), (*found.sends, *sends))
        if found.sends:
            self._access.sync()
        return found
