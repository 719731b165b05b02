"""The pages of the server: files of this package only."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Final


@dataclass(frozen=True, slots=True)
class Page:
    """A file that is served.

    Args:
        path: of the URL.
        media_type: of the content.
        content: the bytes of the file.
    """

    path: str
    media_type: str
    content: bytes


def _page(path: str, name: str, media_type: str) -> Page:
    return Page(path, media_type, (files("connector.http") / "static" / name).read_bytes())


PAGES: Final = (
    _page("/docs", "docs.html", "text/html"),
    _page("/docs/docs.css", "docs.css", "text/css"),
    _page("/docs/docs.js", "docs.js", "text/javascript"),
    _page("/favicon.svg", "favicon.svg", "image/svg+xml"),
)
