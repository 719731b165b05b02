"""The sinks of installed packages, the connector's own among them, by the keys of their entries."""

from __future__ import annotations

import inspect
from typing import Any, Final

from connector.declare.reading import fields_by_key
from connector.plugins import PlugIns
from connector.sinks.contract import ENTRY_POINTS
from connector.sinks.subscription_model import ExternalEntry, PreparedEntry, SinkEntry, TransactionalEntry


def _mistake(key: str, entry: Any) -> str:
    if not isinstance(entry, type) or not issubclass(
        entry, ExternalEntry | PreparedEntry | TransactionalEntry
    ):
        return (
            "is no entry of a subscription: a class that inherits from ExternalEntry, PreparedEntry or "
            "TransactionalEntry"
        )
    if inspect.isabstract(entry):
        return f"lacks {', '.join(sorted(entry.__abstractmethods__))}"
    own = fields_by_key(entry).get(key)
    if own is None or not own.is_required():
        return f"has no needed field {key!r}: one with the name of the entry point, without a default"
    return ""


SINKS: Final = PlugIns[type[SinkEntry]](ENTRY_POINTS, "sink", _mistake)
