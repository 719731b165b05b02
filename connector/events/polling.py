"""Everything inbound that hangs on one connection; made anew when the connection is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from connector.errors import ProviderError
from connector.events.answering import Refusals
from connector.events.claiming import WaitingMessages
from connector.events.cycle import CycleReport, EventCycles, PollSettings
from connector.events.drain import Drain
from connector.events.job import CycleJob, Pipeline
from connector.events.plan import EventPlan
from connector.events.recovery import InDoubtPolicy, Recovered, Recovery, adopt
from connector.events.settling import CopyDestinations, Settling, untouched
from connector.events.summary import Summary
from connector.messaging.destination import Destination
from connector.messaging.provider import Connection, Poller, Retention, TopicSubscription, Waiter
from connector.messaging.selector import compile_selector
from connector.state.store import StateStore
from connector.status import ReturnCode
from connector.trace import step

_log = logging.getLogger("connector.events")

RECOVERY_INTERVAL = 10.0
"""Seconds between two looks for dead clients while running."""


@dataclass(frozen=True, slots=True)
class Input:
    """One entry of InputDestination.

    Args:
        source: the queue, or the subscription of a topic.
        selector: of messages of a queue, as text; empty = all. A subscription has its own.
    """

    source: Destination | TopicSubscription
    selector: str = ""

    @property
    def destination(self) -> Destination:
        """The queue or topic that its events come from, as rules and summary know it."""
        return self.source.topic if isinstance(self.source, TopicSubscription) else self.source

    def poller(self, connection: Connection, in_progress: Destination | None) -> Poller:
        """Takes its messages.

        Raises:
            CapabilityError, SelectorError, SubscriptionError, ProviderError: as ``Connection.poller``.
        """
        selector = compile_selector(self.selector) if self.selector else None
        return connection.poller(self.source, in_progress, selector=selector)


@dataclass(frozen=True, slots=True)
class EventSettings:
    """The inbound side of an adapter, as configured.

    Args:
        application: ApplicationName.
        instance: name of this instance.
        inputs: in the order in which they are polled.
        copies: where settled messages go.
        in_progress, policy: InProgressDestination and InDoubtEvents.
        retentions: how long copies are kept; none for those that are kept for ever.
        duplicate_window: ids to remember; 0 = duplicates are not eliminated.
        poll: how to poll.
        stop_timeout: seconds.
        wake: whether a poll begins when a message has come.
    """

    application: str
    instance: str
    inputs: tuple[Input, ...]
    copies: CopyDestinations
    in_progress: Destination | None
    policy: InDoubtPolicy
    duplicate_window: int
    poll: PollSettings
    stop_timeout: float
    retentions: tuple[Retention, ...] = ()
    wake: bool = True

    @property
    def client_id(self) -> str:
        """That its subscriptions belong to; empty where it has none, so that it holds no client id."""
        subscribes = any(isinstance(one.source, TopicSubscription) for one in self.inputs)
        return self.application if subscribes else ""


class Polling:
    """Cycles and recovery over one connection.

    Args:
        connection: of the provider, owned from now on.
        state: of the application.
        plan: with the access of that connection.
        pipeline: runs the tasks.
        settings: of the adapter.
        summary: counts, over all connections.

    Raises:
        ProviderError: a destination or the state directory cannot be used.
        CapabilityError: the provider cannot poll an input.
        SubscriptionError: a subscription of an input is in use otherwise.
    """

    def __init__(
        self,
        connection: Connection,
        state: StateStore,
        plan: EventPlan,
        pipeline: Pipeline,
        settings: EventSettings,
        summary: Summary,
    ) -> None:
        self.connection = connection
        self._settings = settings
        self.journals = state.journals(connection.client_id, settings.instance)
        self.journals.make()
        self._window = (
            state.window(connection.client_id, settings.duplicate_window)
            if settings.duplicate_window
            else None
        )
        refusals = Refusals(plan, connection.access().open()) if plan.serves else None
        settling = Settling(settings.copies, remember=self._window is not None, refusals=refusals)
        self.job = CycleJob(pipeline, plan, self.journals, settings.poll.order, settings.stop_timeout + 5.0)
        waiting = None
        if settings.in_progress is not None:
            inputs = [one.destination for one in settings.inputs]
            waiting = WaitingMessages(connection, settings.in_progress, inputs)
        self._pollers = [one.poller(connection, settings.in_progress) for one in settings.inputs]
        self.cycles = EventCycles(
            connection,
            self._pollers,
            self.job,
            self.journals,
            settling,
            self._window,
            summary,
            settings.poll,
            waiting,
        )
        self.trace = settings.poll.trace
        self._recovery = Recovery(
            connection,
            state,
            settling,
            summary,
            self._window,
            settings.in_progress,
            settings.policy,
            self.trace,
            waiting,
        )

    @property
    def waiter(self) -> Waiter | None:
        """What tells that a message has come; None with ``wake: false``, or where nothing can tell."""
        return self.connection.waiter() if self._settings.wake else None

    def drain(self, after_cycle: Callable[[CycleReport], None] | None) -> CycleReport:
        """See :meth:`connector.events.drain.Drain.run`."""
        return Drain(self.cycles, self.job).run(after_cycle)

    @step("recover", lambda self, *, at_start: {"at_start": at_start})
    def recover(self, *, at_start: bool) -> CycleReport:
        """Takes over from dead clients, and runs what is to be reprocessed before any new input.

        Raises:
            InDoubtAtStartup: InDoubtEvents is FailOnStartup and something is in doubt.
            ProviderError: something cannot be settled now.
        """
        patience = self._settings.stop_timeout + 5.0
        try:
            recovered: Recovered = self._recovery.run(at_start=at_start, patience=patience)
        except OSError as error:
            raise ProviderError(f"recovery failed: {error.strerror}: {error.filename!r}") from error
        report = CycleReport(ReturnCode.SUCCEED, recovered.settled, recovered.settled)
        quantity = max(1, self._settings.poll.quantity)
        # all of them get an owner at once: nobody else looks for those of a client that is forgotten
        adopted = []
        for first in range(0, len(recovered.reprocess), quantity):
            cycle = self.cycles.next_cycle()
            adopted.append(
                (cycle, adopt(self.connection, recovered.reprocess[first : first + quantity], cycle))
            )
        while adopted and not self.cycles.stopping:
            cycle, claims = adopted.pop(0)
            if not claims:
                continue
            done = self.cycles.run_claims(claims, cycle)
            report.claimed += done.claimed
            report.settled += done.settled
            if done.code is not ReturnCode.SUCCEED:
                report.code, report.reason = done.code, done.reason
                report.provider_failed = done.provider_failed
                break
        rest = [untouched(claim) for _, claims in adopted for claim in claims]
        if rest:  # they wait in their queues, not unseen in progress
            self.connection.settle(rest)
        return report

    def prune(self) -> bool:
        """Removes what is kept no longer, for half a second at most; False where more is to be removed."""
        pruned = self.connection.prune(self._settings.retentions)
        for destination, number in pruned.copies.items():
            _log.info("copies removed", extra={"destination": str(destination), "number": number})
        return pruned.is_done

    def close(self) -> None:
        """Ends it; what is not settled or given back is left to the recovery of whoever comes next."""
        self.cycles.close()
        if self.cycles.unsettled:
            self.abandon()
            return
        if self._window is not None:
            self._window.release()
        self.journals.forget()
        for poller in self._pollers:
            poller.close()
        self.connection.close()

    def abandon(self) -> None:
        """Ends it as it is; the next connection recovers what is left."""
        self.cycles.close()
        self.connection.abandon()
