"""The registration of the provider ``jms`` (see :mod:`connector.messaging.provider_kind`)."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connector.messaging.provider_kind import DeploymentPaths, ProviderKind

if TYPE_CHECKING:
    from connector.providers.jms.provider import JmsProvider
    from connector.providers.jms.section import JmsSection


def _section() -> type[JmsSection]:
    from connector.providers.jms.section import JmsSection

    return JmsSection


def _make(section: JmsSection, paths: DeploymentPaths) -> JmsProvider:
    from connector.providers.jms.client import Factory
    from connector.providers.jms.provider import JavaSettings, JmsProvider

    jars = [Path(jar) for text in section.classpath for jar in sorted(glob.glob(str(paths.directory / text)))]
    factory = Factory(section.factory, section.url, section.ApplicationUserName, section.ApplicationPassword)
    return JmsProvider(
        factory,
        JavaSettings(tuple(jars), tuple(section.java_options)),
        paths.state or paths.directory / ".connector" / "state",
        batch_bytes=section.batch_bytes,
    )


def _open(location: str, **options: Any) -> JmsProvider:
    raise TypeError("a provider jms is opened by adapter.yaml only")


KIND: Final = ProviderKind(section=_section, make=_make, open=_open)
"""The section ``provider`` with ``type: jms``."""
