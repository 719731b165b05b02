"""The metrics of one instance, in the formats of Prometheus and OpenMetrics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from connector.operate.activity import Activity, Durations, cumulative
from connector.operate.gauges import Gauges


class InstanceMetrics(Collector):
    """The metrics of one instance. Counts nothing: reads what the instance has counted, when it is asked."""

    def __init__(self, activity: Activity, gauges: Callable[[], Gauges]) -> None:
        self._activity = activity
        self._gauges = gauges
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self, accept: str) -> tuple[bytes, str]:
        """Returns the metrics and their media type.

        Args:
            accept: the header of the caller. What it asks for need not exist.
        """
        with contextlib.suppress(TypeError, ValueError):  # a version that is none
            return self._text(accept)
        return self._text("")

    def _text(self, accept: str) -> tuple[bytes, str]:
        encoder, media_type = choose_encoder(accept)
        return encoder(self._registry), media_type

    def describe(self) -> Iterable[Metric]:
        """Returns nothing, so that the registry does not collect at the registration."""
        return ()

    def collect(self) -> Iterable[Metric]:
        yield from self._counters()
        yield from self._durations()
        yield from self._values(self._gauges())

    def _counters(self) -> Iterable[Metric]:
        activity = self._activity
        events = CounterMetricFamily(
            "connector_events",
            "Settled events, and expired messages.",
            labels=("destination", "outcome", "kind"),
        )
        for labels, number in activity.events.copy().items():
            events.add_metric(labels, number)
        yield events
        requests = CounterMetricFamily(
            "connector_requests", "Answered requests.", labels=("object", "status")
        )
        for label, row in activity.requests.rows().items():
            requests.add_metric(_object_and_status(label), sum(row[1:]))
        yield requests
        totals: Sequence[tuple[str, str, float]] = (
            ("batches", "Settled batches.", activity.batches),
            ("jobs", "Jobs of Spark, or rounds of its tasks.", activity.jobs),
            ("job_seconds", "Duration of all jobs.", activity.job_seconds),
            ("spark_seconds", "Part of it in which no task worked: Spark's share.", activity.spark_seconds),
            ("workers_died", "Worker processes that ended before their answer.", activity.workers_died),
            ("takeovers", "Dead clients whose claims this instance has finished.", activity.takeovers),
            ("recoveries", "Looks for dead clients.", activity.recoveries),
        )
        for name, text, total in totals:
            yield CounterMetricFamily(f"connector_{name}", text, value=total)

    def _durations(self) -> Iterable[Metric]:
        activity = self._activity
        for name, text, label, durations in (
            (
                "event",
                "From the start of a batch to its settlement.",
                "",
                activity.event_seconds,
            ),
            ("conversion", "Conversion of a message to its object.", "object", activity.conversions),
            ("delivery", "Call of a subscription.", "subscription", activity.deliveries),
        ):
            yield _histogram(f"connector_{name}_seconds", text, label, durations)
        family = HistogramMetricFamily("connector_request_seconds", "From a request to its answer.")
        rows = list(activity.requests.rows().values())
        if rows:
            whole = [sum(column) for column in zip(*rows, strict=True)]
            family.add_metric((), cumulative(whole), whole[0])
        yield family

    def _values(self, now: Gauges) -> Iterable[Metric]:
        info = GaugeMetricFamily("connector_info", "1.", labels=("version", "application"))
        info.add_metric((now.version, now.application), 1)
        yield info
        yield from self._labelled(now)
        values: Sequence[tuple[str, str, float | None]] = (
            ("well", "1 if the application is well.", now.well),
            ("ready", "1 if this instance can claim and make requests.", now.ready),
            ("provider_up", "1 if the provider can be used.", now.provider_up),
            ("delayed", "Messages of the inputs that wait for their time.", now.delayed),
            ("in_progress", "Events that are claimed and not settled yet.", now.in_progress),
            ("error_waiting", "Messages in the ErrorDestination.", now.error_waiting),
            ("disk_free_bytes", "Free on the disk of the messages.", now.disk_free),
            ("disk_min_free_bytes", "What min_free wants there.", now.disk_wanted),
            ("last_good_poll_timestamp_seconds", "The last good poll.", now.last_good_poll),
        )
        for name, text, present in values:
            if present is not None:
                yield GaugeMetricFamily(f"connector_{name}", text, value=present)

    @staticmethod
    def _labelled(now: Gauges) -> Iterable[Metric]:
        families: Sequence[tuple[str, str, Sequence[str], Mapping[tuple[str, ...], float]]] = (
            (
                "waiting",
                "Messages that wait in an input.",
                ["destination"],
                _keyed({name: number for name, (number, _) in now.inputs.items()}),
            ),
            (
                "oldest_waiting_seconds",
                "Age of the oldest waiting message.",
                ["destination"],
                _keyed({name: age for name, (_, age) in now.inputs.items()}),
            ),
            (
                "paused",
                "1 for each paused input or subscription.",
                ["what"],
                _keyed(dict.fromkeys(now.paused, 1)),
            ),
            (
                "resting",
                "1 for each subscription that rests.",
                ["subscription"],
                _keyed(dict.fromkeys(now.resting, 1)),
            ),
            ("database_up", "1 if the database can be reached.", ["database"], _keyed(now.databases)),
            (
                "unwell",
                "1 while a reason holds that the application is not well.",
                ["kind", "subject"],
                dict.fromkeys(now.unwell, 1),
            ),
            (
                "in_doubt",
                "Messages that may or may not have been published, and wait for an operator.",
                ["destination"],
                _keyed(now.in_doubt),
            ),
        )
        for name, text, labels, rows in families:
            family = GaugeMetricFamily(f"connector_{name}", text, labels=labels)
            for values, number in rows.items():
                family.add_metric(values, number)
            yield family


def _keyed(values: Mapping[str, float]) -> dict[tuple[str, ...], float]:
    """Returns values by the only label that they have."""
    return {(label,): number for label, number in values.items()}


def _object_and_status(label: str) -> tuple[str, str]:
    name, _, status = label.rpartition(" ")
    return name, status


def _histogram(name: str, text: str, label: str, durations: Durations) -> Metric:
    family = HistogramMetricFamily(name, text, labels=(label,) if label else ())
    for value, row in durations.rows().items():
        family.add_metric((value,) if label else (), cumulative(row), row[0])
    return family
