"""The key ``map`` of subscriptions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from connector.businessobjects.object_map import ObjectMap
from connector.declare.value_types import ValueType, leaf
from connector.sinks.subscription_model import SinkEntry


class MapName(str):
    """The name of a map, with the facts of the map once the meta-objects are read.

    Attributes:
        target: the type of the objects that the map makes. Empty = not known.
        verb: of these objects. None = that of the event.
    """

    target: str = ""
    verb: str | None = None

    @classmethod
    def of(cls, found: ObjectMap) -> MapName:
        made = cls(found.name)
        made.target, made.verb = found.target, found.verb
        return made


def _read_map(value: object) -> MapName:
    return MapName(leaf(value, "the name of a map in metaobjects"))


class MappedEntry(SinkEntry):
    """A sink that may get an object of another type in place of that of the event."""

    map: Annotated[MapName, ValueType(_read_map, str, {"type": "string"}, "name")] | None = Field(
        default=None,
        description="A map in `metaobjects`. The sink gets the object that the map makes.",
    )

    @property
    def delivered_object(self) -> str:
        return (self.map and self.map.target) or self.object

    @property
    def objects(self) -> list[str]:
        """The types of :meth:`.Event.objects`."""
        return list(dict.fromkeys((self.object, self.delivered_object)))

    @property
    def delivered_verbs(self) -> tuple[str, ...] | None:
        return (self.map.verb,) if self.map and self.map.verb else self.verbs
