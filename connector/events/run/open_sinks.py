"""The open sinks of a task: one for each subscription."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from connector.events.run.convert import Converter
from connector.events.run.task_settings import TaskSettings
from connector.limits import stages
from connector.sinks.calling import Deliver, call_of, guard, is_coroutine_function
from connector.sinks.contract import (
    AnySink,
    CallTimer,
    ExternalSink,
    PreparedSink,
    SinkContext,
    TransactionalSink,
)
from connector.sinks.subscriptions import Subscription
from connector.tracebacks import log_failure

if TYPE_CHECKING:
    from connector.databases.database import Database
    from connector.sinks.transactional import TransactionalCalls

_log: Final = logging.getLogger("connector.events")


class CalledSink(NamedTuple):
    """A sink that is called, and its ``deliver`` with the retries and the time limit of the subscription."""

    sink: ExternalSink | TransactionalSink
    deliver: Deliver
    transactions: TransactionalCalls | None = None
    """For a transactional sink only."""


class OpenSinks:
    """The sinks of the subscriptions.

    Args:
        deployment: the directory of the deployment on this machine.
        timer: ends this worker when an external sink takes too long.

    Raises:
        ConnectorError: a sink cannot be opened.
    """

    def __init__(
        self, task_settings: TaskSettings, deployment: str, converter: Converter, timer: CallTimer
    ) -> None:
        self._task_settings = task_settings
        self._deployment = deployment
        self._databases: dict[str, Database] = {}
        self.called: dict[str, CalledSink] = {}
        """External and transactional sinks, by subscription."""
        self.prepared: dict[str, PreparedSink] = {}
        """By subscription."""
        try:
            for subscription in task_settings.subscriptions:
                self._open(subscription, converter, timer)
        except BaseException:
            self.close()
            raise

    def order_of_delivery(self, subscription: Subscription) -> int:
        """Returns 0 for a prepared sink, 1 for an external sink, 2 for a transactional sink."""
        called = self.called.get(subscription.name)
        return 0 if called is None else 1 if called.transactions is None else 2

    def _open(self, subscription: Subscription, converter: Converter, timer: CallTimer) -> None:
        task_settings, name = self._task_settings, subscription.name
        sink = subscription.sink.open(
            SinkContext(
                name,
                self._deployment,
                writer=lambda mime_type: converter.handler(mime_type).to_body,
                properties=lambda *of: (
                    {} if task_settings.rules is None else task_settings.rules.properties(*of)
                ),
                format_property=task_settings.connector.message_format_property,
                persistent=task_settings.persistent,
                definitions=task_settings.definitions,
                mime_type=None if ":" in task_settings.default_handler else task_settings.default_handler,
                application=task_settings.connector.application_name,
                instance=task_settings.instance,
            )
        )
        if sink.kind == "prepared":
            self.prepared[name] = sink
            return
        transactions, deliver = None, call_of(sink, name, subscription.timeout)
        if sink.kind == "transactional":
            from connector.sinks.transactional import TransactionalCalls  # most adapters have no database

            database = self._database(sink.database)
            transactions = TransactionalCalls(
                deliver, database, task_settings.connector.application_name, name
            )
            deliver = transactions.deliver
        deliver = guard(
            deliver,
            name,
            retries=subscription.retries,
            timeout=subscription.timeout,
            timer=timer,
            is_cancelled=is_coroutine_function(sink.deliver),
        )
        self.called[name] = CalledSink(sink, deliver, transactions)

    def _database(self, name: str) -> Database:
        if name not in self._databases:
            from connector.databases.database import Database

            settings = next(one for one in self._task_settings.databases if one.name == name)
            self._databases[name] = Database(settings)
        return self._databases[name]

    def close(self) -> None:
        """Closes the sinks. Repeatable."""
        sinks: dict[str, AnySink] = {**self.prepared}
        sinks.update((name, called.sink) for name, called in self.called.items())
        self.prepared, self.called = {}, {}
        for name, sink in sinks.items():
            try:
                sink.close()
            except BaseException as error:  # the other sinks must be closed, too
                if stages.is_interrupt(error):
                    raise
                log_failure(_log, "a sink cannot be closed", error, sink, self._deployment, subscription=name)
        for database in self._databases.values():
            database.close()
        self._databases = {}
