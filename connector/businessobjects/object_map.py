"""The contract of a map: what makes an object of another type from an object."""

from __future__ import annotations

from typing import Protocol

from connector.businessobjects.instance import BusinessObject


class ObjectMap(Protocol):
    """Makes an object of another type. Picklable, because it travels to the workers.

    Attributes:
        name: in ``map`` of a subscription.
        source: the type of the objects that it takes.
        target: the type of the objects that it makes.
        verb: of the objects that it makes. None = the verb of the object that it takes.
    """

    name: str
    source: str
    target: str
    verb: str | None

    def make(self, bo: BusinessObject, *, use_defaults: bool) -> BusinessObject:
        """Returns a new object with verb, required attributes and facets checked.

        Args:
            bo: stays as it is.
            use_defaults: a required attribute that is not set takes its default.

        Raises:
            MalformedData: the object cannot be made. The text names the attribute and what was found.
        """
