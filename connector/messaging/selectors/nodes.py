"""A selector as a tree of operations. ``logic`` defines their meaning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from connector.messaging.selectors.like import Pattern


class Kind(Enum):
    """The type of a value as far as the selector alone determines it. The value may still be missing."""

    STRING = "a string"
    NUMBER = "a number"
    CONDITION = "a condition"
    """True, false or unknown."""
    ANY = "a property"
    """The type of a property is known only when a message is seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A literal value. Exact numbers are ``int``, approximate numbers ``float``."""

    position: int
    value: bool | int | float | str

    @property
    def kind(self) -> Kind:
        if isinstance(self.value, bool):
            return Kind.CONDITION
        return Kind.STRING if isinstance(self.value, str) else Kind.NUMBER


@dataclass(frozen=True, slots=True, eq=False)
class Identifier:
    """A header or property."""

    position: int
    name: str
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False)
class Signed:
    """``+x``, ``-x``."""

    position: int
    sign: str
    operand: Node
    kind = Kind.NUMBER


@dataclass(frozen=True, slots=True, eq=False)
class Arithmetic:
    """A chain of operators of one precedence, from left to right: ``a + b - c``."""

    position: int
    first: Node
    rest: tuple[tuple[str, Node], ...]
    kind = Kind.NUMBER


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """``x = y``, ``<>``, ``<``, ``<=``, ``>`` and ``>=``."""

    position: int
    operator: str
    left: Node
    right: Node
    kind = Kind.CONDITION


@dataclass(frozen=True, slots=True, eq=False)
class Between:
    """``x BETWEEN low AND high``. Negated: ``x < low OR x > high``, which is not NOT of the other."""

    position: int
    operand: Node
    low: Node
    high: Node
    negated: bool
    kind = Kind.CONDITION


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """``x IN ('a', 'b')``."""

    position: int
    operand: Identifier
    values: frozenset[str]
    kind = Kind.CONDITION


@dataclass(frozen=True, slots=True, eq=False)
class Like:
    """``x LIKE 'a%'``."""

    position: int
    operand: Identifier
    pattern: Pattern
    kind = Kind.CONDITION


@dataclass(frozen=True, slots=True, eq=False)
class Missing:
    """``x IS NULL``."""

    position: int
    operand: Identifier
    kind = Kind.CONDITION


@dataclass(frozen=True, slots=True, eq=False)
class Not:
    """``NOT x``."""

    position: int
    operand: Node
    kind = Kind.CONDITION


@dataclass(frozen=True, slots=True, eq=False)
class Every:
    """``x AND y AND ...``."""

    position: int
    operands: tuple[Node, ...]
    kind = Kind.CONDITION


@dataclass(frozen=True, slots=True, eq=False)
class Some:
    """``x OR y OR ...``."""

    position: int
    operands: tuple[Node, ...]
    kind = Kind.CONDITION


Node = (
    Literal
    | Identifier
    | Signed
    | Arithmetic
    | Comparison
    | Between
    | Member
    | Like
    | Missing
    | Not
    | Every
    | Some
)
