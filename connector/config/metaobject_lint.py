"""Checking business objects, rules and handler options against one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from connector.businessobjects.catalogue import Catalogue
from connector.businessobjects.definition import SIMPLE_TYPES, Attribute, Definition, Definitions
from connector.businessobjects.dynamic import dynamic_problems
from connector.businessobjects.metadata import metadata_problems
from connector.businessobjects.rules import Rule, StaticMetaObject, split_rule_name
from connector.businessobjects.types import text_converter
from connector.config.metaobjects import Collected, Document, MetaObjects, make_rule
from connector.config.problems import Mark, Problems, nearest, shown
from connector.config.python_names import LookupProblem, check_class
from connector.config.reading import find
from connector.config.tree import Leaf
from connector.errors import MalformedData
from connector.requests.response_selector import ResponseSelector, misspelt
from connector.requests.selector_values import Quoting


def check_metaobjects(
    collected: Collected,
    catalogue: Catalogue | None,
    directory: Path,
    problems: Problems,
    quoting: Quoting = "quoted",
) -> MetaObjects:
    """Checks what was read, and makes of it what the adapter works with.

    Args:
        catalogue: the data handlers; None where they are not known, then nothing about them is said.
        directory: of ``adapter.yaml``.
        quoting: of values in response selectors.
    """
    definitions: dict[str, Definition] = {}
    for name, definition in collected.definitions.items():
        document = collected.documents[name]
        definitions[name] = _check_definition(definition, document, collected, problems)
    _check_cycles(collected, problems)
    known = Definitions(definitions)
    if not collected.incomplete:
        _check_dynamic(known, collected, problems)
        _check_metadata(known, collected, problems)
        _check_response_selectors(known, collected, quoting, problems)
    static = {}
    for name, (defaults, entries) in collected.rules.items():
        document = collected.documents[name]
        _check_handlers(defaults, document, ("Default",), collected, catalogue, directory, problems)
        rules = []
        for rule_name, texts in entries.items():
            place = ("rules", rule_name)
            _check_handlers(texts, document, place, collected, catalogue, directory, problems)
            pair = _pair(rule_name, document, known, collected, problems)
            if pair is not None:
                rules.append(make_rule(rule_name, pair, texts, defaults))
        _check_ambiguity(rules, document, problems)
        given = {key: str(text) for key, text in defaults.items()}
        static[name] = StaticMetaObject(name, tuple(rules), given)
    _check_options(collected, catalogue, problems)
    options = {
        name: {mime: {key: str(text) for key, text in given.items()} for mime, given in handlers.items()}
        for name, handlers in collected.handler_options.items()
    }
    return MetaObjects(known, static, options)


# --- business objects ------------------------------------------------------------------------


def _check_definition(
    definition: Definition, document: Document, collected: Collected, problems: Problems
) -> Definition:
    if definition.name in SIMPLE_TYPES:
        mark, path = document.place("business_object")
        problems.add(mark, path, f"{definition.name!r} is a simple type", "another name")
    attributes: dict[str, Attribute] = {}
    for name, attribute in definition.attributes.items():
        attributes[name] = _check_attribute(attribute, document, collected, problems)
    for name in definition.metaobject_attributes:
        mark, path = document.place("app_specific_info")
        held = definition.attributes.get(name)
        if held is None and document.has("attributes", name):
            continue  # it has a mistake of its own
        if held is None:
            near = nearest(name, definition.attributes)
            problems.add(mark, path, f"there is no attribute {name!r}", "cw_mo_<label>=<attribute>", near)
        elif not held.is_child or held.is_many:
            problems.add(
                mark, path, f"{name!r} is no single child", "an attribute that holds one business object"
            )
    return replace(definition, attributes=attributes)


def _check_attribute(
    attribute: Attribute, document: Document, collected: Collected, problems: Problems
) -> Attribute:
    where = ("attributes", attribute.name)
    if attribute.is_child:
        if attribute.type not in collected.definitions:
            mark, path = document.place(*where, "type")
            other = collected.documents.get(attribute.type)
            if other is not None and other.kind != "business_object":
                problems.add(mark, path, f"{attribute.type!r} is a {other.kind}", "a business object")
            elif other is None and not collected.incomplete:
                near = nearest(attribute.type, [*SIMPLE_TYPES, *collected.definitions])
                problems.add(
                    mark,
                    path,
                    f"there is no type {attribute.type!r}",
                    f"{', '.join(SIMPLE_TYPES)}, or a business object",
                    near,
                )
    elif attribute.is_many:
        mark, path = document.place(*where, "cardinality")
        problems.add(mark, path, f"cardinality n of a {attribute.type}", "1; only a child can be n")
        attribute = replace(attribute, cardinality="1")
    if attribute.max_length and attribute.type not in ("String", "LongText"):
        mark, path = document.place(*where, "max_length")
        problems.add(
            mark, path, f"max_length of a {attribute.type}", "it left out; only a String or LongText has one"
        )
    text = collected.defaults.get((document.name, attribute.name))
    if text is None:
        return attribute
    mark, path = document.place(*where, "default")
    if attribute.is_child:
        problems.add(mark, path, "a default of a child", "it left out; only simple types have one")
        return attribute
    try:
        value = text_converter(attribute.type, attribute.max_length)(str(text))
    except (ValueError, MalformedData) as error:
        found, _, expected = str(error).partition(", expected ")
        problems.add(mark, path, found, expected or f"a {attribute.type}")
        return attribute
    return replace(attribute, default=value)


def _check_cycles(collected: Collected, problems: Problems) -> None:
    """Children that cannot be without one another: no such object could ever be complete."""
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
                mark, where = holder.key_place("attributes", attribute.name)
                ring = [*path[path.index(attribute.type) :], attribute.type]
                problems.add(
                    mark,
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


def _check_dynamic(known: Definitions, collected: Collected, problems: Problems) -> None:
    for name, definition in known.items():
        held = definition.attributes.get(definition.dynamic_metaobject or "")
        if held is None or held.type not in known or held.is_many:
            continue
        mark, path = collected.documents[name].key_place("attributes", held.name)
        for text in dynamic_problems(definition, known):
            problems.add(mark, path, text, "")


def _check_metadata(known: Definitions, collected: Collected, problems: Problems) -> None:
    """The dynamic meta-objects as the meta-data of requests, each once however many objects have it."""
    held = dict.fromkeys(
        definition.attributes[definition.dynamic_metaobject].type
        for definition in known.values()
        if definition.dynamic_metaobject in definition.attributes
    )
    found = dict.fromkeys(
        problem for name in held if name in known for problem in metadata_problems(known[name], known)
    )
    for problem in found:
        mark, path = collected.documents[problem.object].key_place("attributes", problem.attribute)
        problems.add(mark, path, problem.found, problem.expected, warning=problem.warning)


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
                mark = text.place(mistake.offset)
                problems.add(mark, path, mistake.found, mistake.expected, near, warning=mistake.warning)


# --- rules -----------------------------------------------------------------------------------


def _pair(
    name: str, document: Document, known: Definitions, collected: Collected, problems: Problems
) -> tuple[str, str] | None:
    pairs = split_rule_name(name, known)
    if len(pairs) == 1:
        return pairs[0]
    mark, path = document.key_place("rules", name)
    if pairs:
        meant = " or ".join(f"{verb} of {of}" for of, verb in pairs)
        problems.add(mark, path, f"{name!r} can mean {meant}", "the name of one business object and verb")
    elif not collected.incomplete:
        defined = [f"{of}_{verb}" for of, definition in known.items() for verb in definition.verbs]
        problems.add(
            mark,
            path,
            f"no business object and verb for {shown(name)}",
            "<business object>_<verb>, both defined",
            nearest(name, defined),
        )
    return None


def _check_ambiguity(rules: list[Rule], document: Document, problems: Problems) -> None:
    first: dict[object, Rule] = {}
    for rule in rules:
        if not rule.has_match_key:
            continue
        other = first.setdefault((rule.input_format, rule.input_destination), rule)
        if other is not rule:
            mark, path = document.key_place("rules", rule.name)
            problems.add(
                mark,
                path,
                f"the same match keys as {other.name}: several matching rules count as none",
                "match keys of its own",
                warning=True,
            )


def _check_handlers(
    texts: Mapping[str, Leaf],
    document: Document,
    location: tuple[str, ...],
    collected: Collected,
    catalogue: Catalogue | None,
    directory: Path,
    problems: Problems,
) -> None:
    if (mime_type := texts.get("DataHandlerMimeType")) is not None:
        mark, path = document.place(*location, "DataHandlerMimeType")
        check_mime_type(mime_type, mark, path, catalogue, problems)
    if (config := texts.get("DataHandlerConfigMO")) is not None:
        mark, path = document.place(*location, "DataHandlerConfigMO")
        check_config_mo(config, mark, path, collected, problems)
    if (class_name := texts.get("DataHandlerClassName")) is not None:
        mark, path = document.place(*location, "DataHandlerClassName")
        check_handler_class(class_name, mark, path, directory, problems)


# --- data handlers ---------------------------------------------------------------------------


def check_mime_type(
    mime_type: str, mark: Mark, path: str, catalogue: Catalogue | None, problems: Problems
) -> None:
    """Notes a MIME type that no data handler serves."""
    if catalogue is None or catalogue.find(mime_type) is not None:
        return
    problems.add(
        mark,
        path,
        f"there is no data handler for {shown(mime_type)}",
        f"one of {', '.join(catalogue.mime_types)}",
        nearest(mime_type, catalogue.mime_types),
    )


def check_config_mo(name: str, mark: Mark, path: str, collected: Collected, problems: Problems) -> None:
    """Notes a data-handler meta-object that is not defined."""
    if name in collected.handler_options or collected.incomplete:
        return
    near = nearest(name, collected.handler_options)
    problems.add(
        mark, path, f"there is no data-handler meta-object {shown(name)}", "a datahandler_metaobject", near
    )


def check_handler_class(reference: str, mark: Mark, path: str, directory: Path, problems: Problems) -> None:
    """Notes a class that is not there."""
    try:
        check_class(reference, directory)
    except LookupProblem as error:
        problems.add(mark, path, error.found, error.expected, error.near)


def _check_options(collected: Collected, catalogue: Catalogue | None, problems: Problems) -> None:
    if catalogue is None:
        return
    for name, handlers in collected.handler_options.items():
        document = collected.documents[name]
        for mime_type, given in handlers.items():
            info = catalogue.find(mime_type)
            if info is None:
                mark, path = document.key_place("handlers", mime_type)
                check_mime_type(mime_type, mark, path, catalogue, problems)
                continue
            for problem in info.problems({key: str(text) for key, text in given.items()}):
                found, expected, near = problem.found, problem.expected, None
                if problem.name not in {option.name for option in info.options or ()}:
                    mark, path = document.key_place("handlers", mime_type, problem.name)
                    near = nearest(problem.name, [option.name for option in info.options or ()])
                else:
                    mark, path = document.place("handlers", mime_type, problem.name)
                problems.add(mark, path, found, expected, near)
