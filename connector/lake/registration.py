"""The registration of the loads (see :mod:`connector.service.load_kind`)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING, Final

from connector.config.loading import Configuration
from connector.lake.sink import is_load_queue
from connector.service.load_kind import LoadKind, SparkSource

if TYPE_CHECKING:
    from connector.lake.loads import Loads


def _make(
    configuration: Configuration, instance: str, spark: SparkSource, paused: Callable[[], Container[str]]
) -> Loads:
    from connector.lake.loads import Loads  # PySpark's types, which most adapters never need

    return Loads(configuration, instance, spark, paused)


def _functions(configuration: Configuration) -> Iterator[str]:
    from connector.lake.settings import LoadEntry  # loaded already, if there is a load

    return (one.load for one in configuration.subscriptions if isinstance(one, LoadEntry))


KIND: Final = LoadKind(_make, _functions, is_load_queue)
