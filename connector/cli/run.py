"""``connector run``: runs the adapter, as a service, for one poll, or until the inputs are empty."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, complain, show_output
from connector.cli.notify import ServiceManager
from connector.cli.progress import Progress, Waiting
from connector.cli.summary import print_next, print_summary, write_summary
from connector.config.loading import Configuration, load
from connector.errors import ConnectorError, PipelineError, ProviderError
from connector.events.cycle_report import CycleReport
from connector.log import divert_to_log, is_json, set_up_logging, show_user_code
from connector.printed import take_prints_of_user_code
from connector.service.adapter import Adapter
from connector.status import ReturnCode
from connector.tracebacks import places_of_threads

_log: Final = logging.getLogger("connector.run")

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
_INTERRUPTED: Final = 128 + signal.SIGINT
_START_ENDS: Final = 3.0
"""Seconds that a start has to end after SIGINT."""
_EARLY: Final = 5.0
"""Seconds to wait for the handling of a signal that came before the handlers existed."""


def run(
    context: typer.Context,
    config: ConfigOption = DEFAULT_CONFIG,
    once: Annotated[bool, typer.Option("--once", help="One poll cycle, then the summary.")] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Poll cycles until the inputs are empty, then the summary.")
    ] = False,
    json: JsonOption = False,
    summary: Annotated[
        Path | None,
        typer.Option("--summary", metavar="FILE", help="Writes the JSON summary to FILE as well."),
    ] = None,
) -> None:
    """Runs the adapter as a service, until SIGTERM or SIGINT. With --once or --drain until that is done.

    Without InputDestination the adapter polls nothing and starts no Java. The service takes requests over
    HTTP where the configuration has a section http.
    The first signal stops claiming and finishes the events in flight within stop_timeout. A second signal
    ends at once. With --json the summary is one JSON document.

    Exit status: 0, also when a signal ends the run. 1 when a poll of --once or --drain does not succeed, or
    when the service cannot go on. 2 when the configuration is wrong, or when messages in doubt end the start
    (InDoubtEvents: FailOnStartup). 130 when SIGINT ends the start. Messages in error are data, not a failure.
    """
    if once and drain:
        raise typer.BadParameter("--once and --drain exclude each other")
    began = time.monotonic()
    configuration = load(config, thorough=True)
    debug = bool(context.obj)
    _set_up_log(configuration, debug=debug)
    adapter = Adapter(configuration, output=show_output, debug=debug, on_hang=_end_hanging)
    manager = ServiceManager()
    polls = partial(_poll_or_drain, adapter, drain=drain) if once or drain else None
    life = _Life(adapter, manager)
    with _signals(life.on_signal) as stopped:
        failure = None if stopped.is_set() else _work(adapter, polls, stopped, manager, began, life)
        if stopped.is_set():
            life.is_told.wait(_EARLY)
        print_summary(adapter.summary, as_json=json)
        has_next = drain and not (json or is_json() or life.is_interrupted)
        if has_next and failure is None and sys.stdout.isatty():
            print_next(adapter.summary, configuration.connector.copies, config)
        if summary is not None:
            write_summary(adapter.summary, summary)
    if failure is not None:
        complain(f"connector: {failure}")
    failed = failure is not None and not stopped.is_set()
    raise typer.Exit(_INTERRUPTED if life.is_interrupted else int(failed))


class _Life:
    """How far a run has come, and what a signal does then."""

    def __init__(self, adapter: Adapter, manager: ServiceManager) -> None:
        self._adapter = adapter
        self._manager = manager
        self.is_ready = False
        """Whether the start has ended."""
        self.is_interrupted = False
        """Whether SIGINT ends the run before it is ready."""
        self.is_told = threading.Event()
        """Set when a signal has come, and :attr:`is_interrupted` is known."""

    def on_signal(self, name: str) -> None:
        """Stops the adapter. SIGINT ends the run before it is ready."""
        is_start = not self.is_ready
        self.is_interrupted = is_start and name == "SIGINT"
        self.is_told.set()
        what = "the start is ended" if is_start else "what is in flight is finished"
        why = f"{name}: {what}; once more ends at once"
        self._manager.stopping(why)  # before the stop, because the process may end at once
        _log.info("stopping", extra={"reason": why})
        if self.is_interrupted:
            self._end_soon(self._adapter.time_to_stop if self._adapter.configuration.http else 0.0)
        self._adapter.request_stop()

    def _end_soon(self, seconds: float) -> None:
        """Ends the process if the start does not end soon. The driver of a database may not let itself end.

        The next run recovers, as after a crash.

        Args:
            seconds: that requests in flight have.
        """
        timer = threading.Timer(seconds + _START_ENDS, self._end)
        timer.daemon = True
        timer.start()

    def _end(self) -> None:
        if not self.is_ready:
            _log.error("the start does not end, so the process ends at once", extra=_places())
            os._exit(_INTERRUPTED)


def _work(
    adapter: Adapter,
    polls: Callable[[], str | None] | None,
    stopped: threading.Event,
    manager: ServiceManager,
    began: float,
    life: _Life,
) -> str | None:
    """Starts the adapter, lets it work to its end or to a signal, and stops it. Returns why it failed.

    Args:
        polls: the work. None = the adapter is a service.
        began: the time of the start of the command, of ``time.monotonic``.
    """
    is_service, failure = polls is None, None
    try:
        if is_service:
            manager.starting(lambda: adapter.working_for)
        with _http_server(adapter, stopped) if is_service else nullcontext():
            starts = _starts(adapter, stopped, waits=is_service)
            life.is_ready = True
            if starts:
                failure = _service(adapter, stopped, manager) if polls is None else polls()
            if failure is not None and not stopped.is_set():
                _log.info("stopping", extra={"reason": failure})
                manager.stopping(failure)
    finally:
        _stop(adapter)
        manager.close()
        seconds = round(time.monotonic() - began, 3)
        _log.info("stopped", extra={**adapter.summary.total.as_dict(), "seconds": seconds})
    return failure


def _set_up_log(configuration: Configuration, *, debug: bool) -> None:
    settings = configuration.logging.settings(debug=debug)
    set_up_logging(settings)
    show_user_code(settings)
    divert_to_log()
    take_prints_of_user_code()


def _stop(adapter: Adapter) -> None:
    """Stops the adapter. Logs a failure, because an earlier failure is the reason why the run ends."""
    adapter.request_stop()  # without a signal nobody else has started the time limit
    try:
        adapter.stop()
    except (ConnectorError, OSError) as error:
        _log.error("stopping the adapter failed", extra={"reason": str(error)})


def _end_hanging() -> None:
    """Ends the process, because its stop hangs, or a thread does not end after the stop.

    The next start, or another instance, takes over.
    """
    _log.error("the stop hangs, so the process ends at once", extra=_places())
    os._exit(1)


def _places() -> dict[str, object]:
    return {"threads": places_of_threads()}


def _starts(adapter: Adapter, stopped: threading.Event, *, waits: bool) -> bool:
    """Starts the adapter. Returns False if a signal has ended the start.

    Args:
        waits: whether the start waits for a provider that is away.
    """
    reason = None
    try:
        with Waiting(lambda: "" if stopped.is_set() else adapter.step):
            adapter.start(waits=waits)
    except (PipelineError, ProviderError) as error:
        if not stopped.is_set():
            raise
        reason = str(error)
    if stopped.is_set():
        _log.info("the adapter was stopped while it started", extra={"reason": reason})
    return not stopped.is_set()


def _poll_or_drain(adapter: Adapter, *, drain: bool) -> str | None:
    """Runs one poll, or all polls until the inputs are empty. Returns the reason of a failure, or None."""
    with Progress(adapter.summary) as progress:

        def after_batch(report: CycleReport) -> None:
            progress.update()

        report = adapter.drain(after_batch) if drain else adapter.poll()
        progress.update(last=True)
    return None if report.code is ReturnCode.SUCCEED else f"{report.code.name}: {report.reason}"


def _service(adapter: Adapter, stopped: threading.Event, manager: ServiceManager) -> str | None:
    """Polls until a signal comes. Returns the reason why the service cannot go on. None after a signal."""
    from connector.service.loop import Service

    service = Service(adapter)
    if stopped.is_set():
        return None
    _once_set(stopped, service.stop)
    manager.ready(lambda: adapter.working_for, lambda: _status(adapter))
    with _local_socket(adapter):
        failure = service.run()
    return None if failure is None else f"{ReturnCode.APPRESPONSETIMEOUT.name}: {failure}"


@contextmanager
def _local_socket(adapter: Adapter) -> Iterator[None]:
    """Lets commands on this machine ask the service until the context ends."""
    from connector.http.local_socket import LocalSocket
    from connector.service.observer import Observer

    name = adapter.instance or socket.gethostname()
    local = LocalSocket(adapter.configuration.file, name, Observer(adapter))
    local.start()
    try:
        yield
    finally:
        local.stop()


def _status(adapter: Adapter) -> str:
    """Returns a line about a service, for the status in the service manager."""
    counts = adapter.summary.total.as_dict()
    numbers = ", ".join(f"{number} {key}" for key, number in counts.items() if number)
    return numbers or "nothing has come yet"


@contextmanager
def _http_server(adapter: Adapter, stopped: threading.Event) -> Iterator[None]:
    """Runs the HTTP server, if configured, until the context ends or a signal comes.

    The server listens before Spark is started. So a port that is taken shows at once. Requests need no Spark.
    """
    settings = adapter.configuration.http
    if settings is None:
        yield
        return
    from connector.http.server import Server
    from connector.service.observer import Observer

    configuration = adapter.configuration
    server = Server(
        settings,
        adapter.requests,
        configuration.metaobjects.definitions,
        configuration.connector.use_defaults,
        observer=Observer(adapter),
    )
    server.start()
    _once_set(stopped, lambda: server.stop(adapter.time_to_stop))
    try:
        yield
    finally:
        server.stop(adapter.time_to_stop)


def _once_set(event: threading.Event, what: Callable[[], None]) -> None:
    """Calls ``what`` in a separate thread, because a second signal must not wait for the slow call."""

    def wait() -> None:
        event.wait()
        what()

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _signals(on_signal: Callable[[str], None]) -> Iterator[threading.Event]:
    """Lets the first SIGTERM or SIGINT stop the adapter cleanly, and the second end the process at once.

    SIGHUP is ignored.

    Python runs signal handlers in the main thread only. A signal that reaches another thread does not wake
    the main thread. But in any thread Python writes the number of the signal to a socket at once. So a
    separate thread reads those numbers and acts.
    """
    stopped = threading.Event()
    reading, writing = socket.socketpair()
    writing.setblocking(False)

    def read() -> None:
        with reading:
            while number := reading.recv(1):
                _take_signal(number[0], stopped, on_signal)

    threading.Thread(target=read, name="connector-signals", daemon=True).start()
    wakeup = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    before = {number: signal.signal(number, _do_nothing) for number in (*_STOPPING, signal.SIGHUP)}
    early = signal.sigpending() & set(_STOPPING)  # signals that were blocked so far, see __main__
    signal.pthread_sigmask(signal.SIG_UNBLOCK, before)
    if early:
        stopped.wait(_EARLY)
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        writing.close()


def _take_signal(number: int, stopped: threading.Event, on_signal: Callable[[str], None]) -> None:
    if number == signal.SIGHUP:  # a terminal has closed, or a user expects that a log file is reopened
        _log.warning("SIGHUP is ignored, SIGTERM stops the adapter")
    if number not in _STOPPING:
        return
    if stopped.is_set():
        os._exit(128 + number)
    stopped.set()
    # in a thread of its own, because a second signal must not wait for the first
    name = signal.Signals(number).name
    threading.Thread(target=on_signal, args=(name,), name="connector-signal", daemon=True).start()


def _do_nothing(signum: int, frame: Any) -> None:
    """Does nothing. The thread that reads the numbers of signals acts."""
