"""The value type for the URL of a database with business data."""

from __future__ import annotations

from typing import Any, Final

from connector.declare.value_types import ValueType, leaf, refuse
from connector.errors import WrongValue


def _read(value: object) -> str:
    from connector.databases.urls import URL_EXPECTED, parse_any_url  # SQLAlchemy, rarely needed

    try:
        return parse_any_url(leaf(value, URL_EXPECTED)).render_as_string(hide_password=False)
    except WrongValue as error:
        raise refuse(error.found, error.expected) from None


_SCHEMA: Final[dict[str, Any]] = {"type": "string", "pattern": r"^[a-z0-9+]+://|\$\{"}
DATABASE_URL: Final = ValueType(_read, str, _SCHEMA, "URL")
