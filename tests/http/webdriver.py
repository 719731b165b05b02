"""A browser that a test drives, by the WebDriver protocol (W3C), without a library in between."""

from __future__ import annotations

import atexit
import base64
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx

from tests.waiting import wait_for

_ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
ENTER: Final = "\ue007"
TAB: Final = "\ue004"
CONTROL: Final = "\ue009"
PATIENCE: Final = 60.0

_ARGUMENTS: Final = (
    "--headless=new",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,1000",
)


class Replaced(Exception):
    """The page has replaced the element since it was found."""


class Browser:
    """One window.

    Args:
        session: of the driver.
    """

    def __init__(self, session: httpx.Client) -> None:
        self._session = session

    def open(self, url: str) -> None:
        """Shows a page."""
        self._post("url", url=url)

    def find(self, selector: str) -> list[str]:
        """The elements that match, as ids."""
        found = self._post("elements", using="css selector", value=selector)
        return [element[_ELEMENT] for element in found]

    def wait(self, selector: str) -> str:
        """The first element that matches, once there is one that is shown."""

        def shown() -> str | None:
            try:
                return next(
                    (one for one in self.find(selector) if self._get(f"element/{one}/displayed")), None
                )
            except Replaced:
                return None

        return wait_for(shown, PATIENCE, selector)

    def text(self, selector: str) -> str:
        """The text of the first element that matches."""
        return str(self._do(selector, lambda element: self._get(f"{element}/text")))

    def click(self, selector: str) -> None:
        self._do(selector, lambda element: self._post(f"{element}/click"))

    def write(self, selector: str, text: str) -> None:
        """Replaces what stands in a field."""
        self._do(selector, lambda element: self._post(f"{element}/clear"))
        self._do(selector, lambda element: self._post(f"{element}/value", text=text))

    def _do(self, selector: str, act: Callable[[str], Any]) -> Any:
        """Does something with the first element that matches, again if the page has replaced that."""
        while True:
            with suppress(Replaced):
                return act(f"element/{self.wait(selector)}")

    def press(self, *keys: str) -> None:
        """Presses keys, one after the other; held until the last is released."""
        actions = [{"type": "keyDown", "value": key} for key in keys]
        actions += [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self._post("actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def run(self, script: str) -> Any:
        """What a function body returns in the page."""
        return self._post("execute/sync", script=script, args=[])

    def emulate(self, *, width: int, scheme: str) -> None:
        """Shows pages as on a screen of a width, to a reader who wants a ``light`` or ``dark`` one."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        self.cdp("Emulation.setEmulatedMedia", features=features)
        self.cdp("Emulation.setDeviceMetricsOverride", **size)

    def cdp(self, command: str, **params: Any) -> None:
        """Gives a command of the DevTools of Chromium."""
        self._post("goog/cdp/execute", cmd=command, params=params)

    def log(self) -> list[dict[str, Any]]:
        """What the page has complained about since the last time."""
        return list(self._post("se/log", type="browser"))

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._get("screenshot")))

    def resize(self, width: int) -> None:
        """Gives the window itself a width."""
        self._post("window/rect", width=width, height=900)

    def _post(self, command: str, **arguments: Any) -> Any:
        return self._value(self._session.post(command, json=arguments))

    def _get(self, command: str) -> Any:
        return self._value(self._session.get(command))

    @staticmethod
    def _value(answer: httpx.Response) -> Any:
        value = answer.json()["value"]
        if answer.status_code == 404 and value["error"] == "stale element reference":
            raise Replaced
        assert answer.status_code == 200, value
        return value


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser of its own, without a window; ended at the end."""
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as directory:
        program = shutil.which("chromium") or shutil.which("google-chrome") or ""
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert driver.stdout is not None
            port = next(
                line.rstrip(".\n").rpartition(" ")[2] for line in driver.stdout if "successfully" in line
            )
            arguments = [*_ARGUMENTS, f"--user-data-dir={directory}"]
            if os.geteuid() == 0:
                arguments.append("--no-sandbox")
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=240, trust_env=False) as client:
                options = {"binary": program, "args": arguments}
                wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
                made = client.post("/session", json={"capabilities": {"alwaysMatch": wanted}}).json()["value"]
                session = f"/session/{made['sessionId']}"
                client.base_url = f"http://127.0.0.1:{port}{session}/"
                try:
                    yield Browser(client)
                finally:
                    client.delete(f"http://127.0.0.1:{port}{session}")
        finally:
            driver.terminate()
            driver.communicate(timeout=240)


def shared_browser() -> Browser:
    """The one browser of all tests of this process, as new. It ends with the process."""
    window = _started()
    window.cdp("Network.clearBrowserCookies")
    window.cdp("Emulation.setEmulatedMedia", features=[])
    window.cdp("Emulation.clearDeviceMetricsOverride")
    window.resize(1280)
    window.log()
    return window


@functools.cache
def _started() -> Browser:
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(browser())
