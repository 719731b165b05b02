"""Decides which claims of a poll run, and which need no task.

No task is needed for duplicates, for copies of events that another instance has in flight, for events that
wait for another one, and for events whose delivery was begun too often.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from connector.declare.connector_section import Connector
from connector.events.claim.event_waits import EventWaits
from connector.events.claim.order_groups import Orders
from connector.events.outcome import Outcome
from connector.events.run.schedule import DUPLICATE, EndedClaims
from connector.messaging.claim import Claim
from connector.messaging.input import Input
from connector.messaging.state_store import PublishedIds
from connector.operate.reasons import ReasonKind
from connector.status import OutcomeKind


class Admission:
    """Decides about the claims of one connection.

    Args:
        orders: of the destinations.
        connector: says after how many deliveries an event has failed.
        waits: the events that others wait for.
    """

    def __init__(self, orders: Orders, connector: Connector, waits: EventWaits) -> None:
        self._key = orders.key_of() if orders.has_any else None
        self._max_attempts = connector.max_attempts
        self._own_attempts: dict[Input | None, int] = {
            named: one.max_attempts for named, one in connector.by_input.items()
        }
        self._waits = waits

    def decide(
        self,
        claims: Sequence[Claim],
        ids: Mapping[int, str],
        window: PublishedIds | None,
        busy: Collection[str],
        ended_claims: EndedClaims,
    ) -> list[Claim]:
        """Returns the claims that run. Adds the others to ``ended_claims``.

        What is behind an event that goes back goes back, too, so that it never runs before that event.

        Args:
            claims: in the order of their numbers.
            ids: their duplicate keys by sequence. Empty if duplicates are not eliminated.
            window: of duplicates. None if they are not eliminated.
            busy: duplicate keys that another instance has in flight.
            ended_claims: gets the claims that need no task.
        """
        wanted: list[Claim] = []
        stopped: set[object] = set()
        has_waits = self._waits.has_any
        now = self._waits.now() if has_waits else 0
        for claim in claims:
            identity = ids.get(claim.sequence)
            key = None if self._key is None else self._key(claim)
            if identity is not None and window is not None and identity in window:
                ended_claims.decided.append((claim, DUPLICATE))
            elif identity in busy or key in stopped:
                ended_claims.returned.append((claim, 0))
                stopped |= set() if key is None else {key}
            elif has_waits and (due := self._waits.due_of(claim, identity, now)):
                ended_claims.decided.append((claim, Outcome(OutcomeKind.LATER, not_read=True, due=due)))
            elif claim.delivery_count >= self._own_attempts.get(claim.input, self._max_attempts):
                ended_claims.decided.append((claim, _begun_too_often(claim.delivery_count)))
            else:
                wanted.append(claim)
        if ids:
            self._waits.sort_copies(wanted)
        return wanted


def _begun_too_often(count: int) -> Outcome:
    return Outcome(
        OutcomeKind.FAILED,
        reason=f"its delivery was begun {count} times and never came to an end (max_attempts)",
        attempts=count,
        not_read=True,
        reason_kind=ReasonKind.WORKER_DIED,
    )
