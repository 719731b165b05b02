"""References inside single values: ``${NAME}``, ``${NAME:default}``, ``${file:PATH}``, ``$${`` for ``${``.

A name means an environment variable. A path means the content of a file, which counts as a secret. Both are
filled in after parsing, so that no value can change the structure of the file. References in keys are not
replaced. Neither are references in ``metaobjects/``, whose texts belong to the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connector.declare.masking import SHORTEST, is_secret
from connector.declare.problems import Problems
from connector.declare.tree import Items, Leaf, Node, Table
from connector.declare.value_types import resolve
from connector.regular_file import read_regular

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_SHELL: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:?[-=?+])(.*)", re.DOTALL)
"""The forms of the shell: ``${NAME:-default}``, ``${NAME-default}``, ``${NAME:?text}``."""
_HALVES: Final = re.compile("[\ud800-\udfff]")
"""Bytes of the environment that are no UTF-8, as Python shows them."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FILE: Final = "file:"
_MOST: Final = 1 << 20
"""Bytes of a file that a value may name."""


@dataclass(frozen=True, slots=True)
class References:
    """What references mean.

    Args:
        environment: the variables.
        directory: of the file. Relative paths count from here.
    """

    environment: Mapping[str, str]
    directory: Path


def fill_in(node: Node, references: References, problems: Problems, path: str = "") -> Node:
    """Returns the tree with every reference replaced.

    Reports each variable that is not set and has no default, and each file that cannot be read. The value
    then counts as not given.
    """
    if isinstance(node, Leaf):
        return _fill_leaf(node, references, problems, path)
    if isinstance(node, Items):
        return Items(
            node.position,
            [fill_in(item, references, problems, f"{path}[{i}]") for i, item in enumerate(node.items)],
        )
    table = Table(node.position)
    for key, value in node.entries.items():
        table.put(node.keys[key], fill_in(value, references, problems, f"{path}.{key}" if path else key))
    return table


def _fill_leaf(leaf: Leaf, references: References, problems: Problems, path: str) -> Leaf:
    if "${" not in leaf:
        return leaf
    failed = False
    environment = references.environment

    def replace(match: re.Match[str]) -> str:
        nonlocal failed
        if match[0] == "$${":
            return "${"
        if match[2] and match[1].startswith(_FILE):
            content, mistake = _read(match[1].removeprefix(_FILE), references.directory)
            if mistake:
                failed = True
                problems.add(leaf.position, path, *mistake)
            is_long = len(content.strip()) >= SHORTEST
            problems.hide(leaf.position, content, match[0], secret=is_long, from_file=True)
            return content
        name, _, default = match[1].partition(":")
        value = environment.get(name) if _NAME.match(name) else None
        if wrong := _mistake(match, value, hides=is_secret(match[1]) or is_secret(path)):
            failed = True
            problems.add(leaf.position, path, *wrong)
            return ""
        if value is None:
            return default
        problems.hide(leaf.position, value, match[0], secret=is_secret(name) or is_secret(path))
        return value

    text = _REFERENCE.sub(replace, leaf)
    if failed:
        text = ""
    return Leaf.of(text, leaf.position, plain=leaf.plain or not text, raw=str(leaf))


def _read(path: str, directory: Path) -> tuple[str, tuple[str, str] | None]:
    """Returns the content of a file without its last line end, and what is wrong as :func:`_mistake` does."""
    expected = "a text file that this user may read, relative to this file"
    if not path.strip():
        return "", ("${file:} names no file", "${file:PATH}")
    try:
        content = read_regular(resolve(path, directory), _MOST + 1)
        if len(content) > _MOST:
            return "", (f"the file {path!r} is larger than {_MOST >> 20} MiB", expected)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "", (f"the file {path!r} is not UTF-8", expected)
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return "", (f"the file {path!r} cannot be read: {reason}", expected)
    return text.removesuffix("\n").removesuffix("\r"), None


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
            "${NAME}, ${NAME:default} or ${file:PATH}; $${ stands for a literal ${",
        )
    if value is None and not separator:
        return (
            f"the environment variable {name} is not set",
            f"{name} in the environment, or a default: ${{{name}:...}}",
        )
    if value is not None and not value.isascii() and _HALVES.search(value):
        return f"the environment variable {name} is not valid UTF-8", "UTF-8 text"
    return None
