"""The moments of an event in the process of the adapter, which hooks observe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from connector.events.hooks.hook import observers
from connector.events.outcome import Outcome
from connector.events.settle.settling import Commit
from connector.messaging.claim import Claim
from connector.messaging.history import Note

Single = tuple[Claim, Outcome, str]
"""A claim with its outcome and its message id."""


class EventHook:
    """Observes the events of one connection. For the thread of the adapter, but for :meth:`settling`.

    A hook overrides the methods of the moments that it observes. A method may raise any exception. The first
    one of each method is logged.
    """

    def claimed(self, claims: Sequence[Claim]) -> None:
        """Observes the claims of a poll."""

    def told(self, cycle: int, told: Mapping[str, Any]) -> None:
        """Observes what the hooks of a task tell.

        Args:
            told: by the names of those hooks.
        """

    def settling(self, commit: Commit) -> None:
        """Observes that a commit is about to happen. At a broker in any thread, and before each try."""

    def refused(self, commit: Commit, reason: str) -> None:
        """Observes that a commit was refused, so that nothing is settled."""

    def settled(self, commit: Commit) -> None:
        """Observes that a commit has happened."""

    def not_published(self, commit: Commit) -> None:
        """Observes that a commit has happened, and that not all its events were published and no more."""

    def ended(self, cycles: Sequence[int]) -> None:
        """Observes that all claims of some cycles are settled."""

    def recovering(
        self, client_id: str, events: Iterable[Single], notes: Mapping[int, Mapping[int, Note]]
    ) -> None:
        """Observes the outcomes of a dead client's events, before they are settled.

        Args:
            notes: for the history, by cycle and sequence.
        """

    def recovered(self, events: Sequence[tuple[Claim, Outcome, str, bool]]) -> None:
        """Observes settled events of a dead client. The last value says whether no copy was kept."""

    def taken_over(self, client_id: str) -> None:
        """Observes that all claims of a dead client are settled or given back."""

    def in_doubt(self, events: Sequence[tuple[Claim, Outcome, str, bool]]) -> None:
        """Observes the events in doubt that a recovery has found."""

    def idle(self) -> None:
        """Observes that no event is at work, and that none is known to wait."""

    def close(self) -> None:
        """Observes the end of the connection. Repeatable."""


class EventHooks:
    """The observers of each moment."""

    def __init__(self, hooks: Sequence[EventHook] = ()) -> None:
        self.claimed = observers(hooks, EventHook.claimed)
        self.told = observers(hooks, EventHook.told)
        self.settling = observers(hooks, EventHook.settling)
        self.refused = observers(hooks, EventHook.refused)
        self.settled = observers(hooks, EventHook.settled)
        self.not_published = observers(hooks, EventHook.not_published)
        self.ended = observers(hooks, EventHook.ended)
        self.recovering = observers(hooks, EventHook.recovering)
        self.recovered = observers(hooks, EventHook.recovered)
        self.taken_over = observers(hooks, EventHook.taken_over)
        self.in_doubt = observers(hooks, EventHook.in_doubt)
        self.idle = observers(hooks, EventHook.idle)
        self.close = observers(hooks, EventHook.close)
