"""Observes the adapter of this process, for the HTTP server: is it live, ready and well?"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from dataclasses import replace
from typing import Any, Final

from connector.config.loading import Configuration
from connector.core.once_sender import OnceSender
from connector.events.claim.free_disk import least_free, shortage_of
from connector.messaging.destination import Destination
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.state_store import CallLimits, CallRecord
from connector.operate.activity import Activity
from connector.operate.gauges import Gauges
from connector.operate.well import Reason, UnwellKind
from connector.service.adapter import Adapter
from connector.service.assembly import make_provider
from connector.service.queue_bodies import QueueBodies, bodies_of
from connector.service.shared_reads import SharedReads
from connector.service.status_document import StatusReader
from connector.status import VERSION

_log = logging.getLogger("connector.adapter")

_PAUSE: Final = 2.0
"""Seconds between two looks at the provider, at least."""
_LOOK_SHARE: Final = 0.05
"""Share of the time that looks at the provider may take for programs, such as those that watch the health."""
_PAGE_SHARE: Final = 0.01
"""Share of the time that they may take for people who look again and again."""
_PATIENCE: Final = 5.0
"""Seconds until a provider that does not answer counts as failed."""


class Observer:
    """Answers questions about an adapter. For any thread.

    Args:
        provider: for looks only. None = made from the configuration.
    """

    def __init__(self, adapter: Adapter, provider: AdapterProvider | None = None) -> None:
        self._adapter = adapter
        self._provider = provider if provider is not None else make_provider(adapter.configuration)
        self._reader = StatusReader(adapter.configuration, self._provider)
        self.reads = SharedReads()
        """At queues, for the console."""
        self._lock = threading.Condition()
        self._document: dict[str, Any] = {}
        self._looks_since: float | None = None
        self._looked_at, self._look_seconds = float("-inf"), 0.0
        self._seen: dict[tuple[str, str], float] = {}
        """When each reason that holds was seen first, in seconds since 1970."""
        self._is_overtaken = False
        """Whether an operator has changed something since the last look began."""

    @property
    def configuration(self) -> Configuration:
        return self._adapter.configuration

    def calls(self, limits: CallLimits) -> CallRecord:
        """Returns the record of the calls over HTTP that had a key. Raises ProviderError."""
        return self._provider.state(self.configuration.connector.application_name).calls(limits)

    def sender(self) -> OnceSender:
        """Returns a new sender of messages that come from outside. For any thread, and connects later."""
        return OnceSender(self._adapter.provider, self.configuration.connector.application_name)

    @property
    def is_reliable(self) -> bool:
        """Whether the provider keeps persistent messages over a crash."""
        return self._adapter.provider.capabilities.reliable

    def bodies(self, queue: Destination) -> QueueBodies:
        """Returns what a queue takes from outside, as the present configuration says."""
        return bodies_of(self.configuration, self._adapter.provider, queue)

    def disk_shortage(self) -> str:
        """Returns why the disk of the messages takes no more from outside. Empty = it does, or has none."""
        return shortage_of(self._provider.disk(), self.configuration.min_free)

    @property
    def activity(self) -> Activity:
        return self._adapter.activity

    def status(self, *, at_once: bool = False) -> dict[str, Any]:
        """Returns the document of a :class:`StatusReader`, some seconds old at most. May wait as long.

        Args:
            at_once: do not wait for a look if there is a document of an earlier one. For people who look
                again and again.
        """
        with self._lock:
            share = _PAGE_SHARE if at_once else _LOOK_SHARE
            if not self._has_looked(share) and not (at_once and self._document):
                self._lock.wait_for(lambda: self._has_looked(share), _PATIENCE)
            if self._looks_since is None:
                return self._document
            seconds = time.monotonic() - self._looks_since
            document = self._document
        if seconds < _PATIENCE and document:
            return document  # another caller has begun to wait earlier
        failure = f"the provider has not answered for {seconds:.0f} s"
        reason = Reason(UnwellKind.PROVIDER, self._provider_name, failure, time.time() - seconds)
        return {**document, "well": False, "reasons": [reason], "provider_failure": failure}

    def _has_looked(self, share: float) -> bool:
        """Whether the document is new. Otherwise a look goes on, and begins here if it is due.

        Args:
            share: of the time that looks may take for the caller.
        """
        look_at = self._looked_at + max(_PAUSE, self._look_seconds / share)
        if self._looks_since is None and time.monotonic() >= look_at:
            self._looks_since, self._is_overtaken = time.monotonic(), False
            threading.Thread(target=self._look, name="connector-observer", daemon=True).start()
        return self._looks_since is None

    def look_again(self) -> None:
        """Lets the next :meth:`status` and all looks be new, because an operator has changed something."""
        self.reads.forget()
        with self._lock:
            self._looked_at, self._document = float("-inf"), {}
            self._is_overtaken = True

    def _look(self) -> None:
        began = time.monotonic()
        document: dict[str, Any] = {}
        try:
            if self._reader.configuration is not self.configuration:  # read anew
                self._reader = StatusReader(self.configuration, self._provider)
            document = self._reader.read(self._adapter.failure)
        except Exception as error:
            _log.exception("the status cannot be read")
            text = f"the status cannot be read: {type(error).__name__}: {error}"
            reason = Reason(UnwellKind.STATUS, "status", text)
            document = {"well": False, "reasons": [reason], "provider_failure": None}
        finally:
            ended = time.monotonic()
            self._date(document)
            with self._lock:
                self._looks_since = None
                if not self._is_overtaken:  # otherwise the next look begins at once
                    self._document = document
                    self._looked_at, self._look_seconds = ended, ended - began
                self._lock.notify_all()

    def _date(self, document: dict[str, Any]) -> None:
        """Gives each reason and notice the time since it was seen, if nothing else tells."""
        now, keys = time.time(), ("reasons", "notices")
        rows: list[Reason] = [one for key in keys for one in document.get(key, ())]
        self._seen = {one.key: self._seen.get(one.key, now) for one in rows}
        for key in keys:
            document[key] = [
                one if one.since is not None else replace(one, since=self._seen[one.key])
                for one in document.get(key, ())
            ]

    @property
    def _provider_name(self) -> str:
        return self.configuration.provider.type

    def not_live(self) -> str:
        """Returns why the adapter is not live: a step of its loop hangs. Empty = it is live."""
        seconds, limit = self._adapter.step_seconds, self.configuration.health.longest_step
        if seconds <= limit:
            return ""
        return f"a step of the loop has taken {seconds:,.0f} s, more than {limit:g} s (health.longest_step)"

    def not_ready(self, *, short: bool = False) -> str:
        """Returns why the adapter cannot claim and make requests now. Empty = it is ready.

        Args:
            short: without the text of a failure, which may hold values of messages.
        """
        obstacle, failure = self._adapter.obstacle, self._adapter.failure
        if obstacle and obstacle != failure:
            return obstacle  # the adapter starts or stops
        document = self.status()
        failure = obstacle or document["provider_failure"] or ""
        if not failure and (shortage := document.get("disk_shortage")):
            return f"nothing can be claimed: {shortage}"
        return "the provider or Spark cannot be used" if failure and short else failure

    def gauges(self) -> Gauges:
        """Returns the present values for the metrics."""
        document = self.status()
        in_progress = self.configuration.connector.copies.in_progress
        disk = self._provider.disk()
        free = wanted = None
        if disk is not None:
            try:
                usage = shutil.disk_usage(disk)
                free, wanted = usage.free, least_free(self.configuration.min_free, usage.total)
            except OSError:
                pass  # the provider says what is wrong
        return Gauges(
            version=VERSION,
            application=self.configuration.connector.application_name,
            well=document["well"],
            unwell=[one.key for one in document["reasons"]],
            in_doubt={} if in_progress is None else {str(in_progress): document.get("in_doubt", 0)},
            ready=not self.not_ready(),
            provider_up=not document["provider_failure"],
            inputs={
                row["destination"]: (row["waiting"], row["age"] or 0.0) for row in document.get("inputs", ())
            },
            delayed=document.get("delayed", 0),
            error_waiting=document.get("error_waiting"),
            in_progress=self._adapter.in_progress,
            paused=[row["what"] for row in document.get("paused", ())],
            resting=[row["subscription"] for row in self._adapter.resting],
            databases={row["database"]: row["problem"] is None for row in document.get("databases", ())},
            disk_free=free,
            disk_wanted=wanted,
            last_good_poll=self._adapter.notes.last_good_poll,
        )
