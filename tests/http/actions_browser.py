"""Every action of the console in a real browser, by the controls that a person uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.http.console_pages import complaints, look, shown, sign_in
from tests.http.shop import BOSS, CONSOLE, World, counts, send, service, with_archive
from tests.http.webdriver import Browser
from tests.waiting import wait_for


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with service(tmp_path, with_archive(), **CONSOLE) as made:
        yield made


@pytest.fixture
def window(chromium: Browser, world: World) -> Browser:
    """A browser in which an operator has signed in."""
    sign_in(chromium, world.server, BOSS)
    return chromium


def done(window: Browser, words: str) -> None:
    wait_for(lambda: words in shown(window, ".said"), what=lambda: f"{words}: {shown(window, 'main')}")
    assert complaints(window) == []


def agree(window: Browser, question: str) -> None:
    wait_for(lambda: question in shown(window, "h1"), what=lambda: f"{question}: {shown(window, 'main')}")
    window.click("main form button")


def ask_for_replay(window: Browser) -> None:
    window.click("[class=group] details:last-of-type summary")
    window.click("[action='/console/replay'] button")
    wait_for(lambda: "Replay 2 messages?" in shown(window, "h1"))


def fail(world: World, *identities: str) -> None:
    """Sends orders that fail, and waits for that."""
    send(world.deployment, *identities)
    wait_for(lambda: counts(world.adapter) == (len(identities), 0))


def message_page(world: World, queue: str) -> str:
    (one,) = world.deployment.messages(queue)
    return f"/message?{urlencode({'queue': f'queue://{queue}', 'id': one.message_id or ''})}"


def test_an_input_and_a_subscription_are_paused_and_resumed(world: World, window: Browser) -> None:
    def steer(button: str, action: str, what: str) -> None:
        window.click(button)
        agree(window, f"{action.title()} {what}?")
        done(window, f"{action}: {what}")

    look(window, world.server, "")
    steer(".card .steer button", "pause", "queue://orders")
    assert shown(window, ".card .mark") == "paused"
    assert "Paused by eva" in shown(window, ".card .hint")
    send(world.deployment, "waits")
    steer("#steer-store", "pause", "store")
    assert "paused by eva" in shown(window, "#subscriptions td:nth-of-type(7)")
    steer(".card .steer button", "resume", "queue://orders")
    steer("#steer-store", "resume", "store")
    assert window.find(".mark") == []
    wait_for(lambda: counts(world.adapter) == (0, 1), what="what has waited is published")


def test_the_configuration_is_read_again_and_a_group_replayed(world: World, window: Browser) -> None:
    deployment = world.deployment
    fail(world, "bad1", "bad2")
    text = with_archive().replace('process: "processes:store"', "destination: queue://shelf")
    deployment.write("adapter.yaml", text)
    look(window, world.server, "")
    window.click("#reload")
    agree(window, "Reload?")
    done(window, "reload: ")
    look(window, world.server, "/errors")
    assert shown(window, ".count") == "2", "the groups of the errors"
    ask_for_replay(window)
    assert "to queue://orders2" in shown(window, "main table")
    window.click("a.button")
    wait_for(lambda: shown(window, "h1") == "Errors")
    assert len(deployment.messages("error")) == 2, "they were left"
    ask_for_replay(window)
    window.click("main form button")
    done(window, "replay: 2 of 2 messages")
    assert "Nothing is in queue://error" in shown(window, ".empty")
    wait_for(lambda: len(deployment.messages("shelf")) == 2, what="both are published")


def test_some_are_moved_and_one_discarded(world: World, window: Browser) -> None:
    deployment = world.deployment
    fail(world, "bad1", "bad2", "bad3")
    look(window, world.server, "/errors")
    window.click("[class=group] details:last-of-type summary")
    form = "[action='/console/move']"
    window.click(f"{form} button")
    assert shown(window, "h1") == "Errors", "the browser asks where to"
    window.write(f"{form} [name=to]", "queue://later")
    window.write(f"{form} [name=limit]", "2")
    window.click(f"{form} button")
    agree(window, "Move 2 messages?")
    done(window, "move: 2 of 2 messages")
    assert len(deployment.messages("later")) == 2
    look(window, world.server, message_page(world, "error"))
    window.write("[action='/console/discard'] [name=why]", "no such <order>")
    window.click("[action='/console/discard'] button")
    agree(window, "Discard 1 message?")
    done(window, "discard: 1 of 1 messages")
    (kept,) = deployment.messages("archive")
    assert "no such <order>" in kept.properties.values()
    assert kept.properties["connector_discarded_by"] == "eva"
    assert deployment.messages("error") == []


def test_a_message_is_corrected_by_typing(world: World, window: Browser) -> None:
    fail(world, "bad1")
    look(window, world.server, message_page(world, "error"))
    window.write("#body", '{"Id": "good"}')
    window.click("[action='/console/correct'] button")
    agree(window, "Correct?")
    done(window, "the corrected message is in queue://orders")
    wait_for(lambda: counts(world.adapter) == (1, 1), what="it is published")


def test_a_test_message_is_sent(world: World, window: Browser) -> None:
    world.deployment.send("queue://notes", "x")
    look(window, world.server, "/messages?queue=queue://notes")
    window.click("details summary")
    window.write("#type", "T1")
    window.write("#body", "héllo <b>")
    window.click(".trial button")
    agree(window, "Send?")
    done(window, "was sent")
    assert [one.body.decode() for one in world.deployment.messages("notes")] == ["x", "héllo <b>"]
    assert "T1" in shown(window, "tbody")


def test_numbers_change_without_a_new_page(world: World, window: Browser) -> None:
    look(window, world.server, "")
    window.run("window.isSamePage = true; scrollTo(0, 50)")
    before = shown(window, "main dd")
    send(world.deployment, "good")
    wait_for(lambda: shown(window, "main dd") != before, what="the number of published events changes")
    assert window.run("return window.isSamePage")
    assert "UTC" not in shown(window, "time")
    assert not shown(window, "time").endswith("Z")
