"""Checks a built site: ``python check.py DIRECTORY``. Ends with status 1 if there is a mistake.

* Each link within the site leads to a file, and to an anchor that the file has.
* No page loads scripts, styles, fonts or pictures from another host.
* The search index has each page.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADS = {"script", "img", "source", "iframe", "embed", "object", "video", "audio", "track", "input"}
_POINTS = {"alternate", "canonical", "next", "prev"}
"""Relations of ``<link>`` that name a page. Any other relation loads a file."""
_IN_STYLE = re.compile(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)")


class Page(HTMLParser):
    """The addresses and anchors of a page.

    Args:
        text: HTML.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self._style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        self._style = tag == "style"
        self.loads += in_style(found.get("style", ""))
        if tag in ("a", "area") or (tag == "link" and found.get("rel") in _POINTS):
            self.links += [found["href"]] if "href" in found else []
        elif tag == "link":
            self.loads.append(found.get("href", ""))
        elif tag in _LOADS:
            self.loads += [found[name] for name in ("src", "data", "poster") if name in found]
            self.loads += [part.split()[0] for part in found.get("srcset", "").split(",") if part.strip()]

    def handle_data(self, data: str) -> None:
        if self._style:
            self.loads += in_style(data)


def in_style(text: str) -> list[str]:
    """The addresses that a style sheet loads."""
    return [first or second for first, second in _IN_STYLE.findall(text)]


def mistakes(site: Path) -> list[str]:
    """The mistakes of a site, a sentence each."""
    pages = {
        str(path.relative_to(site)): Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))
    }
    found = [] if pages else [f"{site} has no page"]
    for name, page in pages.items():
        for address in page.links + page.loads:
            if not urlsplit(address).scheme and not address.startswith("//"):
                found += _dead(address, name, site, pages)
        found += [f"{name} loads {address} from another host" for address in page.loads if _foreign(address)]
    for sheet in sorted(site.rglob("*.css")):
        found += [
            f"{sheet.relative_to(site)} loads {address} from another host"
            for address in in_style(sheet.read_text("utf-8"))
            if _foreign(address)
        ]
    return found + _not_found(site, set(pages) - {"404.html"})


def _dead(address: str, name: str, site: Path, pages: dict[str, Page]) -> list[str]:
    parts = urlsplit(address)
    path = unquote(parts.path)
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
    if path.startswith("/"):  # on 404.html alone, which a server shows for any address
        target = path.strip("/")
    if (site / target).is_dir():
        target = posixpath.normpath(posixpath.join(target, "index.html"))
    if not (site / target).is_file():
        return [f"{name} has a link to {address}, which is not there"]
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return [f"{name} has a link to {address}, and {target} has no such anchor"]
    return []


def _foreign(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme not in ("", "data")


def _not_found(site: Path, names: set[str]) -> list[str]:
    """The pages that a search cannot find."""
    index = site / "search/search_index.json"
    if not index.is_file():
        return ["there is no search index"]
    entries = json.loads(index.read_text("utf-8"))["docs"]
    known = {urlsplit(entry["location"]).path or "index.html" for entry in entries}
    return [f"{name} is not in the search index" for name in sorted(names - known)]


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    wrong = mistakes(directory)
    for sentence in wrong:
        print(f"docs: {sentence}", file=sys.stderr)
    if wrong:
        sys.exit(1)
    number = len(list(directory.rglob("*.html")))
    print(f"docs: {directory.resolve()}/index.html: {number} pages, no mistakes")
