"""Finds the places of mistakes in a body that is JSON. Used for errors only."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from connector.formats.json_plan import JsonPlan
from connector.formats.plan import MAX_DEPTH
from connector.text.names import shown
from connector.text.places import place

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\r\n]*")


@dataclass(slots=True)
class _Level:
    """A value, which may be an object or a list that is not closed yet.

    Args:
        path: of the attribute that has the value. Empty = the body. None = the attribute that is looked for
            is not within.
        plan: of the object, or of the objects in the list. None = the body may not have it.
        index: of the element of a list. -1 = an object.
        is_key: the next text is a key.
    """

    path: str | None
    plan: JsonPlan | None
    index: int = -1
    is_key: bool = True

    def member(self, key: str, wanted: str) -> _Level:
        """Returns the value of a member."""
        if self.path is None:
            return self
        name = key[:80] if self.plan is None else self.plan.attributes.get(key, key[:80])
        child = None if self.plan is None else self.plan.children.get(name)
        path = f"{self.path}.{name}" if self.path else name
        return _Level(path if wanted.startswith(path) else None, child)

    def element(self, wanted: str) -> _Level:
        """Returns the element of a list."""
        path = f"{self.path}[{self.index}]"
        return _Level(path if self.path is not None and wanted.startswith(path) else None, self.plan)


def place_of_path(body: bytes, plan: JsonPlan, path: str) -> str:
    """Returns the line and column of an attribute: of its key, or of the element of a list. Empty = unknown.

    Args:
        path: as :meth:`connector.businessobjects.instance.BusinessObject.set_values` tells it.
    """
    text = body.decode("utf-8")
    levels: list[_Level] = []
    value = _Level("", plan)
    for token in _TOKEN.finditer(text):
        kind = text[token.start()]
        if kind in "{[":
            levels.append(_Level(value.path, value.plan, 0 if kind == "[" else -1))
        elif kind in "}]":
            levels.pop()
        level = levels[-1] if levels else value
        if kind == '"' and level.index < 0 and level.is_key:
            value = level.member(json.loads(token.group()), path)
            if value.path == path:
                return place(text, token.start())
        elif kind in ":,{":
            level.is_key = kind != ":"
        if kind in ",[" and level.index >= 0:
            level.index += kind == ","
            value = level.element(path)
            if value.path == path:
                return place(text, _end_of_space(text, token.end()))
    return ""


def _end_of_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return start if found is None else found.end()


def place_of_depth(body: bytes) -> str:
    """Returns the line and column of the first value that is nested too deeply."""
    text = body.decode("utf-8", "replace")
    depth = 0
    for token in _TOKEN.finditer(text):
        kind = text[token.start()]
        depth += (kind in "{[") - (kind in "}]")
        if depth > MAX_DEPTH:
            return place(text, token.start())
    return "line 1 column 1"


def duplicate_key(text: str) -> str:
    """Returns the error for the first key that stands twice in its object, in a text that is valid JSON."""
    scopes: list[set[str]] = []
    last = None
    for token in _TOKEN.finditer(text):
        kind = text[token.start()]
        if kind in "{[":
            scopes.append(set())
        elif kind in "}]":
            scopes.pop()
        elif kind == '"':
            last = token
        elif kind == ":" and last is not None:
            key = json.loads(last.group())
            if key in scopes[-1]:
                return f"the key {shown(key)} stands twice in one object: {place(text, last.start())}"
            scopes[-1].add(key)
    return "a key stands twice in one object"
