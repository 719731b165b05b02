"""Messages of somebody who means it ill, in a real browser: all of it is text, and nothing runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlencode

import pytest

from tests.http.console_pages import complaints, fits, look, shown, sign_in
from tests.http.shop import BOSS, CONSOLE, World, service, with_archive
from tests.http.webdriver import Browser
from tests.http.world import client
from tests.waiting import wait_for

MARK: Final = "<img src=x onerror=pwned=1><script>pwned=1;alert(1)</script>'\"{{ 7*7 }}"
CLOSE: Final = "</textarea></pre></td></title><svg onload=pwned=1>"
BACKWARDS: Final = "\u202egpj.exe\u2066\u05d0\u0007"
QUEUES: Final = ("a<b>\"'&c", 'x" onmouseover="pwned=1', "<script>pwned=1<", f"{BACKWARDS[:8]}queue")
NAMES: Final = (
    b"4.\xff\xfe<script>pwned=1<.T.....<b>S=<i>",
    b"\xc3\x28 <img src=x onerror=pwned=1>",
    b"4.hand.T.%ff%00<b>....%3Cimg%20src%3Dx%20onerror%3Dpwned%3D1%3ES=%3Cb%3E&%E2%80%AExS=y",
    b"4." + b"n" * 230 + b".T",
    b"javascript:pwned=1",
    b"4.9999999999999999999-x-1.T.9223372036854775807",
    *(b"4.far%d.T.%s9223372036854775807.x" % (place, b"." * place) for place in range(4)),
)
"""Names of files that another program has written. Some are no UTF-8."""
_MIB: Final = 1 << 20
_STATUS: Final = "return performance.getEntriesByType('navigation')[0].responseStatus"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with service(tmp_path_factory.mktemp("hostile"), with_archive(), **CONSOLE) as made:
        deployment, _, server = made
        headers = {"type": f"T{MARK}", "correlation_id": f"{MARK}{BACKWARDS}", "reply_to": None}
        properties = {
            **dict.fromkeys((MARK, CLOSE, BACKWARDS, "a\nb", "n" * 300), f"{MARK}{CLOSE}"),
            "connector_reason": f"{MARK}{BACKWARDS}",
            "connector_kind": "refused",
            "long": "y" * 5000,
            "connector_object": MARK,
            "connector_origin_destination": f"queue://{QUEUES[0]}",
        }
        bodies = (
            *(f"{MARK}{CLOSE}{BACKWARDS}", '{"Id": "bad<script>pwned=1</script>"}', "w" * 5000),
            *(bytes(range(256)) * 8, b"\xff" * (3 * _MIB), '["' + "x" * (3 * _MIB) + '"]', "\n" * 3000),
        )
        for queue in ("error", "notes"):
            for body in bodies:
                deployment.send(f"queue://{queue}", body, properties=properties, **headers)
            target = os.fsencode(deployment.folders(f"queue://{queue}").target)
            for name in NAMES:
                with open(target + b"/" + name, "wb") as file:
                    file.write(f"by hand {MARK}".encode())
        for queue in QUEUES:
            deployment.send(f"queue://{queue}", MARK)
        with client(server, BOSS) as http:
            given = {"what": "queue://orders", "reason": f"{MARK}{BACKWARDS}{'r' * 300}"}
            assert http.post("/control/pause", json=given).is_success
        yield made


@pytest.fixture(scope="module")
def window(world: World, chromium: Browser) -> Browser:
    sign_in(chromium, world.server, BOSS)
    return chromium


def is_harmless(window: Browser) -> None:
    """Nothing of a stranger has run, and nothing of it is an element."""
    assert window.run("return window.pwned === undefined")
    strange = "main script, main img, main svg[onload], [onerror], [onload], [onmouseover], td b, td i, pre *"
    assert window.find(strange) == []
    assert fits(window), window.run("return location.href")
    assert complaints(window) == []


def look_closely(window: Browser, world: World, page: str) -> None:
    look(window, world.server, page)
    assert window.run(_STATUS) == 200, page
    window.run("for (const one of document.querySelectorAll('details')) one.open = true")
    is_harmless(window)


@pytest.mark.parametrize("width", [390, 1280])
def test_lists_show_it_as_text(world: World, window: Browser, width: int) -> None:
    window.emulate(width=width, scheme="light")
    pages = {
        "": MARK,
        "/queues": QUEUES[1],
        "/errors": MARK,
        "/messages?queue=queue://error": MARK,
        "/messages?queue=queue://notes": f"T{MARK}",
        f"/history?{urlencode({'id': MARK})}": "knows nothing",
        f"/messages?{urlencode({'queue': 'queue://notes', 'selector': f'a = {chr(39)}<b>{chr(39)}'})}": "<b>",
        f"?{urlencode({'said': MARK})}": MARK,
        **{f"/messages?{urlencode({'queue': f'queue://{name}'})}": name for name in QUEUES},
    }
    for page, words in pages.items():
        look_closely(window, world, page)
        assert words in window.run(
            "const fields = [...document.querySelectorAll('main input')].map((it) => it.value);"
            "return document.body.innerText + fields"
        ), page
    assert window.run("return getComputedStyle(document.querySelector('main a')).unicodeBidi") == "isolate"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("queue", ["error", "notes"])
def test_a_message_shows_it_as_text(world: World, window: Browser, queue: str, width: int) -> None:
    window.emulate(width=width, scheme="light")
    for one in world.deployment.messages(queue):
        page = f"/message?{urlencode({'queue': f'queue://{queue}', 'id': one.message_id or ''})}"
        look(window, world.server, page)
        wait_for(lambda: window.find("#explanation p, #explanation pre"), what="the explanation")
        wait_for(lambda: not window.find("#explanation[hx-get]"), what="the explanation")
        assert window.run(_STATUS) == 200, page
        is_folded = window.run("return !document.querySelector('details').open")
        assert is_folded == (len(one.body) > 4096)
        window.run("document.querySelector('details').open = true")
        is_harmless(window)
        assert shown(window, "h1") == one.message_id
        assert len(shown(window, "details pre")) <= 300_000
        if "long" in one.properties:
            assert MARK in shown(window, "main .two")
            assert BACKWARDS in shown(window, "main .two")
        if one.body.startswith(b"by hand"):
            assert MARK in shown(window, "details pre")


def test_a_preview_and_its_end_show_it_as_text(world: World, window: Browser) -> None:
    look_closely(window, world, "/errors")
    window.run(
        "const group = [...document.querySelectorAll('.group')].find((it) => it.innerText.includes('pwned'));"
        "group.querySelector('[action=\"/console/replay\"] button').click()"
    )
    window.wait("a.button")
    assert f"to queue://{QUEUES[0]}" in shown(window, "main table")
    is_harmless(window)
    window.click("main form button")
    window.wait(".said")
    is_harmless(window)
    look_closely(window, world, f"/messages?{urlencode({'queue': f'queue://{QUEUES[0]}'})}")
