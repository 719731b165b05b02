"""The loads of an instance: one loader for each subscription with ``load`` or ``dataframe``."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container
from typing import Any, Final

from connector.config.loading import Configuration
from connector.declare.value_types import resolve
from connector.errors import ProviderError
from connector.lake.loader import Loader
from connector.lake.lot_load import Load
from connector.lake.lot_tables import DatabaseWriter, DeltaWriter, FilesWriter, FunctionWriter, LotWriter
from connector.lake.settings import DataframeEntry, LoadEntry, LotsEntry
from connector.lake.sink import load_queue
from connector.messaging.copy_destinations import CopyDestinations
from connector.messaging.roles import Looking
from connector.service.assembly import make_provider
from connector.service.load_kind import AdapterLoads, SparkSource
from connector.sinks.functions import load_process

_log: Final = logging.getLogger("connector.loads")

_CANCEL_SECONDS: Final = 5.0
"""Seconds that cancelled loads may take to end."""


class Loads(AdapterLoads):
    """Loads the objects of all such subscriptions.

    Raises:
        ConnectorError: a function cannot be loaded, or an object has no columns.
    """

    def __init__(
        self,
        configuration: Configuration,
        instance: str,
        spark: SparkSource,
        paused: Callable[[], Container[str]],
    ) -> None:
        ours = load_queue(configuration.connector.application_name, instance, "")
        self._prefix = ours.name.removesuffix("-")
        self._loaders = [
            Loader(
                _load(configuration, entry, instance),
                make_provider(configuration),
                spark,
                lambda name=entry.name: name in paused(),  # type: ignore[misc]
            )
            for entry in configuration.subscriptions
            if isinstance(entry, LotsEntry)
        ]

    def start(self, connection: Looking) -> None:
        for loader in self._loaders:
            loader.start()
        known = {loader.load.queue for loader in self._loaders}
        try:
            found = connection.destinations()
        except ProviderError as error:  # the next poll fails, too, and the adapter restarts its connection
            _log.debug("the queues of loads cannot be listed", extra={"reason": str(error)})
            return
        for info in found:
            is_ours = info.destination.name.startswith(self._prefix) and info.destination not in known
            if is_ours and info.waiting + info.in_progress:
                _log.warning(
                    "no subscription loads these objects: give one its earlier name, or move them",
                    extra={"destination": info.destination, "number": info.waiting + info.in_progress},
                )

    def hold(self) -> bool:
        held = [loader.hold() for loader in self._loaders]  # all of them, also behind one that loads
        return any(held)

    def resume(self) -> None:
        for loader in self._loaders:
            loader.resume()

    def flush(self, *, only_due: bool) -> str:
        found = [(one.load.subscription, one.flush(only_due=only_due)) for one in self._loaders]
        return "; ".join(f"{name}: {reason}" for name, reason in found if reason)

    def request_stop(self) -> None:
        for loader in self._loaders:
            loader.request_stop()

    def stop(self, seconds: float) -> None:
        self.request_stop()
        self._wait(seconds)
        for loader in self._loaders:
            loader.cancel()
        self._wait(_CANCEL_SECONDS)

    def _wait(self, seconds: float) -> None:
        """Waits for the end of all loaders together, ``seconds`` at most."""
        deadline = time.monotonic() + seconds
        for loader in self._loaders:
            loader.wait(max(0.0, deadline - time.monotonic()))

    def rows(self) -> list[dict[str, Any]]:
        return [row for loader in self._loaders if (row := loader.row()) is not None]


def _load(configuration: Configuration, entry: LotsEntry, instance: str) -> Load:
    settings = configuration.connector
    return Load(
        settings.application_name,
        entry.name,
        entry.delivered_object,
        load_queue(settings.application_name, instance, entry.name),
        entry.size,
        entry.every,
        entry.retry_later.rules(),
        _writer(configuration, entry),
        configuration.metaobjects.definitions,
        CopyDestinations(error=settings.copies.error),
        str(configuration.directory),
    )


def _writer(configuration: Configuration, entry: LotsEntry) -> LotWriter:
    if isinstance(entry, LoadEntry):
        return FunctionWriter(load_process(entry.load, str(configuration.directory)))
    assert isinstance(entry, DataframeEntry)
    table = entry.dataframe
    if table.table is not None:
        name, _, inside = table.table.partition(".")
        database = next(one for one in configuration.databases if one.name == name)
        return DatabaseWriter(database, inside)
    assert table.path is not None
    path = table.path if "://" in table.path else str(resolve(table.path, configuration.directory))
    if table.format == "delta":
        return DeltaWriter(path, table.partition_by)
    return FilesWriter(table.format, path, table.partition_by, table.options)
