"""Makes links of the roles in docstrings, such as ``:class:`Message```."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|meth|func|data|mod|attr|exc):`(~?)\.?([\w.]+)(?:\(\))?`")
_LITERAL = re.compile(r"^(.*?) ?::$(?=\n\n +)", re.MULTILINE)


class Roles(griffe.Extension):
    """Works on the docstrings of a package when all of it is loaded."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        known = _Names()
        known.learn(pkg)
        for thing in known.documented:
            assert thing.docstring is not None
            text = _ROLE.sub(lambda role, thing=thing: known.link(role, thing), thing.docstring.value)
            thing.docstring.value = _LITERAL.sub(lambda line: f"{line[1]}:" if line[1] else "", text)


class _Names:
    """The names of a package, by their last one and two parts."""

    def __init__(self) -> None:
        self.documented: list[griffe.Object] = []
        self._places: dict[str, set[str]] = {}

    def learn(self, thing: griffe.Object) -> None:
        parts = thing.path.split(".")
        for count in range(1, len(parts) + 1):
            self._places.setdefault(".".join(parts[-count:]), set()).add(thing.path)
        if thing.docstring is not None:
            self.documented.append(thing)
        for member in thing.members.values():
            if not member.is_alias:
                self.learn(member)  # type: ignore[arg-type]

    def link(self, role: re.Match[str], thing: griffe.Object) -> str:
        """A link where the name is on the site; else the name alone."""
        short, name = role.groups()
        shown = name.rpartition(".")[2] if short else name
        return f'<autoref identifier="{self._place(name, thing)}" optional><code>{shown}</code></autoref>'

    def _place(self, name: str, thing: griffe.Object) -> str:
        """The full name: in the scope of the docstring, else the only one in the package that ends so."""
        first, dot, rest = name.partition(".")
        scope: griffe.Object | None = thing
        while scope is not None:
            if first in scope.members:
                member = scope.members[first]
                start = member.target_path if isinstance(member, griffe.Alias) else member.path
                if f"{start}{dot}{rest}" in self._places:
                    return f"{start}{dot}{rest}"
            scope = scope.parent  # type: ignore[assignment]
        places = self._places.get(name, set())
        return next(iter(places)) if len(places) == 1 else name
