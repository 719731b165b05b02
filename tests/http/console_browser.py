"""The console in a real browser. Run by ``script/test-browser``, which needs one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.console_pages import complaints, fits, look, shown, sign_in
from tests.http.shop import BOSS, CONSOLE, World, counts, send, service, with_archive
from tests.http.test_console import HOSTILE
from tests.http.webdriver import Browser
from tests.waiting import wait_for

PAGES = ("", "/queues", "/messages?queue=queue://error", "/errors", "/history", "/configuration", "/requests")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with service(tmp_path_factory.mktemp("console"), with_archive(), **CONSOLE) as made:
        send(made.deployment, HOSTILE, "bad2", "good1")
        wait_for(lambda: counts(made.adapter) == (2, 1))
        yield made


@pytest.fixture(scope="module")
def window(world: World, chromium: Browser) -> Browser:
    """A browser that has signed in."""
    sign_in(chromium, world.server, BOSS, "/console/errors", ".group")
    assert chromium.run("return location.pathname") == "/console/errors"
    return chromium


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_page_fits(world: World, window: Browser, width: int, scheme: str) -> None:
    window.emulate(width=width, scheme=scheme)
    for page in PAGES:
        look(window, world.server, page)
        assert fits(window), page
        back = window.run(
            "return getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)"
        )
        assert (sum(back[:3]) / 3 > 128) == (scheme == "light")
        loaded = window.run("return performance.getEntriesByType('resource').map(it => it.name)")
        assert [name for name in loaded if not name.startswith(f"{world.server.url}/")] == []
    assert complaints(window) == []


def test_numbers_change_without_a_new_page(world: World, window: Browser) -> None:
    deployment, _, server = world
    window.open(f"{server.url}/console")
    window.run("window.isSamePage = true; scrollTo(0, 50)")
    before = shown(window, "main dd")
    send(deployment, "good2")
    wait_for(lambda: shown(window, "main dd") != before, 20, "the number of published events changes")
    assert window.run("return window.isSamePage")
    assert "UTC" not in shown(window, "time")
    assert not shown(window, "time").endswith("Z")


def test_a_message_is_explained_and_corrected(world: World, window: Browser) -> None:
    deployment, adapter, server = world
    window.open(f"{server.url}/console/messages?queue=queue://error")
    window.click("tbody th a")
    wait_for(lambda: "It would be" in shown(window, "#explanation"), 30, lambda: shown(window, "main"))
    assert window.run("return document.querySelectorAll('main script').length") == 0
    before = counts(adapter)[1]
    window.run("document.querySelector('textarea').value = '{\"Id\": \"good3\"}'")
    window.run("document.querySelector('form[action=\"/console/correct\"]').requestSubmit()")
    wait_for(lambda: "Correct?" in shown(window, "h1"))
    window.click("main form button")
    wait_for(lambda: "the corrected message is in" in shown(window, "main"))
    wait_for(lambda: counts(adapter)[1] == before + 1, what="the corrected message is published")
    assert len(deployment.messages("error")) == 1
    assert complaints(window) == []


def test_a_page_in_a_frame_of_another_server_shows_nothing(
    world: World, window: Browser, tmp_path: Path
) -> None:
    page = tmp_path / "evil.html"
    page.write_text(f'<iframe src="{world.server.url}/console"></iframe>')
    window.open(page.as_uri())
    wait_for(lambda: any("frame-ancestors" in one or "X-Frame" in one for one in complaints(window)))
