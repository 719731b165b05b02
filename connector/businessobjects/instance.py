"""Instances: a business object with its values."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from connector.businessobjects.dates import read_date
from connector.businessobjects.definition import OBJECT_EVENT_ID, Definition, Definitions, Field, Schema
from connector.businessobjects.types import SECRET, TEXTS, Converter, SimpleValue, describe
from connector.errors import MalformedData
from connector.text.names import did_you_mean, shown


class UnknownAttribute(MalformedData, KeyError):
    """The definition has no such attribute. The text names the closest attribute."""

    def __init__(self, schema: Schema, name: object) -> None:
        text = str(name)
        super().__init__(f"{schema.name} has no attribute {shown(text)}{did_you_mean(text, schema.fields)}")

    def __str__(self) -> str:
        return str(self.args[0])


_PARTS: Final = ("_event_id", "_schema", "_values", "verb")


class _Parts:
    """The parts of a business object.

    They are set before an object is a :class:`BusinessObject`, whose ``__setattr__`` takes far longer.
    """

    __slots__ = _PARTS

    _event_id: str | None
    _schema: Schema
    _values: dict[str, Any]
    verb: str | None


_set_event_id: Final[Any] = _Parts.__dict__["_event_id"].__set__  # without __setattr__


class BusinessObject(_Parts):
    """The typed object that a message means, with a verb.

    ``bo["Name"]`` is the value of an attribute. By its type the value is text, number or boolean, or a
    :class:`BusinessObject` for a child. An attribute of cardinality n is a list of them. None means that
    the attribute is not set (*ignore*). ``""`` means that a text is explicitly empty (*blank*). A blank of
    another type reads as None, and :meth:`is_blank` tells it from an attribute that is not set. An attribute
    that is *null* reads as None, too. :meth:`is_null` tells it, and ``in`` says that it is set. Only
    :meth:`set_null` and a handler with the option ``null: value`` set null.

    Assigning checks the type. Assigning None unsets. Assigning ``""`` makes any simple type blank. A child
    may be assigned as a mapping, an n-cardinality child as a list of mappings or objects. No value of a list
    is None.

    ``bo.Name`` is the same as ``bo["Name"]``, unless the name is one of this class or begins with ``_``.
    ``connector new types`` writes classes that tell type checkers of these names.

    An attribute that is not defined raises :class:`UnknownAttribute`, which is both a ``KeyError`` and
    a :class:`~connector.errors.MalformedData`. The text names the nearest right attribute. ``bo.Nam`` raises
    ``AttributeError`` with the same text.

    Args:
        verb: the verb. None = not known yet (see :func:`finish`).
        values: attributes to set, as :meth:`set_values` does.

    Raises:
        UnknownBusinessObject: ``type`` is not defined.
        MalformedData: a value does not fit.
    """

    __slots__ = ()

    def __init__(
        self,
        definitions: Definitions,
        type: str,
        verb: str | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        self._schema = definitions.schema(type)
        self._values: dict[str, Any] = {}
        self._event_id: str | None = None
        self.verb = verb
        if values:
            self.set_values(values)

    @property
    def type(self) -> str:
        """The name of the definition."""
        return self._schema.name

    @property
    def definition(self) -> Definition:
        return self._schema.definition

    @property
    def definitions(self) -> Definitions:
        """All definitions of the deployment, with those of the children."""
        return self._schema.definitions

    @property
    def object_event_id(self) -> str | None:
        """The id of the event, which is the id of the message. None until the connector sets the id.

        The id is no attribute: neither bodies nor :meth:`as_dict` have it. If the definition declares an
        attribute ``ObjectEventId``, setting the id sets that attribute too.
        """
        return self._event_id

    @object_event_id.setter
    def object_event_id(self, value: str | None) -> None:
        _set_event_id(self, value)
        if value is not None and OBJECT_EVENT_ID in self._schema.fields:
            self[OBJECT_EVENT_ID] = value

    def __getitem__(self, name: str) -> Any:
        value = self._values.get(name)
        if value:
            return value
        if value is None and name not in self._schema.fields:
            raise UnknownAttribute(self._schema, name)
        if value == "" and self._schema.fields[name].attribute.type not in TEXTS:
            return None
        return value

    def value(self, name: str) -> Any:
        """Returns the value of an attribute as a body has it: a blank of every type is ``""``.

        Raises:
            UnknownAttribute: the definition has no such attribute.
        """
        if name not in self._schema.fields:
            raise UnknownAttribute(self._schema, name)
        return self._values.get(name)

    def date(self, name: str) -> datetime.date | None:
        """Returns a Date as a ``datetime.date``, or as a ``datetime.datetime`` where the text has a time.

        None = the attribute is not set or blank. The zone of a date without a time is left out.

        Raises:
            MalformedData: the attribute is no single Date, or Python has no such time (a leap second).
        """
        text = self[name]
        field = self._schema.fields[name]
        if field.attribute.type != "Date" or field.many:
            raise MalformedData(f"{self.type}: {name}: found {_expectation(field)}, expected a Date")
        try:
            return None if text is None else read_date(text)
        except ValueError as error:
            raise MalformedData(f"{self.type}: {name}: found {describe(text)}, expected {error}") from None

    def is_blank(self, name: str) -> bool:
        """Tells whether an attribute is set and explicitly empty.

        Raises:
            UnknownAttribute: the definition has no such attribute.
        """
        return bool(self.value(name) == "")

    def is_null(self, name: str) -> bool:
        """Tells whether an attribute is set to null.

        Raises:
            UnknownAttribute: the definition has no such attribute.
        """
        return self.value(name) is None and name in self._values

    def set_null(self, name: str) -> None:
        """Sets an attribute to null, also a child or a list.

        Raises:
            MalformedData: the attribute holds a meta-object.
        """
        field = self._schema.fields.get(name)
        if field is None:
            raise UnknownAttribute(self._schema, name)
        if not field.in_body:
            raise MalformedData(f"{self.type}: {name}: found null, expected {_expectation(field)}")
        self._values[name] = None

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value of an attribute, or ``default`` if the attribute is not set.

        Raises:
            UnknownAttribute: the definition has no such attribute.
        """
        value = self[name]
        return default if value is None else value

    def values_of(self, names: Iterable[str]) -> list[Any]:
        """Returns the values of attributes, None for each that is not set. The names are not checked."""
        return list(map(self._values.get, names))

    def __setitem__(self, name: str, value: Any) -> None:
        field = self._schema.fields.get(name)
        if field is None:
            raise UnknownAttribute(self._schema, name)
        if value is None:
            self._values.pop(name, None)
            return
        try:
            self._values[name] = _convert(field, value, False)
        except _Misfit as misfit:
            raise misfit.error(self._schema, field) from None

    def __delitem__(self, name: str) -> None:
        self[name] = None

    if not TYPE_CHECKING:  # so that a type checker knows the names of `connector new types` only

        def __getattr__(self, name: str) -> Any:
            if name[0] == "_":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            try:
                return self[name]
            except UnknownAttribute as error:
                raise AttributeError(str(error)) from None

        def __setattr__(self, name: str, value: Any) -> None:
            if name in _SETTABLE or name[0] == "_":
                object.__setattr__(self, name, value)
                return
            if hasattr(BusinessObject, name):
                raise AttributeError(
                    f"{name} is a name of every business object, and cannot be set; "
                    f"the attribute of a definition is bo[{name!r}]"
                )
            try:
                self[name] = value
            except UnknownAttribute as error:
                raise AttributeError(str(error)) from None

        def __dir__(self) -> Iterable[str]:
            return [*object.__dir__(self), *self._schema.fields]

    def __contains__(self, name: object) -> bool:
        """Tells whether an attribute is set."""
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        """Iterates over the names of the attributes that are set, in the order of the definition."""
        return (name for name in self._schema.fields if name in self._values)

    def set_values(
        self,
        values: Mapping[str, Any],
        *,
        ignore_undefined: bool = False,
        body_only: bool = False,
        keeps_null: bool = False,
    ) -> None:
        """Sets attributes from typed values such as a JSON parser makes. None sets nothing.

        Args:
            values: name to value. Children are mappings and lists of mappings.
            ignore_undefined: names that are not defined are passed over.
            body_only: an attribute that holds a meta-object counts as undefined, as in a body.
            keeps_null: None sets an attribute to null, also in children.

        Raises:
            MalformedData: a value does not fit. The text names the path of the attribute,
                ``Address[1].City``.
        """
        try:
            _fill(self._schema, self._values, values, ignore_undefined, body_only, keeps_null)
        except _Misfit as misfit:
            raise misfit.error(self._schema) from None

    def set_text(self, name: str, text: str) -> None:
        """Sets an attribute of a simple type from text, by the notation of that type. ``""`` is blank.

        Raises:
            MalformedData: the text does not fit, or the attribute is a child or a list.
        """
        field = self._schema.fields.get(name)
        if field is None:
            raise UnknownAttribute(self._schema, name)
        if field.from_text is None:
            raise MalformedData(f"{self.type}: {name}: found a text, expected {_expectation(field)}")
        try:
            self._values[name] = field.from_text(text)
        except ValueError as error:
            raise MalformedData(f"{self.type}: {name}: {error}") from None

    def add(self, name: str) -> BusinessObject:
        """Makes a child, and sets or appends the child (n-cardinality). Returns the child.

        Raises:
            MalformedData: the attribute is no child, or is a single child that is set already.
        """
        field = self._schema.fields.get(name)
        if field is None:
            raise UnknownAttribute(self._schema, name)
        if field.child is None:
            raise MalformedData(f"{self.type}: {name}: found a child, expected {_expectation(field)}")
        child = object_of(field.child, {})
        if field.many:
            children = self._values.get(name)
            if children is None:
                children = self._values[name] = []
            children.append(child)
        elif self._values.get(name) is not None:
            raise MalformedData(f"{self.type}: {name}: found a second time, expected one {field.child.name}")
        else:
            self._values[name] = child
        return child

    def as_dict(self, *, body_only: bool = False, keeps_null: bool = True) -> dict[str, Any]:
        """Returns the attributes that are set, in the order of the definition, children as dicts and lists.

        The result is fit for JSON. Type, verb and :attr:`object_event_id` are left out.

        Args:
            body_only: leave out attributes that hold a meta-object, here and in children.
            keeps_null: an attribute that is null is None in the result. False = it is left out.
        """
        values, schema = self._values, self._schema
        names = schema.body_names if body_only else schema.names
        if tuple(values) == names:  # all are set, and in this order, as a body usually has them
            result = values.copy()
        else:
            result = {name: values[name] for name in names if name in values}
        if not keeps_null and None in result.values():
            result = {name: value for name, value in result.items() if value is not None}
        for name in schema.lists:
            if result.get(name) is not None:
                result[name] = list(result[name])
        for field in schema.children if body_only else schema.all_children:
            name = field.name
            child = result.get(name)
            if child is None:
                continue
            if field.many:
                result[name] = [one.as_dict(body_only=body_only, keeps_null=keeps_null) for one in child]
            else:
                result[name] = child.as_dict(body_only=body_only, keeps_null=keeps_null)
        return result

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BusinessObject):
            return NotImplemented
        return self.type == other.type and self.verb == other.verb and self._values == other._values

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._schema.definitions, self.type, self.verb, self._values, self._event_id)

    def __repr__(self) -> str:
        """Returns type, verb and the number of attributes set. Values may be confidential."""
        return f"<{self.type}.{self.verb or '?'}, {len(self._values)} attributes set>"


_SETTABLE: Final = frozenset({*_PARTS, "object_event_id"})


def finish(bo: BusinessObject, *, default_verb: str | None = None, use_defaults: bool = False) -> None:
    """Completes an object that a data handler made from a body. Checks verb, required attributes and facets.

    The connector calls this after every handler, so that a handler only has to read the format.

    Args:
        default_verb: the verb when neither rule nor body names a verb (``DefaultVerb``).
        use_defaults: a required attribute that is not set takes its default (``UseDefaults``). The
            default of an attribute that is not required is never taken.

    Raises:
        MalformedData: there is no verb, or the object has no such verb, or a required attribute is missing.
            An empty list is missing. A required attribute or a key is null, or is blank without
            ``blank: true``. A value does not fit its facets.
    """
    if not bo.verb:
        bo.verb = default_verb or None
    verbs = bo.definition.verbs
    if bo.verb not in verbs:
        has = f"it has {', '.join(verbs)}" if verbs else "it has no verbs"
        if bo.verb is None:
            raise MalformedData(f"{bo.type}: neither rule, body nor DefaultVerb name a verb; {has}")
        raise MalformedData(
            f"{bo.type} has no verb {shown(str(bo.verb))}; {has}{did_you_mean(str(bo.verb), verbs)}"
        )
    try:
        _require(bo._schema, bo._values, use_defaults)
    except _Misfit as misfit:
        raise misfit.error(bo._schema) from None


def check(bo: BusinessObject) -> None:
    """Checks the values of an object before it is written. Required attributes may be missing.

    Raises:
        MalformedData: a required attribute or a key is blank or null, or a value does not fit its facets.
    """
    try:
        _require(bo._schema, bo._values, None)
    except _Misfit as misfit:
        raise misfit.error(bo._schema) from None


class _Misfit(Exception):
    """A value that does not fit. Every level that the exception passes puts a part before the path."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text)
        self.path = path

    def under(self, part: str) -> _Misfit:
        if not self.path or self.path[0] == "[":
            self.path = part + self.path
        else:
            self.path = f"{part}.{self.path}"
        return self

    def error(self, schema: Schema, field: Field | None = None) -> MalformedData:
        if field is not None:
            self.under(field.name)
        place = f"{self.path}: " if self.path else ""
        return MalformedData(f"{schema.name}: {place}{self.args[0]}")


def object_of(schema: Schema, values: dict[str, Any]) -> BusinessObject:
    """Returns an object with values that are checked already."""
    bo = _Parts.__new__(_Parts)
    bo._schema = schema
    bo._values = values
    bo._event_id = None
    bo.verb = None
    bo.__class__ = BusinessObject
    return bo  # type: ignore[return-value]  # it is one now


def _restore(
    definitions: Definitions, type: str, verb: str | None, values: dict[str, Any], event_id: str | None
) -> BusinessObject:
    bo = object_of(definitions.schema(type), values)
    bo.verb = verb
    bo._event_id = event_id
    return bo


def _fill(
    schema: Schema,
    into: dict[str, Any],
    values: Mapping[str, Any],
    ignore_undefined: bool,
    body_only: bool,
    keeps_null: bool,
) -> None:
    """Checks ``values`` and puts them into ``into``. Recurses into children, two frames for a level."""
    fields = schema.fields
    name = ""
    try:
        for name, value in values.items():
            field = fields.get(name)
            if field is None or (body_only and not field.in_body):
                if ignore_undefined:
                    continue
                raise _Misfit(_no_such_attribute(schema, name))
            if value is None:
                if keeps_null and field.in_body:
                    into[name] = None
            elif field.from_typed is not None:
                into[name] = field.from_typed(value)
            else:
                into[name] = _convert(field, value, body_only, ignore_undefined, keeps_null)
    except _Misfit as misfit:
        raise misfit.under(str(name)[:80]) from None
    except ValueError as error:
        raise _Misfit(str(error), name) from None


def _convert(
    field: Field, value: Any, body_only: bool, ignore_undefined: bool = False, keeps_null: bool = False
) -> Any:
    child = field.child
    if child is None:
        assert field.value_from_typed is not None
        if field.many:
            return _convert_list(field, field.value_from_typed, value)
        try:
            return field.value_from_typed(value)
        except ValueError as error:
            raise _Misfit(str(error)) from None
    if not field.many:
        if type(value) is dict or isinstance(value, Mapping):
            values: dict[str, Any] = {}
            _fill(child, values, value, ignore_undefined, body_only, keeps_null)
            return object_of(child, values)
        return _check_child(field, child, value)
    if not isinstance(value, (list, tuple)):  # `list | tuple` takes ten times as long
        raise _Misfit(f"found {_what(value)}, expected {_expectation(field)}")
    children = []
    index = -1
    try:
        for element in value:
            index += 1
            if type(element) is dict or isinstance(element, Mapping):
                values = {}
                _fill(child, values, element, ignore_undefined, body_only, keeps_null)
                children.append(object_of(child, values))
            else:
                children.append(_check_child(field, child, element))
    except _Misfit as misfit:
        raise misfit.under(f"[{index}]") from None
    return children


def _convert_list(field: Field, convert: Converter, value: Any) -> list[SimpleValue]:
    if not isinstance(value, (list, tuple)):
        found = "a value" if field.attribute.type == SECRET else _what(value)
        raise _Misfit(f"found {found}, expected {_expectation(field)}")
    values: list[SimpleValue] = []
    try:
        for element in value:
            values.append(convert(element))  # the error needs the number of the value
    except ValueError as error:
        raise _Misfit(str(error), f"[{len(values)}]") from None
    return values


def _check_child(field: Field, child: Schema, value: object) -> BusinessObject:
    if isinstance(value, BusinessObject) and value.type == child.name:
        return value
    expected = f"an object ({child.name})" if field.many else _expectation(field)
    raise _Misfit(f"found {_what(value)}, expected {expected}")


def _what(value: object) -> str:
    return f"a {value.type}" if isinstance(value, BusinessObject) else describe(value)


def _expectation(field: Field) -> str:
    name = field.attribute.type
    if field.child is None:
        return f"a list of values ({name})" if field.many else f"a {name}"
    return f"a list of objects ({name})" if field.many else f"an object ({name})"


def _no_such_attribute(schema: Schema, name: object) -> str:
    if isinstance(name, str) and name in schema.fields:
        return f"holds a meta-object of {schema.name}, which is never part of a body"
    return f"no such attribute in {schema.name}{did_you_mean(str(name), schema.fields)}"


def _check_facets(field: Field, value: Any) -> None:
    assert field.check is not None
    if not field.many:
        try:
            field.check(value)
        except ValueError as error:
            raise _Misfit(str(error), field.name) from None
        return
    for index, one in enumerate(value):
        try:
            field.check(one)
        except ValueError as error:
            raise _Misfit(str(error), f"{field.name}[{index}]") from None


def _require(schema: Schema, values: dict[str, Any], use_defaults: bool | None) -> None:
    """Checks an object and its children. ``use_defaults`` None lets required attributes be missing."""
    for field in schema.required:
        value = values.get(field.name)
        if value or value == 0:
            continue
        if value == "":
            if not field.may_be_blank:
                raise _Misfit("required, but blank", field.name)
        elif value is None and field.name in values:
            raise _Misfit("required, but null", field.name)
        elif use_defaults is not None:
            default = field.attribute.default
            if not use_defaults or default is None:
                raise _Misfit("required, but not set", field.name)
            values[field.name] = default
    for field in schema.optional_keys:
        value = values.get(field.name)
        if value == "" or (value is None and field.name in values):
            raise _Misfit("a key, but blank" if value == "" else "a key, but null", field.name)
    for field in schema.checked:
        value = values.get(field.name)
        if value is not None:
            _check_facets(field, value)
    for field in schema.children:
        value = values.get(field.name)
        if value is None:
            continue
        try:
            if field.many:
                index = -1
                try:
                    for child in value:
                        index += 1
                        _require(child._schema, child._values, use_defaults)
                except _Misfit as misfit:
                    raise misfit.under(f"[{index}]") from None
            else:
                _require(value._schema, value._values, use_defaults)
        except _Misfit as misfit:
            raise misfit.under(field.name) from None
