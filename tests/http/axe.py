"""What axe-core finds wrong with a page, for people who see little, or use a keyboard or a screen reader."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from tests.http.webdriver import Browser

_SOURCE: Final = (files("axe_core_python") / "axe.min.js").read_text("utf-8")
_RUN: Final = """
    return axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations
      .filter((it) => it.impact === "serious" || it.impact === "critical")
      .flatMap((it) => it.nodes.map((node) => `${it.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`)))
"""


def findings(window: Browser) -> list[str]:
    """The findings that are serious or critical, each with the element."""
    if not window.run("return typeof axe === 'object'"):
        window.run(_SOURCE)
    return list(window.run(_RUN))
