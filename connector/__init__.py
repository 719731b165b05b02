"""An event-polling integration adapter: messages in, business objects to business processes."""

from __future__ import annotations

import importlib
import logging
from typing import Any, Final

from connector.errors import (
    Failed,
    MalformedData,
    NotActive,
    TemporaryFailure,
    UnknownBusinessObject,
    Unsubscribed,
)
from connector.status import VERSION as __version__

__all__ = [
    "Adapter",
    "EventsDataSource",
    "Failed",
    "MalformedData",
    "NotActive",
    "Reply",
    "TemporaryFailure",
    "UnknownBusinessObject",
    "Unsubscribed",
    "__version__",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())
"""Keeps Python from printing warnings of a program that has set up no logging."""

_LAZY: Final = {
    "Adapter": "connector.service.adapter",
    "EventsDataSource": "connector.lake.source.data_source",
    "Reply": "connector.sinks.replying",
}
"""Modules of the names that are loaded on first use, so that a command without them starts faster."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return value
