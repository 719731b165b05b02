"""Selectors as SQL: the database leaves out messages that a selector rejects for sure.

The engine judges all other messages, so the answer is always the answer of the engine. Only conditions with
the same meaning in SQL become SQL. All other conditions count as true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Boolean, ColumnElement, and_, case, or_, true
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from connector.messaging.message import OF_SENDERS
from connector.messaging.selectors.logic import COMPARISONS
from connector.messaging.selectors.nodes import And, Comparison, Identifier, Like, Literal, Member, Node, Or
from connector.messaging.selectors.syntax import parse
from connector.stores.sql.schema import message, reference

_TEXTS: Final = frozenset({"JMSType", "JMSCorrelationID"})
"""Headers without a default."""


def may_match(selector: str) -> ColumnElement[bool]:
    """Returns a condition that is true of every message that a valid selector accepts."""
    found = _condition(parse(selector))
    return true() if found is None else found


def _condition(node: Node) -> ColumnElement[bool] | None:
    """Returns a condition of SQL. None = no condition has the same meaning."""
    match node:
        case And():
            known = [one for one in map(_condition, node.operands) if one is not None]
            return and_(*known) if known else None
        case Or():
            known = [one for one in map(_condition, node.operands) if one is not None]
            return or_(*known) if len(known) == len(node.operands) else None
        case Member():
            return _of_text(node.operand, lambda text: text.in_(sorted(node.values)))
        case Like(prefix=str(prefix)):
            return _of_text(node.operand, lambda text: text.startswith(prefix, autoescape=True))
        case Comparison(left=Identifier() as left, right=Literal() as right):
            return _comparison(node.operator, left, right.value)
    return None


def _comparison(sign: str, left: Identifier, value: object) -> ColumnElement[bool] | None:
    if left.name == "JMSPriority" and isinstance(value, int) and not isinstance(value, bool):
        compare: Any = COMPARISONS[sign]
        found: ColumnElement[bool] = compare(reference.c.priority, value)
        return found if abs(value) < 1 << 31 else None
    if sign == "=" and isinstance(value, str):
        return _of_text(left, lambda text: text == value)
    return None


def _of_text(name: Identifier, test: Any) -> ColumnElement[bool] | None:
    """Returns a condition about a text in a header or property. None = the header is not stored as a text."""
    if name.name in _TEXTS:
        return _safely((message.c.headers,), test(message.c.headers[name.name].as_string()))
    if name.name.startswith("JMS") and name.name not in OF_SENDERS:
        return None
    changed = reference.c.properties.is_not(None)
    return or_(changed, _safely((message.c.properties,), test(message.c.properties[name.name].as_string())))


class _has_no_value(GenericFunction[bool]):
    """Whether an operator of JSON would raise an error for a column: no value can be had with SQL.

    SQLite keeps any text of another program as JSON. PostgreSQL cannot decode a null character, nor half of a
    surrogate pair.
    """

    type = Boolean()
    inherit_cache = True


@compiles(_has_no_value, "sqlite")
def _compile_for_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"NOT json_valid({compiler.process(element.clauses, **options)})"


@compiles(_has_no_value)
def _compile(element: Any, compiler: Any, **options: Any) -> str:
    column = compiler.process(element.clauses, **options)
    return rf"CAST({column} AS text) ~* '\\u(0000|d[89a-f])'"


def _safely(columns: Sequence[Any], condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Returns a condition that is also true of columns whose values cannot be had with SQL."""
    return case((or_(*map(_has_no_value, columns)), true()), else_=condition)
