"""The page about the log has every text that the connector logs, and each text is constant."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/log.md").read_text("utf-8")
LEVELS = ("info", "warning", "error", "exception", "log")


@functools.cache
def _nodes() -> list[tuple[str, ast.Call | ast.Constant]]:
    """The calls and the constants of the product, each with its place."""
    return [
        (f"{path.name}:{node.lineno}", node)
        for path in sorted((ROOT / "connector").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call | ast.Constant)
    ]


def _texts() -> Iterator[tuple[str, ast.expr]]:
    """Where a line is logged, and the expression that is its text."""
    for where, call in _nodes():
        if not isinstance(call, ast.Call):
            continue
        called = ast.unparse(call.func)
        owner, _, method = called.rpartition(".")
        if owner in ("_log", "log", "self._log", "self._lines", "self._working.lines") and method in LEVELS:
            text, *others = call.args[1:] if method == "log" else call.args
            assert others == [], f"{where}: values are fields, in extra="
            yield where, text
        elif called == "log_failure" or called.endswith("trace"):
            yield where, call.args[1]


def _constants() -> set[str]:
    constants = (node for _, node in _nodes() if isinstance(node, ast.Constant))
    return {node.value for node in constants if isinstance(node.value, str)}


def _documented() -> set[str]:
    rows = [line.split("|") for line in PAGE.partition("## Events")[2].splitlines() if line.startswith("| ")]
    cells = [row[2] if row[1].strip().isdecimal() else row[1] for row in rows]
    return {text for cell in cells for text in re.findall(r"`([^`]+)`", cell)}


def test_every_text_is_constant_and_on_the_page() -> None:
    texts, documented = list(_texts()), _documented()
    assert len(texts) > 60
    for where, text in texts:
        if isinstance(text, ast.Constant):
            assert text.value in documented, where
        else:
            assert isinstance(text, ast.Name | ast.Attribute), f"{where}: a text is constant"


def test_the_page_has_no_text_that_nobody_logs() -> None:
    assert _documented() - _constants() == set()
