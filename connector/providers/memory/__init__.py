"""Messages in the memory of one process: for tests of those who build on us, and honest about it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from connector.providers.memory.provider import MemoryProvider

_named: Final[dict[str, tuple[MemoryProvider, dict[str, Any]]]] = {}
_lock: Final = threading.Lock()


def open_provider(location: str, **options: Any) -> MemoryProvider:
    """The provider of the URL ``memory:<location>``: within a process, one name is one provider.

    Its messages stay until it is closed, or the process ends.

    Args:
        location: its name; may be empty.
        options: of :class:`~connector.providers.memory.provider.MemoryProvider`, for whoever asks first;
            later ones leave them out, or repeat them.

    Raises:
        TypeError: there is no such option.
        ValueError: it exists with other options.
    """
    from connector.providers.memory.provider import MemoryProvider

    with _lock:
        known = _named.get(location)
        if known is None or known[0].closed:
            known = _named[location] = MemoryProvider(**options), options
        provider, first = known
        if options and options != first:
            raise ValueError(f"the memory {location!r} exists with other options: {first}")
        return provider
