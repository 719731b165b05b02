"""The site of the documentation, in a real browser. Run by ``script/test-browser``, which needs one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.docs.site import SITE, build
from tests.http.console_pages import brightness
from tests.http.webdriver import Browser, shared_browser
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(900)  # the first build makes an environment


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Writes nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The site, served on the loopback interface."""
    done = build()
    assert done.returncode == 0, done.stderr
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def window() -> Browser:
    return shared_browser()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_reader_searches_and_opens_a_result(scheme: str, window: Browser, address: str) -> None:
    window.open(f"{address}/index.html")
    palette = {"light": "default", "dark": "slate"}[scheme]
    window.run(f"document.querySelector('[name=__palette][data-md-color-scheme={palette}]').click()")
    assert (brightness(window) > 128) == (scheme == "light")

    window.run("document.querySelector('.md-search__input').focus()")
    window.write(".md-search__input", "connector_outcome")
    window.click(".md-search-result__item a[href*='write-business-data-once.html']")
    wait_for(lambda: "/how-to/write-business-data-once.html" in window.run("return location.href"))
    assert window.text("h1").startswith("How to write business data exactly once")
    assert "connector_outcome" in window.text("article")
    assert (brightness(window) > 128) == (scheme == "light")

    loaded = window.run("return performance.getEntriesByType('resource').map(it => it.name)")
    assert loaded
    assert [name for name in loaded if not name.startswith(f"{address}/")] == []
    assert [entry["message"] for entry in window.log() if entry["level"] == "SEVERE"] == []
