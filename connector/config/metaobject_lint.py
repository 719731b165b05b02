"""Checks meta-objects against each other, and makes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from connector.businessobjects.app_specific_info import contradiction, tags
from connector.businessobjects.definition import (
    OBJECT_EVENT_ID,
    SIMPLE_TYPES,
    Attribute,
    Definition,
    Definitions,
)
from connector.businessobjects.dynamic import PROPERTIES, dynamic_problems
from connector.businessobjects.facets import NO_FACETS
from connector.businessobjects.metadata import metadata_problems
from connector.businessobjects.object_map import ObjectMap
from connector.businessobjects.types import DECIMAL, text_converter
from connector.config.facet_lint import read_facets
from connector.config.handler_lint import check_options
from connector.config.metaobjects import Collected, Document, MetaObjects
from connector.config.static_metaobject import make_static
from connector.declare.reading import node_at
from connector.declare.tree import Leaf
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.catalogue import Catalogue
from connector.formats.datahandler import OptionText, bare
from connector.formats.date_format import DATE_FORMAT, DateFormats
from connector.formats.handlers import normal_mime_type
from connector.requests.response_selector import ResponseSelector, misspellings
from connector.requests.selector_values import Quoting
from connector.text.names import nearest

_BLANK: Final = "CxBlank"
"""The text for a blank default in WBI Adapter for JMS."""


def check_metaobjects(
    collected: Collected,
    catalogue: Catalogue | None,
    directory: Path,
    quoting: Quoting = "quoted",
    *,
    use_defaults: bool = False,
) -> MetaObjects:
    """Checks the documents that were read, and returns the meta-objects for the adapter."""
    known = _check_definitions(collected, quoting)
    static = {name: make_static(name, known, collected, catalogue, directory) for name in collected.rules}
    check_options(collected, catalogue)
    options: dict[str, dict[str, dict[str, OptionText]]] = {
        name: {
            normal_mime_type(mime): {key: bare(value) for key, value in given.items()}
            for mime, given in handlers.items()
        }
        for name, handlers in collected.handler_options.items()
    }
    maps = {} if collected.incomplete else _make_maps(collected, known, use_defaults=use_defaults)
    return MetaObjects(known, static, options, maps)


def _make_maps(collected: Collected, known: Definitions, *, use_defaults: bool) -> dict[str, ObjectMap]:
    """Returns the maps without those that are wrong. Reports these."""
    found = {
        name: kind.make(collected.documents[name], section, known, use_defaults)
        for name, (kind, section) in collected.others.items()
    }
    return {name: made for name, made in found.items() if made is not None}


# --- business objects ------------------------------------------------------------------------


def _check_definitions(collected: Collected, quoting: Quoting) -> Definitions:
    """Checks the business objects. Returns them with their defaults, without the parts that are wrong."""
    definitions: dict[str, Definition] = {}
    for name, definition in collected.definitions.items():
        document = collected.documents[name]
        definitions[name] = _check_definition(definition, document, collected)
    _check_cycles(collected)
    known = Definitions(definitions)
    if not collected.incomplete:
        metaobjects = only_metaobjects(known)
        needs_no_key = metaobjects | _only_contained(known)
        for name, definition in known.items():
            document = collected.documents[name]
            _check_keys(definition, name in needs_no_key, document)
            _check_defaults(definition, name in metaobjects, document)
            _check_children(definition, collected)
            if name not in metaobjects:  # which no body holds
                _check_names(definition, known, document)
        _check_dynamic(known, collected)
        _check_metadata(known, collected)
        _check_response_selectors(known, collected, quoting)
    return known


def _check_definition(definition: Definition, document: Document, collected: Collected) -> Definition:
    if definition.name in SIMPLE_TYPES:
        document.add(("business_object",), f"{definition.name!r} is a simple type", "another name")
    attributes: dict[str, Attribute] = {}
    for name, attribute in definition.attributes.items():
        attributes[name] = _check_attribute(attribute, document, collected)
    for name in definition.metaobject_attributes:
        held = definition.attributes.get(name)
        if held is None and name in document.keys("attributes"):
            continue  # the attribute has a mistake that is reported elsewhere
        if held is None:
            near = nearest(name, definition.attributes)
            document.add(
                ("app_specific_info",), f"there is no attribute {name!r}", "cw_mo_<label>=<attribute>", near
            )
        elif not held.is_child or held.is_many:
            document.add(
                ("app_specific_info",),
                f"{name!r} is no single child",
                "an attribute that holds one business object",
            )
    return replace(definition, attributes=attributes)


def _check_attribute(attribute: Attribute, document: Document, collected: Collected) -> Attribute:
    where = ("attributes", attribute.name)
    if attribute.is_child:
        if attribute.type not in collected.definitions:
            other = collected.documents.get(attribute.type)
            if other is not None and other.kind != "business_object":
                document.add((*where, "type"), f"{attribute.type!r} is a {other.kind}", "a business object")
            elif other is None and not collected.incomplete:
                near = nearest(attribute.type, [*SIMPLE_TYPES, *collected.definitions])
                document.add(
                    (*where, "type"),
                    f"there is no type {attribute.type!r}",
                    f"{', '.join(SIMPLE_TYPES)}, or a business object",
                    near,
                )
    elif attribute.is_many and (wrong := _wrong_list(attribute)):
        document.add((*where, "cardinality"), f"cardinality n of {wrong}", "1")
        attribute = replace(attribute, cardinality="1")
    attribute = _check_limits(attribute, document, collected)
    text = collected.defaults.get((document.name, attribute.name))
    if text is None:
        return attribute
    if attribute.is_child:
        document.add((*where, "default"), "a default of a child", "it left out; only simple types have one")
        return attribute
    if attribute.is_many:
        document.add((*where, "default"), "a default of a list", "it left out; only a single value has one")
        return attribute
    try:
        blank = "" if text == _BLANK else str(text)
        limits = (attribute.max_length, attribute.digits, attribute.scale)
        value = text_converter(attribute.type, *limits)(blank)
        if value != "" and (check := attribute.facets.check(attribute.type, False)) is not None:
            check(value)
    except (ValueError, MalformedData) as error:
        found, _, expected = str(error).partition(", expected ")
        document.add((*where, "default"), found, expected or f"a {attribute.type}")
        return attribute
    return replace(attribute, default=value)


def _check_limits(attribute: Attribute, document: Document, collected: Collected) -> Attribute:
    """Checks lengths, digits and facets. Returns the attribute with those that are right."""
    where = ("attributes", attribute.name)
    if attribute.max_length and attribute.is_child:
        document.add(
            (*where, "max_length"), "max_length of a child means nothing", "it left out", warning=True
        )
    for key, given in (("digits", attribute.digits), ("scale", attribute.scale)):
        if given and attribute.type != DECIMAL:
            document.add((*where, key), f"{key} of a {attribute.type}", "it left out; only a Decimal has it")
    if attribute.digits and attribute.scale is not None and attribute.scale > attribute.digits:
        found = f"{attribute.scale} places of {attribute.digits} digits"
        document.add((*where, "scale"), found, "at most as many places as digits")
        attribute = replace(attribute, scale=None)
    facets = collected.facets.get((document.name, attribute.name))
    if facets is not None:
        attribute = replace(attribute, facets=read_facets(attribute, facets, document))
    return attribute


def _wrong_list(attribute: Attribute) -> str:
    """Returns the reason why an attribute of a simple type cannot be a list. Empty = it can."""
    if attribute.is_key:
        return "a key"
    if attribute.name == OBJECT_EVENT_ID:
        return "the id of the event"
    kind = tags(attribute.app_specific_info).get("type", "").lower()
    if not kind:
        return ""
    from connector.formats.xml_plan import SINGLE  # lxml, which few configurations need

    return f"type={kind} in app_specific_info" if kind in SINGLE else ""


def _check_cycles(collected: Collected) -> None:
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
                ring = [*path[path.index(attribute.type) :], attribute.type]
                holder.add(
                    ("attributes", attribute.name),
                    f"required children in a circle: {' > '.join(ring)}",
                    "one of them that is not required",
                    at_key=True,
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


def only_metaobjects(known: Definitions) -> set[str]:
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


def _only_contained(known: Definitions) -> set[str]:
    """Returns the objects that are only children of others: they have no verbs, and are no meta-objects."""
    children = {
        (attribute.name in definition.metaobject_attributes, attribute.type)
        for name, definition in known.items()
        for attribute in definition.attributes.values()
        if attribute.is_child and attribute.type != name
    }
    contained = {kind for is_hidden, kind in children if not is_hidden and (True, kind) not in children}
    return {name for name in contained if name in known and not known[name].verbs}


def _check_keys(definition: Definition, needs_no_key: bool, document: Document) -> None:
    """Checks that every business object has a key, but for headers and for children of other objects."""
    # An entry counts as a key also if the value of `key` is a mistake.
    written = [document.leaf("attributes", name, "key") for name in document.keys("attributes")]
    if needs_no_key or any(key is not None and key.casefold() != "false" for key in written):
        return
    document.add(
        ("business_object",),
        f"{definition.name} has no key",
        f"key: true at the attributes that tell one {definition.name} from another",
        warning=True,
    )


def _check_defaults(definition: Definition, is_metaobject: bool, document: Document) -> None:
    """Reports unused defaults. They only satisfy ``required`` (WBI Adapter for JMS, UseDefaults).

    Reports facets in meta-objects, too, because a meta-object holds what a message says.
    """
    for attribute in definition.attributes.values():
        if is_metaobject and attribute.facets != NO_FACETS:
            found = "facets in a meta-object are never checked"
            document.add(("attributes", attribute.name), found, "no facets", warning=True)
        if attribute.default is None or (attribute.is_required and not is_metaobject):
            continue
        found = "a default of an attribute that is not required is never used"
        expected = "required: true too, or no default"
        if is_metaobject:
            found, expected = "a default in a meta-object is never used", "no default"
        document.add(("attributes", attribute.name, "default"), found, expected, warning=True)


def _check_children(definition: Definition, collected: Collected) -> None:
    """Checks the version and the relationship that attributes declare for children."""
    document = collected.documents[definition.name]
    for attribute in definition.attributes.values():
        where = ("attributes", attribute.name)
        for key in ("contained_object_version", "relationship"):
            if not attribute.is_child and document.leaf(*where, key) is not None:
                expected = "it left out; only a child has one"
                document.add((*where, key), f"{key} of a {attribute.type}", expected, warning=True)
        child = collected.documents.get(attribute.type)
        wanted = attribute.contained_object_version
        if not wanted or child is None or child.leaf("version") is None:
            continue
        defined = collected.definitions.get(attribute.type)
        if defined is not None and defined.version != wanted:
            found = f"version {wanted} of {attribute.type}, which is defined as version {defined.version}"
            document.add(
                (*where, "contained_object_version"), found, "the version of its definition", warning=True
            )


def _check_names(definition: Definition, known: Definitions, document: Document) -> None:
    """Reports tags that contradict each other, and attributes that have one name in bodies."""
    infos = {name: one.app_specific_info for name, one in definition.attributes.items()}
    for name, info in infos.items():
        if twice := contradiction(info):
            found = f"two values of the tag {twice}"
            document.add(("attributes", name, "app_specific_info"), found, "one of them")
        form = tags(info).get(DATE_FORMAT)
        if form is not None and definition.attributes[name].type == "Date":
            try:
                DateFormats((form,))
            except ValueError as error:
                found, _, expected = str(error).partition(", expected ")
                document.add(("attributes", name, "app_specific_info"), found, expected)
    given = {tag for info in infos.values() for tag in tags(info)}
    try:
        if "name" in given:
            from connector.formats.json_plan import JsonPlan  # the plans need time, and few objects need them

            JsonPlan(known.schema(definition.name))
        if given & {"elem_name", "attr_name"}:
            from connector.formats.xml_plan import XmlPlan

            XmlPlan(known.schema(definition.name), escapes=True)
    except UnknownBusinessObject:
        pass  # reported where an attribute has this type
    except MalformedData as error:
        document.add(("attributes",), str(error), "names that differ, in app_specific_info")


def _check_dynamic(known: Definitions, collected: Collected) -> None:
    for name, definition in known.items():
        held = definition.attributes.get(definition.dynamic_metaobject or "")
        if held is None or held.type not in known or held.is_many:
            continue
        for text in dynamic_problems(definition, known):
            collected.documents[name].add(("attributes", held.name), text, "", at_key=True)


def _check_metadata(known: Definitions, collected: Collected) -> None:
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
        collected.documents[problem.object].add(
            ("attributes", problem.attribute),
            problem.found,
            problem.expected,
            warning=problem.warning,
            at_key=True,
        )


def _check_response_selectors(known: Definitions, collected: Collected, quoting: Quoting) -> None:
    for name, definition in known.items():
        document = collected.documents[name]
        for verb in definition.verbs.values():
            selector = ResponseSelector.parse(verb.app_specific_info, quoting)
            location = ("verbs", verb.name, "app_specific_info")
            text = node_at(document.tree, location)
            if not isinstance(text, Leaf):
                continue
            mistakes = list(misspellings(verb.app_specific_info))
            if selector is not None:
                mistakes += selector.problems(definition, known)
            for mistake in mistakes:
                near = nearest(mistake.meant, mistake.among) if mistake.meant else None
                position = text.place(mistake.offset)
                document.add(
                    location,
                    mistake.found,
                    mistake.expected,
                    near,
                    position=position,
                    warning=mistake.warning,
                )
