"""The page of documentation, in a real browser. Run by ``script/test-browser``, which needs one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.http.server import Server
from tests.http.webdriver import CONTROL, ENTER, TAB, Browser, browser
from tests.http.world import TOKEN, Script, serving
from tests.waiting import wait_for

CREATE = "[id='Customer.Create']"


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as made:
        yield made


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def server(script: Script) -> Iterator[Server]:
    with serving(script, tokens=(TOKEN,)) as made:
        yield made


@pytest.fixture
def page(window: Browser, server: Server) -> Browser:
    window.log()
    window.open(f"{server.url}/")
    window.wait(CREATE)
    return window


def complaints(page: Browser) -> list[str]:
    return [entry["message"] for entry in page.log() if entry["level"] in ("SEVERE", "WARNING")]


def test_the_page_shows_every_request_there_is_and_nothing_of_it_comes_from_elsewhere(
    page: Browser, server: Server
) -> None:
    shown = page.run("return [...document.querySelectorAll('.path')].map(it => it.textContent)")
    assert shown == ["/requests/Customer/Create", "/requests/Customer/Retrieve", "/requests/Order/Create"]
    loaded = page.run("return performance.getEntriesByType('resource').map(it => it.name)")
    assert len(loaded) >= 3
    assert [name for name in loaded if not name.startswith(f"{server.url}/")] == []
    assert page.run("return document.querySelector('main').getAttribute('aria-busy')") == "false"
    assert complaints(page) == []


def test_a_request_is_tried_with_a_token(page: Browser, script: Script) -> None:
    page.click(f"{CREATE} > summary")
    page.write(f"{CREATE} textarea", '{"CustomerId": "<b>7</b>"}')
    page.write(f"{CREATE} input[type=number]", "250")
    page.click(f"{CREATE} button")
    assert page.text(f"{CREATE} .answer.bad p").startswith("401 Unauthorized in ")
    page.write("#token", TOKEN)
    page.click(f"{CREATE} button")
    assert page.text(f"{CREATE} .answer.good p").startswith("200 OK in ")
    assert json.loads(page.text(f"{CREATE} .answer.good pre")) == {
        "status": "VALCHANGE",
        "object": {"CustomerId": "<b>7</b>"},
        "message": None,
    }
    assert [(bo.as_dict(), timeout) for bo, timeout in script.calls] == [({"CustomerId": "<b>7</b>"}, 250)]


def test_a_repeated_call_is_shown_as_such(page: Browser, script: Script) -> None:
    page.write("#token", TOKEN)
    page.click(f"{CREATE} > summary")
    page.write(f"{CREATE} .fields label:last-child input", "only-once")
    page.click(f"{CREATE} button")
    page.wait(f"{CREATE} .answer.good")
    page.run(f"""document.querySelector("{CREATE} .answer").remove()""")
    page.click(f"{CREATE} button")
    assert page.text(f"{CREATE} .answer.good p").endswith(", the answer to an earlier call")
    assert len(script.calls) == 1


def test_the_attributes_and_the_answers_are_explained(page: Browser) -> None:
    page.click(f"{CREATE} > summary")
    page.wait(f"{CREATE} table")
    text = page.text(f"{CREATE} .inside")
    assert "CustomerId text, at most 20 characters Key." in text
    assert "Address list of Address" in text
    assert "Since date Date or date-time of ISO 8601." in text
    assert "CustomerMeta" in text
    assert "Priority integer, 0 to 9" in text
    assert "ResponseTimeout integer, at most 300000" in text
    page.click("[id='Order.Create'] > summary")
    page.wait("[id='Order.Create'] table")
    text = page.text("[id='Order.Create'] .inside")
    assert "OrderId text Required. Key." in text
    assert "Line list of Line Required." in text
    assert "ObjectEventId text\n" in text
    page.click(f"{CREATE} .answers > summary")
    assert "504 APPRESPONSETIMEOUT: no reply in time" in page.text(f"{CREATE} .answers")


def test_the_example_is_a_request_that_is_taken(page: Browser, script: Script) -> None:
    page.write("#token", TOKEN)
    page.click(f"{CREATE} > summary")
    page.click(f"{CREATE} button")
    page.wait(f"{CREATE} .answer.good")
    assert script.calls[0][0]["Address"][0]["City"] == "text"


def test_everything_is_done_by_keyboard(page: Browser, script: Script) -> None:
    page.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    reached = []
    for _ in range(30):
        page.press(TAB)
        reached.append(
            page.run("const it = document.activeElement; return it.id || it.textContent.trim().slice(0, 30)")
        )
        if page.run(f"""return document.activeElement === document.querySelector("{CREATE} > summary")"""):
            break
    assert reached[0] == "Skip to the requests"
    assert "token" in reached
    assert "find" in reached
    page.write("#token", TOKEN)
    page.run(f"""document.querySelector("{CREATE} > summary").focus()""")
    page.press(ENTER)
    page.wait(f"{CREATE} textarea")
    page.press(TAB)
    assert page.run("return document.activeElement.tagName") == "TEXTAREA"
    page.press(CONTROL, ENTER)
    page.wait(f"{CREATE} .answer.good")
    assert len(script.calls) == 1


@pytest.mark.parametrize("place", ["button", "input[type=number]", "textarea"])
def test_the_focus_stays_where_a_request_was_sent_from(page: Browser, script: Script, place: str) -> None:
    page.write("#token", TOKEN)
    page.click(f"{CREATE} > summary")
    page.wait(f"{CREATE} textarea")
    page.run(f"""document.querySelector("{CREATE} {place}").focus()""")
    page.press(*([CONTROL, ENTER] if place == "textarea" else [ENTER]))
    page.wait(f"{CREATE} .answer.good")
    assert page.run(f"""return document.activeElement === document.querySelector("{CREATE} {place}")""")
    assert len(script.calls) == 1


def test_a_request_is_sent_once_however_often_it_is_pressed(page: Browser, script: Script) -> None:
    script.holds = True
    page.write("#token", TOKEN)
    page.click(f"{CREATE} > summary")
    for _ in range(3):
        page.click(f"{CREATE} button")
    wait_for(lambda: script.held, what="the request is made")
    script.release()
    page.wait(f"{CREATE} .answer.good")
    assert len(script.calls) == 1


@pytest.mark.parametrize("width", [360, 400, 1280])
def test_the_descriptions_of_attributes_are_within_the_window(page: Browser, width: int) -> None:
    page._post("window/rect", width=width, height=900)
    page.click(f"{CREATE} > summary")
    page.wait(f"{CREATE} table")
    inside = """
        const cells = [...document.querySelectorAll("[id='Customer.Create'] .inside > .scroll td")];
        const seen = cells.filter((it) => it.textContent).map((it) => it.getBoundingClientRect());
        const box = document.querySelector("[id='Customer.Create'] .scroll");
        return [seen.length > 20, seen.every((it) => it.width > 0 && it.right <= innerWidth),
                box.scrollWidth <= box.clientWidth];
    """
    assert page.run(inside) == [True, True, True]


def test_what_is_looked_for_is_all_that_is_shown(page: Browser) -> None:
    page.write("#find", "order")
    shown = "return [...document.querySelectorAll('main [data-name]')].filter(it => !it.hidden).length"
    assert page.run(shown) == 1
    page.write("#find", "x")
    assert page.run(shown) == 0


def test_a_link_leads_to_a_request_and_opens_it(page: Browser) -> None:
    page.click("#contents a[href='#Customer.Retrieve']")
    page.wait("[id='Customer.Retrieve'][open] textarea")
    assert page.run("return document.activeElement.closest('details').id") == "Customer.Retrieve"


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_nothing_runs_out_of_the_window(page: Browser, width: int, tmp_path: Path) -> None:
    page._post("window/rect", width=width, height=900)
    page.click(f"{CREATE} > summary")
    page.screenshot(tmp_path / f"page-{width}.png")
    inner = "document.documentElement"
    assert page.run(f"return {inner}.scrollWidth <= {inner}.clientWidth")


def test_nothing_of_a_stranger_is_run_in_the_page(page: Browser) -> None:
    page.run(
        "const it = document.createElement('script'); it.textContent = 'window.stranger = true';"
        "document.head.append(it); const img = document.createElement('img');"
        "img.src = 'http://192.0.2.1/x.png'; document.body.append(img);"
    )
    assert page.run("return window.stranger === undefined")
    assert any("Content Security Policy" in text for text in complaints(page))
