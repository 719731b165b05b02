"""Which business objects can be rows of a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.definition import Definitions, Schema

TAG: Final = "spark"
"""The tag of a Date with the type of its column."""
DATES: Final = ("timestamp", "date", "string")


def column_mistake(definitions: Definitions, name: str) -> str:
    """Returns why an object has no columns. Empty = it has.

    Raises:
        UnknownBusinessObject: there is no such object.
    """
    return _mistake(definitions.schema(name), ())


def _mistake(schema: Schema, parents: Sequence[str]) -> str:
    path = (*parents, schema.name)
    if schema.name in parents:
        return f"columns cannot hold an object that contains itself: {' > '.join(path)}"
    for name in schema.body_names:
        field = schema.fields[name]
        if field.child is not None:
            found = _mistake(field.child, path)
        elif field.attribute.type == "Date":
            said = tags(field.attribute.app_specific_info).get(TAG, DATES[0])
            wrong = f"{schema.name}.{name}: found {TAG}={said}, expected one of {', '.join(DATES)}"
            found = "" if said in DATES else wrong
        else:
            found = ""
        if found:
            return found
    return ""
