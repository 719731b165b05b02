"""The registration of the documents ``map`` (see :mod:`connector.config.document_kinds`)."""

from __future__ import annotations

from typing import Final

from connector.config.document_kinds import DocumentKind
from connector.maps.map_lint import make_map
from connector.maps.section import MapDocument

KIND: Final = DocumentKind(MapDocument, make_map)
