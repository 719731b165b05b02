"""The names of attributes in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.definition import Attribute, Schema
from connector.errors import MalformedData
from connector.text.names import did_you_mean, shown

_TAGS: Final = ("name", "elem_name", "attr_name")
"""The tags that name an attribute in bodies (WBI Data Handler Guide, XML). The first counts."""


def name_in_json(attribute: Attribute) -> str:
    """Returns the name of the member that holds an attribute."""
    given = tags(attribute.app_specific_info)
    return next((given[tag] for tag in _TAGS if given.get(tag)), attribute.name)


class JsonNames:
    """The names of the members of a business object in JSON. Made by :func:`json_names`.

    Args:
        schema: the schema of the object.

    Raises:
        MalformedData: two attributes have one name.
    """

    __slots__ = ("attributes", "children", "is_plain", "members", "schema")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.attributes: dict[str, str] = {}
        """Attributes by the name of their member."""
        for field in schema.fields.values():
            if field.in_body:
                other = self.attributes.setdefault(name_in_json(field.attribute), field.name)
                if other != field.name:
                    name = shown(name_in_json(field.attribute))
                    raise MalformedData(f"{schema.name}: {other} and {field.name} are both {name} in JSON")
        self.members = {attribute: name for name, attribute in self.attributes.items()}
        """The names of the members by attribute."""
        self.is_plain = all(name == attribute for name, attribute in self.attributes.items())
        """Whether every member is called as its attribute, here and in all descendants."""
        self.children: dict[str, JsonNames] = {}
        """The names of each child that is not plain, by attribute."""

    def to_attributes(
        self, members: Mapping[str, Any], ignore_undefined: bool, path: str = ""
    ) -> dict[str, Any]:
        """Returns the values of a JSON object by attribute, also in children.

        Args:
            members: by name in JSON.
            ignore_undefined: members that are no attribute are passed over.
            path: the path of the object in the body, for the error.

        Raises:
            MalformedData: a member is no attribute.
        """
        values = {}
        for name, value in members.items():
            attribute = self.attributes.get(name)
            if attribute is None:
                if ignore_undefined:
                    continue
                raise MalformedData(f"{path}{name[:80]}: {self._undefined(name)}")
            child = self.children.get(attribute)
            if child is not None:
                place = f"{path}{attribute}"
                if type(value) is dict:
                    value = child.to_attributes(value, ignore_undefined, f"{place}.")
                elif type(value) is list:
                    value = [
                        child.to_attributes(element, ignore_undefined, f"{place}[{index}].")
                        if type(element) is dict
                        else element
                        for index, element in enumerate(value)
                    ]
            values[attribute] = value
        return values

    def to_members(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of an object by the names in JSON, also in children.

        Args:
            values: as :meth:`BusinessObject.as_dict` returns them, with ``body_only``.
        """
        names = self.members
        members = {names[attribute]: value for attribute, value in values.items()}
        for attribute, child in self.children.items():
            value = values.get(attribute)
            if value is not None:
                members[names[attribute]] = (
                    [child.to_members(element) for element in value]
                    if type(value) is list
                    else child.to_members(value)
                )
        return members

    def _undefined(self, name: str) -> str:
        field = self.schema.fields.get(name)
        if field is None:
            return f"no such attribute in {self.schema.name}{did_you_mean(name, self.attributes)}"
        if not field.in_body:
            return f"holds a meta-object of {self.schema.name}, which is never part of a body"
        return f"the attribute {name} of {self.schema.name} is {shown(name_in_json(field.attribute))} in JSON"


def json_names(schema: Schema, known: dict[str, JsonNames]) -> JsonNames:
    """Returns the names of an object.

    Args:
        schema: the schema of the object.
        known: the names that were made before, by type. The names of all descendants are added.

    Raises:
        MalformedData: two attributes of the object or of a descendant have one name.
    """
    found = known.get(schema.name)
    if found is not None:
        return found
    made: dict[str, JsonNames] = {}
    parents: dict[str, list[JsonNames]] = {}
    waiting = [schema]
    while waiting:  # a loop, because the nesting may be deep
        wanted = waiting.pop()
        if wanted.name not in made:
            names = made[wanted.name] = JsonNames(wanted)
            for field in wanted.children:
                if field.child is not None:
                    parents.setdefault(field.child.name, []).append(names)
                    waiting.append(field.child)
    renamed = [names for names in made.values() if not names.is_plain]
    while renamed:
        for parent in parents.get(renamed.pop().schema.name, ()):
            if parent.is_plain:
                parent.is_plain = False
                renamed.append(parent)
    for names in made.values():
        names.children = {
            field.name: made[field.child.name]
            for field in names.schema.children
            if field.child is not None and not made[field.child.name].is_plain
        }
    known.update(made)
    return made[schema.name]
