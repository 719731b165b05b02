"""A selector as a tree of operations. ``logic`` defines their meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from connector.messaging.message import Message

Function = Callable[[Message], Any]
"""Returns the value of a node for a message. ``None`` is NULL among values and *unknown* among conditions."""


class Kind(Enum):
    """The type of a value as far as the selector alone determines it. The value may still be missing."""

    STRING = "a string"
    NUMBER = "a number"
    CONDITION = "a condition"
    """True, false or unknown."""
    ANY = "a property"
    """The type of a property is known only when a message is seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An operation. The subclasses are what a provider may say in a language of its own.

    Args:
        position: of the node in the text, from 0.
    """

    position: int
    kind: Kind
    function: Function


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Node):
    """A literal value. Exact numbers are ``int``, approximate numbers ``float``."""

    value: bool | int | float | str


@dataclass(frozen=True, slots=True, eq=False)
class Identifier(Node):
    """A header or property."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Node):
    """``x = y``, ``<>``, ``<``, ``<=``, ``>`` and ``>=``. A literal stands on the right."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, eq=False)
class Member(Node):
    """``x IN ('a', 'b')``."""

    operand: Identifier
    values: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Like(Node):
    """``x LIKE 'a%'``.

    Args:
        prefix: of the values, if the pattern says nothing else. Otherwise None.
    """

    operand: Identifier
    prefix: str | None


@dataclass(frozen=True, slots=True, eq=False)
class And(Node):
    """``x AND y AND ...``."""

    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Or(Node):
    """``x OR y OR ...``."""

    operands: tuple[Node, ...]
