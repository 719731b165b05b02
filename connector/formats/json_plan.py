"""The plan of a business object in JSON: the names of its members, and the types that decode them."""

from __future__ import annotations

from collections.abc import Mapping
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, TypedDict

import msgspec

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.definition import Attribute, Definitions, Field, Schema
from connector.businessobjects.instance import misfit
from connector.businessobjects.types import DECIMAL, MAX_FLOAT, MAX_INTEGER, MIN_INTEGER, TEXTS
from connector.errors import MalformedData
from connector.formats.plan import Item, Plan, Plans, body_fields
from connector.text.names import shown

_TAGS: Final = ("name", "elem_name", "attr_name")
"""The tags that name an attribute in bodies (WBI Data Handler Guide, XML). The first counts."""
_BLANK: Final = Literal[""]
_TYPES: Final[dict[str, Any]] = {
    "Boolean": bool | _BLANK,
    "Integer": Annotated[int, msgspec.Meta(ge=MIN_INTEGER, le=MAX_INTEGER)] | _BLANK,
    "Float": Annotated[float, msgspec.Meta(ge=-MAX_FLOAT, le=MAX_FLOAT)] | _BLANK,
    "Double": float | _BLANK,
    "Date": str,
    DECIMAL: msgspec.Raw,  # the digits as they stand in the body
}

_make_type: Any = TypedDict  # a type checker knows only literal TypedDict calls


def typed_dict(name: str, members: Mapping[str, Any]) -> Any:
    """Returns a type of mappings, none of whose members has to be there."""
    made = _make_type(name, {}, total=False)
    made.__annotations__ = dict(members)  # these types need no check by `typing`, which takes long
    return made


def name_in_json(attribute: Attribute) -> str:
    """Returns the name of the member that holds an attribute."""
    given = tags(attribute.app_specific_info)
    return next((given[tag] for tag in _TAGS if given.get(tag)), attribute.name)


class JsonPlan(Plan[Item]):
    """A business object in JSON. Made by :class:`JsonPlans`.

    Raises:
        MalformedData: two attributes have one name.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__(
            schema, [Item(field, name_in_json(field.attribute)) for field in body_fields(schema)]
        )
        for item in self.items:
            other = self.by_name[item.name].field
            if other is not item.field:
                names = f"{item.field.name} and {other.name} are both {shown(item.name)}"
                raise MalformedData(f"{schema.name}: {names} in JSON")
        self.attributes = {item.name: item.field.name for item in self.items}
        """The names of the attributes by the names of their members."""
        self.members = {attribute: name for name, attribute in self.attributes.items()}
        """The names of the members by the names of their attributes."""
        self.is_renamed = any(name != attribute for name, attribute in self.attributes.items())
        self.is_plain = not self.is_renamed
        """Whether every member is called as its attribute, here and in all descendants."""
        self.children: dict[str, JsonPlan] = {}
        """The plan of each child, by the name of its attribute."""
        self.type = typed_dict(schema.name, {})
        """The type by which msgspec decodes an object: a mapping of the members that a body may have."""
        fields = [item.field for item in self.items]
        self.dates = [field.name for field in fields if field.attribute.type == "Date" and not field.many]
        self.date_lists = [field.name for field in fields if field.attribute.type == "Date" and field.many]
        self.decimals = [field for field in fields if field.attribute.type == DECIMAL]

    def link(self, plans: JsonPlans) -> None:
        """Sets what depends on the plans of the children."""
        children = [item.field for item in self.items if item.field.child is not None]
        self.children = {field.name: plans.of(field.child) for field in children if field.child is not None}
        # set as a whole, after the class is made, because an object may be its own child
        self.type.__annotations__ = {item.name: self._type_of(item.field) for item in self.items}

    def _type_of(self, field: Field) -> Any:
        attribute = field.attribute
        value: Any = str
        if field.name in self.children:
            value = self.children[field.name].type
        elif attribute.type not in TEXTS:
            value = _TYPES[attribute.type]
        elif attribute.max_length:
            value = Annotated[str, msgspec.Meta(max_length=attribute.max_length)]
        if field.many:
            return GenericAlias(list, value) | None
        return value if value is msgspec.Raw else value | None  # a Raw may be null, too

    def by_attribute(self, members: dict[str, Any]) -> dict[str, Any]:
        """Returns the members of one object by attribute."""
        if not self.is_renamed:
            return members
        return {self.attributes[name]: value for name, value in members.items()}

    def to_attributes(
        self, members: Mapping[str, Any], ignore_undefined: bool, outermost: str, path: str = ""
    ) -> dict[str, Any]:
        """Returns the values of a JSON object by attribute, also in children.

        Args:
            members: by name in JSON.
            ignore_undefined: members that are no attribute are passed over.
            outermost: the name of the outermost object, for the error.
            path: the path of the object in the body. Empty, or ends with a dot.

        Raises:
            MalformedData: a member is no attribute.
        """
        values = {}
        for name, value in members.items():
            attribute = self.attributes.get(name)
            if attribute is None:
                if ignore_undefined:
                    continue
                reason = self.unknown_name(name, "JSON")
                raise misfit(outermost, f"{path}{name[:80]}", reason, is_unknown=True)
            child = self.children.get(attribute)
            if child is not None and not child.is_plain:
                place = f"{path}{attribute}"
                if type(value) is dict:
                    value = child.to_attributes(value, ignore_undefined, outermost, f"{place}.")
                elif type(value) is list:
                    value = [
                        child.to_attributes(element, ignore_undefined, outermost, f"{place}[{index}].")
                        if type(element) is dict
                        else element
                        for index, element in enumerate(value)
                    ]
            values[attribute] = value
        return values

    def to_members(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of an object by the names in JSON, also in children.

        Args:
            values: as an object returns them as a dict, with ``body_only``.
        """
        members = {}
        for attribute, value in values.items():
            child = self.children.get(attribute)
            if child is not None and value is not None and not child.is_plain:
                is_list = type(value) is list
                value = [child.to_members(one) for one in value] if is_list else child.to_members(value)
            members[self.members[attribute]] = value
        return members


class JsonPlans(Plans[JsonPlan]):
    """The plans of the business objects of a deployment in JSON."""

    def __init__(self, definitions: Definitions) -> None:
        super().__init__(definitions, JsonPlan)
        self._linked: dict[str, JsonPlan] = {}

    def get(self, name: str) -> JsonPlan:
        """Returns the plan of the business object ``name``, with the plans of all descendants.

        Raises:
            UnknownBusinessObject: there is no such object.
            MalformedData: two attributes of the object or of a descendant have one name.
        """
        return self._linked.get(name) or self._link(super().get(name))

    def _link(self, plan: JsonPlan) -> JsonPlan:
        plans = self.reachable(plan)
        for one in plans:
            one.link(self)
        is_settled = False
        while not is_settled:
            is_settled = True
            for one in reversed(plans):  # children come before their parents
                if one.is_plain and not all(child.is_plain for child in one.children.values()):
                    one.is_plain = is_settled = False
        self._linked.update((one.name, one) for one in plans)
        return plan
