"""Further kinds of documents in ``metaobjects``, found by entry point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from connector.businessobjects.definition import Definitions
from connector.businessobjects.object_map import ObjectMap
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.section import Section
from connector.plugins import PlugIns


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A kind of document that makes a map.

    Args:
        section: the keys of such a document.
        make: checks a document that was read, and makes the map. Gets the document, the section, the
            definitions, and whether defaults are used. Returns None when the document has a mistake.
    """

    section: type[Section]
    make: Callable[[ProblemReporter, Any, Definitions, bool], ObjectMap | None]


def _mistake(name: str, kind: Any) -> str:
    return "" if isinstance(kind, DocumentKind) else "is no DocumentKind"


DOCUMENTS: Final = PlugIns[DocumentKind]("connector.documents", "document", _mistake)
"""The kinds of installed packages. The name of a kind is the key that names its documents."""
