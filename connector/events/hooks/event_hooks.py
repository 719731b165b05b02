"""The hooks of a connection: which features are on."""

from __future__ import annotations

from connector.agent_trace import EVENTS
from connector.events.hooks.activity import OutcomeCounts
from connector.events.hooks.event_history import EventHistory, LateEventHistory
from connector.events.hooks.event_hook import EventHook, EventHooks
from connector.events.hooks.event_trace import EventTrace
from connector.events.hooks.outcome_log import OutcomeLog
from connector.events.run.task_settings import TaskSettings
from connector.events.settings import EventSettings
from connector.events.settle.settling import SettlementRules
from connector.events.working_state import WorkingState
from connector.messaging.state_store import StateStore


def event_hooks(
    client_id: str,
    state: StateStore,
    task_settings: TaskSettings,
    settings: EventSettings,
    working: WorkingState,
    rules: SettlementRules,
    *,
    transactions: bool,
) -> EventHooks:
    """Returns the hooks of the features that are on.

    Args:
        working: what the instance remembers over all connections.
        transactions: whether the claims of one poll of one input are a transaction of a broker.
    """
    hooks: list[EventHook] = []
    keep = settings.history.keep
    if keep:
        history, instance = state.history(settings.instance), settings.instance
        if transactions:
            hooks.append(LateEventHistory(history, instance, client_id, rules.copies, keep, synced=False))
        else:
            hooks.append(EventHistory(history, instance, client_id, rules.copies, keep))
    hooks += [OutcomeCounts(working.summary), OutcomeLog(working.lines)]
    if settings.trace.level >= EVENTS:
        hooks.append(EventTrace(settings.trace))
    if working.tracer is not None:
        from connector.events.hooks.spans import EventSpans

        hooks.append(EventSpans(working.tracer))
    if task_settings.databases:
        from connector.events.hooks.outcome_rows import OutcomeRows

        hooks.append(
            OutcomeRows(task_settings.databases, task_settings.connector.application_name, client_id)
        )
    return EventHooks(hooks)
