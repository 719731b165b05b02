"""Spark and the connection for the events of an adapter, from start to stop."""

from __future__ import annotations

import contextlib
import itertools
import logging
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from connector import faults
from connector.agent_trace import DETAILS
from connector.config.loading import Configuration
from connector.errors import ConnectorError, DatabaseProblem, PipelineError, ProviderError
from connector.events.assembly import make_inbound
from connector.events.claim.free_disk import FreeDisk
from connector.events.claim.polled_input import PolledInput, PolledInputs
from connector.events.cycle_report import CycleReport
from connector.events.hooks.grouped_log import GroupedLog
from connector.events.inbound import Inbound
from connector.events.run.circuits import Circuits
from connector.events.run.module_versions import differences
from connector.events.run.pipeline import CHECK, Workers
from connector.events.run.task_settings import TaskSettings
from connector.events.summary import Summary
from connector.events.working_state import WorkingState
from connector.messaging.provider import TransactionalConnection
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.roles import Settling
from connector.messaging.state_store import HeldInstance, StateStore
from connector.operate.control import ControlWatch
from connector.operate.tracer import Tracer
from connector.service.assembly import (
    check_databases,
    make_event_settings,
    make_task_settings,
    needs_delays,
    spark_section,
)
from connector.service.load_kind import AdapterLoads, loads_of
from connector.service.reload import ReloadRefused, check_inputs
from connector.service.stopping import StopRequest
from connector.status import VERSION

if TYPE_CHECKING:
    from connector.requests.spec import RequestClientSpec

_log = logging.getLogger("connector.adapter")
_CHECKS: Final = 2
"""Looks at the workers before they count as broken."""

_LOADS_SECONDS: Final = 5.0
"""Seconds in which the loads of an earlier configuration end, which have no lot at work."""


class LaunchedWorkers(Workers, Protocol):
    """Workers whose start can begin early."""

    def launch(self) -> None:
        """Begins the start and returns at once. ``start`` goes on with it. Raises nothing."""

    def session(self) -> Any:
        """Returns the SparkSession. None = the tasks run without Spark, and nothing can be loaded.

        Raises:
            PipelineError: Spark is not running.
        """


class InboundConnection:
    """Spark, the instance of the adapter, and its connection, which can be made anew.

    :meth:`abort` and :meth:`request_stop` are for any thread, all other methods for one thread.

    Args:
        make_pipeline: makes the pipeline. Called again when the pipeline has died.
        requests: returns what lets a process make requests.
        tracer: exports the spans of events. None = there is no tracing.
        debug: as in :class:`connector.service.adapter.Adapter`.
    """

    def __init__(
        self,
        configuration: Configuration,
        provider: AdapterProvider,
        make_pipeline: Callable[[], LaunchedWorkers],
        requests: Callable[[Configuration], RequestClientSpec],
        summary: Summary,
        stop: StopRequest,
        tracer: Tracer | None = None,
        *,
        debug: bool,
    ) -> None:
        self.inbound: Inbound | None = None
        """None before the start, and between a failure and the next connection."""
        self.recovered_at = 0.0
        """End of the last recovery by the monotonic clock."""
        self.state: StateStore | None = None
        self.pipeline = make_pipeline()
        self.step = ""
        """What a start is doing now."""
        self.loads: AdapterLoads | None = None
        """None before the start, and without Spark."""
        self._configuration = configuration
        self._provider = provider
        self._make_pipeline = make_pipeline
        self._requests = requests
        self._stop = stop
        self._debug = debug
        self._instance: HeldInstance | None = None
        self._settings = make_event_settings(configuration, provider, "")
        lines = GroupedLog(logging.getLogger("connector.events"))
        self.working = self._make_working(summary, itertools.count(1), lines, ControlWatch(), tracer)
        self._reloads = 0
        self._facts: dict[str, Any] = {}
        self._began: float | None = None
        self._is_checked = False

    def _make_working(
        self,
        summary: Summary,
        numbers: Iterator[int],
        lines: GroupedLog,
        control: ControlWatch,
        tracer: Tracer | None,
    ) -> WorkingState:
        configuration = self._configuration
        given = configuration.connector.poll_frequency
        frequency = given / 1000 if isinstance(given, int) else 0.0
        return WorkingState(
            summary,
            numbers,
            PolledInputs(PolledInput(one, frequency) for one in self._settings.inputs),
            lines,
            Circuits(entry.subscription() for entry in configuration.subscriptions),
            FreeDisk(self._provider.disk(), configuration.min_free),
            control,
            tracer,
        )

    def start(self) -> None:
        """See :meth:`connector.service.adapter.Adapter.start`. A call after a failed call goes on from there.

        The provider comes before Spark. So a wrong password is known before Spark has started, and no Spark
        runs while a provider is waited for.
        """
        settings = self._configuration.connector
        if not settings.inputs:
            self._provider.check()
            self._log_start(settings.instance)
            _log.warning("InputDestination is not set, so the adapter only makes requests")
            self._log_ready(seconds=0.0)
            return
        self._began = self._began or time.monotonic()
        self.step = "connects to the provider"
        if self._provider.capabilities.transactions:
            self._provider.check()
        if self._instance is None:
            self.state = self._provider.state(settings.application_name)
            earlier = {one.name: one.note for one in self.state.instances()}
            self._instance = self.state.instance(settings.instance)
            self.working.summary.activity.restore(earlier.get(self._instance.name, {}))
            self._log_start(self._instance.name)
            self._settings = make_event_settings(self._configuration, self._provider, self._instance.name)
        self._connect_and_start(at_start=True)

    @property
    def instance(self) -> str:
        """The name of the instance. Empty = the adapter makes requests only, or has not started."""
        return "" if self._instance is None else self._instance.name

    def stop(self) -> None:
        """Ends Spark and the connection. Repeatable."""
        inbound, self.inbound = self.inbound, None
        try:
            if inbound is not None:
                _close(inbound)
        finally:
            self.working.lines.flush(all_groups=True)
            if self.loads is not None:
                self.loads.stop(self._stop.time_left)
            self.pipeline.stop()
            self._stop.cancel_timer()
            if self._instance is not None:
                self._instance.close()

    def request_stop(self) -> None:
        """Stops claiming, and ends the wait of other threads."""
        inbound, loads = self.inbound, self.loads
        if inbound is not None:
            inbound.stopping = True
            inbound.wake()
        if loads is not None:
            loads.request_stop()

    def abort(self) -> None:
        """Ends the running tasks."""
        inbound = self.inbound
        if inbound is not None:
            inbound.jobs.cancel()
        else:
            self.pipeline.cancel()

    def reconnect(self) -> None:
        """Connects anew, with a new Spark if Spark has died."""
        self._connect_and_start(at_start=False)

    def reload(self, configuration: Configuration, provider: AdapterProvider, number: int) -> None:
        """Connects anew with another configuration, all or nothing. No event may be unsettled.

        Args:
            configuration: without a change that needs a restart.

        Raises:
            ReloadRefused: the new configuration does not work, and the adapter is connected with the old one.
            ConnectorError: the same, or the adapter is not connected any more.
        """
        inbound = self.inbound
        assert inbound is not None
        earlier = self._configuration, self._provider, self._settings, self.working, self._reloads
        old = self.working
        settings = make_event_settings(configuration, provider, self._settings.instance)
        check_inputs(inbound, self._settings, settings)
        self._configuration, self._provider, self._settings = configuration, provider, settings
        self._reloads = number
        self.working = self._make_working(old.summary, old.numbers, old.lines, old.control, old.tracer)
        try:
            self._check_databases()
            loads = self._make_loads()
            self._check_workers(inbound, pickle.dumps(self._task_settings(inbound.connection), protocol=5))
            self.inbound = None
            _close(inbound)
            faults.point("reload.closed")
            self._connect()
        except (ConnectorError, OSError) as error:
            self._configuration, self._provider, self._settings, self.working, self._reloads = earlier
            if self.inbound is None:
                self._connect()
                self._recover_after_connecting(at_start=False)
            assert self.inbound is not None
            self._check_workers(self.inbound, self.inbound.jobs.plan_bytes)
            raise ReloadRefused(str(error)) from error
        self._use_loads(loads)
        self._recover_after_connecting(at_start=False)

    def _connect_and_start(self, *, at_start: bool) -> None:
        self._close_failed()
        starts = not self._is_checked
        if not starts and not self.pipeline.alive:
            self.pipeline.stop()
            self.pipeline = self._make_pipeline()
            starts = True
        self.step = "connects to the provider"
        self._connect()
        if starts:
            self._start_pipeline()
        self.step = "recovers what earlier runs have left"
        if at_start:
            assert self.inbound is not None
            self.inbound.connection.check()  # Spark has taken a while
            self._use_loads(self._make_loads())
        self._recover_after_connecting(at_start=at_start)
        if at_start:
            assert self._began is not None
            self._log_ready(seconds=time.monotonic() - self._began, tasks=self.pipeline.parallelism)

    def _make_loads(self) -> AdapterLoads | None:
        """Returns the loads of the configuration. None without Spark.

        Raises:
            ConnectorError: a load cannot work.
        """
        kind = loads_of(self._configuration)
        if kind is None or self.pipeline.session() is None:
            return None
        control = self.working.control
        return kind.make(self._configuration, self._settings.instance, _Spark(self), control.delays)

    def _use_loads(self, loads: AdapterLoads | None) -> None:
        """Ends the loads of an earlier configuration, and starts others."""
        if self.loads is not None:
            self.loads.stop(_LOADS_SECONDS)
        self.loads = loads
        if loads is not None:
            assert self.inbound is not None
            loads.start(self.inbound.connection)

    def _start_pipeline(self) -> None:
        if self._stop.is_made:
            raise PipelineError("the adapter is stopping")
        self.step = "waits for Spark"
        try:
            self.pipeline.launch()  # Java starts meanwhile
            if not self._is_checked:
                self.step = "checks the databases"
                self._check_databases()
                self.step = "waits for Spark"
            self.pipeline.start()
            self.step = "waits for the workers, which load the processes"
            if self.working.tracer is not None:
                self.working.tracer.open()  # its packages take a while, and so does Spark
            if not self._is_checked:
                assert self.inbound is not None
                self._check_workers(self.inbound, self.inbound.jobs.plan_bytes)
        except BaseException:
            self.pipeline.stop()
            raise
        self._is_checked = True

    def abandon(self) -> None:
        """Ends the connection with open claims, which recovery settles."""
        inbound, self.inbound = self.inbound, None
        if inbound is not None:
            inbound.abandon()

    def recover(self, inbound: Inbound, *, at_start: bool) -> CycleReport:
        """See :meth:`connector.events.inbound.Inbound.recover`."""
        report = inbound.recover(at_start=at_start)
        self.working.summary.activity.recoveries += 1
        self.recovered_at = time.monotonic()
        self.working.lines.flush()
        return report

    def note(self, facts: Mapping[str, Any]) -> None:
        """Publishes facts about this instance. Those that were published before stay."""
        self._facts.update(facts)
        if self._instance is not None:
            self._instance.note(self._facts)

    def _close_failed(self) -> None:
        """Ends a failed connection.

        A connection without unsettled claims is closed, so that a stop before the next connection leaves
        nothing behind. Otherwise the connection is abandoned.
        """
        inbound, self.inbound = self.inbound, None
        if inbound is not None:
            with contextlib.suppress(ProviderError, OSError):
                _close(inbound)

    def _connect(self) -> None:
        assert self.state is not None
        settings = self._settings
        connection = self._provider.connect(
            settings.connector.application_name, settings.instance, client_id=settings.client_id
        )
        try:
            if self._provider.capabilities.transactions and needs_delays(self._configuration):
                cast(TransactionalConnection, connection).check_delays()
            self.inbound = make_inbound(
                connection,
                self.state,
                self._task_settings(connection),
                self.pipeline,
                self._settings,
                self.working,
                transactions=self._provider.capabilities.transactions,
            )
        except BaseException:
            connection.close()
            raise
        if self._stop.is_made:
            self.inbound.stopping = True

    def _task_settings(self, connection: Settling) -> TaskSettings:
        settings = make_task_settings(
            self._configuration,
            self._provider,
            connection.access(),
            self._requests(self._configuration),
            client_id=connection.client_id,
            instance=self._settings.instance,
            debug=self._debug,
        )
        return replace(settings, reloads=self._reloads)

    def _recover_after_connecting(self, *, at_start: bool) -> None:
        assert self.inbound is not None
        try:
            self.recover(self.inbound, at_start=at_start)
        except BaseException:
            if self.inbound.has_events or self._provider.capabilities.transactions:
                self.abandon()  # the next recovery settles the adopted claims
            else:
                self._close_failed()  # leaves no dead client behind with each attempt
            raise

    def _check_databases(self) -> None:
        """Checks the databases of transactional sinks. A database that is out of reach is no error now.

        Raises:
            DatabaseProblem: a database or a table does not fit the configuration.
        """
        wrong: list[str] = []
        for finding in check_databases(self._configuration, makes=True):
            if finding.is_unreachable:
                _log.warning("a database cannot be used now", extra={"reason": finding.problem})
            elif finding.problem:
                wrong.append(f"{finding.name}: {finding.problem}")
        if wrong:
            raise DatabaseProblem("\n".join(wrong))

    def _check_workers(self, inbound: Inbound, plan: bytes) -> None:
        """Checks that each worker can load processes and handlers, and sees the root.

        Also compares the packages of each worker with the driver's packages.

        Raises:
            PipelineError: a worker cannot process events.
            ProviderError: the provider is out of reach.
        """
        for _ in range(_CHECKS):  # a kept connection of a worker may have died with its server
            wrong = differences(self.pipeline.probe(CHECK, plan))
            if not wrong:
                return
            inbound.connection.check()  # no worker can use a provider that is away
        raise PipelineError("a worker cannot process events:\n  " + "\n  ".join(wrong))

    def _log_start(self, instance: str | None) -> None:
        """Logs the parts that start, and with AgentTraceLevel 5 also their properties."""
        configuration = self._configuration
        master = spark_section(configuration).master if configuration.connector.inputs else None
        _log.info(
            "starting",
            extra={
                "version": VERSION,
                "application": configuration.connector.application_name,
                "instance": instance,
                "provider": configuration.provider.type,
                "inputs": [str(entry) for entry in configuration.connector.inputs],
                "spark_master": master,
            },
        )
        trace = self._settings.trace
        if trace.level >= DETAILS:
            from connector.config.resolved import as_document  # imported here, because only a trace needs it

            for section, values in as_document(configuration).items():
                trace(DETAILS, "properties", section=section, values=values)

    def _log_ready(self, *, seconds: float, tasks: int | None = None) -> None:
        if not self._stop.is_made:
            _log.info("ready", extra={"tasks": tasks, "seconds": round(seconds, 3)})


class _Spark:
    """The Spark of a connection, for loads.

    Args:
        connection: whose pipeline may be another one after a failure.
    """

    def __init__(self, connection: InboundConnection) -> None:
        self._connection = connection

    @property
    def alive(self) -> bool:
        return self._connection.pipeline.alive

    def session(self) -> Any:
        return self._connection.pipeline.session()


def _close(inbound: Inbound) -> None:
    """Closes a connection. Abandons the connection if its events cannot be settled.

    Raises:
        ProviderError: the connection is abandoned.
    """
    try:
        inbound.close()
    except (ProviderError, OSError):
        inbound.abandon()
        raise
