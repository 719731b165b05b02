"""The verbs that the command ``connector`` finds by entry point."""

from __future__ import annotations

from typing import Final

from connector.cli.verbs import CommandVerb

IMPORT_REPOSITORY: Final = CommandVerb(
    "Turns repository files into metaobjects/*.yaml.", "connector.authoring.verbs.import_repository"
)
NEW: Final = CommandVerb(
    "Drafts a business object, a data handler, a map or a sink, or writes types.",
    "connector.authoring.verbs.new",
)
