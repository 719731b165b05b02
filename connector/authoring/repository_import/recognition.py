"""Tells meta-objects from other business objects. A repository file writes all of them in the same way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from connector.authoring.repository_import.reader import FileSection
from connector.businessobjects.definition import SIMPLE_TYPES
from connector.config.metaobject_model import RuleEntry
from connector.formats.catalogue import Catalogue

RULE_KEYS: Final = tuple(
    field.alias for field in RuleEntry.model_fields.values() if field.alias and field.alias[0].isupper()
)
"""The properties of a rule in WBI Adapter for JMS."""

MQ_KEYS: Final = {
    "InputQueue": "InputDestination",
    "OutputQueue": "OutputDestination",
    "ReplyToQueue": "ReplyToDestination",
}
"""From a property of the adapters for WebSphere MQ to the same property of WBI Adapter for JMS."""

CLASS_NAME: Final = "ClassName"
DEFAULT: Final = "Default"

_SIMPLE: Final = {name.lower(): name for name in SIMPLE_TYPES}
_NAMES: Final = {name.lower(): name for name in (*RULE_KEYS, *MQ_KEYS)}


def simple_type(name: str) -> str | None:
    """Returns the simple type of a name in any case. None = the name of a business object."""
    return _SIMPLE.get(name.lower())


def rule_key(name: str) -> str:
    """Returns the name of a rule property as the configuration writes the name."""
    known = _NAMES.get(name.lower(), name)
    return MQ_KEYS.get(known, known)


def is_static(section: FileSection) -> bool:
    """Tells whether an object looks like a static meta-object.

    All attributes are of type String, and the application-specific information of one of them has a property
    of rules.
    """
    attributes = section.attributes.values()
    return all(simple_type(one.get("Type")) == "String" for one in attributes) and any(
        part.partition("=")[0].strip().lower() in _NAMES
        for one in attributes
        for part in one.get("AppSpecificInfo").split(";")
        if "=" in part
    )


def handler_children(section: FileSection, objects: Mapping[str, FileSection]) -> list[str]:
    """Returns the types of the attributes that hold options of a data handler: those with a ClassName."""
    types = [one.get("Type") for one in section.attributes.values()]
    return [name for name in types if name in objects and has_class_name(objects[name])]


def is_handlers(section: FileSection, objects: Mapping[str, FileSection]) -> bool:
    """Tells whether an object looks like a data-handler meta-object: its children hold options."""
    children = [one for one in section.attributes.values() if simple_type(one.get("Type")) is None]
    return bool(children) and len(handler_children(section, objects)) == len(children)


def has_class_name(section: FileSection) -> bool:
    """Tells whether an object looks like the options of a data handler."""
    attribute = section.attributes.get(CLASS_NAME)
    return attribute is not None and simple_type(attribute.get("Type")) == "String"


def mime_type(name: str, catalogue: Catalogue) -> str:
    """Returns the MIME type that an attribute of a data-handler meta-object means.

    In such a name ``_`` stands for every character that is neither letter nor digit. So the known MIME types
    decide. A name that fits none of them is taken as ``type_subtype``.
    """
    known = {_key(mime): mime for mime in catalogue.mime_types}
    return known.get(_key(name)) or re.sub(r"[_.]", "/", name, count=1)


def _key(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name).lower()
