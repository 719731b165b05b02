"""``spark.readStream.format("events")``: messages of a queue as a table.

::

    from connector import EventsDataSource

    spark.dataSource.register(EventsDataSource)
    orders = (
        spark.readStream.format("events")
        .option("config", "adapter.yaml").option("destination", "queue://orders")
        .option("name", "orders-to-lake").option("object", "Order").load()
    )

An offset of Spark is the number of a lot (:mod:`connector.messaging.lot`). A lot keeps its number and its
messages until Spark has committed its batch, whatever dies before. So Spark reads the same rows again. The
lot is settled when Spark plans the next batch: messages go to the ArchiveDestination, those that are no
``object`` to the ErrorDestination or the UnsubscribedDestination.

``spark.read.format("events")`` looks at the messages that wait, and takes none.

Spark runs these classes in processes of its own: the options are read in one process, the lots are claimed in
another, and the messages are read in tasks. What tasks find wrong comes back in journals.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, Self

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from connector.config.loading import Configuration, load
from connector.errors import ConnectorError, DestinationError
from connector.lake.source.lot_stream import LotReading, LotStream
from connector.lake.source.rows import SourceRows, columns_of
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.selector import compile_selector
from connector.service.assembly import make_provider
from connector.text.names import did_you_mean, shown

if importlib.util.find_spec("pyarrow") is None:
    raise ImportError("the source events needs pyarrow: pip install 'event-connector[spark-tables]'")

_MOST_MESSAGES: Final = 10_000
_OPTIONS: Final = ("config", "destination", "name", "object", "selector", "maxMessagesPerTrigger")
_ASYNC: Final = "asyncProgressTrackingEnabled"


class SourceError(ConnectorError):
    """An option of the source ``events`` is wrong. The text says what was found and what was expected."""


@dataclass(frozen=True, slots=True)
class SourceOptions(LotReading):
    """The options of the source.

    Args:
        most: messages of a lot.
    """

    most: int

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Self:
        """Reads the options as Spark gives them. Their names have no case.

        Raises:
            SourceError: an option is unknown, missing or wrong.
        """
        known = {name.lower(): name for name in _OPTIONS}
        said = {name.lower(): value for name, value in given.items()}
        if said.pop(_ASYNC.lower(), "false").lower() == "true":
            raise SourceError(
                f"found {_ASYNC}=true: Spark would not log each batch, and lots would be settled too early"
            )
        for name in said:
            if name not in known:
                near = did_you_mean(name, known)
                raise SourceError(f"found the option {shown(name)}{near}, expected {', '.join(_OPTIONS)}")
        options = {known[name]: value for name, value in said.items()}
        if not options.get("destination"):
            raise SourceError('expected .option("destination", "queue://NAME")')
        config = os.path.abspath(options.get("config", "adapter.yaml"))
        destination = _destination(options["destination"], config)
        if not destination.is_queue or destination.view:
            raise SourceError(f"destination: found {destination}, expected a queue, such as queue://orders")
        if selector := options.get("selector", "").strip():
            compile_selector(selector)
        limit = options.get("maxMessagesPerTrigger", str(_MOST_MESSAGES))
        if not limit.isdecimal() or not int(limit):
            raise SourceError(f"maxMessagesPerTrigger: found {shown(limit)}, expected a number from 1 up")
        return cls(
            config,
            destination,
            options.get("name", "").strip(),
            options.get("object", "").strip(),
            selector,
            int(limit),
        )

    def configuration(self) -> Configuration:
        """Returns the deployment.

        Raises:
            ConfigurationError: it is wrong.
        """
        return load(self.config)


def _destination(text: str, config: str) -> Destination:
    """Returns the destination of an option. Only the deployment knows whether it is the name of a server."""
    try:
        if "%" not in text:
            return parse_destination(text)
    except DestinationError:
        pass
    return load(config).destination(text)


class EventsDataSource(DataSource):  # type: ignore[misc]  # mypy does not read PySpark
    """The source ``events`` of Spark. See the module.

    Args:
        options: as :class:`SourceOptions` reads them.

    Raises:
        SourceError: an option is wrong.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = SourceOptions.read(options)

    @classmethod
    def name(cls) -> str:
        return "events"

    def schema(self) -> StructType:
        return columns_of(self._options.configuration(), self._options.object)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Look(self._options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = self._options
        if not options.name:
            raise SourceError(
                'expected .option("name", NAME): the name of this query, which stays the same after a restart'
            )
        return LotStream(options, options.most)


class _Look(DataSourceReader):  # type: ignore[misc]  # mypy does not read PySpark
    """Reads what waits, and takes nothing. What is no object is left out."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        options = self._options
        configuration = options.configuration()
        provider = make_provider(configuration)
        connection = provider.existing()
        try:
            rows = SourceRows.make(configuration, provider, connection.access(), options.object)
            selector = compile_selector(options.selector) if options.selector else None
            for message in connection.browse(options.destination):
                if selector is None or selector.matches(message):
                    found = rows.rows(message, str(options.destination))
                    if isinstance(found, list):
                        yield from found
        finally:
            connection.close()
