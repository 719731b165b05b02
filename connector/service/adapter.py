"""The adapter: the parts of a deployment, and their life from start to stop."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from connector import faults
from connector.businessobjects.instance import BusinessObject
from connector.config.loading import Configuration, load
from connector.errors import ConnectorError, ProviderError
from connector.events.cycle_report import CycleReport
from connector.events.drain import drain
from connector.events.inbound import Inbound
from connector.events.summary import Summary
from connector.log import renew_logging
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.state_store import ReloadNote
from connector.operate.activity import Activity
from connector.operate.control import ReloadAnswer
from connector.requests.contract import Requests
from connector.requests.result import RequestResult
from connector.requests.traced import TracedRequests
from connector.service.assembly import make_provider, make_requests, make_tracer, spark_section
from connector.service.inbound_connection import InboundConnection, LaunchedWorkers
from connector.service.instance_notes import InstanceNotes, count_errors
from connector.service.reload import check_changes, stale_files
from connector.service.restarts import Restarts
from connector.service.stopping import StopRequest
from connector.service.timer_thread import TimerThread
from connector.sinks.lazy_requests import LazyRequests
from connector.spark.pipeline import SparkPipeline
from connector.status import ReturnCode

if TYPE_CHECKING:
    from connector.requests.spec import RequestClientSpec
    from connector.spark.session import SparkSession

_log = logging.getLogger("connector.adapter")

_POLL, _RECOVER, _LOOK, _SETTLE = "poll", "recover", "look", "settle"
"""The steps of a service."""
_PROOFS: Final = {_POLL: (_POLL,), _RECOVER: (_POLL, _RECOVER), _LOOK: (_LOOK,), _SETTLE: (_SETTLE,)}
"""From a step that has failed to those whose success shows that the connection works again."""
_EARLIER_REQUESTS: Final = 3600.0
"""Seconds that requests have which were made before a reload."""


class Adapter:
    """An adapter, which makes requests and processes events. A context manager, whose end stops both.

    Each half begins when it is first needed. :meth:`request` and :meth:`request_async` connect, and need no
    Spark. :meth:`start` connects the inbound half and starts Spark. The first :meth:`poll`, :meth:`drain` or
    :meth:`serve` calls :meth:`start` if necessary. Without InputDestination there is no inbound half.
    The methods of the inbound half belong to one thread. All other methods are for any thread.

    A program calls :meth:`poll` or :meth:`drain`. :class:`connector.service.loop.Service` calls
    :meth:`serve`, :meth:`settle_ended` and :meth:`finish` instead.

    Args:
        spark: a ``SparkSession`` of the process, which runs the events and goes on afterwards.
        output: called with each line that workers print.
        debug: whether the tracebacks of user code that workers log have all frames.
        recovery_interval: seconds between two looks for dead instances.
        on_hang: called if the process lives a minute after a stop and its ``stop_timeout``. A process that
            has nothing else to do ends itself then.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        spark: SparkSession | None = None,
        output: Callable[[str], None] | None = None,
        debug: bool = False,
        recovery_interval: float = 10.0,
        on_hang: Callable[[], None] | None = None,
    ) -> None:
        self._session = spark
        self._debug = debug
        self.recovery_interval: Final = recovery_interval
        self.configuration = configuration
        settings = configuration.connector
        self._loaded_at = time.time()
        self._spec: tuple[Configuration, RequestClientSpec] | None = None
        self.activity: Final = Activity()
        self._tracer = make_tracer(configuration)
        self._client: Final = LazyRequests(
            lambda: self._requests_of(self.configuration),
            str(configuration.directory),
            self.activity.add_request,
        )
        self.requests: Final = self._traced(self._client)
        self.summary = Summary([str(entry.destination) for entry in settings.inputs], self.activity)
        self._provider = self._make_provider(configuration)
        self._stop = StopRequest(settings.stop_timeout, self.abort, on_hang)
        self._connection = InboundConnection(
            configuration,
            self._provider,
            lambda: self._make_pipeline(output),
            self._requests_of,
            self.summary,
            self._stop,
            self._tracer,
            debug=debug,
        )
        self._timers: Final = TimerThread()
        self._restarts = self._make_restarts()
        self.notes: Final = self._make_notes()
        self._is_ready = self._started = self._ended = False
        self._failure = ""
        self._told_paused: list[list[str]] | None = None
        self._failed_step = _POLL
        self._waits: Mapping[str, Any] = {"closed": {}, "left_open": {}, "in_doubt": []}
        self._working_since: float | None = None
        self._tells = False
        """Whether the note of the instance says how it has answered to reloads."""

    @classmethod
    def from_file(cls, path: str | Path = "adapter.yaml", *, spark: SparkSession | None = None) -> Adapter:
        """Returns the adapter of a deployment.

        Args:
            path: of ``adapter.yaml``.

        Raises:
            ConfigurationError: with every mistake.
        """
        return cls(load(path, thorough=True), spark=spark)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def provider(self) -> AdapterProvider:
        """The provider, whose memory the adapter may be."""
        return self._provider

    # -- requests ----------------------------------------------------------------------------------

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        """Makes a request (see :meth:`connector.requests.contract.Requests.request`)."""
        return self.requests.request(name, data, timeout=timeout)

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        """Makes a request without waiting. The future never fails."""
        return self.requests.request_async(name, data, timeout=timeout)

    # -- life --------------------------------------------------------------------------------------

    def start(self, *, waits: bool = False) -> None:
        """Connects, starts Spark, checks every worker, and takes over from dead instances.

        Without InputDestination only logs a warning.

        Args:
            waits: whether a provider that is away is waited for, and a lost Spark is started anew, as
                RestartRetryCount and RestartRetryInterval say. :meth:`request_stop` ends the wait, and this
                method then returns without a connection.

        Raises:
            PipelineError: Spark cannot be started, or a worker lacks something. The text names both.
            ProviderError: the provider cannot be used.
            CapabilityError: the provider cannot do an operation that the configuration needs.
            ClientIdError, SubscriptionError: a subscription of an input belongs to another application, or
                another instance uses it differently.
            InDoubtAtStartup: InDoubtEvents is FailOnStartup and a message is in doubt.
        """
        self._started, self._ended = True, False
        self._is_ready = False
        try:
            self._working_since = time.monotonic()
            if waits:
                self._restarts.start(self._connection.start)
            else:
                self._connection.start()
            self._is_ready = True
        except BaseException:
            self._started = False
            self._stop.expect_end()
            with contextlib.suppress(ProviderError, OSError):  # the first error counts
                self._connection.stop()
            raise
        finally:
            self._working_since = None

    def start_timers(self) -> None:
        """Sends the messages of timers from now on, until a stop. Only a service does so.

        Raises:
            ConfigurationError: a message cannot be made.
        """
        timers = self._timers.make(self.configuration, self._provider)
        self._timers.use(timers, self.configuration, self._provider)

    def stop(self) -> None:
        """Ends requests, events and Spark, and leaves no process behind. Repeatable.

        Requests in flight have ``stop_timeout``, which counts from an earlier :meth:`request_stop`.
        """
        if self._started and self.has_inputs:
            self.notes.look(is_good=False, at_once=True)
        self._started, self._ended, self._is_ready = False, True, False
        self._timers.stop(self.time_to_stop)
        try:
            self.requests.stop(self.time_to_stop)
        finally:
            self._connection.stop()
            if self._tracer is not None:
                self._tracer.close()

    def request_stop(self) -> None:
        """Stops claiming, and ends a start. Events and requests in flight have ``stop_timeout`` to finish.

        For any thread, and for a signal handler.
        """
        self._stop.make()
        self._stop.start_timer(aborts_now=self.starts_now)  # before anything that may hang
        self._timers.request_stop()
        self._connection.request_stop()

    def abort(self) -> None:
        """Ends the running tasks. Journalled outcomes are settled, and all other claims are given back."""
        self._connection.abort()

    @property
    def instance(self) -> str:
        """The name of this instance. Empty = the adapter makes requests only, or has not started."""
        return self._connection.instance or self.configuration.connector.instance or ""

    @property
    def has_inputs(self) -> bool:
        """Whether there is an InputDestination. If not, the adapter is for requests only."""
        return bool(self.configuration.connector.inputs)

    @property
    def time_to_stop(self) -> float:
        """Seconds of ``stop_timeout`` that are left for events and requests in flight."""
        return self._stop.time_left

    @property
    def starts_now(self) -> bool:
        """Whether :meth:`start` is at work. For any thread."""
        return self._started and not self._is_ready

    @property
    def step(self) -> str:
        """What :meth:`start` is doing now, for who waits for it. For any thread."""
        return self._connection.step

    @property
    def stopping(self) -> bool:
        return self._stop.is_made

    @property
    def resting(self) -> list[dict[str, Any]]:
        """The subscriptions that rest: ``subscription``, ``since`` (seconds since 1970), ``reason``."""
        return self._connection.working.circuits.rows()

    @property
    def failing(self) -> list[dict[str, Any]]:
        """The subscriptions whose last call has failed, and whose events come again later."""
        return self._connection.working.circuits.failing()

    @property
    def loads(self) -> list[dict[str, Any]]:
        """The loads that have stopped, or that wait for another attempt. For any thread."""
        loads = self._connection.loads
        return [] if loads is None else loads.rows()

    @property
    def working_for(self) -> float:
        """Seconds since the oldest running work of a service began: the start, a poll, a recovery or a batch.

        0 without running work. The pause before a further attempt to reconnect is no work. For any thread.
        """
        inbound = self._connection.inbound
        batch = inbound.running_since if inbound is not None else None
        since = min((one for one in (self._working_since, batch) if one is not None), default=None)
        return 0.0 if since is None else time.monotonic() - since

    @property
    def step_seconds(self) -> float:
        """Seconds since the running step of a service began. 0 = none runs, or the adapter starts.

        Batches run beside the steps. For any thread.
        """
        since = self._working_since
        return 0.0 if since is None or not self._is_ready else time.monotonic() - since

    @property
    def obstacle(self) -> str:
        """Why this instance cannot claim and make requests now. Empty = it can. For any thread."""
        if self._stop.is_made:
            return "the adapter is stopping"
        if not self._is_ready:
            return "the adapter starts"
        closed: Mapping[str, str] = self._waits["closed"]
        if self._trouble or len(closed) < max(1, len(self.configuration.connector.inputs)):
            return self._trouble
        return f"nothing can be claimed: {next(iter(closed.values()))}"

    @property
    def _trouble(self) -> str:
        """Why an adapter that has started cannot work now, whatever its inputs are. Empty = it can."""
        return self._failure or self._connection.pipeline.obstacle

    @property
    def failure(self) -> str:
        """The failure of the provider or of Spark after which the adapter connects anew. Empty = none."""
        return self._failure

    @property
    def in_progress(self) -> int:
        """Number of events that are claimed and not settled yet. For any thread."""
        inbound = self._connection.inbound
        return 0 if inbound is None else inbound.in_progress

    def wait_to_stop(self, seconds: float | None) -> None:
        """Waits until the adapter is told to stop, ``seconds`` at most. None = without limit."""
        self._stop.wait(seconds)

    def wait(self, seconds: float, *, listens: bool) -> bool:
        """Waits until a batch has ended, a message has come, or the adapter is told to stop.

        Args:
            listens: whether a message that has come since the start of the last poll ends the wait.
                Without effect with ``wake: false``, or if the provider cannot report messages.

        Returns:
            whether a message has come.
        """
        inbound = self._connection.inbound
        if inbound is None:
            self._stop.wait(seconds)
            return False
        # request_stop sets the flag before it wakes the wait. So the flag is seen here, or ends the wait.
        return not self._stop.is_made and inbound.wait(seconds, listens=listens)

    # -- work --------------------------------------------------------------------------------------

    def poll(self) -> CycleReport:
        """Polls once, and runs all claims to their end.

        The report tells a failure of the provider. The connection is not restarted.
        """
        return self._work(self._poll_and_finish)

    def drain(self, after_batch: Callable[[CycleReport], None] | None = None) -> CycleReport:
        """Polls until the inputs are empty, and otherwise works like :meth:`poll`.

        Args:
            after_batch: called with the report of each batch.
        """
        return self._work(lambda inbound: self._drain_and_prune(inbound, after_batch))

    def serve(self, *, polls: bool = True, ahead: bool = False, again: bool = False) -> CycleReport:
        """Does one step of a service: recovery if it is due, then a poll. Waits for no batch.

        Reconnects a failed provider once the running batches have ended.

        Args:
            polls: False = no poll.
            ahead: whether destinations with unsettled events are polled, too.
            again: whether only events that come again later are claimed.

        Raises:
            ProviderError: no attempt of ``RestartRetryCount`` was successful.
            PipelineError: the adapter was not started before, and Spark cannot be started.
        """
        step = _POLL if polls else _RECOVER
        return self._serve(
            step, lambda inbound: self._recover_and_poll(inbound, polls=polls, ahead=ahead, again=again)
        )

    def due_in(self) -> float:
        """Returns the seconds until the next delayed message of an input is due, as far as is known."""
        inbound = self._connection.inbound
        try:
            return math.inf if inbound is None else inbound.due_in()
        except ProviderError:  # the next poll names the cause
            return 0.0

    def look(self) -> CycleReport:
        """Obeys what operators have told the application. Reconnects a failed provider.

        A reload waits until nothing is in flight. Meanwhile nothing is claimed.

        Returns:
            a report with ``more`` if an input has been resumed, or the configuration was reloaded.

        Raises:
            ProviderError, PipelineError: as in :meth:`serve`.
        """
        return self._serve(_LOOK, self._look)

    def settle_ended(self) -> CycleReport:
        """Settles the batches of a service that have ended. Reconnects a failed provider.

        Raises:
            ProviderError, PipelineError: as in :meth:`serve`.
        """
        return self._serve(_SETTLE, lambda inbound: self._note(inbound.settle_ended(), polled=False))

    def finish(self) -> CycleReport:
        """Ends a service: settles running batches after their end, and gives waiting claims back."""
        self.request_stop()
        return self._guard(Inbound.finish) if self._connection.inbound is not None else CycleReport()

    def _serve(self, step: str, work: Callable[[Inbound], CycleReport]) -> CycleReport:
        self._working_since = time.monotonic()
        try:
            return self._restart(step, self._work(work))
        finally:
            self._working_since = None

    def _restart(self, step: str, report: CycleReport) -> CycleReport:
        if report.provider_failed and not self._stop.is_made:
            self._failed_step = step
            self._tell_failure(report.reason or "the provider failed")
            self._restarts.run(self._connection.reconnect, report.reason)
            if self._restarts.may_help:
                self._tell_failure("")
        elif self._shows_work(step, report):
            self._restarts.note_good_work()
            self._tell_failure("")
        return report

    def _shows_work(self, step: str, report: CycleReport) -> bool:
        """Whether a step shows that the connection works, also where it had failed before."""
        if step == _SETTLE:
            return step == self._failed_step and bool(report.settled)
        is_good = report.code is ReturnCode.SUCCEED or bool(report.claimed)
        nothing_waits = step == _POLL and not report.claimed and self._is_idle()
        proofs = _PROOFS[self._failed_step]
        return is_good and (step in proofs or (self._failed_step == _SETTLE and nothing_waits))

    def _tell_failure(self, reason: str) -> None:
        """Tells this process and others why nothing can be claimed. Empty = it can."""
        if reason != self._failure:
            self._failure = reason
            self.notes.look(is_good=False, at_once=True)

    def _is_idle(self) -> bool:
        """Whether no batch runs."""
        return self._connection.inbound is not None and not self._connection.inbound.is_running

    # -- inside ------------------------------------------------------------------------------------

    def _requests_of(self, configuration: Configuration) -> RequestClientSpec:
        """Returns the recipe of the requests. The same object as long as the configuration is the same."""
        known = self._spec
        if known is None or known[0] is not configuration:
            known = self._spec = configuration, make_requests(configuration, self._provider)
        return known[1]

    def _look(self, inbound: Inbound) -> CycleReport:
        is_resumed = inbound.look()
        watch = self._connection.working.control
        request = watch.reload
        if not self._tells:
            self._tells = True
            self._connection.note({"reload": ReloadAnswer(watch.answered)._asdict()})
        if (paused := watch.paused()) != self._told_paused:
            self._told_paused = paused
            self._connection.note({"paused": paused})
        if request is None:
            return CycleReport(more=is_resumed)
        inbound.pausing = True
        loads = self._connection.loads
        if (loads is not None and loads.hold()) or inbound.has_events:
            return CycleReport()
        faults.point("reload.begin")
        answer = self._reload(inbound, request)
        watch.note_answer(request)
        faults.point("reload.connected")
        self._connection.note({"reload": answer._asdict()})
        return CycleReport(more=True)

    def _reload(self, inbound: Inbound, request: ReloadNote) -> ReloadAnswer:
        """Reads the configuration anew, and takes it if that is possible.

        Raises:
            ProviderError: the adapter is not connected any more. The earlier configuration holds.
        """
        before, provider = self.configuration, self._provider
        try:
            after = self._load_again()
            check_changes(before, after)
            timers = self._timers.make(after, provider)
            if after.paths != before.paths and provider.capabilities.transactions:
                self._provider = self._make_provider(after)
            self._connection.reload(after, self._provider, request.number)
        except ConnectorError as error:
            self._provider = provider
            _log.error("a reload was refused", extra={"by": request.by, "reason": str(error)})
            if self._connection.loads is not None:
                self._connection.loads.resume()
            if self._connection.inbound is None:
                raise
            self._connection.inbound.pausing = False
            return ReloadAnswer(request.number, "refused", str(error))
        self._take(before, after)
        self._timers.use(timers, after, self._provider)
        restart = stale_files(after, self._loaded_at, ships=self._connection.pipeline.ships)
        if after.http is not None and before.metaobjects.definitions != after.metaobjects.definitions:
            restart.append("the business objects of requests over HTTP")
        _log.info("the configuration was reloaded", extra={"by": request.by, "restart": restart})
        return ReloadAnswer(request.number, "reloaded", "", restart)

    def _load_again(self) -> Configuration:
        return load(self.configuration.file, thorough=True)

    def _take(self, before: Configuration, configuration: Configuration) -> None:
        """Uses another configuration from now on."""
        self.configuration = configuration
        self._stop.timeout = configuration.connector.stop_timeout
        self._restarts = self._make_restarts()
        self._client.renew(_EARLIER_REQUESTS)
        log = configuration.logging
        if log != before.logging:
            renew_logging(before.logging.settings(debug=self._debug), log.settings(debug=self._debug))

    def _make_notes(self) -> InstanceNotes:
        return InstanceNotes(
            self._connection.note,
            self.activity,
            lambda: self.resting,
            lambda: self.failing,
            lambda: count_errors(self._provider, self.configuration.connector.copies),
            lambda: self.loads,
            lambda: self._trouble,
        )

    def _make_restarts(self) -> Restarts:
        settings = self.configuration.connector
        return Restarts(
            settings.restart_retry_count,
            settings.restart_retry_interval * 60,
            self._wait_to_restart,
            lambda: self._stop.is_made,
        )

    def _work(self, work: Callable[[Inbound], CycleReport]) -> CycleReport:
        """Starts the adapter if necessary, and does the work. Without inputs does nothing."""
        if not self.has_inputs:
            return CycleReport()
        if not self._started and not self._ended:
            self.start()
        return self._guard(work)

    def _guard(self, work: Callable[[Inbound], CycleReport]) -> CycleReport:
        inbound = self._connection.inbound
        if inbound is None:
            raise ProviderError("the adapter has no connection: start it first")
        try:
            return work(inbound)
        except (ProviderError, OSError) as error:  # nothing but the provider opens files here
            reason = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else str(error)
            self._connection.working.lines.error("the provider failed", extra={"reason": reason})
            self._connection.abandon()
            return CycleReport(ReturnCode.APPRESPONSETIMEOUT, reason=reason, provider_failed=True)
        except BaseException:  # after any exception claims may be open, and recovery settles them
            self._connection.abandon()
            raise

    def _poll_and_finish(self, inbound: Inbound) -> CycleReport:
        report = inbound.poll()
        report.add(inbound.finish())
        if self._connection.loads is not None:
            self._connection.loads.flush(only_due=True)  # a load that fails is no failure of the poll
        return self._note(report)

    def _drain_and_prune(
        self, inbound: Inbound, after_batch: Callable[[CycleReport], None] | None
    ) -> CycleReport:
        def after(report: CycleReport) -> None:
            self._note(report)
            if after_batch is not None:
                after_batch(report)

        report = self._note(drain(inbound, after))
        self._flush_loads(report)
        while not inbound.prune() and not self.stopping:
            pass
        return report

    def _flush_loads(self, report: CycleReport) -> None:
        """Loads everything that waits. The report tells a load that cannot go on."""
        loads = self._connection.loads
        if (
            loads is not None
            and report.code is ReturnCode.SUCCEED
            and (reason := loads.flush(only_due=False))
        ):
            report.fail(reason, provider_failed=False)

    def _recover_and_poll(self, inbound: Inbound, *, polls: bool, ahead: bool, again: bool) -> CycleReport:
        recovered = self._recover_if_due(inbound)
        if not polls or recovered.code is not ReturnCode.SUCCEED:
            return recovered
        waiter = inbound.waiter
        if waiter is not None:
            waiter.begin()
        return self._note(inbound.poll(ahead=ahead, patient=True, again=again))

    def _note(self, report: CycleReport, *, polled: bool = True) -> CycleReport:
        """Notes what a step has done.

        Args:
            polled: whether the step has polled. A good poll is one after which no event waits.
        """
        inbound = self._connection.inbound
        if polled and inbound is not None:
            doubtful = list(inbound.in_doubt)
            waits = {"closed": inbound.closed, "left_open": inbound.left_open, "in_doubt": doubtful}
            if waits != self._waits:
                self._waits = waits
                self._connection.note(waits)
        is_over = report.settled or (polled and self._is_idle() and not report.claimed)
        self.notes.look(is_good=report.code is ReturnCode.SUCCEED and bool(is_over))
        return report

    def _recover_if_due(self, inbound: Inbound) -> CycleReport:
        """Takes over from dead instances and removes old copies, at most once in ``recovery_interval``."""
        if time.monotonic() - self._connection.recovered_at < self.recovery_interval:
            return CycleReport()
        if self._connection.working.disk.is_read_only:
            return CycleReport()
        inbound.prune()
        return self._connection.recover(inbound, at_start=False)

    def _make_provider(self, configuration: Configuration) -> AdapterProvider:
        return make_provider(configuration)

    def _traced(self, requests: Requests) -> Requests:
        """Returns requests that make spans, if the deployment wants them."""
        tracing = self.configuration.tracing
        if self._tracer is None or tracing is None:
            return requests
        return TracedRequests(requests, tracing.sample, self._tracer.export)

    def _make_pipeline(self, output: Callable[[str], None] | None) -> LaunchedWorkers:
        spark = spark_section(self.configuration)
        return SparkPipeline(
            spark,
            self.configuration.directory,
            self.configuration.connector.application_name,
            session=self._session,
            ship=spark.ship,
            output=output,
        )

    def _wait_to_restart(self, seconds: float) -> None:
        self._working_since = None
        self._stop.wait(seconds)
        self._working_since = time.monotonic()
