"""The provider ``jms`` (see :mod:`connector.messaging.provider`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from connector.brokers.engine.provider import COMMIT_QUEUE, RemoteProvider
from connector.brokers.engine.transaction_limits import TransactionLimits
from connector.brokers.jars.locked import Jars
from connector.brokers.jms.subscriptions import SubscriptionRecords
from connector.brokers.jms.urls import shares_subscriptions
from connector.errors import PipelineError, ProviderMisconfigured
from connector.java import find_java
from connector.messaging.destination import Destination
from connector.messaging.provider_kind import Finding
from connector.messaging.subscription import TopicSubscription

if TYPE_CHECKING:
    from connector.brokers.jms.client import JmsClient
    from connector.brokers.jms.factory import Factory


@dataclass(frozen=True, slots=True)
class JavaSettings:
    """The Java of the client library.

    Args:
        classpath: jars of the deployment.
        packages: jars of Maven packages, behind those of the deployment.
    """

    classpath: tuple[Path, ...]
    packages: Jars
    options: tuple[str, ...] = ()

    def jars(self) -> list[Path]:
        """Returns all jars, after the sums of the packages were checked.

        Raises:
            ProviderError: a jar is missing or changed.
        """
        for jar in self.classpath:
            if not jar.is_file():
                raise ProviderMisconfigured(f"provider.classpath: the jar {jar} is missing, or is not a file")
        return [*self.classpath, *self.packages.paths()]


class JmsProvider(RemoteProvider):
    """Queues and topics of a broker, through its own JMS client library.

    Args:
        state_directory, limits, commit_queue: as of
            :class:`~connector.brokers.engine.provider.RemoteProvider`.
    """

    def __init__(
        self,
        factory: Factory,
        java: JavaSettings,
        state_directory: str | os.PathLike[str],
        limits: TransactionLimits,
        commit_queue: str | None = COMMIT_QUEUE,
    ) -> None:
        super().__init__(state_directory, limits, commit_queue)
        self._factory = factory
        self._java = java
        if not shares_subscriptions(factory.class_name):
            self.capabilities = replace(self.capabilities, shares_subscriptions=False)

    def client(self) -> JmsClient:
        """Starts Java in this process, unless Java runs."""
        from connector.brokers.jms import jvm
        from connector.brokers.jms.client import JmsClient

        jars = self._java.jars()
        try:
            home = find_java().home
        except PipelineError as error:
            raise ProviderMisconfigured(str(error)) from None
        jpype = jvm.start(home, jars, self._java.options)
        return JmsClient(jpype, self._factory, SubscriptionRecords(self._state_directory))

    def check(self) -> bool:
        """Checks that JPype and all jars are there. Starts no Java."""
        from connector.brokers.jms import jvm

        jvm.check_installed()
        self._java.jars()
        return True

    def survey(
        self,
        application: str,
        destinations: Iterable[Destination],
        subscriptions: Iterable[TopicSubscription] = (),
    ) -> Sequence[Finding]:
        from connector.brokers.jms.survey import survey

        found = survey(self.client(), self._commit_queue(application), destinations)
        return [*found, *SubscriptionRecords(self._state_directory).survey(application, subscriptions)]
