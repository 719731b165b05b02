"""``map`` of subscriptions: the objects that they get in place of the object of the event."""

from __future__ import annotations

from collections.abc import Iterable

from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.limits import stages
from connector.sinks.subscriptions import Subscription


class Mapper:
    """Makes the objects of all subscriptions with ``map``. Subscriptions with the same map share them.

    Args:
        use_defaults: see :meth:`.ObjectMap.make`.
    """

    def __init__(self, *, use_defaults: bool) -> None:
        self._use_defaults = use_defaults

    def make(
        self, bo: BusinessObject, subscribers: Iterable[Subscription], record: int = 0
    ) -> dict[str, BusinessObject]:
        """Returns the objects by the names of the subscriptions. One without ``map`` is left out.

        Args:
            record: the number of the object in a body that was split, from 1. 0 = the body was not split.

        Raises:
            MalformedData: a map cannot make its object. The text names the subscription and the map.
        """
        made: dict[str, BusinessObject] = {}
        found: dict[str, BusinessObject] = {}
        for one in subscribers:
            if one.map is None:
                continue
            name = one.map.name
            try:
                if name not in made:
                    with stages.Stage("map", name):
                        made[name] = one.map.make(bo, use_defaults=self._use_defaults)
            except MalformedData as error:
                place = f"record {record}: " if record else ""
                raise MalformedData(f"{place}{one.name}: map {name}: {error}") from None
            found[one.name] = made[name]
        return found
