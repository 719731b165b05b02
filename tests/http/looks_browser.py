"""Whether everybody can use the console: axe, the keyboard, and a page that is refreshed under the reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlencode

import pytest

from connector.config.http_model import OPERATE, READ, REQUEST, TokenEntry
from connector.http.server import Server
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.http.axe import findings
from tests.http.console_browser import complaints, shown
from tests.http.test_console import counts
from tests.http.test_operating import ADAPTER, send, service
from tests.http.webdriver import Browser, browser
from tests.waiting import wait_for

ALL: Final = "everything-0123456789"
_ROOM: Final = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
World = tuple[Deployment, InProcessAdapter, Server]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A service that can do everything, with two groups of failed messages, and something paused."""
    archive = "  ArchiveDestination: queue://archive\n  ErrorDestination"
    token = TokenEntry.model_construct(token=ALL, name="eva", roles=(READ, OPERATE, REQUEST))
    adapter = ADAPTER.replace("  ErrorDestination", archive)
    with service(tmp_path_factory.mktemp("looks"), adapter, tokens=(token,), console=True) as made:
        deployment, running, _ = made
        send(deployment, "bad1", "bad2", *(f"good{number}" for number in range(60)))
        deployment.send("queue://orders", "{no json")
        for number in range(60):
            deployment.send("queue://notes", f"note {number}")
        wait_for(lambda: counts(running) == (3, 60))
        yield made


@pytest.fixture(scope="module")
def signed_in(world: World) -> Iterator[Browser]:
    with browser() as made:
        made.open(f"{world[2].url}/console")
        made.write("#token", ALL)
        made.click("main button")
        made.wait("#live")
        yield made


@pytest.fixture
def window(signed_in: Browser) -> Browser:
    """The browser as new, but for its session."""
    signed_in.emulate(width=1280, scheme="light")
    signed_in.log()
    return signed_in


def failed(world: World) -> str:
    """The path of a message that a process has refused."""
    one = next(one for one in world[0].messages("error") if b"bad" in one.body)
    return f"/message?{urlencode({'queue': 'queue://error', 'id': one.message_id or ''})}"


def press_submit(selector: str, then: str) -> Callable[[Browser], None]:
    """Sends the form of a button, and waits for what the next page has."""

    def press(window: Browser) -> None:
        window.run(f"document.querySelector(`{selector}`).click()")
        window.wait(then)

    return press


def wait_until(selector: str, words: str) -> Callable[[Browser], None]:
    return lambda window: wait_for(lambda: words in shown(window, selector), what=words) and None


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_serious(world: World, window: Browser, width: int, scheme: str) -> None:
    life = f"/history?{failed(world).rpartition('&')[2]}"
    trial = urlencode({"destination": "queue://orders", "body": '{"Id": "7"}'})
    pages: dict[str, Callable[[Browser], None] | None] = {
        "": None,
        "/queues": None,
        "/messages?queue=queue://notes": None,
        "/messages?queue=queue://error&selector=JMSPriority+%3E+1": None,
        "/messages?queue=queue://error&selector=JMSPriority+%3E+8": None,
        failed(world): wait_until("#explanation", "It would be"),
        f"{failed(world)}&": press_submit("[action='/console/discard'] button", "a.button"),
        "/errors": None,
        "/errors?": press_submit("[action='/console/replay'] button", "a.button"),
        "/errors?destination=queue://none": None,
        "/history": None,
        "/history?since=1h": None,
        life: None,
        "/configuration": None,
        f"/explain?{trial}": None,
        "/requests": None,
        "/requests?object=Order&verb=Create": None,
        "/requests?object=Order&verb=Create&": press_submit(".request button", "#answer .well"),
        "/message?queue=queue://error&id=gone": None,
        "?said=pause:+done": None,
        "/sign-in": None,
        "/sign-in?": press_submit("main button", "main"),
    }
    window.emulate(width=width, scheme=scheme)
    found = []
    for page, act in pages.items():
        window.open(f"{world[2].url}/console{page}")
        window.wait("h1")
        if page == "/sign-in?":
            window.write("#token", "no token of this server")
        if act is not None:
            act(window)
        window.run("for (const one of document.querySelectorAll('details')) one.open = true")
        assert window.run(_ROOM) == 0, page
        found += [f"{page}: {one}" for one in findings(window)]
    assert found == []
    assert [one for one in complaints(window) if " 401 " not in one and " 422 " not in one] == []


def test_axe_would_find_something(world: World, window: Browser) -> None:
    window.open(f"{world[2].url}/console/history")
    window.run(
        "document.querySelector('label').remove(); document.querySelector('h1').style.color = '#bbbbbb'"
    )
    assert [one.partition(":")[0] for one in findings(window)] == ["color-contrast", "label"]
