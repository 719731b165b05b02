"""A section for processes without pydantic, which costs them 0.2 s and 11 MB."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from connector.declare.section import Section

    SectionT = TypeVar("SectionT", bound=Section)


class PlainSection:
    """The values of a section under their names. Picklable, and values do not change."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be set")


def plain(section: SectionT, without: Collection[str] = ()) -> SectionT:
    """Returns the values of a section, its properties and the sections in it, to be read as the section is.

    Args:
        without: names of fields and properties that are left out.
    """
    from connector.declare.section import Section  # who unpickles values does not import this

    kind = type(section)
    names = {*kind.model_fields, *(name for name, one in vars(kind).items() if isinstance(one, property))}
    values = {name: getattr(section, name) for name in names.difference(without)}
    inner = {name: plain(value) for name, value in values.items() if isinstance(value, Section)}
    return cast("SectionT", PlainSection({**values, **inner}))
