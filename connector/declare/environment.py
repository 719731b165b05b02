"""Environment variables inside single values: ``${NAME}``, ``${NAME:default}``, ``$${`` for ``${``.

They are filled in after parsing, so that no value of the environment can change the structure of the file.
References in keys are not replaced. Neither are references in ``metaobjects/``, whose texts belong to the
rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from connector.declare.masking import is_secret
from connector.declare.problems import Problems
from connector.declare.tree import Items, Leaf, Node, Table

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_SHELL: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:?[-=?+])(.*)", re.DOTALL)
"""The forms of the shell: ``${NAME:-default}``, ``${NAME-default}``, ``${NAME:?text}``."""
_HALVES: Final = re.compile("[\ud800-\udfff]")
"""Bytes of the environment that are no UTF-8, as Python shows them."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def fill_in(node: Node, environment: Mapping[str, str], problems: Problems, path: str = "") -> Node:
    """Returns the tree with every reference replaced.

    Reports each variable that is not set and has no default. The value then counts as not given.
    """
    if isinstance(node, Leaf):
        return _fill_leaf(node, environment, problems, path)
    if isinstance(node, Items):
        return Items(
            node.position,
            [fill_in(item, environment, problems, f"{path}[{i}]") for i, item in enumerate(node.items)],
        )
    table = Table(node.position)
    for key, value in node.entries.items():
        table.put(node.keys[key], fill_in(value, environment, problems, f"{path}.{key}" if path else key))
    return table


def _fill_leaf(leaf: Leaf, environment: Mapping[str, str], problems: Problems, path: str) -> Leaf:
    if "${" not in leaf:
        return leaf
    failed = False

    def replace(match: re.Match[str]) -> str:
        nonlocal failed
        if match[0] == "$${":
            return "${"
        name, _, default = match[1].partition(":")
        value = environment.get(name) if _NAME.match(name) else None
        if mistake := _mistake(match, value, hides=is_secret(match[1]) or is_secret(path)):
            failed = True
            problems.add(leaf.position, path, *mistake)
            return ""
        if value is None:
            return default
        problems.hide(leaf.position, value, match[0], secret=is_secret(name) or is_secret(path))
        return value

    text = _REFERENCE.sub(replace, leaf)
    if failed:
        text = ""
    return Leaf.of(text, leaf.position, plain=leaf.plain or not text, raw=str(leaf))


def _mistake(match: re.Match[str], value: str | None, *, hides: bool) -> tuple[str, str] | None:
    """Returns what is wrong with a reference, and what is expected. None = nothing is wrong.

    Args:
        value: of the variable. None = the variable is not set.
        hides: whether the texts may not show what the reference says.
    """
    name, separator, _ = match[1].partition(":")
    if match[2] and (shell := _SHELL.fullmatch(match[1])):
        name, mark, meant = shell[1], shell[2], "..." if hides else shell[3]
        return (
            f"'${{{name}{mark}{meant}}}', a form of the shell",
            f"${{NAME:default}}, where the default follows the colon: ${{{name}:{meant}}}",
        )
    if not match[2] or not _NAME.match(name):
        return (
            "a reference that is none" if hides else f"{match[0]!r}",
            "${NAME} or ${NAME:default}; $${ stands for a literal ${",
        )
    if value is None and not separator:
        return (
            f"the environment variable {name} is not set",
            f"{name} in the environment, or a default: ${{{name}:...}}",
        )
    if value is not None and not value.isascii() and _HALVES.search(value):
        return f"the environment variable {name} is not valid UTF-8", "UTF-8 text"
    return None
