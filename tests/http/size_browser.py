"""The console of two instances, beside 100,000 waiting and 10,000 failed messages, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from benchmarks.common import fill, json_body, scratch
from benchmarks.console import send_failed
from connector.cli.app import run
from connector.config.loading import load
from connector.testing.deployment import InProcessAdapter
from tests.events.conftest import serving
from tests.http.console_pages import complaints, fits, look, shown, sign_in
from tests.http.shop import BOSS, CONSOLE, World, deploy, send, service, with_archive
from tests.http.webdriver import Browser
from tests.waiting import wait_for

WAITING: Final = 100_000
FAILED: Final = 10_000
INPUTS: Final = "[queue://orders, queue://bulk]"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Two instances of one application. One input is full, and paused."""
    text = with_archive().replace("[queue://orders]", INPUTS)
    with scratch() as directory:
        second = deploy(directory, text).write("second.yaml", text.replace("host-a", "host-b"))
        assert run(["pause", "queue://bulk", "--config", str(second)]) == 0
        fill(directory / "data", "bulk", WAITING, json_body)
        send_failed(second, FAILED)
        with (
            service(directory, text, **CONSOLE) as made,
            InProcessAdapter(load(second, in_process=True)) as other,
            serving(other),
        ):
            yield made


@pytest.fixture(scope="module")
def window(world: World, chromium: Browser) -> Browser:
    sign_in(chromium, world.server, BOSS)
    return chromium


def texts(window: Browser, selector: str) -> list[str]:
    found = window.run(f"return [...document.querySelectorAll(`{selector}`)].map((it) => it.innerText)")
    return [str(one) for one in found]


def test_the_overview_has_both_instances_and_all_that_waits(world: World, window: Browser) -> None:
    look(window, world.server, "")
    wait_for(lambda: len(texts(window, "#instances tbody tr")) == 2, what="both instances")
    assert texts(window, "#instances tbody th") == ["host-a", "host-b"]
    wait_for(lambda: "10,000" in texts(window, ".well dd"), what="the number of failed messages")
    cards = wait_for(
        lambda: [one for one in texts(window, ".card") if "100,000" in one], what="the number that waits"
    )
    assert "queue://bulk" in cards[0]
    assert "paused" in cards[0]
    assert complaints(window) == []


def test_numbers_change_beside_a_full_queue(world: World, window: Browser) -> None:
    look(window, world.server, "")
    window.run("window.isSamePage = true")
    send(world.deployment, *(f"good{number}" for number in range(50)))
    published = "[...document.querySelectorAll('.well dd')][0].innerText"
    wait_for(lambda: window.run(f"return {published}") == "50", what="50 events of both instances")
    assert window.run("return window.isSamePage")
    look(window, world.server, "/queues")
    row = next(one for one in texts(window, "tbody tr") if one.startswith("queue://bulk"))
    assert "100,000" in row
    assert complaints(window) == []


def test_the_failed_messages_are_three_groups(world: World, window: Browser) -> None:
    look(window, world.server, "/errors")
    assert sorted(texts(window, ".count")) == ["3,333", "3,333", "3,334"]
    numbers = texts(window, ".reason")
    assert len(set(numbers)) == 3
    count = texts(window, ".count")[0]
    window.click(".group details:last-of-type summary")
    window.click(".group [action='/console/discard'] button")
    wait_for(lambda: f"Discard {count} messages?" in shown(window, "h1"), what="the preview")
    window.click("a.button")
    wait_for(lambda: len(texts(window, ".count")) == 3, what="nothing was done")
    assert complaints(window) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_messages_come_fifty_at_a_time(world: World, window: Browser, width: int) -> None:
    window.emulate(width=width, scheme="light")
    look(window, world.server, "/messages?queue=queue://bulk")
    seen: list[str] = []
    for _ in range(3):
        rows = texts(window, "tbody th")
        assert len(rows) == 50
        assert not set(rows) & set(seen)
        seen += rows
        first = rows[0]
        window.click(".turn a")
        wait_for(lambda first=first: texts(window, "tbody th")[:1] not in ([], [first]), what="further ones")  # type: ignore[misc]
    window.click("tbody th a")
    wait_for(lambda: "It would be" in shown(window, "#explanation"), what="the explanation")
    assert fits(window)
    assert complaints(window) == []
