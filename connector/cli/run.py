"""``connector run``: the adapter, as a service, for one poll, or until its inputs are empty."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from connector.adapter import Adapter
from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, note
from connector.cli.progress import Progress
from connector.cli.summary import print_summary, write_summary
from connector.config.loading import load
from connector.errors import PipelineError
from connector.events.cycle import CycleReport
from connector.log import set_up_logging
from connector.status import ReturnCode

_EARLY: Final = 5.0
"""Seconds that a signal which came before it could be handled may take to be seen."""


def run(
    config: ConfigOption = DEFAULT_CONFIG,
    once: Annotated[bool, typer.Option("--once", help="One poll cycle, then the summary.")] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Poll cycles until the inputs are empty, then the summary.")
    ] = False,
    json: JsonOption = False,
    summary: Annotated[
        Path | None, typer.Option("--summary", metavar="FILE", help="The JSON document, to FILE as well.")
    ] = None,
) -> None:
    """Runs the adapter as a service, until SIGTERM or SIGINT; with --once or --drain until that is done.

    Without InputDestination it polls nothing and starts no Java. The service takes requests over HTTP where
    the configuration has a section http.
    The first signal stops claiming and finishes what is in flight within stop_timeout; a second one
    ends at once. With --json the summary is one JSON document.

    Exit status: 0, also when a signal ends it; 1 when a poll of --once or --drain does not succeed, or
    when the service cannot go on; 2 when the configuration is wrong. Messages in error are data, not a
    failure.
    """
    if once and drain:
        raise typer.BadParameter("--once and --drain exclude each other")
    configuration = load(config)
    set_up_logging(configuration.logging.level, configuration.logging.format)
    adapter = Adapter(configuration, output=note)
    with _signals(adapter.request_stop) as stopped:
        code = 0
        if not stopped.is_set():
            try:
                with nullcontext() if once or drain else _http_server(adapter, stopped):
                    if _starts(adapter, stopped):
                        code = _bounded(adapter, drain=drain) if once or drain else _service(adapter, stopped)
            finally:
                adapter.stop()
        print_summary(adapter.summary, as_json=json)
        if summary is not None:
            write_summary(adapter.summary, summary)
    raise typer.Exit(0 if stopped.is_set() else code)


def _starts(adapter: Adapter, stopped: threading.Event) -> bool:
    """Starts the adapter; False where a signal has cancelled that, after ``stop_timeout``."""
    try:
        adapter.start()
    except PipelineError as error:
        if not stopped.is_set():
            raise
        logging.getLogger("connector").info("stopped before it had started: %s", error)
        return False
    return True


def _bounded(adapter: Adapter, *, drain: bool) -> int:
    with Progress(adapter.summary) as progress:

        def after_cycle(report: CycleReport) -> None:
            progress.update()

        report = adapter.drain(after_cycle) if drain else adapter.poll()
        progress.update(last=True)
    if report.code is not ReturnCode.SUCCEED:
        note(f"connector: {report.code.name}: {report.reason}")
        return 1
    return 0


def _service(adapter: Adapter, stopped: threading.Event) -> int:
    from connector.service import Service

    service = Service(adapter)
    if stopped.is_set():
        return 0

    _once_set(stopped, service.stop)
    failure = service.run()
    if failure is not None:
        note(f"connector: APPRESPONSETIMEOUT: {failure}")
        return 1
    return 0


@contextmanager
def _http_server(adapter: Adapter, stopped: threading.Event) -> Iterator[None]:
    """Takes requests over HTTP meanwhile, where that is configured, until it is told to stop.

    It listens before Spark is started: a port that is taken shows at once, and requests need no Spark.
    """
    settings = adapter.configuration.http
    if settings is None:
        yield
        return
    from connector.http.server import Server

    configuration = adapter.configuration
    server = Server(
        settings,
        adapter.requests,
        configuration.metaobjects.definitions,
        configuration.connector.use_defaults,
    )
    server.start()
    _once_set(stopped, lambda: server.stop(adapter.time_to_stop))
    try:
        yield
    finally:
        server.stop(adapter.time_to_stop)


def _once_set(event: threading.Event, what: Callable[[], None]) -> None:
    """Calls ``what`` in a thread of its own: it takes a while, and a second signal is not to wait for it."""

    def wait() -> None:
        event.wait()
        what()

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _signals(request_stop: Callable[[], None]) -> Iterator[threading.Event]:
    """The first SIGTERM or SIGINT asks for an orderly stop, the second ends the process at once.

    Python runs the handlers of signals in the main thread only, and that thread may sleep on: a signal that
    reaches another thread does not wake it. What Python does at once, in whichever thread, is to write the
    number of the signal to a socket. So a thread of its own reads those numbers, and does what is asked for.
    """
    stopped = threading.Event()
    reading, writing = socket.socketpair()
    writing.setblocking(False)

    def read() -> None:
        with reading:
            while number := reading.recv(1):
                _on_signal(number[0], stopped, request_stop)

    threading.Thread(target=read, name="connector-signals", daemon=True).start()
    wakeup = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    before = {number: signal.signal(number, _leave_it) for number in (signal.SIGTERM, signal.SIGINT)}
    early = signal.sigpending() & before.keys()  # those that came before this was there, see __main__
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


def _on_signal(number: int, stopped: threading.Event, request_stop: Callable[[], None]) -> None:
    if number not in (signal.SIGTERM, signal.SIGINT):
        return
    if stopped.is_set():
        os._exit(128 + number)
    stopped.set()
    request_stop()
    name = signal.Signals(number).name
    logging.getLogger("connector").warning("%s: finishing what is in flight; once more ends at once", name)


def _leave_it(signum: int, frame: Any) -> None:
    """The handler in the main thread: all is done by the thread that reads the numbers of signals."""
