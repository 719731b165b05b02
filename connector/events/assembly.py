"""Puts the parts of one connection together."""

from __future__ import annotations

from typing import cast

from connector.events.claim.broker_intake import BrokerIntake
from connector.events.claim.duplicates import Duplicates
from connector.events.claim.event_waits import EventWaits
from connector.events.claim.intake import Intake
from connector.events.claim.waiting_messages import WaitingMessages
from connector.events.connection_state import ConnectionState
from connector.events.hooks.event_hooks import event_hooks
from connector.events.inbound import Inbound
from connector.events.run.job import EventJobs
from connector.events.run.pipeline import Pipeline
from connector.events.run.prepared_replies import RefusalReplies
from connector.events.run.schedule import Schedule
from connector.events.run.task_settings import TaskSettings
from connector.events.settings import EventSettings
from connector.events.settle.broker_closing import BrokerClosing
from connector.events.settle.closing import Closing
from connector.events.settle.no_transactions import NoTransactions
from connector.events.settle.open_settlements import OpenSettlements
from connector.events.settle.recovery import Recovery
from connector.events.settle.settling import SettlementRules
from connector.events.settle.transactions import Transactions
from connector.events.working_state import WorkingState
from connector.messaging.provider import Connection, TransactionalConnection
from connector.messaging.state_store import StateStore


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
        state: of the application.
        task_settings: with the access of that connection.
        pipeline: runs the tasks.
        settings: of the adapter.
        working: what the instance remembers over all connections.
        transactions: whether the claims of one poll of one input are a transaction of a broker.

    Raises:
        ProviderError: a destination or the state store cannot be used.
        CapabilityError: the provider cannot poll an input, or another instance uses another state.
        SubscriptionError: a subscription of an input is in use otherwise.
    """
    client_id, in_progress = connection.client_id, settings.copies.in_progress
    connector = settings.connector
    journals = state.journals(client_id, settings.instance)
    if transactions:
        cast(TransactionalConnection, connection).announce(in_progress)
    found = NoTransactions(journals, working.inputs)
    if transactions and in_progress is None:
        instance, own = settings.instance, task_settings.own
        found = Transactions(connection, state, instance, working.inputs, connector.order, own)
    control = state.control()
    working.control.look(control, at_once=True)
    size = settings.duplicate_window
    window = state.window(client_id, size) if size else None
    rules = _rules(connection, task_settings, settings)
    schedule = Schedule(connector.order, pipeline)
    waiting = None if in_progress is None else WaitingMessages(connection, in_progress, working.inputs)
    whole = ConnectionState(
        connection,
        settings,
        working,
        schedule,
        None if window is None else Duplicates(window, schedule),
        EventWaits(connector.order, rules.own, has_ids=window is not None),
        waiting,
        event_hooks(client_id, state, task_settings, settings, working, rules, transactions=transactions),
    )
    jobs = EventJobs(pipeline, task_settings, journals, connector.stop_timeout + 5.0, working)
    if transactions:
        open_settlements = OpenSettlements(working.lines, connector.order)
        intake: Intake = BrokerIntake(whole, found, open_settlements)
        closing: Closing = BrokerClosing(whole, rules, journals, found, open_settlements)
    else:
        intake, closing = Intake(whole), Closing(whole, rules, journals)
    inbound = Inbound(whole, jobs, intake, closing, Recovery(whole, state, rules), control)
    journals.make()  # last: a client that fails before leaves nothing behind
    return inbound


def _rules(connection: Connection, task_settings: TaskSettings, settings: EventSettings) -> SettlementRules:
    refusals = None
    if task_settings.answers_requests:
        refusals = RefusalReplies(task_settings, connection.access().open())
    remembers = settings.duplicate_window > 0
    application = settings.connector.application_name
    return SettlementRules(settings.copies, remember=remembers, refusals=refusals, application=application)
