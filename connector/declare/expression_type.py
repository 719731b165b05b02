"""The type of keys whose value is an expression."""

from __future__ import annotations

from typing import Final

from connector.declare.value_types import ValueType, leaf, refuse


def _read_jmespath(value: object) -> str:
    from connector.businessobjects.expressions import compile_expression  # few files have one

    expected = "a JMESPath expression such as order.lines[?price > `100`]"
    written = leaf(value, expected)
    try:
        compile_expression(str(written))
    except ValueError as error:
        reason = " ".join(str(error).split("\n", 1)[0].split())
        raise refuse(f"no JMESPath expression: {reason}", expected) from None
    return str(written)


JMESPATH: Final = ValueType(_read_jmespath, str, {"type": "string"}, "JMESPath expression")
"""The text of a valid JMESPath expression."""
