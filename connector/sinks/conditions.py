"""``when`` of subscriptions: which of them want an object with these values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from jmespath.exceptions import JMESPathError

from connector.businessobjects.condition import Condition
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.limits import stages
from connector.sinks.subscriptions import Subscription

_NOT_MADE: Final[dict[str, Any]] = {}


class Conditions:
    """The conditions of subscriptions. One object asks them all.

    Args:
        subscriptions: those with ``when``, and others.
    """

    def __init__(self, subscriptions: Iterable[Subscription]) -> None:
        self._conditions = {one.name: one.when for one in subscriptions if one.when is not None}

    def choose(
        self, bo: BusinessObject, subscribers: Sequence[Subscription], record: int = 0
    ) -> tuple[Sequence[Subscription], tuple[str, ...]]:
        """Returns the subscriptions that want an object, and the names of those whose ``when`` says no.

        Args:
            subscribers: that want its type and verb.
            record: the number of the object in a body that was split, from 1. 0 = the body was not split.

        Raises:
            MalformedData: a condition cannot be evaluated. The text names the subscription.
        """
        document = _NOT_MADE
        wanted, refused = [], []
        for one in subscribers:
            when = self._conditions.get(one.name)
            if when is not None and document is _NOT_MADE:
                document = bo.as_dict()
            try:
                is_wanted = when is None or self._holds(one.name, when, bo, document)
            except JMESPathError as error:
                place = f"record {record}: " if record else ""
                raise MalformedData(f"{place}{one.name}: when: {error}") from None
            if is_wanted:
                wanted.append(one)
            else:
                refused.append(one.name)
        return wanted, tuple(refused)

    def _holds(self, name: str, when: Condition, bo: BusinessObject, document: dict[str, Any]) -> bool:
        with stages.Stage("when", name):
            return when.holds(bo, document)
