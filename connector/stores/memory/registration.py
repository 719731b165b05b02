"""The registration of the provider ``memory`` (see :mod:`connector.messaging.provider_kind`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from connector.messaging.provider_kind import DeploymentPaths, ProviderKind

if TYPE_CHECKING:
    from connector.stores.memory.provider import MemoryProvider
    from connector.stores.memory.section import MemorySection


def _section() -> type[MemorySection]:
    from connector.stores.memory.section import MemorySection

    return MemorySection


def _make(section: MemorySection, paths: DeploymentPaths) -> MemoryProvider:
    from connector.stores.memory.provider import MemoryProvider

    return MemoryProvider(
        max_bytes=section.max_bytes,
        send_timeout=section.send_timeout,
        accept_persistent=section.accept_persistent,
        redelivery_limit=section.redelivery_limit,
        state_directory=paths.state,
    )


def _open(location: str, **options: Any) -> MemoryProvider:
    from connector.stores.memory.provider import open_provider

    return open_provider(location, **options)


KIND: Final = ProviderKind(section=_section, make=_make, open=_open, one_process=True)
