"""Turns outcomes into settlements (WBI Adapter for JMS, "Archiving", "Error recovery")."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from connector.events.claim.duplicate_keys import PROPERTY, DuplicateKeys
from connector.events.cycle_report import CycleReport
from connector.events.outcome import (
    Outcome,
    event_fields,
    history,
    join_names,
    shorten,
    unpack_prepared,
)
from connector.events.run.prepared_replies import RefusalReplies
from connector.events.run.schedule import EndedClaims
from connector.events.settle.committed_rows import Committed, CommittedRows
from connector.messaging.claim import Claim
from connector.messaging.copy_destinations import CopyDestinations
from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.messaging.message import Message, PropertyValue
from connector.messaging.roles import Recovering
from connector.messaging.settlement import GroupSettlement, Prepared, Settlement
from connector.operate.own_history import OwnHistory
from connector.status import OutcomeKind, timestamp

_log = logging.getLogger("connector.events")
_NOTHING: Final = "nothing was settled: "
_MOST_KEYS: Final = 16 << 10
"""Characters of the keys that a message that comes again later carries. Copies of more do not wait for it."""


class SettlementRules:
    """Turns outcomes into settlements.

    Args:
        keys: of published events in the duplicate window. None = there is no window.
        refusals: replies to failed messages that were not read. None = no replies.
        rows: of failed messages that were not read, in databases. None = there are no databases.
        application: ApplicationName. Empty = copies name none.
    """

    def __init__(
        self,
        copies: CopyDestinations,
        *,
        keys: DuplicateKeys | None = None,
        refusals: RefusalReplies | None = None,
        rows: CommittedRows | None = None,
        application: str = "",
    ) -> None:
        self.own = OwnHistory(application, copies.names)
        self._refusals = refusals
        self._rows = rows
        self.copies: Final = copies
        self._keys = keys
        self._properties: dict[tuple[object, ...], dict[str, PropertyValue]] = {}

    def settlement(self, claim: Claim, outcome: Outcome, key: str | None, now: str) -> Settlement | None:
        """Returns the settlement of a claim, or None if the message stays in doubt.

        Args:
            claim, outcome: of one event.
            key: duplicate key of the claim, if already known.
            now: :func:`timestamp` of the cycle.

        Raises:
            ProviderError: the reply of the settlement cannot be made.
        """
        kind = outcome.kind
        if kind == OutcomeKind.IN_DOUBT:
            return None
        if outcome.comes_again:
            return give_back_settlement(claim, outcome, self.own)
        rows = Committed()
        if self._rows is not None and outcome.not_read and kind == OutcomeKind.FAILED:
            known = key if self._keys is None or key is not None else self._keys.of(claim)
            rows = self._rows.of(claim, known, outcome.keys.split("\n") if outcome.keys else ())
            outcome = outcome._replace(delivered=(*outcome.delivered, *rows.delivered))
        published = None
        if self._keys is not None and kind == OutcomeKind.PUBLISHED:
            published = "\n".join(self._keys.published(claim, outcome, key)) or None
        return Settlement(
            claim,
            self.copies.of(kind, claim.input),
            self._copy_properties(claim, outcome, now),
            sends=self._sends(claim, outcome, rows) if outcome.sends or outcome.not_read else (),
            discards=[unpack_prepared(packed) for packed in outcome.discards] if outcome.discards else (),
            published=published,
            bare=outcome.bare,
        )

    def group(
        self, claims: Sequence[Claim], outcome: Outcome, id_of: Callable[[Claim], str | None], now: str
    ) -> GroupSettlement:
        """Returns the settlement of published events of one input with equal outcomes.

        Args:
            outcome: of each event, with :attr:`Outcome.is_plain`.
            id_of: returns the duplicate key of a claim, if already known.
            now: :func:`timestamp` of the cycle.
        """
        of = None if self._keys is None else self._keys.of
        keys = [key for claim in claims if (key := id_of(claim) or of(claim))] if of is not None else ()
        properties = self._copy_properties(claims[0], outcome, now)
        copy_to = self.copies.of(outcome.kind, claims[0].input)
        return GroupSettlement(claims, copy_to, properties, published=keys)

    def _sends(self, claim: Claim, outcome: Outcome, rows: Committed) -> list[Prepared]:
        sends = [*(unpack_prepared(packed) for packed in outcome.sends), *rows.sends]
        refuses = outcome.not_read and outcome.kind == OutcomeKind.FAILED
        if refuses and not outcome.bare and self._refusals is not None:
            headers = claim.headers()
            _, confirmed = history(headers, self.own, str(claim.destination))
            if not confirmed:  # subscriptions that have confirmed have replied
                reply = self._refusals.refuse_durably(headers, outcome.reason or "", str(claim.reference))
                sends += [reply] if isinstance(reply, Prepared) else []
        return sends

    def _copy_properties(self, claim: Claim, outcome: Outcome, now: str) -> dict[str, PropertyValue]:
        """Returns the properties of a copy. Equal properties of a batch share a dict."""
        attempts, delivered = outcome.attempts, outcome.delivered
        if outcome.not_read:
            earlier, confirmed = history(claim.headers(), self.own, str(claim.destination))
            attempts += earlier
            if outcome.kind == OutcomeKind.FAILED:
                delivered = (*confirmed, *(name for name in delivered if name not in confirmed))
        why = _REASON_FIELDS(outcome) if outcome.reason else None
        subscription = claim.subscription
        key = (claim.destination, subscription, outcome.kind, now, attempts, why, delivered)
        properties = self._properties.get(key)
        if properties is None:
            if len(self._properties) > 1000:
                self._properties.clear()
            properties = self._properties[key] = {
                "connector_origin_destination": str(claim.destination),
                "connector_outcome": outcome.kind,
                "connector_time": now,
                "connector_attempts": attempts,
            }
            if subscription:
                properties["connector_origin_subscription"] = subscription
            if outcome.reason:
                properties["connector_reason"] = outcome.reason
                properties |= reason_properties(outcome)
            if delivered:
                properties["connector_delivered"] = join_names(delivered)
            properties |= self.own.name(properties)
        return properties


@dataclass(slots=True)
class Commit:
    """One commit, from its preparation to its end.

    Args:
        began: start of their batch in monotonic seconds. None = there was no batch.
        alike: groups of events, each with the outcome and the message ids.
        singles: the other claims with outcome and message id.
        settled: claims that have their final outcome or come again later, with outcome and message id, and
            whether the message is discarded.
        in_doubt: claims that stay where they are.
        stays: whether a message stays in the in-progress destination to wait there.
        error: why its last try has failed. None = it has not.
        pause: seconds before its last repetition. 0 = it was not repeated.
    """

    claims: EndedClaims
    began: float | None
    report: CycleReport = field(default_factory=CycleReport)
    settlements: list[Settlement | GroupSettlement] = field(default_factory=list)
    alike: list[tuple[GroupSettlement, Outcome, list[str]]] = field(default_factory=list)
    singles: list[tuple[Claim, Outcome, str]] = field(default_factory=list)
    settled: list[tuple[Claim, Outcome, str, bool]] = field(default_factory=list)
    in_doubt: list[Claim] = field(default_factory=list)
    stays: bool = False
    error: BaseException | None = None
    pause: float = 0.0


class Settler:
    """Settles events in one commit."""

    def __init__(self, connection: Recovering, rules: SettlementRules) -> None:
        self._connection = connection
        self._rules = rules

    def prepare(
        self, ended: EndedClaims, id_of: Callable[[Claim], str | None], began: float | None = None
    ) -> Commit:
        """Returns what one commit settles.

        Args:
            ended: the claims.
            id_of: returns the duplicate key of a claim, if already known.
            began: start of their batch in monotonic seconds. None = there was no batch.

        Raises:
            ProviderError: the reply of a settlement cannot be made.
        """
        commit = Commit(ended, began)
        self._fill(commit, id_of)
        return commit

    def fail(
        self,
        commit: Commit,
        refused: Iterable[tuple[Claim, str]],
        id_of: Callable[[Claim], str | None],
    ) -> bool:
        """Lets events fail whose messages a broker refuses for good, and prepares their commit anew.

        Args:
            commit: whose try has ended.
            refused: as of :class:`~connector.messaging.settlement.SettlementOpen`.
            id_of: as of :meth:`prepare`.

        Returns:
            whether there is something new to try.

        Raises:
            ProviderError: as :meth:`prepare`.
        """
        reasons = {id(claim): reason for claim, reason in refused}
        decided = commit.claims.decided
        is_new = False
        for number, (claim, outcome) in enumerate(decided):
            reason = reasons.get(id(claim))
            blamed = None if reason is None else blame(outcome, reason)
            if blamed is not None:
                decided[number] = claim, blamed
                is_new = True
        if is_new:
            self._fill(commit, id_of)
        return is_new

    def _fill(self, commit: Commit, id_of: Callable[[Claim], str | None]) -> None:
        now = timestamp()
        ended = commit.claims
        commit.alike, commit.singles, commit.settled = [], [], []
        commit.in_doubt, commit.stays = [], False
        commit.settlements = [
            begun_settlement(claim, begun) if begun else untouched_settlement(claim)
            for claim, begun in ended.returned
        ]
        groups: dict[tuple[int, Destination, Input | None], tuple[Outcome, list[Claim]]] = {}
        for claim, outcome in ended.decided:
            if outcome.is_plain:
                alike_claims = id(outcome), claim.destination, claim.input
                groups.setdefault(alike_claims, (outcome, []))[1].append(claim)
                continue
            settlement = self._rules.settlement(claim, outcome, id_of(claim), now)
            commit.singles.append((claim, outcome, claim.message_id))
            if settlement is None:
                commit.in_doubt.append(claim)
            else:
                commit.settlements.append(settlement)
                commit.stays = commit.stays or settlement.stay
            if outcome.kind == OutcomeKind.LATER:
                commit.settled.append((claim, outcome, claim.message_id, False))
            elif not outcome.comes_again:
                discarded = settlement is not None and settlement.copy_to is None
                commit.settled.append((claim, outcome, claim.message_id, discarded))
        for outcome, claims in groups.values():
            group = self._rules.group(claims, outcome, id_of, now)
            commit.alike.append((group, outcome, [claim.message_id for claim in claims]))
            commit.settlements.append(group)

    def settle(self, commit: Commit) -> None:
        """Settles what :meth:`prepare` has returned. For any thread.

        Raises:
            SettlementOpen: the same commit has to be tried again.
            ProviderError: the commit failed. This client still owns the claims, and recovery settles them.
        """
        while commit.in_doubt:
            self._connection.leave_unowned(commit.in_doubt[0])  # for an operator, and the next start
            del commit.in_doubt[0]
        self._connection.settle(commit.settlements)

    def end(self, commit: Commit) -> CycleReport:
        """Returns what the commit has settled, once it has happened."""
        commit.report.returned = len(commit.claims.returned)
        for claim, outcome, identity in commit.singles:
            if outcome.rolls_back:
                self._note_return(claim, outcome, identity, commit.report)
        commit.report.settled = len(commit.settled)
        for group, _, _ in commit.alike:
            commit.report.settled += len(group.claims)
        return commit.report

    @staticmethod
    def _note_return(claim: Claim, outcome: Outcome, identity: str, report: CycleReport) -> None:
        report.returned += 1
        if outcome.kind == OutcomeKind.ROLLED_BACK:
            report.rolled_back += 1
            fields = event_fields(claim.cycle, claim, identity, outcome)
            _log.warning("an event is rolled back", extra=fields)
        else:
            report.fail(outcome.reason or "", provider_failed=outcome.provider_failed)


_REASON_FIELDS: Final = attrgetter("reason", "reason_kind", "object", "verb", "subscription", "place")


def reason_properties(outcome: Outcome) -> dict[str, PropertyValue]:
    """Returns the properties that group copies by their reasons."""
    named = {
        "connector_kind": outcome.reason_kind,
        "connector_object": outcome.object,
        "connector_verb": outcome.verb,
        "connector_subscription": outcome.subscription,
        "connector_place": outcome.place,
    }
    return {name: value for name, value in named.items() if value}


def untouched_settlement(claim: Claim) -> Settlement:
    """Returns the settlement that gives a claim back unchanged: its delivery was never begun."""
    return Settlement(claim, give_back=True, delivery_count=claim.delivery_count)


def begun_settlement(claim: Claim, begun: int) -> Settlement:
    """Returns the settlement that gives a claim back after ``begun`` deliveries whose end is unknown."""
    return Settlement(claim, give_back=True, delivery_count=claim.delivery_count + begun)


def give_back_settlement(claim: Claim, outcome: Outcome, own: OwnHistory) -> Settlement:
    """Returns the settlement that gives a message back.

    A message whose process is not active stays in progress.

    The outcome counts the deliveries, because some may have ended workers of this cycle.
    """
    begun = outcome.attempts
    if not outcome.not_read:
        begun -= history(claim.headers(), own, str(claim.destination))[0]
    begun = max(begun, claim.delivery_count) + (
        outcome.kind == OutcomeKind.ROLLED_BACK or outcome.must_repeat
    )
    properties: dict[str, PropertyValue] = {}
    if outcome.delivered:
        properties["connector_outcome"] = outcome.kind
        properties["connector_delivered"] = join_names(outcome.delivered)
    if outcome.retries:
        properties["connector_retries"] = outcome.retries
    if outcome.kind == OutcomeKind.LATER:
        properties["connector_outcome"] = outcome.kind
        if 0 < len(outcome.keys) <= _MOST_KEYS:
            properties[PROPERTY] = outcome.keys
    if properties:
        properties = {**_empty_history(claim.headers(), own, str(claim.destination)), **properties}
    return Settlement(
        claim,
        give_back=True,
        due=outcome.due,
        stay=claim.in_progress and outcome.kind == OutcomeKind.GIVEN_BACK and not outcome.provider_failed,
        delivery_count=begun,
        properties=own.name(properties),
        sends=[unpack_prepared(packed) for packed in outcome.sends],
        discards=[unpack_prepared(packed) for packed in outcome.discards],
    )


def _empty_history(message: Message, own: OwnHistory, destination: str) -> dict[str, PropertyValue]:
    """Returns empty values for properties that do not count now, and would count in a new history."""
    names = ["connector_delivered", "connector_retries", "connector_attempts"]
    if own.counts(message, destination):
        names = [] if history(message, own, destination)[1] else names[:1]
    return {name: 0 if name == "connector_attempts" else "" for name in names if name in message.properties}


def blame(outcome: Outcome, reason: str) -> Outcome | None:
    """Returns the outcome of an event whose settlement a broker refuses. None = nothing is left to try.

    The event has failed, and its prepared messages are not sent. If a failed event has none, the copy has the
    body only.

    Args:
        outcome: that cannot be settled.
    """
    if outcome.bare:
        return None
    text = f"the broker refuses a message of its settlement: {reason.removeprefix(_NOTHING)}"
    has_failed = outcome.kind == OutcomeKind.FAILED
    if has_failed:
        text = f"{outcome.reason}; {text}"
    return outcome._replace(
        kind=OutcomeKind.FAILED,
        reason=shorten(text),
        sends=(),
        discards=(),
        due=0,
        bare=has_failed and not outcome.sends,
    )
