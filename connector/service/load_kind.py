"""What the adapter asks of its loads. The loads themselves are the room ``connector.lake``.

The entry point ``lots`` of the group ``connector.loads`` names them. So an adapter without ``load`` and
``dataframe`` works without the room.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from connector.config.loading import Configuration
from connector.messaging.destination import Destination
from connector.messaging.roles import Looking
from connector.plugins import PlugIns


class SparkSource(Protocol):
    """Has the Spark of the adapter, which may be another one after a failure."""

    @property
    def alive(self) -> bool:
        """Whether jobs can be run."""

    def session(self) -> Any:
        """Returns the SparkSession. Raises PipelineError if Spark does not run."""


class AdapterLoads(Protocol):
    """The loads of all subscriptions of an instance. For one thread, unless a method says otherwise."""

    def start(self, connection: Looking) -> None:
        """Begins to load, and warns of objects that an earlier subscription has left."""

    def hold(self) -> bool:
        """Lets no lot begin until :meth:`resume`. Returns whether a lot is being loaded."""

    def resume(self) -> None:
        """Undoes :meth:`hold`."""

    def flush(self, *, only_due: bool) -> str:
        """Loads everything that waits, or that is due. Returns why something is not loaded, or nothing."""

    def request_stop(self) -> None:
        """Lets no further lot begin. For any thread."""

    def stop(self, seconds: float) -> None:
        """Ends the loads. Lots that are being loaded have ``seconds``. Then their loads are cancelled."""

    def rows(self) -> list[dict[str, Any]]:
        """Returns the loads that are not well. For any thread."""


@dataclass(frozen=True, slots=True)
class LoadKind:
    """Makes the loads of a deployment, and knows their queues.

    Args:
        make: makes the loads of all subscriptions with ``is_loaded``, and starts none. Gets the deployment,
            the instance of the adapter, the Spark, and a function that returns the names of the paused
            subscriptions. Raises ConnectorError if a load cannot work.
        functions: yields the functions, ``module:function``, that the loads of a deployment call in the
            adapter's own process.
        is_queue: whether objects wait in this queue for a load of this ApplicationName.
    """

    make: Callable[[Configuration, str, SparkSource, Callable[[], Container[str]]], AdapterLoads]
    functions: Callable[[Configuration], Iterator[str]]
    is_queue: Callable[[Destination, str], bool]


def _mistake(name: str, kind: Any) -> str:
    return "" if isinstance(kind, LoadKind) else "is no LoadKind"


LOADS: Final = PlugIns[LoadKind]("connector.loads", "loads", _mistake)
"""The loads of installed packages. The adapter uses those with the name ``lots``."""


def loads_of(configuration: Configuration) -> LoadKind | None:
    """Returns what loads the objects of a deployment. None = no subscription has a load.

    Raises:
        PlugInError: the loads cannot be imported.
    """
    return LOADS.load("lots") if any(one.is_loaded for one in configuration.subscriptions) else None
