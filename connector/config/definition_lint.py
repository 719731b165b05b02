"""Checks the definitions of business objects: each alone, and together with those of its children."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from connector.businessobjects.definition import SIMPLE_TYPES, Attribute, Definition, Definitions
from connector.businessobjects.dynamic import PROPERTIES, dynamic_problems
from connector.businessobjects.metadata import metadata_problems
from connector.businessobjects.types import TEXTS, text_converter
from connector.config.metaobjects import Collected, Document
from connector.config.problems import Problems, nearest
from connector.config.reading import find
from connector.config.tree import Leaf, Table
from connector.errors import MalformedData
from connector.requests.response_selector import ResponseSelector, misspelt
from connector.requests.selector_values import Quoting

_BLANK: Final = "CxBlank"
"""The text for a blank default in WBI Adapter for JMS."""


def check_definitions(collected: Collected, quoting: Quoting, problems: Problems) -> Definitions:
    """Checks the business objects that were read.

    Args:
        quoting: of values in response selectors.

    Returns:
        the definitions with their defaults, without the parts that are wrong.
    """
    definitions: dict[str, Definition] = {}
    for name, definition in collected.definitions.items():
        document = collected.documents[name]
        definitions[name] = _check_definition(definition, document, collected, problems)
    _check_cycles(collected, problems)
    known = Definitions(definitions)
    if not collected.incomplete:
        only_metaobjects = _only_metaobjects(known)
        for name, definition in known.items():
            _check_keys(definition, name in only_metaobjects, collected, problems)
            _check_defaults(definition, name in only_metaobjects, collected, problems)
            _check_children(definition, collected, problems)
        _check_dynamic(known, collected, problems)
        _check_metadata(known, collected, problems)
        _check_response_selectors(known, collected, quoting, problems)
    return known


def _check_definition(
    definition: Definition, document: Document, collected: Collected, problems: Problems
) -> Definition:
    if definition.name in SIMPLE_TYPES:
        position, path = document.place("business_object")
        problems.add(position, path, f"{definition.name!r} is a simple type", "another name")
    attributes: dict[str, Attribute] = {}
    for name, attribute in definition.attributes.items():
        attributes[name] = _check_attribute(attribute, document, collected, problems)
    for name in definition.metaobject_attributes:
        position, path = document.place("app_specific_info")
        held = definition.attributes.get(name)
        if held is None and document.has("attributes", name):
            continue  # the attribute has a mistake that is reported elsewhere
        if held is None:
            near = nearest(name, definition.attributes)
            problems.add(position, path, f"there is no attribute {name!r}", "cw_mo_<label>=<attribute>", near)
        elif not held.is_child or held.is_many:
            problems.add(
                position, path, f"{name!r} is no single child", "an attribute that holds one business object"
            )
    return replace(definition, attributes=attributes)


def _check_attribute(
    attribute: Attribute, document: Document, collected: Collected, problems: Problems
) -> Attribute:
    where = ("attributes", attribute.name)
    if attribute.is_child:
        if attribute.type not in collected.definitions:
            position, path = document.place(*where, "type")
            other = collected.documents.get(attribute.type)
            if other is not None and other.kind != "business_object":
                problems.add(position, path, f"{attribute.type!r} is a {other.kind}", "a business object")
            elif other is None and not collected.incomplete:
                near = nearest(attribute.type, [*SIMPLE_TYPES, *collected.definitions])
                problems.add(
                    position,
                    path,
                    f"there is no type {attribute.type!r}",
                    f"{', '.join(SIMPLE_TYPES)}, or a business object",
                    near,
                )
    elif attribute.is_many:
        position, path = document.place(*where, "cardinality")
        problems.add(position, path, f"cardinality n of a {attribute.type}", "1; only a child can be n")
        attribute = replace(attribute, cardinality="1")
    if attribute.max_length and attribute.type not in TEXTS:
        position, path = document.place(*where, "max_length")
        expected = f"it left out; only a {', '.join(TEXTS[:-1])} or {TEXTS[-1]} has one"
        problems.add(position, path, f"max_length of {attribute.type} means nothing", expected, warning=True)
    text = collected.defaults.get((document.name, attribute.name))
    if text is None:
        return attribute
    position, path = document.place(*where, "default")
    if attribute.is_child:
        problems.add(position, path, "a default of a child", "it left out; only simple types have one")
        return attribute
    try:
        blank = "" if text == _BLANK else str(text)
        value = text_converter(attribute.type, attribute.max_length)(blank)
    except (ValueError, MalformedData) as error:
        found, _, expected = str(error).partition(", expected ")
        problems.add(position, path, found, expected or f"a {attribute.type}")
        return attribute
    return replace(attribute, default=value)


def _check_cycles(collected: Collected, problems: Problems) -> None:
    """Reports business objects that require each other as children, and so could never be complete."""
    finished: set[str] = set()
    for start in collected.definitions:
        # Depth first without recursion: definitions may be long chains.
        path: list[str] = [start]
        waiting: list[Iterator[Attribute]] = [_required_children(start, collected)]
        while waiting:
            attribute = next(waiting[-1], None)
            if attribute is None:
                waiting.pop()
                finished.add(path.pop())
                continue
            if attribute.type in path:
                holder = collected.documents[path[-1]]
                position, where = holder.key_place("attributes", attribute.name)
                ring = [*path[path.index(attribute.type) :], attribute.type]
                problems.add(
                    position,
                    where,
                    f"required children in a circle: {' > '.join(ring)}",
                    "one of them that is not required",
                )
            elif attribute.type not in finished:
                path.append(attribute.type)
                waiting.append(_required_children(attribute.type, collected))


def _required_children(name: str, collected: Collected) -> Iterator[Attribute]:
    definition = collected.definitions[name]
    hidden = definition.metaobject_attributes
    for attribute in definition.attributes.values():
        required = attribute.is_child and attribute.is_required and attribute.name not in hidden
        if required and attribute.type in collected.definitions:
            yield attribute


def _only_metaobjects(known: Definitions) -> set[str]:
    """Returns the objects that serve only as dynamic meta-objects or as their JMSProperties."""
    children = {
        (name, attribute.name in definition.metaobject_attributes, attribute.name, attribute.type)
        for name, definition in known.items()
        for attribute in definition.attributes.values()
        if attribute.is_child
    }
    metaobjects = {kind for _, is_hidden, _, kind in children if is_hidden}
    properties = {kind for holder, _, name, kind in children if holder in metaobjects and name == PROPERTIES}
    in_bodies = {
        kind
        for holder, is_hidden, name, kind in children
        if not is_hidden and not (holder in metaobjects and name == PROPERTIES)
    }
    found = (metaobjects | properties) - in_bodies
    return {name for name in found if name in known and not known[name].verbs}


def _check_keys(
    definition: Definition, is_metaobject: bool, collected: Collected, problems: Problems
) -> None:
    """Checks that every business object has a key. Objects that only hold headers need no key."""
    document = collected.documents[definition.name]
    written, _, _ = find(document.table, ("attributes",))
    entries = written.entries.values() if isinstance(written, Table) else ()
    # An entry counts as a key also if the value of `key` is a mistake.
    if is_metaobject or any(isinstance(entry, Table) and _names_key(entry) for entry in entries):
        return
    position, path = document.place("business_object")
    problems.add(
        position,
        path,
        f"{definition.name} has no key",
        f"key: true at the attributes that tell one {definition.name} from another",
        warning=True,
    )


def _names_key(entry: Table) -> bool:
    key = entry.entries.get("key")
    return isinstance(key, Leaf) and not key.is_absent and key.casefold() != "false"


def _check_defaults(
    definition: Definition, is_metaobject: bool, collected: Collected, problems: Problems
) -> None:
    """Reports unused defaults. They only satisfy ``required`` (WBI Adapter for JMS, UseDefaults)."""
    for attribute in definition.attributes.values():
        if attribute.default is None or (attribute.is_required and not is_metaobject):
            continue
        position, path = collected.documents[definition.name].place("attributes", attribute.name, "default")
        found = "a default of an attribute that is not required is never used"
        expected = "required: true too, or no default"
        if is_metaobject:
            found, expected = "a default in a meta-object is never used", "no default"
        problems.add(position, path, found, expected, warning=True)


def _check_children(definition: Definition, collected: Collected, problems: Problems) -> None:
    """Checks the version and the relationship that attributes declare for children."""
    document = collected.documents[definition.name]
    for attribute in definition.attributes.values():
        where = ("attributes", attribute.name)
        for key in ("contained_object_version", "relationship"):
            if not attribute.is_child and document.has(*where, key):
                position, path = document.place(*where, key)
                expected = "it left out; only a child has one"
                problems.add(position, path, f"{key} of a {attribute.type}", expected, warning=True)
        child = collected.documents.get(attribute.type)
        wanted = attribute.contained_object_version
        if not wanted or child is None or not child.has("version"):
            continue
        defined = collected.definitions.get(attribute.type)
        if defined is not None and defined.version != wanted:
            position, path = document.place(*where, "contained_object_version")
            found = f"version {wanted} of {attribute.type}, which is defined as version {defined.version}"
            problems.add(position, path, found, "the version of its definition", warning=True)


def _check_dynamic(known: Definitions, collected: Collected, problems: Problems) -> None:
    for name, definition in known.items():
        held = definition.attributes.get(definition.dynamic_metaobject or "")
        if held is None or held.type not in known or held.is_many:
            continue
        position, path = collected.documents[name].key_place("attributes", held.name)
        for text in dynamic_problems(definition, known):
            problems.add(position, path, text, "")


def _check_metadata(known: Definitions, collected: Collected, problems: Problems) -> None:
    """Checks the dynamic meta-objects as meta-data of requests, each once."""
    held = dict.fromkeys(
        definition.attributes[definition.dynamic_metaobject].type
        for definition in known.values()
        if definition.dynamic_metaobject in definition.attributes
    )
    found = dict.fromkeys(
        problem for name in held if name in known for problem in metadata_problems(known[name], known)
    )
    for problem in found:
        position, path = collected.documents[problem.object].key_place("attributes", problem.attribute)
        problems.add(position, path, problem.found, problem.expected, warning=problem.warning)


def _check_response_selectors(
    known: Definitions, collected: Collected, quoting: Quoting, problems: Problems
) -> None:
    for name, definition in known.items():
        document = collected.documents[name]
        for verb in definition.verbs.values():
            selector = ResponseSelector.parse(verb.app_specific_info, quoting)
            location = ("verbs", verb.name, "app_specific_info")
            text, _, _ = find(document.table, location)
            if not isinstance(text, Leaf):
                continue
            mistakes = list(misspelt(verb.app_specific_info))
            if selector is not None:
                mistakes += selector.problems(definition, known)
            _, path = document.place(*location)
            for mistake in mistakes:
                near = nearest(mistake.meant, mistake.among) if mistake.meant else None
                position = text.place(mistake.offset)
                problems.add(position, path, mistake.found, mistake.expected, near, warning=mistake.warning)
