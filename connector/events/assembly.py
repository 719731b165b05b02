"""Puts the parts of one connection together."""

from __future__ import annotations

from typing import cast

from connector.events.claim.broker_intake import BrokerIntake
from connector.events.claim.duplicate_keys import DuplicateKeys
from connector.events.claim.duplicates import Duplicates
from connector.events.claim.event_waits import EventWaits
from connector.events.claim.intake import Intake
from connector.events.claim.waiting_messages import WaitingMessages
from connector.events.connection_state import ConnectionState
from connector.events.hooks.event_hook import EventHooks
from connector.events.hooks.event_hooks import event_hooks
from connector.events.inbound import Inbound
from connector.events.run.job import EventJobs
from connector.events.run.pipeline import Pipeline
from connector.events.run.prepared_replies import RefusalReplies
from connector.events.run.schedule import Schedule
from connector.events.run.side_by_side import Parallel
from connector.events.run.task_settings import TaskSettings
from connector.events.settings import EventSettings
from connector.events.settle.broker_closing import BrokerClosing
from connector.events.settle.closing import Closing
from connector.events.settle.committed_rows import CommittedRows
from connector.events.settle.no_transactions import NoTransactions
from connector.events.settle.open_settlements import OpenSettlements
from connector.events.settle.recovery import Recovery
from connector.events.settle.settling import SettlementRules
from connector.events.settle.transactions import Transactions
from connector.events.working_state import WorkingState
from connector.messaging.provider import Connection, TransactionalConnection
from connector.messaging.state_store import ClientJournals, StateStore
from connector.operate.own_history import OwnHistory


def make_inbound(
    connection: Connection,
    state: StateStore,
    task_settings: TaskSettings,
    pipeline: Pipeline,
    settings: EventSettings,
    working: WorkingState,
    *,
    transactions: bool = False,
) -> Inbound:
    """Returns all inbound work over one connection.

    Args:
        connection: of the provider. The result closes the connection.
        task_settings: with the access of that connection.
        working: what the instance remembers over all connections.
        transactions: whether the claims of one poll of one input are a transaction of a broker.

    Raises:
        ProviderError: a destination or the state store cannot be used.
        CapabilityError: the provider cannot poll an input, or another instance uses another state.
        SubscriptionError: a subscription of an input is in use otherwise.
    """
    journals = state.journals(connection.client_id, settings.instance)
    found = None
    if transactions:
        found = _transactions(connection, state, journals, task_settings, settings, working)
    control = state.control()
    working.control.look(control, at_once=True)
    keys = _duplicate_keys(settings, working)
    rules = _rules(connection, task_settings, settings, keys)
    hooks = event_hooks(
        connection.client_id, state, task_settings, settings, working, rules, transactions=transactions
    )
    whole = _connection_state(connection, state, pipeline, settings, working, keys, rules.own, hooks, found)
    jobs = EventJobs(pipeline, task_settings, journals, settings.connector.stop_timeout + 5.0, working)
    if found is None:
        intake, closing = Intake(whole), Closing(whole, rules, journals)
    else:
        stays = OpenSettlements(working.lines, settings.orders)
        intake = BrokerIntake(whole, found, stays)
        closing = BrokerClosing(whole, rules, journals, found, stays)
    inbound = Inbound(whole, jobs, intake, closing, Recovery(whole, state, rules), control)
    journals.make()  # last: a client that fails before leaves nothing behind
    return inbound


def _connection_state(
    connection: Connection,
    state: StateStore,
    pipeline: Pipeline,
    settings: EventSettings,
    working: WorkingState,
    keys: DuplicateKeys | None,
    own: OwnHistory,
    hooks: EventHooks,
    transactions: NoTransactions | None,
) -> ConnectionState:
    orders, size = settings.orders, settings.duplicate_window
    in_progress = settings.copies.in_progress
    window = state.window(connection.client_id, size) if size else None
    parallel = {one.input: one.parallel for one in working.inputs if one.parallel is not None}
    by_value = frozenset() if keys is None else keys.by_value
    schedule = Schedule(orders, pipeline, Parallel(settings.connector.parallel, parallel), by_value)
    waits = EventWaits(orders, own, keys=keys)
    duplicates = None
    if window is not None and keys is not None:
        awaited = frozenset if transactions is None else transactions.awaited_keys
        duplicates = Duplicates(window, keys, schedule, waits, awaited)
    return ConnectionState(
        connection,
        settings,
        working,
        schedule,
        duplicates,
        waits,
        None if in_progress is None else WaitingMessages(connection, in_progress, working.inputs),
        hooks,
    )


def _transactions(
    connection: Connection,
    state: StateStore,
    journals: ClientJournals,
    task_settings: TaskSettings,
    settings: EventSettings,
    working: WorkingState,
) -> NoTransactions:
    """Returns the transactions of a broker, or none if its messages are in progress while events run.

    Raises:
        CapabilityError: another instance uses another state.
        ProviderError: the state or the broker cannot be used.
    """
    cast(TransactionalConnection, connection).announce(settings.copies.in_progress)
    if settings.copies.in_progress is not None:
        return NoTransactions(journals, working.inputs)
    instance, orders = settings.instance, settings.orders
    return Transactions(connection, state, instance, working.inputs, orders, task_settings.own)


def _rules(
    connection: Connection, task_settings: TaskSettings, settings: EventSettings, keys: DuplicateKeys | None
) -> SettlementRules:
    refusals = None
    if task_settings.answers_requests:
        refusals = RefusalReplies(task_settings, connection.access().open())
    application, rows = settings.connector.application_name, None
    if task_settings.databases:
        rows = CommittedRows(task_settings.databases, application, connection.access().open())
    return SettlementRules(settings.copies, keys=keys, refusals=refusals, rows=rows, application=application)


def _duplicate_keys(settings: EventSettings, working: WorkingState) -> DuplicateKeys | None:
    """Returns the duplicate keys of the events. None = duplicates are not eliminated."""
    if not settings.duplicate_window:
        return None
    return DuplicateKeys(working.inputs, by_id=settings.connector.duplicate_event_elimination)
