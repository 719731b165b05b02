"""The site of the documentation is whole, and describes what there is. Run by ``script/test-browser``."""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import html

import connector
import connector.messaging
from tests.docs.site import REPOSITORY, SITE, build
from tests.tables import rows

pytestmark = pytest.mark.timeout(900)  # the first build makes an environment

MISTAKES: Callable[[Path], list[str]] = runpy.run_path(str(REPOSITORY / "website/check.py"))["mistakes"]
INDEX = '{"docs": [{"location": "index.html", "title": "", "text": ""}]}'
PUBLIC = [
    f"{module.__name__}.{name}" for module in (connector, connector.messaging) for name in module.__all__
]
DESCRIBED = [
    "connector.Adapter",
    "connector.messaging.Session.queue",
    "connector.sinks.contract.ExternalSink",
    "connector.testing.deployment.Deployment.send",
]


@pytest.fixture(scope="module")
def site() -> Path:
    done = build()
    assert done.returncode == 0, done.stderr
    return SITE


@pytest.fixture(scope="module")
def api(site: Path) -> dict[str, html.HtmlElement]:
    """The elements of the API reference, by the full names that they document."""
    return {
        element.get("id"): element
        for page in sorted((site / "reference/api").glob("*.html"))
        for element in html.parse(page).iterfind(".//*[@id]")
    }


def test_the_site_is_built_and_the_check_finds_no_mistake(site: Path) -> None:
    pages = len(list(site.rglob("*.html")))
    assert build().stdout == f"docs: {site}/index.html: {pages} pages, no mistakes\n"


@rows(
    "page, mistake",
    [
        ('<a href="gone.html">', "has a link to gone.html, which is not there"),
        ('<a href="#gone">', "has a link to #gone, and index.html has no such anchor"),
        ('<img src="gone.svg">', "has a link to gone.svg, which is not there"),
        ('<script src="https://x.org/a.js">', "loads https://x.org/a.js from another host"),
        ('<link rel="preconnect" href="https://x.org">', "loads https://x.org from another host"),
        ("<style>@import '//x.org/a.css';</style>", "loads //x.org/a.css from another host"),
    ],
)
def test_the_check_names_a_mistake_of_a_page(page: str, mistake: str, tmp_path: Path) -> None:
    assert check(tmp_path, page) == [f"index.html {mistake}"]


def test_the_check_names_a_mistake_of_a_style_or_of_the_search_index(tmp_path: Path) -> None:
    style = "@font-face { src: url(https://x.org/a.woff2) }"
    assert check(tmp_path, style=style) == ["site.css loads https://x.org/a.woff2 from another host"]
    assert check(tmp_path, index='{"docs": []}') == ["index.html is not in the search index"]
    (tmp_path / "search/search_index.json").unlink()
    assert MISTAKES(tmp_path) == ["there is no search index"]


def check(directory: Path, page: str = "", style: str = "", index: str = INDEX) -> list[str]:
    """The mistakes of a small site that has none beside those of the arguments."""
    (directory / "index.html").write_text(f'<p id="here"><a href="#here"><a href="https://x.org">{page}')
    (directory / "site.css").write_text(f"p {{ color: red }} {style}")
    (directory / "search").mkdir(exist_ok=True)
    (directory / "search/search_index.json").write_text(index)
    return MISTAKES(directory)


@pytest.mark.process
def test_a_mistake_is_told_and_ends_the_check_with_status_1(tmp_path: Path) -> None:
    (tmp_path / "index.html").touch()
    command = [sys.executable, str(REPOSITORY / "website/check.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "docs: there is no search index\n")


def test_each_page_of_the_docs_has_a_line_in_the_navigation() -> None:
    lines = (REPOSITORY / "website/mkdocs.yml").read_text("utf-8").splitlines()
    entered = {
        line.strip().removeprefix("- ")
        for line in lines
        if re.fullmatch(r" *- (?:[a-z-]+/)?[\w.-]+\.md", line)
    }
    docs = REPOSITORY / "docs"
    assert entered == {str(page.relative_to(docs)) for page in docs.rglob("*.md")}


def test_the_search_index_leads_from_a_term_to_its_page(site: Path) -> None:
    entries = json.loads((site / "search/search_index.json").read_text("utf-8"))["docs"]
    for term, page in (
        ("DuplicateEventElimination", "reference/configuration.html"),
        ("connector_outcome", "how-to/write-business-data-once.html"),
        ("ExternalSinkSuite", "reference/api/tests.html"),
        ("script/bootstrap", "contributing.html"),
    ):
        found = [entry for entry in entries if term in entry["title"] + entry["text"]]
        assert page in {entry["location"].partition("#")[0] for entry in found}, term


def test_the_api_reference_has_each_public_name(api: dict[str, html.HtmlElement]) -> None:
    assert [name for name in PUBLIC if name not in api] == []


@rows("name", DESCRIBED)
def test_the_api_reference_shows_the_docstring_of_a_name(name: str, api: dict[str, html.HtmlElement]) -> None:
    documented = inspect.getdoc(pkgutil.resolve_name(name))
    assert documented is not None
    first = re.sub(r":\w+:`[~.]?([\w.]+)`", r"\1", documented.partition("\n\n")[0]).replace("`", "")
    shown = api[name].getparent().text_content()
    assert " ".join(first.split()) in " ".join(shown.split())


def test_a_name_on_the_page_of_names_is_linked_to_its_api(site: Path) -> None:
    links = html.parse(site / "reference/python.html").xpath("//article//a[code]/@href")
    names = {"api/connector.html#connector.Adapter", "api/messaging.html#connector.messaging.connect"}
    assert names <= set(links)
