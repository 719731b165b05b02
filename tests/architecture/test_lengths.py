"""A function does one thing: it is short, or says why not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.test_architecture import MODULES, tree_of

MOST = 50
"""Lines of a function below its first one. Its docstring counts."""
REASON = "# long: "
"""Begins the comment above a longer function: it is a table, or declares the options of a verb."""


def long_functions() -> Iterator[tuple[str, bool]]:
    """Yields the names of functions that are long, and whether each gives a reason."""
    for name, path in MODULES.items():
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(tree_of(name)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno > MOST:
                first = min(one.lineno for one in (node, *node.decorator_list))
                above = lines[first - 2].strip()
                yield f"{name}.{node.name}", above.startswith(REASON) and len(above) > len(REASON)


def test_a_long_function_says_why() -> None:
    assert {name for name, says_why in long_functions() if not says_why} == set()
