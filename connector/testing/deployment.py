"""A deployment for tests: written from texts, filled with messages, and run without Spark.

::

    def test_a_customer_is_stored(tmp_path):
        deployment = Deployment(tmp_path, adapter=ADAPTER, metaobjects=OBJECTS, processes=PROCESSES)
        deployment.drop("customers", '{"CustomerId": "7"}')
        with deployment.running() as adapter:
            adapter.drain()
        assert len(deployment.names("archive")) == 1

``Deployment("path")`` takes existing files. If an environment variable names the root (``root:
${DATA:./data}``), ``environment={"DATA": str(tmp_path)}`` keeps the test away from the real root.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from connector.config.loading import Configuration, load
from connector.errors import ProviderError, UnknownDestination
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.provider_kind import AdapterProvider
from connector.service.adapter import Adapter
from connector.service.assembly import make_provider
from connector.testing.pipeline import InProcessPipeline


class Folders(Protocol):
    """The folders of a queue."""

    @property
    def working(self) -> str:
        """The directory in which another program writes a file."""

    @property
    def target(self) -> str:
        """The directory into which that program then moves the file."""


@runtime_checkable
class FolderProvider(Protocol):
    """A provider that holds messages as files, which other programs can add."""

    def folders(self, destination: Destination) -> Folders:
        """Returns the folders of a queue. Makes missing folders."""


class InProcessAdapter(Adapter):
    """An adapter whose events are processed without Spark.

    Args:
        provider: shared with other parts of this process. None = made from the configuration.
        isolated, parallelism: as in :class:`~connector.testing.pipeline.InProcessPipeline`. A provider of one
            process cannot be used with ``isolated``.
        environment: for ``${NAME}`` after a reload. None = that of the process.
    """

    def __init__(
        self,
        configuration: Configuration,
        provider: AdapterProvider | None = None,
        *,
        isolated: bool = False,
        parallelism: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = environment
        self._given = provider
        self._isolated = isolated
        self._in_parallel = parallelism
        super().__init__(configuration)

    def __enter__(self) -> Self:
        self.start()
        return self

    def _make_provider(self, configuration: Configuration) -> AdapterProvider:
        return self._given or super()._make_provider(configuration)

    def _load_again(self) -> Configuration:
        return load(self.configuration.file, self._environment, in_process=True)

    def _make_pipeline(self, output: Callable[[str], None] | None) -> InProcessPipeline:
        self.pipeline = InProcessPipeline(
            self.configuration.directory, isolated=self._isolated, parallelism=self._in_parallel
        )
        return self.pipeline


class Deployment:
    """A deployment in a directory, and the queues under the root.

    Args:
        directory: of ``adapter.yaml``. Made if missing.
        adapter: text of ``adapter.yaml``. None = the file exists.
        metaobjects: text of ``metaobjects/objects.yaml``.
        processes: text of ``processes.py``.
        environment: for ``${NAME}`` in ``adapter.yaml``. None = that of the process.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        adapter: str | None = None,
        metaobjects: str | None = None,
        processes: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(directory)
        self._environment = environment
        self._numbers = itertools.count(1)
        self._provider: AdapterProvider | None = None
        texts = {
            "adapter.yaml": adapter,
            "metaobjects/objects.yaml": metaobjects,
            "processes.py": processes,
        }
        for name, text in texts.items():
            if text is not None:
                self.write(name, text)

    def write(self, name: str, text: str) -> Path:
        """Writes a file of the deployment."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        if name == "adapter.yaml":
            self._provider = None
        return path

    @property
    def configuration(self) -> Configuration:
        """The configuration in the present files.

        Raises:
            ConfigurationError: with every mistake.
        """
        return load(self.directory / "adapter.yaml", self._environment, in_process=True)

    def running(self, *, isolated: bool = False, parallelism: int = 1) -> InProcessAdapter:
        """Returns an adapter for ``with``, which starts and stops the adapter."""
        return InProcessAdapter(
            self.configuration,
            self.provider,
            isolated=isolated,
            parallelism=parallelism,
            environment=self._environment,
        )

    @property
    def provider(self) -> AdapterProvider:
        """The provider of the messages. Made once, and again after ``adapter.yaml`` is written."""
        if self._provider is None:
            self._provider = make_provider(self.configuration)
        return self._provider

    def folders(self, queue: str | Destination) -> Folders:
        """Returns the folders of a queue. Only for a provider that holds messages as files."""
        provider = self.provider
        assert isinstance(provider, FolderProvider), (
            f"the provider {self.configuration.provider.type} has no files"
        )
        return provider.folders(parse_destination(queue) if isinstance(queue, str) else queue)

    def send(self, destination: str, body: str | bytes | Message, **headers: Any) -> str:
        """Sends a message, persistent if the provider is reliable. Returns the id.

        Args:
            body: of a text message or a bytes message, or a whole message.
            headers: attributes of :class:`~connector.messaging.message.Message`, and ``properties`` as a
                mapping of names to values.
        """
        properties = headers.pop("properties", {})
        if isinstance(body, Message):
            message = replace(body, **headers)
        else:
            data, kind = (body.encode("utf-8"), "T") if isinstance(body, str) else (body, "B")
            reliable = self.provider.capabilities.reliable
            mode = PERSISTENT if reliable else NON_PERSISTENT
            message = Message(data, kind, **{"delivery_mode": mode, **headers})
        for name, value in properties.items():
            message.set_property(name, value)
        connection = self.provider.connect()
        try:
            return connection.send(parse_destination(destination), [message])[0]
        finally:
            connection.close()

    def drop(self, queue: str, body: str | bytes, name: str | None = None) -> str:
        """Puts a message into a queue as other programs do: written in ``working/``, moved to ``target/``.

        Args:
            body: text is written as UTF-8.
            name: of the file, with the headers. None = a text message with a new number.

        Returns:
            the name of the file.
        """
        folders = self.folders(queue)
        name = name or f"4.{next(self._numbers):06d}.T"
        working = os.path.join(folders.working, name)
        with open(working, "wb") as file:
            file.write(body.encode("utf-8") if isinstance(body, str) else body)
        os.rename(working, os.path.join(folders.target, name))
        return name

    def messages(self, queue: str) -> list[Message]:
        """Returns the messages of a queue in the order of taking. Empty if there is no queue."""
        try:
            connection = self.provider.existing()
        except ProviderError:
            return []  # the root does not exist yet
        try:
            return list(connection.browse(parse_destination(queue)))
        except UnknownDestination:
            return []
        finally:
            connection.close()

    def names(self, queue: str, folder: str = "target") -> list[str]:
        """Returns the file names in a folder of a queue: ``target``, ``processing`` ...

        Only for a provider that holds messages as files.
        """
        path: str = getattr(self.folders(queue), folder)
        return sorted(os.listdir(path))
