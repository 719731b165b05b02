"""Reports mistakes by their positions in ``adapter.yaml``."""

from __future__ import annotations

from dataclasses import dataclass

from connector.config.problems import Position, Problems
from connector.config.reading import Location, find
from connector.config.tree import Leaf, Table


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
        position: Position | None = None,
        warning: bool = False,
    ) -> None:
        """Reports a mistake at ``location``, or at ``position`` if given."""
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
        self.problems.add(
            position or self.position(*location), path.lstrip("."), found, expected, near, warning=warning
        )

    def position(self, *location: int | str) -> Position:
        """Returns the place of the value. For a missing value, returns the nearest enclosing place."""
        return find(self.tree, location)[1]

    def key_position(self, *location: int | str) -> Position:
        """Returns the place of the key of the value, or of the value if there is no key."""
        node, position, _ = find(self.tree, location[:-1])
        key = str(location[-1])
        return node.keys[key].position if isinstance(node, Table) and key in node.keys else position

    def leaf(self, *location: int | str) -> Leaf | None:
        """Returns the single value at ``location``, or None."""
        node, _, _ = find(self.tree, location[:-1])
        value = node.entries.get(str(location[-1])) if isinstance(node, Table) else None
        return value if isinstance(value, Leaf) and not value.is_absent else None
