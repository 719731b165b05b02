"""``connector run``: the adapter, as a service, for one poll, or until its inputs are empty."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from connector.adapter import Adapter
from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, note
from connector.cli.progress import Progress
from connector.cli.summary import print_summary, write_summary
from connector.config.loading import load
from connector.events.cycle import CycleReport
from connector.log import set_up_logging
from connector.status import ReturnCode


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
                    adapter.start()
                    code = _bounded(adapter, drain=drain) if once or drain else _service(adapter, stopped)
            finally:
                adapter.stop()
        print_summary(adapter.summary, as_json=json)
        if summary is not None:
            write_summary(adapter.summary, summary)
    raise typer.Exit(0 if stopped.is_set() else code)


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
    """Calls ``what`` in a thread of its own, as a signal handler can do little more than set an event."""

    def wait() -> None:
        event.wait()
        what()

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _signals(request_stop: Callable[[], None]) -> Iterator[threading.Event]:
    """The first SIGTERM or SIGINT asks for an orderly stop, the second ends the process at once."""
    stopped = threading.Event()

    def handle(signum: int, frame: Any) -> None:
        if stopped.is_set():
            os._exit(128 + signum)
        stopped.set()
        request_stop()
        # in a thread of its own: this one may be in the middle of writing to the same stream
        text = f"{signal.Signals(signum).name}: finishing what is in flight; once more ends at once"
        threading.Thread(target=logging.getLogger("connector").warning, args=(text,), daemon=True).start()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, before)  # those that came before this was there, see __main__
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
