"""A deployment to test: written from texts, fed with files, run without Spark, looked at from outside.

::

    def test_a_customer_is_stored(tmp_path):
        deployment = Deployment(tmp_path, adapter=ADAPTER, metaobjects=OBJECTS, processes=PROCESSES)
        deployment.drop("customers", '{"CustomerId": "7"}')
        with deployment.running() as adapter:
            adapter.drain()
        assert len(deployment.names("archive")) == 1

``Deployment("path")`` takes the files that are there. A root that an environment variable names
(``root: ${DATA:./data}``) is kept apart from the real one by ``environment={"DATA": str(tmp_path)}``.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from connector.adapter import Adapter
from connector.config.loading import Configuration, load
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.parts import make_provider
from connector.providers.dropbox.connection import DropboxProvider
from connector.providers.dropbox.layout import QueueFolders
from connector.testing.pipeline import InProcessPipeline


class InProcessAdapter(Adapter):
    """An adapter whose events are processed without Spark.

    Args:
        configuration: of the deployment.
        isolated, parallelism: as :class:`~connector.testing.pipeline.InProcessPipeline` has them.
    """

    def __init__(self, configuration: Configuration, *, isolated: bool = False, parallelism: int = 1) -> None:
        self._isolated = isolated
        self._in_parallel = parallelism
        super().__init__(configuration)

    def _make_pipeline(self, output: Callable[[str], None] | None) -> InProcessPipeline:
        self.pipeline = InProcessPipeline(
            self.configuration.directory, isolated=self._isolated, parallelism=self._in_parallel
        )
        return self.pipeline


class Deployment:
    """A deployment in a directory, and the queues under its root.

    Args:
        directory: of ``adapter.yaml``; made when missing.
        adapter: text of ``adapter.yaml``; None = the file is there.
        metaobjects: text of ``metaobjects/objects.yaml``.
        processes: text of ``processes.py``.
        environment: for ``${NAME}`` in ``adapter.yaml``; None = that of the process.
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
        self._provider: DropboxProvider | None = None
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
        self._provider = None
        return path

    @property
    def configuration(self) -> Configuration:
        """As the files say now.

        Raises:
            ConfigurationError: with every mistake.
        """
        return load(self.directory / "adapter.yaml", self._environment)

    def running(self, *, isolated: bool = False, parallelism: int = 1) -> InProcessAdapter:
        """An adapter for ``with``: entering starts it, leaving stops it."""
        return InProcessAdapter(self.configuration, isolated=isolated, parallelism=parallelism)

    @property
    def provider(self) -> DropboxProvider:
        """Where its messages live; made from the configuration once, and anew after :meth:`write`."""
        if self._provider is None:
            self._provider = make_provider(self.configuration)
        return self._provider

    def folders(self, queue: str | Destination) -> QueueFolders:
        """The folders of a queue, made when missing."""
        destination = parse_destination(queue) if isinstance(queue, str) else queue
        self.provider.layout.prepare()
        return self.provider.layout.ensure(destination)

    def drop(self, queue: str, body: str | bytes, name: str | None = None) -> str:
        """Puts a message into a queue as foreign programs do: written in ``working/``, moved to ``target/``.

        Args:
            queue: its name.
            body: text is written as UTF-8.
            name: of the file, with the headers; None = a text message with a number of its own.

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
        """The messages of a queue in the order in which they would be taken; none where there is no queue."""
        destination = parse_destination(queue)
        if not self.provider.layout.exists(destination):
            return []
        connection = self.provider.existing()
        try:
            return list(connection.browse(destination))
        finally:
            connection.close()

    def names(self, queue: str, folder: str = "target") -> list[str]:
        """The names of the files in a folder of a queue: ``target``, ``processing``, ``processed`` ..."""
        path: str = getattr(self.folders(queue), folder)
        return sorted(os.listdir(path))
