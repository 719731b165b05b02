"""The pages of the console in a browser: signing in, and what can be asked of each page.

axe-core finds what is wrong with a page for people who see little, or use a keyboard or a screen reader.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from connector.http.server import Server
from tests.http.webdriver import Browser

_SOURCE: Final = (files("axe_core_python") / "axe.min.js").read_text("utf-8")
_RUN: Final = """
    return axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations
      .filter((it) => it.impact === "serious" || it.impact === "critical")
      .flatMap((it) => it.nodes.map((node) => `${it.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`)))
"""


def sign_in(
    window: Browser, server: Server, token: str, page: str = "/console/sign-in", then: str = "#live"
) -> None:
    """Opens a page of the console with a token, and waits for an element of it."""
    window.open(f"{server.url}{page}")
    window.write("#token", token)
    window.click("main button")
    window.wait(then)
    window.log()


def look(window: Browser, server: Server, page: str) -> None:
    """Opens a page of the console."""
    window.open(f"{server.url}/console{page}")
    window.wait("h1")


def shown(window: Browser, selector: str) -> str:
    """The text of an element that the page may exchange at any time."""
    return str(window.run(f"return document.querySelector('{selector}')?.textContent ?? ''"))


def complaints(window: Browser) -> list[str]:
    """What the browser has said against the page since the last time."""
    return [entry["message"] for entry in window.log() if entry["level"] in ("SEVERE", "WARNING")]


def fits(window: Browser) -> bool:
    """Whether nothing runs out of the window."""
    root = "document.documentElement"
    return bool(window.run(f"return {root}.scrollWidth <= {root}.clientWidth"))


def brightness(window: Browser) -> float:
    """The brightness of the background: 0 to 255."""
    red, green, blue = window.run(
        "return getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3).map(Number)"
    )
    return float(red + green + blue) / 3


def findings(window: Browser) -> list[str]:
    """What axe-core finds that is serious or critical, each with the element."""
    if not window.run("return typeof axe === 'object'"):
        window.run(_SOURCE)
    return list(window.run(_RUN))
