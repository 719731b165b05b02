"""The pages of the console in a browser: signing in, and what can be asked of each page."""

from __future__ import annotations

from connector.http.server import Server
from tests.http.webdriver import Browser


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
