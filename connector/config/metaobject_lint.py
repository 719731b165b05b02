"""Checks rules and handler options against each other and against the business objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from connector.businessobjects.catalogue import Catalogue
from connector.businessobjects.definition import Definitions
from connector.businessobjects.handlers import HANDLER_CLASS, HANDLER_METHODS, normal_mime_type
from connector.businessobjects.rules import Rule, StaticMetaObject, split_rule_name
from connector.config.definition_lint import check_definitions
from connector.config.metaobjects import Collected, Document, MetaObjects, make_rule
from connector.config.problems import Position, Problems, nearest, shown
from connector.config.python_names import LookupProblem, check_class, missing_methods
from connector.config.tree import Leaf
from connector.requests.selector_values import Quoting


def check_metaobjects(
    collected: Collected,
    catalogue: Catalogue | None,
    directory: Path,
    problems: Problems,
    quoting: Quoting = "quoted",
) -> MetaObjects:
    """Checks the documents that were read, and returns the meta-objects for the adapter.

    Args:
        catalogue: the data handlers. None = not known, so handlers are not checked.
        directory: of ``adapter.yaml``.
        quoting: of values in response selectors.
    """
    known = check_definitions(collected, quoting, problems)
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
        name: {
            normal_mime_type(mime): {key: str(text) for key, text in given.items()}
            for mime, given in handlers.items()
        }
        for name, handlers in collected.handler_options.items()
    }
    return MetaObjects(known, static, options)


# --- rules -----------------------------------------------------------------------------------


def _pair(
    name: str, document: Document, known: Definitions, collected: Collected, problems: Problems
) -> tuple[str, str] | None:
    pairs = split_rule_name(name, known)
    if len(pairs) == 1:
        return pairs[0]
    position, path = document.key_place("rules", name)
    if pairs:
        meant = " or ".join(f"{verb} of {of}" for of, verb in pairs)
        problems.add(position, path, f"{name!r} can mean {meant}", "the name of one business object and verb")
    elif not collected.incomplete:
        defined = [f"{of}_{verb}" for of, definition in known.items() for verb in definition.verbs]
        problems.add(
            position,
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
            position, path = document.key_place("rules", rule.name)
            problems.add(
                position,
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
        position, path = document.place(*location, "DataHandlerMimeType")
        check_mime_type(mime_type, position, path, catalogue, problems)
    if (config := texts.get("DataHandlerConfigMO")) is not None:
        position, path = document.place(*location, "DataHandlerConfigMO")
        check_config_mo(config, position, path, collected, problems)
    if (class_name := texts.get("DataHandlerClassName")) is not None:
        position, path = document.place(*location, "DataHandlerClassName")
        check_handler_class(class_name, position, path, directory, problems)


# --- data handlers ---------------------------------------------------------------------------


def check_mime_type(
    mime_type: str, position: Position, path: str, catalogue: Catalogue | None, problems: Problems
) -> None:
    """Reports a MIME type that no data handler serves."""
    if catalogue is None or catalogue.find(mime_type) is not None:
        return
    problems.add(
        position,
        path,
        f"there is no data handler for {shown(mime_type)}",
        f"one of {', '.join(catalogue.mime_types)}",
        nearest(mime_type, catalogue.mime_types),
    )


def check_config_mo(
    name: str, position: Position, path: str, collected: Collected, problems: Problems
) -> None:
    """Reports a data-handler meta-object that is not defined."""
    if name in collected.handler_options or collected.incomplete:
        return
    near = nearest(name, collected.handler_options)
    problems.add(
        position,
        path,
        f"there is no data-handler meta-object {shown(name)}",
        "a datahandler_metaobject",
        near,
    )


def check_handler_class(
    reference: str, position: Position, path: str, directory: Path, problems: Problems
) -> None:
    """Reports a class that does not exist or lacks a method of a data handler."""
    try:
        missing = missing_methods(check_class(reference, directory), HANDLER_METHODS)
    except LookupProblem as error:
        problems.add(position, path, error.found, error.expected, error.near)
        return
    if missing:
        class_name = reference.partition(":")[2]
        problems.add(position, path, f"{class_name} has no method {missing[0]}", HANDLER_CLASS)


def _check_options(collected: Collected, catalogue: Catalogue | None, problems: Problems) -> None:
    if catalogue is None:
        return
    for name, handlers in collected.handler_options.items():
        document = collected.documents[name]
        for mime_type, given in handlers.items():
            info = catalogue.find(mime_type)
            if info is None:
                position, path = document.key_place("handlers", mime_type)
                check_mime_type(mime_type, position, path, catalogue, problems)
                continue
            for problem in info.problems({key: str(text) for key, text in given.items()}):
                found, expected, near = problem.found, problem.expected, None
                if problem.name not in {option.name for option in info.options or ()}:
                    position, path = document.key_place("handlers", mime_type, problem.name)
                    near = nearest(problem.name, [option.name for option in info.options or ()])
                else:
                    position, path = document.place("handlers", mime_type, problem.name)
                problems.add(position, path, found, expected, near)
