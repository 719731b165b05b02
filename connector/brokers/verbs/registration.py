"""The verb that the command ``connector`` finds by entry point."""

from __future__ import annotations

from typing import Final

from connector.cli.verbs import CommandVerb

JARS: Final = CommandVerb(
    "Lists the jars of provider.packages, and fetches them.", "connector.brokers.verbs.jars", "Operate"
)
