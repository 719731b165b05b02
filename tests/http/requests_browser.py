"""The form of a request in a real browser. Run by ``script/test-browser``, which needs one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from connector.http.server import Server
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from tests.http.console_pages import complaints, shown, sign_in
from tests.http.test_console_requests import CREATE, HOSTILE, console
from tests.http.webdriver import CONTROL, ENTER, TAB, Browser
from tests.http.world import TOKEN, Script
from tests.waiting import wait_for

BUTTON: Final = ".request button"
World = tuple[Script, Server]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    script = Script()
    with console(tmp_path_factory.mktemp("requests"), script) as server:
        yield script, server


@pytest.fixture(scope="module")
def window(world: World, chromium: Browser) -> Browser:
    """A browser that has signed in."""
    sign_in(chromium, world[1], TOKEN, CREATE, "#body")
    return chromium


@pytest.fixture
def script(world: World) -> Script:
    """What answers the requests; as new."""
    return world[0].again()


@pytest.fixture
def page(window: Browser, world: World) -> Browser:
    """The form of ``Customer.Create``."""
    window.log()
    window.open(f"{world[1].url}{CREATE}")
    window.wait("#body")
    window.run("window.isSamePage = true")
    return window


def answered(page: Browser, words: str) -> None:
    wait_for(lambda: words in shown(page, "#answer"), what=words)


def test_a_request_is_made_and_the_form_stays(page: Browser, script: Script) -> None:
    page.write("#body", '{"CustomerId": "<b>7</b>"}')
    page.write("#timeout", "250")
    page.click(BUTTON)
    answered(page, "200 OK: VALCHANGE")
    assert '"CustomerId": "<b>7</b>"' in page.text("#answer pre")
    assert page.run("return window.isSamePage"), "only the answer is exchanged"
    assert page.run("return document.querySelector('#body').value") == '{"CustomerId": "<b>7</b>"}'
    assert [(bo.as_dict(), timeout) for bo, timeout in script.calls] == [({"CustomerId": "<b>7</b>"}, 250)]
    page.write("#body", '{"CustomerId": "8"}')
    page.write("#key", "only-once")
    for words in ('"CustomerId": "8"', "the answer to an earlier call"):
        page.click(BUTTON)
        answered(page, words)
    assert len(script.calls) == 2
    assert complaints(page) == []


def test_a_mistake_is_shown_and_the_form_stays(page: Browser, script: Script) -> None:
    page.write("#body", '{"Nmae": "x"}')
    page.click(BUTTON)
    answered(page, "422 Unprocessable Content")
    assert "did you mean 'Name'" in page.text("#answer .bad")
    assert page.run("return window.isSamePage")
    assert page.run("return document.querySelector('#body').value") == '{"Nmae": "x"}'
    assert script.calls == []


@pytest.mark.parametrize("place", [BUTTON, "#timeout", "#body"])
def test_the_focus_stays_where_a_request_was_sent_from(page: Browser, script: Script, place: str) -> None:
    page.run(f"document.querySelector('{place}').focus()")
    page.press(*([CONTROL, ENTER] if place == "#body" else [ENTER]))
    answered(page, "200 OK")
    assert page.run(f"return document.activeElement === document.querySelector('{place}')")
    assert len(script.calls) == 1


def test_a_request_is_sent_once_however_often_it_is_pressed(page: Browser, script: Script) -> None:
    script.holds = True
    for _ in range(3):
        page.click(BUTTON)
    page.run("document.querySelector('#body').focus()")
    page.press(CONTROL, ENTER)
    wait_for(lambda: script.held, what="the request is made")
    assert page.text(".waits") == "waits for the answer …"
    script.release()
    answered(page, "200 OK")
    assert page.run("return getComputedStyle(document.querySelector('.waits')).display") == "none"
    assert len(script.calls) == 1


def test_everything_is_done_by_keyboard(page: Browser, world: World, script: Script) -> None:
    page.open(f"{world[1].url}/console/requests")
    page.run("document.activeElement.blur()")
    for _ in range(30):
        page.press(TAB)
        if page.run("return document.activeElement.textContent") == "Customer.Create":
            break
    page.press(ENTER)
    page.wait("#body")
    page.run("document.querySelector('main a').focus()")
    reached: list[str] = []
    while not reached or reached[-1] != "BUTTON":
        page.press(TAB)
        reached.append(str(page.run("const it = document.activeElement; return it.id || it.tagName")))
    assert reached == ["A", "A", "body", "timeout", "key", "BUTTON"]
    page.press(ENTER)
    answered(page, "200 OK")
    assert len(script.calls) == 1


def test_nothing_hostile_is_run(page: Browser, script: Script) -> None:
    hostile = HOSTILE.replace("alert(1)", "window.stranger = true") + "<img src=x onerror='stranger=1'>"
    script.answer = lambda bo: RequestResult(ReturnCode.FAIL, bo, hostile)
    page.click(BUTTON)
    answered(page, "502 Bad Gateway: FAIL")
    assert hostile.partition("\u202e")[0] in shown(page, "#answer pre")
    assert page.find("#answer img, #answer script") == []
    assert page.run("return window.stranger === undefined")


def test_a_session_that_is_over_is_said_and_the_body_stays(
    page: Browser, world: World, script: Script
) -> None:
    page.run(
        "fetch('/console/sign-out', {method: 'POST', body: new URLSearchParams({form_key: "
        "document.querySelector('[name=form_key]').value})}).then(() => window.isOut = true)"
    )
    wait_for(lambda: page.run("return window.isOut"), what="the session is over")
    page.click(BUTTON)
    answered(page, "you are signed out")
    assert page.run("return document.querySelector('#body').value").startswith("{")
    assert script.calls == []
    sign_in(page, world[1], TOKEN, CREATE, "#body")


def test_without_javascript_the_page_has_the_answer(page: Browser, script: Script) -> None:
    for disabled in (True, False):
        page.cdp("Emulation.setScriptExecutionDisabled", value=disabled)
        if disabled:
            page.open(page.run("return location.href"))
            page.click(BUTTON)
            assert page.text("#answer h2") == "200 OK: VALCHANGE"
    assert page.run("return location.pathname + location.hash") == "/console/request#answer"
    assert len(script.calls) == 1
