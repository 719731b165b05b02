"""A condition on the values of a business object: ``when`` of a subscription."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from connector.businessobjects.expression_types import type_expression
from connector.businessobjects.expressions import compile_expression
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.lookups import NO_LOOKUPS, Lookups
from connector.businessobjects.rule_conditions import is_true


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression that an object fits or does not fit. Picklable.

    Args:
        text: the expression.
        lookups: the tables of its ``lookup``.
    """

    text: str
    lookups: Lookups = field(default=NO_LOOKUPS, repr=False)

    def holds(self, bo: BusinessObject, document: dict[str, Any]) -> bool:
        """Tells whether the expression finds a value that is neither null, false nor empty.

        Args:
            document: the values of the object.

        Raises:
            JMESPathError: the expression cannot be evaluated for the object.
        """
        compiled = compile_expression(self.text, self.lookups)
        typed = type_expression(compiled, bo.definitions.schema(bo.type))
        return is_true(typed.expression.search(document))
