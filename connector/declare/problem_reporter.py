"""Reports mistakes by their locations in a file."""

from __future__ import annotations

from dataclasses import dataclass

from connector.declare.problems import Position, Problems
from connector.declare.reading import Location, find, node_at
from connector.declare.tree import Leaf, Table


@dataclass(frozen=True, slots=True)
class ProblemReporter:
    """A tree, and the list that gets the mistakes in the tree."""

    tree: Table
    problems: Problems

    def add(
        self,
        location: Location,
        found: str,
        expected: str,
        near: str | None = None,
        *,
        at_key: bool = False,
        position: Position | None = None,
        warning: bool = False,
    ) -> None:
        """Reports a mistake in the value at ``location``, or in its key, or at ``position`` if given."""
        if position is None:
            position = self.key_position(*location) if at_key else self.position(*location)
        self.problems.add(position, self.path(location), found, expected, near, warning=warning)

    def path(self, location: Location) -> str:
        """Returns the path of the value in error texts."""
        return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in location).lstrip(".")

    def position(self, *location: int | str) -> Position:
        """Returns the place of the value. For a missing value, returns the nearest enclosing place."""
        return find(self.tree, location)[1]

    def key_position(self, *location: int | str) -> Position:
        """Returns the place of the key of the value, or of the value if there is no key."""
        node, key = node_at(self.tree, location[:-1]), str(location[-1])
        if isinstance(node, Table) and key in node.keys:
            return node.keys[key].position
        return self.position(*location[:-1])

    def leaf(self, *location: int | str) -> Leaf | None:
        """Returns the single value at ``location``, or None."""
        value = node_at(self.tree, location)
        return value if isinstance(value, Leaf) and not value.is_absent else None
