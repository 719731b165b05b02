"""An event-polling integration adapter: messages in, business objects to business processes."""

from __future__ import annotations

import importlib
import logging

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

_LAZY = {
    "Adapter": ("connector.service.adapter", "Adapter"),
    "EventsDataSource": ("connector.lake.source.data_source", "EventsDataSource"),
    "Failed": ("connector.errors", "Failed"),
    "MalformedData": ("connector.errors", "MalformedData"),
    "NotActive": ("connector.errors", "NotActive"),
    "Reply": ("connector.sinks.replying", "Reply"),
    "TemporaryFailure": ("connector.errors", "TemporaryFailure"),
    "UnknownBusinessObject": ("connector.errors", "UnknownBusinessObject"),
    "Unsubscribed": ("connector.errors", "Unsubscribed"),
    "__version__": ("connector.status", "VERSION"),
}
"""Module of each name, and the name there. They are loaded on first use.

So a command starts faster, and soon handles Ctrl-C without a traceback.
"""


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, there = _LAZY[name]
    value = globals()[name] = getattr(importlib.import_module(module), there)
    return value
