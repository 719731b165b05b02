"""Definitions of business objects (WBI Adapter for JMS, "Metadata and meta-objects")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.facets import NO_FACETS, Facets
from connector.businessobjects.types import (
    SECRET,
    SIMPLE_TYPES,
    Converter,
    SimpleValue,
    text_converter,
    typed_converter,
)
from connector.errors import UnknownBusinessObject
from connector.text.names import did_you_mean, shown

__all__ = [
    "OBJECT_EVENT_ID",
    "SIMPLE_TYPES",
    "Attribute",
    "Definition",
    "Definitions",
    "Field",
    "Schema",
    "Verb",
]

OBJECT_EVENT_ID = "ObjectEventId"
"""An attribute that the connector fills with the message id when a definition declares the attribute. A body
never needs to have the attribute."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a business object.

    Args:
        name: at most 80 letters, digits and ``_``.
        type: a name of :data:`SIMPLE_TYPES`, or the name of a business object (a child).
        max_length: characters of a text. 0 = unlimited.
        digits: significant digits of a Decimal. 0 = unlimited.
        scale: places of a Decimal after the point. None = unlimited.
        default: the value that satisfies ``is_required`` when ``UseDefaults`` is true. The value has
            the attribute's type. None = no default.
        cardinality: ``"1"`` or ``"n"``. ``n`` is a list of children, or a list of values of a simple type.
        app_specific_info: free text, usually ``name=value;name=value``.
        may_be_blank: whether the attribute may be blank although it is required or a key.
        facets: what values have to be beyond their type.
        is_required_server_bound, contained_object_version, relationship: as in WBI Adapter for JMS. They
            are kept, and have no effect.
    """

    name: str
    type: str
    is_key: bool = False
    is_foreign_key: bool = False
    is_required: bool = False
    max_length: int = 0
    default: SimpleValue | None = field(default=None, repr=False)
    cardinality: str = "1"
    app_specific_info: str = ""
    is_required_server_bound: bool = False
    contained_object_version: str = ""
    relationship: str = ""
    digits: int = 0
    scale: int | None = None
    may_be_blank: bool = False
    facets: Facets = NO_FACETS

    @property
    def is_child(self) -> bool:
        return self.type not in SIMPLE_TYPES

    @property
    def is_many(self) -> bool:
        return self.cardinality == "n"

    @property
    def is_list(self) -> bool:
        """Whether the attribute is a list of values of a simple type."""
        return self.is_many and not self.is_child


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of a business object and its application-specific information."""

    name: str
    app_specific_info: str = ""


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a business object.

    Args:
        attributes: by name, in the order of the definition.
        verbs: by name. Empty = any verb is refused.
    """

    name: str
    version: str = "1.0.0"
    app_specific_info: str = ""
    attributes: dict[str, Attribute] = field(default_factory=dict)
    verbs: dict[str, Verb] = field(default_factory=dict)
    dynamic_metaobject: str | None = field(init=False, repr=False, compare=False)
    """The attribute that holds the dynamic meta-object. None = the object has no such attribute."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dynamic_metaobject", next(iter(self.metaobject_attributes), None))

    @property
    def metaobject_attributes(self) -> tuple[str, ...]:
        """The attributes that hold meta-objects and are therefore never part of a body.

        ``cw_mo_<label>=<attribute>`` in the application-specific information of the object tags such an
        attribute. The label is free.
        """
        return _metaobject_attributes(self.app_specific_info)


@lru_cache(maxsize=4096)  # called for every message
def _metaobject_attributes(app_specific_info: str) -> tuple[str, ...]:
    return tuple(value for name, value in tags(app_specific_info).items() if name.startswith("cw_mo_"))


class Field:
    """An attribute with its converters and the schema of its child.

    Args:
        in_body: False for an attribute that holds a meta-object.
    """

    __slots__ = (
        "attribute",
        "check",
        "child",
        "from_text",
        "from_typed",
        "in_body",
        "many",
        "may_be_blank",
        "name",
        "value_from_text",
        "value_from_typed",
    )

    def __init__(self, attribute: Attribute, in_body: bool) -> None:
        self.attribute = attribute
        self.name = attribute.name
        self.in_body = in_body
        self.many = attribute.is_many
        self.check = attribute.facets.check(attribute.type, attribute.may_be_blank)
        """Checks a value against the facets. None = there are none."""
        self.may_be_blank = attribute.may_be_blank or attribute.default == ""
        self.child: Schema | None = None
        """The schema of a child. None for a simple type."""
        self.value_from_typed: Converter | None = None
        self.value_from_text: Converter | None = None
        """The converters of each value of a simple type. None for a child."""
        if not attribute.is_child:
            limits = (attribute.type, attribute.max_length, attribute.digits, attribute.scale)
            self.value_from_typed = typed_converter(*limits)
            self.value_from_text = text_converter(*limits)
        self.from_typed = None if self.many else self.value_from_typed
        self.from_text = None if self.many else self.value_from_text
        """The converters of an attribute with one single value. None for a child and for a list of values."""

    @property
    def is_list(self) -> bool:
        """Whether the attribute is a list of values of a simple type."""
        return self.many and self.child is None


class Schema:
    """A definition with its fields and the schemas of its children. Made by :meth:`Definitions.schema`."""

    __slots__ = (
        "all_children",
        "body_names",
        "checked",
        "children",
        "definition",
        "definitions",
        "fields",
        "keys",
        "lists",
        "name",
        "names",
        "optional_keys",
        "required",
    )

    def __init__(self, definition: Definition, definitions: Definitions) -> None:
        hidden = definition.metaobject_attributes
        self.definition = definition
        self.definitions = definitions
        self.name = definition.name
        self.fields: dict[str, Field] = {
            name: Field(attribute, name not in hidden) for name, attribute in definition.attributes.items()
        }
        self.required: tuple[Field, ...] = tuple(
            field
            for field in self.fields.values()
            if field.attribute.is_required and field.in_body and field.name != OBJECT_EVENT_ID
        )
        self.all_children: tuple[Field, ...] = tuple(
            field for field in self.fields.values() if field.attribute.is_child
        )
        self.children: tuple[Field, ...] = tuple(field for field in self.all_children if field.in_body)
        """Those that a body may have."""
        self.lists: tuple[str, ...] = tuple(
            field.name for field in self.fields.values() if field.attribute.is_list
        )
        """The names of the lists of values."""
        self.keys: tuple[str, ...] = tuple(
            field.name
            for field in self.fields.values()
            if field.attribute.is_key
            and not (field.attribute.is_child or field.attribute.is_list or field.attribute.type == SECRET)
        )
        """The names of the simple key attributes, without Ciphertext."""
        self.optional_keys: tuple[Field, ...] = tuple(
            field
            for field in self.fields.values()
            if field.attribute.is_key
            and field.in_body
            and not (field.may_be_blank or field.attribute.is_required)
            and field.name != OBJECT_EVENT_ID
        )
        """The keys that may be left out, but not be blank."""
        self.checked: tuple[Field, ...] = tuple(
            field for field in self.fields.values() if field.check and field.in_body
        )
        """The attributes with facets."""
        self.names: tuple[str, ...] = tuple(self.fields)
        self.body_names: tuple[str, ...] = tuple(name for name, f in self.fields.items() if f.in_body)


class Definitions(Mapping[str, Definition]):
    """All business objects of a deployment, by name. Immutable and picklable."""

    __slots__ = ("_by_name", "_schemas")

    def __init__(self, definitions: Mapping[str, Definition] | None = None) -> None:
        self._by_name = dict(definitions or {})
        self._schemas: dict[str, Schema] = {}

    def __getitem__(self, name: str) -> Definition:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __reduce__(self) -> tuple[type[Definitions], tuple[dict[str, Definition]]]:
        return Definitions, (self._by_name,)

    def __deepcopy__(self, memo: object) -> Definitions:
        return self

    def find(self, name: str) -> tuple[Definition, str]:
        """Returns the definition and the verb that ``OBJECT.VERB`` names, such as ``Customer.Retrieve``.

        Raises:
            UnknownBusinessObject: the name names no object, or the object has no such verb.
        """
        type_name, dot, verb = name.rpartition(".")
        if not dot or not type_name or not verb:
            raise UnknownBusinessObject(f"{name!r} is not OBJECT.VERB, such as Customer.Retrieve")
        definition = self._by_name.get(type_name)
        if definition is None:
            guess = did_you_mean(type_name, self._by_name)
            raise UnknownBusinessObject(f"there is no business object {type_name!r}{guess}")
        if verb not in definition.verbs:
            guess = did_you_mean(verb, definition.verbs)
            raise UnknownBusinessObject(
                f"{type_name} has no verb {verb!r}{guess}; it has {', '.join(definition.verbs) or 'none'}"
            )
        return definition, verb

    def schema(self, name: str) -> Schema:
        """Returns the schema of the definition ``name``.

        Raises:
            UnknownBusinessObject: there is no definition of that name, or of the type of a child.
        """
        schema = self._schemas.get(name)
        if schema is None:
            made: dict[str, Schema] = {}
            schema = self._make(name, made)
            self._schemas.update(made)  # in one step, so that no thread finds a schema without its children
        return schema

    def _make(self, name: str, made: dict[str, Schema]) -> Schema:
        """Makes the schemas of ``name`` and of all descendants. A loop, because the nesting may be deep."""
        waiting = [name]
        while waiting:
            wanted = waiting.pop()
            if wanted in made:
                continue
            definition = self._by_name.get(wanted)
            if definition is None:
                suggestion = did_you_mean(wanted, self._by_name)
                raise UnknownBusinessObject(f"no business object {shown(wanted)} is defined{suggestion}")
            schema = made[wanted] = Schema(definition, self)
            waiting.extend(f.attribute.type for f in schema.fields.values() if f.attribute.is_child)
        for schema in made.values():
            for field_ in schema.fields.values():
                if field_.attribute.is_child:
                    field_.child = made[field_.attribute.type]
        return made[name]
