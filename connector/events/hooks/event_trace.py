"""Traces what is claimed and settled, from AgentTraceLevel 1 up."""

from __future__ import annotations

from collections.abc import Sequence

from connector.agent_trace import EVENTS, Trace
from connector.events.hooks.event_hook import EventHook
from connector.events.outcome import Outcome, event_fields
from connector.events.settle.settling import Commit
from connector.messaging.claim import Claim


class EventTrace(EventHook):
    """Writes a line for each claim and for each settled event."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def claimed(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            name = str(claim.destination)
            self._trace(
                EVENTS,
                "message detected",
                message_id=claim.message_id,
                destination=name,
                cycle=claim.cycle,
            )

    def settled(self, commit: Commit) -> None:
        for claim, outcome, identity, _ in commit.settled:
            self._settled(claim, outcome, identity)
        for group, outcome, identities in commit.alike:
            for claim, identity in zip(group.claims, identities, strict=True):
                self._settled(claim, outcome, identity)

    def recovered(self, events: Sequence[tuple[Claim, Outcome, str, bool]]) -> None:
        for claim, outcome, identity, _ in events:
            self._settled(claim, outcome, identity)

    def _settled(self, claim: Claim, outcome: Outcome, identity: str) -> None:
        self._trace(EVENTS, "event settled", **event_fields(claim.cycle, claim, identity, outcome))
