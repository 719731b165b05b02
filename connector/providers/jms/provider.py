"""The provider ``jms`` (see :mod:`connector.messaging.provider`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from connector.core.remote.provider import DEFAULT_BATCH_BYTES, DEFAULT_MAX_BODY, RemoteProvider
from connector.errors import ProviderError

if TYPE_CHECKING:
    from connector.providers.jms.client import Factory, JmsClient


@dataclass(frozen=True, slots=True)
class JavaSettings:
    """The Java of the client library.

    Args:
        classpath: the jars.
        options: of the virtual machine.
    """

    classpath: tuple[Path, ...]
    options: tuple[str, ...] = ()


class JmsProvider(RemoteProvider):
    """Queues and topics of a broker, through its own JMS client library.

    Args:
        factory: of connections.
        java: runs the client library.
        state_directory, batch_bytes, max_body: see :class:`~connector.core.remote.provider.RemoteProvider`.
    """

    def __init__(
        self,
        factory: Factory,
        java: JavaSettings,
        state_directory: str | os.PathLike[str],
        *,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        max_body: int = DEFAULT_MAX_BODY,
    ) -> None:
        super().__init__(state_directory, batch_bytes=batch_bytes, max_body=max_body)
        self._factory = factory
        self._java = java

    def client(self) -> JmsClient:
        """Starts Java in this process, unless Java runs."""
        from connector.java import find_java
        from connector.providers.jms import jvm
        from connector.providers.jms.client import JmsClient

        jpype = jvm.start(find_java().home, self._java.classpath, self._java.options)
        return JmsClient(jpype, self._factory)

    def check(self) -> bool:
        """Checks the class path. Starts no Java."""
        missing = [str(jar) for jar in self._java.classpath if not jar.is_file()]
        if missing:
            raise ProviderError(f"a jar of the class path is missing: {missing[0]}")
        return True
