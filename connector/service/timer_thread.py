"""The timers of an adapter, in a thread of their own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from connector.config.loading import Configuration
from connector.declare.plain_section import plain
from connector.errors import ProviderError
from connector.messaging.provider_kind import AdapterProvider
from connector.service.clock import SystemClock

if TYPE_CHECKING:
    from connector.core.once_sender import OnceSender
    from connector.service.timer_messages import Timer
    from connector.service.timers import Timers


class TimerThread:
    """Sends the messages of timers until it is stopped. An adapter without timers has no such thread."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._timers: Timers | None = None

    def make(self, configuration: Configuration, provider: AdapterProvider) -> Sequence[Timer]:
        """Returns the timers of a deployment.

        Raises:
            ConfigurationError: a message cannot be made.
        """
        if not configuration.timers:
            return ()
        from connector.service.timer_messages import make_timers  # which most adapters never need

        return make_timers(configuration, provider)

    def use(self, timers: Sequence[Timer], configuration: Configuration, provider: AdapterProvider) -> None:
        """Sends the messages of these timers from now on, in place of earlier timers."""
        if self._timers is not None:
            self._timers.take(timers)
        elif timers:
            self._start(timers, configuration, provider)
        else:
            from connector.service.timer_notes import forget_others

            application = configuration.connector.application_name
            with contextlib.suppress(ProviderError, OSError):  # the next start forgets
                forget_others(provider.existing_state(application).control(), ())

    def request_stop(self) -> None:
        """Lets no further message be sent. For any thread, and for a signal handler."""
        self._stop.set()

    def stop(self, seconds: float) -> None:
        """Ends the thread. A message on its way has so many seconds. Repeatable."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _start(
        self, timers: Sequence[Timer], configuration: Configuration, provider: AdapterProvider
    ) -> None:
        from connector.core.once_sender import OnceSender
        from connector.requests.request_history import HistorySpec, RowWriter
        from connector.service.timers import Timers

        connector, kept = configuration.connector, configuration.history
        sender = OnceSender(provider, connector.application_name)
        history = HistorySpec(provider.state, plain(connector), plain(kept)) if kept.keep else None
        self._timers = Timers(
            sender,
            provider.state(connector.application_name).control(),
            SystemClock(),
            RowWriter(history).append,
            connector.instance or "",
            self._stop.is_set,
        )
        self._timers.take(timers)
        target = (self._timers, sender)
        self._thread = threading.Thread(target=self._run, args=target, name="connector-timers", daemon=True)
        self._thread.start()

    def _run(self, timers: Timers, sender: OnceSender) -> None:
        try:
            while not self._stop.wait(timers.look()):
                pass
        finally:
            sender.close()
