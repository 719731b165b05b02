"""What the site needs beyond ``docs/``: other pages of the repository, pages of the API, and their links.

MkDocs calls the functions whose names begin with ``on_``.
"""

from __future__ import annotations

import logging
import posixpath
import re
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

REPOSITORY = Path(__file__).resolve().parents[1]
ROOT_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
NAMES = "reference/python.md"
"""The page that lists the public names. The pages of the API document these names."""

_FENCE = re.compile(r"^( *```)(\w*)([^\n`]*)\n(.*?\n)?( *```)$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<before>!?\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\()(?P<target>[^)\s]+)\)")
_RAW = re.compile(r"(?P<before>\b(?:src|srcset|href)=\")(?P<target>[^\"]+)\"")
_MISREAD = re.compile(
    r"^(?P<indented> {1,3}(?:[*+-]|\d+\.) .*)|(?<=\n\n)(?P<inner> {1,3}\S.*)"
    r"|^(?![*+-] |\d+\. | |#|$).+\n(?P<glued>(?:[*+-]|1\.) .*)",
    re.MULTILINE,
)
"""What GitHub reads as a list, or as a part of an item, and Python-Markdown does not."""

log = logging.getLogger("mkdocs.hooks")


def on_config(config: MkDocsConfig) -> None:
    """Makes the anchors of headings as GitHub makes them, so that a link is right in both places."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(REPOSITORY / source)))
    for page, text in api_pages().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = next((name for name, made in ROOT_PAGES.items() if made == page.file.src_uri), None)
    place = source or f"docs/{page.file.src_uri}"
    if page.file.src_uri == NAMES:
        markdown = _link_names(markdown)
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        if 0 < len(fence[1]) - len("```") < 4:
            log.warning("%s: the site needs four spaces before a block inside an item: %s", place, fence[1])
        parts += [_links(markdown[end : fence.start()], place, page.file.src_uri), _block(fence)]
        end = fence.end()
    return "".join([*parts, _links(markdown[end:], place, page.file.src_uri)])


# ---- the pages of the API


def api_pages() -> dict[str, str]:
    """The pages of the API: one for each part of the page of names."""
    pages = {}
    for heading, names in _names((REPOSITORY / "docs" / NAMES).read_text("utf-8")):
        title = heading if heading.startswith("`") else heading[0].lower() + heading[1:]
        page = heading.strip("`").removeprefix("connector.").removeprefix("For ")
        directives = "\n\n".join(f"::: {name}" for name in names)
        pages[f"reference/api/{page}.md"] = (
            f"# API {title}\n\n[Python names](../python.md) gives an overview.\n\n{directives}\n"
        )
    return pages


def _names(text: str) -> list[tuple[str, list[str]]]:
    """The headings of the page of names, each with the full names below the heading."""
    found = []
    for section in text.split("\n## ")[1:]:
        heading, _, rest = section.partition("\n")
        names = re.findall(r"`(connector\.[A-Za-z_.]+)`", rest)
        if heading.startswith("`"):
            columns = re.findall(r"^\| (`[^|]*`) \|", rest, re.MULTILINE)
            names = [
                f"{heading.strip('`')}.{name}"
                for column in columns
                for name in re.findall(r"`(\w+)`", column)
            ]
        found.append((heading, [name for name in dict.fromkeys(names) if name not in _entry_points()]))
    return found


def _entry_points() -> set[str]:
    """The groups of entry points, whose names look like names of Python."""
    return set(tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"])


def _link_names(markdown: str) -> str:
    """Links the names on the page of names to their API. A name without one fails the build."""
    for heading, names in _names(markdown):
        before, _, section = markdown.partition(f"\n## {heading}\n")
        section, separator, after = section.partition("\n## ")
        for name in names:
            shown = name.removeprefix(f"{heading.strip('`')}.")
            section = section.replace(f"`{shown}`", f"[`{shown}`][{name}]", 1)
        markdown = f"{before}\n## {heading}\n{section}{separator}{after}"
    return markdown


# ---- blocks and links


def _block(fence: re.Match[str]) -> str:
    """A fenced block without the words that only the tests read. A file has its name as title."""
    start, language, words, text, end = fence.groups()
    file = re.search(r"\bfile=(\S+)", words)
    part = ", a part" if " part" in words else ""
    name = file.group(1).removeprefix("connector/template/") if file else ""  # what connector init writes
    title = f' title="{name}{part}"' if file else ""
    return f"{start}{language or 'text'}{title}\n{text or ''}{end}"


def _links(text: str, place: str, page: str) -> str:
    """The links of a text.

    Args:
        text: Markdown without fenced blocks.
        place: the file of the text in the repository.
        page: the page of the site.
    """
    for list_ in _MISREAD.finditer(text):
        found = list_["glued"]
        rule = "an empty line before a list" if found else "four spaces before what is inside an item"
        log.warning("%s: the site needs %s: %s", place, rule, found or list_.group())
    for pattern in (_LINK, _RAW):
        text = pattern.sub(lambda link: _link(link, place, page), text)
    return text


def _link(link: re.Match[str], place: str, page: str) -> str:
    """A link, with the target that it has on the site.

    Files of the repository that are no page are shown by their names, because the project has no address yet.
    """
    file, hash_, anchor = link["target"].partition("#")
    if not file or ":" in file:
        return link.group()
    target = posixpath.normpath(posixpath.join(posixpath.dirname(place), file))
    if target.startswith("docs/") and (REPOSITORY / target).is_dir() and "text" in link.groupdict():
        return link["text"]  # a part of the site, which the navigation shows
    if target in ROOT_PAGES or target.startswith("docs/"):
        found = ROOT_PAGES.get(target, target.removeprefix("docs/"))
        if link.re is _RAW:  # MkDocs leaves HTML as it is
            found = re.sub(r"\.md$", ".html", found)
        relative = posixpath.relpath(found, posixpath.dirname(page) or ".")
        before = _LINK.sub(lambda inner: _link(inner, place, page), link["before"])  # a picture
        return f"{before}{relative}{hash_}{anchor}{link.group()[-1]}"
    shown = link.groupdict().get("text")
    if shown is None or link["before"].startswith("!") or not (REPOSITORY / target).exists():
        log.warning("%s: the link %s leads to no page and no file that can be named", place, link["target"])
        return link.group()
    return f"`{target}`" if shown.strip("`/") in (target, file.strip("/")) else f"{shown} (`{target}`)"
