"""The console in a real browser. Run by ``script/test-browser``, which needs one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.console_pages import complaints, shown, sign_in
from tests.http.shop import BOSS, CONSOLE, World, counts, send, service, with_archive
from tests.http.test_console import HOSTILE
from tests.http.webdriver import Browser
from tests.waiting import wait_for


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


def test_numbers_change_without_a_new_page(world: World, window: Browser) -> None:
    deployment, _, server = world
    window.open(f"{server.url}/console")
    window.run("window.isSamePage = true; scrollTo(0, 50)")
    before = shown(window, "main dd")
    send(deployment, "good2")
    wait_for(lambda: shown(window, "main dd") != before, what="the number of published events changes")
    assert window.run("return window.isSamePage")
    assert "UTC" not in shown(window, "time")
    assert not shown(window, "time").endswith("Z")


def test_a_page_in_a_frame_of_another_server_shows_nothing(
    world: World, window: Browser, tmp_path: Path
) -> None:
    page = tmp_path / "evil.html"
    page.write_text(f'<iframe src="{world.server.url}/console"></iframe>')
    window.open(page.as_uri())
    wait_for(lambda: any("frame-ancestors" in one or "X-Frame" in one for one in complaints(window)))
