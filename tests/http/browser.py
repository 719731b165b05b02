"""The page of documentation, in a real browser. Run by ``script/test-browser``, which needs one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.http.server import Server
from tests.http.console_pages import complaints, fits
from tests.http.test_events import shop
from tests.http.webdriver import ENTER, TAB, Browser
from tests.http.world import TOKEN, serving

CREATE = "[id='Customer.Create']"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(tokens=(TOKEN,)) as made:
        yield made


@pytest.fixture
def page(chromium: Browser, server: Server) -> Browser:
    chromium.log()
    chromium.open(f"{server.url}/")
    chromium.wait(CREATE)
    return chromium


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


def test_the_attributes_and_the_answers_are_explained(page: Browser) -> None:
    page.click(f"{CREATE} > summary")
    page.wait(f"{CREATE} table")
    text = page.text(f"{CREATE} .inside")
    for words in (
        *("CustomerId text, at most 20 characters Key.", "Since date Date or date-time of ISO 8601."),
        *("Address list of Address", "CustomerMeta", "Priority integer, 0 to 9"),
        "ResponseTimeout integer, at most 300000",
    ):
        assert words in text
    page.click("[id='Order.Create'] > summary")
    page.wait("[id='Order.Create'] table")
    text = page.text("[id='Order.Create'] .inside")
    assert "OrderId text Required. Key." in text
    assert "Line list of Line Required." in text
    assert "ObjectEventId text\n" in text
    page.click(f"{CREATE} .answers > summary")
    assert "504 APPRESPONSETIMEOUT: no reply in time" in page.text(f"{CREATE} .answers")


@pytest.mark.parametrize("width", [360, 400, 1280])
def test_the_descriptions_of_attributes_are_within_the_window(page: Browser, width: int) -> None:
    page.resize(width)
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


def test_everything_is_done_by_keyboard(page: Browser) -> None:
    page.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    reached: list[str] = []
    for _ in range(30):
        page.press(TAB)
        reached.append(
            page.run("const it = document.activeElement; return it.id || it.textContent.trim().slice(0, 30)")
        )
        if page.run(f"""return document.activeElement === document.querySelector("{CREATE} > summary")"""):
            break
    assert reached[0] == "Skip to the requests"
    assert "find" in reached
    page.press(ENTER)
    page.wait(f"{CREATE} table")


def test_the_example_is_shown_and_no_form(page: Browser) -> None:
    page.click(f"{CREATE} > summary")
    assert json.loads(page.text(f"{CREATE} pre"))["Address"][0]["City"] == "text"
    assert page.find("form, textarea, button, #token") == []
    assert page.find("a[href^='/console']") == [], "this server has no console"
    assert "http: {console: true}" in page.text("#trial")


def test_the_console_is_named_where_there_is_one(chromium: Browser) -> None:
    with serving(console=True) as server:
        chromium.open(f"{server.url}/docs#Customer.Create")
        link = "[id='Customer.Create'] a"
        chromium.wait(link)
        found = chromium.run(f"""return document.querySelector("{link}").getAttribute("href")""")
        assert found == "/console/requests?object=Customer&verb=Create"


def test_a_queue_that_takes_messages_says_what_it_takes(chromium: Browser, tmp_path: Path) -> None:
    with shop(tmp_path) as here:
        chromium.log()
        chromium.open(f"{here.server.url}/docs#http.events.hooks")
        hooks = "[id='http.events.hooks']"
        chromium.wait(f"{hooks}[open] ul")
        text = chromium.text(f"{hooks} .inside")
        for words in ("A message for queue://hooks.", "text/csv", "X-Hub-Signature-256: sha256= and"):
            assert words in text
        assert fits(chromium)
        assert complaints(chromium) == []


def test_what_is_looked_for_is_all_that_is_shown(page: Browser) -> None:
    page.write("#find", "order")
    shown = "return [...document.querySelectorAll('main [data-name]')].filter(it => !it.hidden).length"
    assert page.run(shown) == 1
    page.write("#find", "x")
    assert page.run(shown) == 0


def test_a_link_leads_to_a_request_and_opens_it(page: Browser) -> None:
    page.click("#contents a[href='#Customer.Retrieve']")
    page.wait("[id='Customer.Retrieve'][open] table")
    assert page.run("return document.activeElement.closest('details').id") == "Customer.Retrieve"


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_nothing_runs_out_of_the_window(page: Browser, width: int, tmp_path: Path) -> None:
    page.resize(width)
    page.click(f"{CREATE} > summary")
    page.screenshot(tmp_path / f"page-{width}.png")
    assert fits(page)


def test_nothing_of_a_stranger_is_run_in_the_page(page: Browser) -> None:
    page.run(
        "const it = document.createElement('script'); it.textContent = 'window.stranger = true';"
        "document.head.append(it); const img = document.createElement('img');"
        "img.src = 'http://192.0.2.1/x.png'; document.body.append(img);"
    )
    assert page.run("return window.stranger === undefined")
    assert any("Content Security Policy" in text for text in complaints(page))
