"""Whether everybody can use the console: axe, the keyboard, and a page that is refreshed under the reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlencode

import pytest

from connector.config.http_model import OPERATE, READ, REQUEST
from tests.http.console_pages import brightness, complaints, findings, fits, look, shown, sign_in
from tests.http.shop import World, counts, named, send, service, with_archive
from tests.http.webdriver import ENTER, TAB, Browser
from tests.waiting import wait_for

ALL: Final = "everything-0123456789"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A service that can do everything, with two groups of failed messages, and something paused."""
    tokens = (named(ALL, "eva", READ, OPERATE, REQUEST),)
    with service(tmp_path_factory.mktemp("looks"), with_archive(), tokens=tokens, console=True) as made:
        deployment, running, _ = made
        send(deployment, "bad1", "bad2", *(f"good{number}" for number in range(60)))
        deployment.send("queue://orders", "{no json")
        for number in range(60):
            deployment.send("queue://notes", f"note {number}")
        wait_for(lambda: counts(running) == (3, 60))
        yield made


@pytest.fixture(scope="module")
def signed_in(world: World, chromium: Browser) -> Browser:
    sign_in(chromium, world.server, ALL)
    return chromium


@pytest.fixture
def window(signed_in: Browser) -> Browser:
    """The browser as new, but for its session."""
    signed_in.emulate(width=1280, scheme="light")
    signed_in.log()
    return signed_in


def failed(world: World) -> str:
    """The path of a message that a process has refused."""
    one = next(one for one in world.deployment.messages("error") if b"bad" in one.body)
    return f"/message?{urlencode({'queue': 'queue://error', 'id': one.message_id or ''})}"


def press_submit(selector: str, then: str) -> Callable[[Browser], None]:
    """Sends the form of a button, and waits for what the next page has."""

    def press(window: Browser) -> None:
        window.run(f"document.querySelector(`{selector}`).click()")
        window.wait(then)

    return press


def wait_until(selector: str, words: str) -> Callable[[Browser], None]:
    def wait(window: Browser) -> None:
        told = lambda: f"{words}: {shown(window, selector)}"  # noqa: E731
        wait_for(lambda: words in shown(window, selector), what=told)

    return wait


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_serious(world: World, window: Browser, width: int, scheme: str) -> None:
    life = f"/history?{failed(world).rpartition('&')[2]}"
    trial = urlencode({"destination": "queue://orders", "body": '{"Id": "7"}'})
    acted: dict[str, Callable[[Browser], None]] = {
        "?": press_submit(".card .steer button", "a.button"),
        failed(world): wait_until("#explanation", "It would be"),
        f"{failed(world)}&": press_submit("[action='/console/discard'] button", "a.button"),
        "/errors?": press_submit("[action='/console/replay'] button", "a.button"),
        "/requests?object=Order&verb=Create&": press_submit(".request button", "#answer .well"),
        "/sign-in?": press_submit("main button", "main"),
    }
    priority = "/messages?queue=queue://error&selector=JMSPriority+%3E+"
    pages = (
        *("", "/queues", "/messages?queue=queue://notes", f"{priority}1", f"{priority}8", "/errors"),
        *("/errors?destination=queue://none", "/history", "/history?since=1h", life, "/configuration"),
        *(f"/explain?{trial}", "/requests", "/requests?object=Order&verb=Create"),
        *("/message?queue=queue://error&id=gone", "?said=pause:+done", "/sign-in", *acted),
    )
    window.emulate(width=width, scheme=scheme)
    found = []
    for page in pages:
        look(window, world.server, page)
        if page == "/sign-in?":
            window.write("#token", "no token of this server")
        if page in acted:
            acted[page](window)
        window.run("for (const one of document.querySelectorAll('details')) one.open = true")
        assert fits(window), page
        assert (brightness(window) > 128) == (scheme == "light")
        loaded = window.run("return performance.getEntriesByType('resource').map(it => it.name)")
        assert [name for name in loaded if not name.startswith(f"{world.server.url}/")] == []
        found += [f"{page}: {one}" for one in findings(window)]
    assert found == []
    assert [one for one in complaints(window) if " 401 " not in one and " 422 " not in one] == []


def test_axe_would_find_something(world: World, window: Browser) -> None:
    window.open(f"{world.server.url}/console/history")
    window.run(
        "document.querySelector('label').remove(); document.querySelector('h1').style.color = '#bbbbbb'"
    )
    assert [one.partition(":")[0] for one in findings(window)] == ["color-contrast", "label"]


# -- the keyboard, and a page that is refreshed under the reader ---------------------------------------

_FOCUS: Final = "const it = document.activeElement; return it.textContent.trim().replace(/\\s+/g, ' ')"


def refreshed(window: Browser) -> None:
    """Waits until the part that changes has been exchanged once more."""
    window.run("document.querySelector('#live').isOld = true")
    wait_for(lambda: window.run("return !document.querySelector('#live').isOld"), what="a refresh")


def tab_to(window: Browser, words: str) -> list[str]:
    """Presses Tab until an element with these words has the focus. Returns what had the focus before."""
    reached: list[str] = []
    while not reached or reached[-1] != words:
        assert len(reached) < 40, reached
        window.press(TAB)
        reached.append(str(window.run(_FOCUS)))
        assert window.run(
            "const it = getComputedStyle(document.activeElement);"
            "return it.outlineStyle !== 'none' && parseFloat(it.outlineWidth) >= 2"
        ), f"the focus at {reached[-1]} is not seen"
    return reached


def agree_by_key(window: Browser, question: str) -> None:
    """Presses Enter on a button, and again on that of the question, which has the focus."""
    for selector, words in (("h1", f"{question}?"), (".said", question.lower().replace(" ", ": "))):
        window.press(ENTER)
        wait_for(lambda selector=selector, words=words: words in shown(window, selector))  # type: ignore[misc]


def test_an_input_is_paused_by_keyboard(world: World, window: Browser) -> None:
    window.open(f"{world.server.url}/console")
    window.wait("#live")
    window.run("document.activeElement.blur(); scrollTo(0, 0)")
    before = tab_to(window, "Pause queue://orders")
    assert before[:3] == ["Skip to the content", "shop", "Overview"]
    assert {"Queues", "Errors", "History", "Configuration", "Requests", "Sign out"} < set(before)
    agree_by_key(window, "Pause queue://orders")
    assert shown(window, ".card .mark") == "paused"
    window.open(f"{world.server.url}/console")
    window.press(TAB)
    window.press(ENTER)
    tab_to(window, "queue://orders")
    tab_to(window, "Resume queue://orders")
    agree_by_key(window, "Resume queue://orders")


@pytest.mark.parametrize("part", ["[id^=steer-queue]", "[id^=input-]", "#steer-store", "#reload"])
def test_a_refresh_takes_nothing_from_the_reader(world: World, window: Browser, part: str) -> None:
    window.emulate(width=390, scheme="light")
    window.open(f"{world.server.url}/console")
    window.wait("#live")
    window.run(f"""
        document.querySelector("{part}").focus();
        document.querySelector("#subscriptions").scrollLeft = 60;
        window.seen = [];
        window.place = scrollY;
        window.high = () => document.documentElement.scrollHeight;
        window.tall = high();
        const look = () => {{
          seen.push(...[...document.querySelectorAll("time")].map((it) => it.textContent));
          requestAnimationFrame(look);
        }};
        look();
    """)
    refreshed(window)
    assert window.run(f"return document.activeElement === document.querySelector('{part}')")
    assert window.run("return document.querySelector('#subscriptions').scrollLeft") == 60
    assert window.run("return [scrollY, high()]") == window.run("return [place, tall]")
    assert window.run("return seen.length > 0 && !seen.some((it) => it.endsWith('Z'))"), "UTC was never seen"
    assert complaints(window) == []


def test_the_queues_stay_as_the_reader_has_them(world: World, window: Browser) -> None:
    window.emulate(width=390, scheme="light")
    window.open(f"{world.server.url}/console/queues")
    window.wait("#live")
    window.run("document.querySelector('#live a').focus({preventScroll: true}); live.scrollLeft = 60")
    refreshed(window)
    assert window.run("return [document.activeElement.tagName, live.scrollLeft]") == ["A", 60]


def test_what_was_opened_stays_open(world: World, window: Browser) -> None:
    for page in ("/errors", "/messages?queue=queue://notes", "/configuration"):
        look(window, world.server, page)
        assert window.find("#live details, [hx-trigger*=every] details") == [], "a refresh would close it"


def test_a_screen_reader_is_told_of_a_change_only(world: World, window: Browser) -> None:
    window.open(f"{world.server.url}/console")
    window.wait("#live")
    assert window.find("#live [role=status], #live [aria-live]") == []
    refreshed(window)
    state = shown(window, "#state")
    assert state == shown(window, "#live h1")
    window.run(
        "window.told = 0; new MutationObserver(() => { told += 1 }).observe(state, {childList: true, "
        "characterData: true, subtree: true})"
    )
    refreshed(window)
    assert window.run("return told") == 0


def test_a_page_says_that_its_numbers_are_old(world: World, window: Browser) -> None:
    window.open(f"{world.server.url}/console")
    window.wait("#live")
    network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    window.cdp("Network.enable")
    window.cdp("Network.emulateNetworkConditions", offline=True, **network)
    wait_for(lambda: "There is no answer since" in shown(window, "#state"))
    assert window.find("#live h1") != []
    window.cdp("Network.emulateNetworkConditions", offline=False, **network)
    wait_for(lambda: "no answer" not in shown(window, "#state"))


def test_a_page_whose_session_is_over_asks_for_the_token(world: World, window: Browser) -> None:
    window.open(f"{world.server.url}/console")
    window.wait("#live")
    window.run(
        "fetch('/console/sign-out', {method: 'POST', redirect: 'manual', body: new URLSearchParams("
        "{form_key: document.querySelector('[name=form_key]').value})})"
    )
    window.write("#token", ALL)
    window.click("main button")
    window.wait("#live")
