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
    """Looks for the rows of failed events.

    Args:
        has_keys: whether duplicates are eliminated, so that events are named by their duplicate keys.
    """

    def __init__(
        self,
        databases: Sequence[DatabaseSettings],
        application: str,
        access: MessageAccess,
        *,
        has_keys: bool,
    ) -> None:
        self._settings = databases
        self._application = application
        self._access = access
        self._has_keys = has_keys

    def of(self, claim: Claim) -> Committed:
        """Returns what an event has committed, with its messages prepared and durable.

        Raises:
            ProviderError: a database cannot be read now, or the messages cannot be prepared.
        """
        from connector.databases.database import Database
        from connector.databases.outcomes import rows_of
        from connector.sinks.sending import unpack_sent

        message = claim.headers()
        key = claim.duplicate_key if self._has_keys else None
        try:
            identity = identity_of(key, self._access, claim.reference, message)
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
                if row.event != digest(f"{identity}{mark}{record}"):
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
